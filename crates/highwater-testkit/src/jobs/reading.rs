//! J7 to J9: what a reader is told.

use std::sync::Arc;

use highwater::{
    feed::Seq,
    jobs::{Counts, Draft, Filter, JobRef, Manager, ManagerOptions, Status, TaskIndex},
};

use crate::promise::{Bed, job_id, promises, tag};

promises![
    the_lowest_status_wins,
    declared_tags_are_owed_by_every_task,
    a_summary_shows_what_the_lowest_status_hides,
    a_write_is_visible_at_once,
    a_reading_is_of_one_moment,
];

/// `(task, tag, status)` of the winner, and whether a real state won.
async fn standing(manager: &Manager, filter: Filter) -> (u32, Option<String>, i32, bool) {
    let found = manager.get_state(&filter).await.unwrap();
    (found.task.0, found.tag.map(|tag| tag.to_string()), found.status.0, found.report.is_some())
}

/// J7, in all four scopes.
async fn the_lowest_status_wins(bed: Bed) {
    let manager = bed.manager(0, 3).await;
    let (job, task) = (Filter::job(), |index| Filter::job().task(TaskIndex(index)));
    assert_eq!(standing(&manager, job.clone()).await, (0, None, 0, false));
    for (index, name, status) in [(0, "a", 9), (1, "a", 5), (1, "b", 7), (2, "b", 5)] {
        bed.put("job", index, name, status).await;
    }
    assert_eq!(standing(&manager, job.clone()).await, (1, Some("a".into()), 5, true));
    assert_eq!(
        standing(&manager, job.clone().tag(tag("a"))).await,
        (2, Some("a".into()), 0, false)
    );
    assert_eq!(
        standing(&manager, job.clone().tag(tag("new"))).await,
        (0, Some("new".into()), 0, false)
    );
    assert_eq!(standing(&manager, task(1)).await, (1, Some("a".into()), 5, true));
    assert_eq!(standing(&manager, task(1).tag(tag("b"))).await, (1, Some("b".into()), 7, true));
    assert_eq!(standing(&manager, task(0).tag(tag("b"))).await, (0, Some("b".into()), 0, false));
    bed.put("job", 2, "b", -1).await;
    assert_eq!(standing(&manager, job.clone()).await, (2, Some("b".into()), -1, true));
    for (index, name) in [(0, "a"), (1, "a"), (1, "b"), (2, "b")] {
        bed.put("job", index, name, i32::MAX).await;
    }
    assert_eq!(standing(&manager, job).await, (0, Some("a".into()), i32::MAX, true));
}

/// J7: declared tags, however they were listed.
async fn declared_tags_are_owed_by_every_task(bed: Bed) {
    let options = ManagerOptions { tags: Some(["b", "a", "b"].map(tag).into()), ..bed.options() };
    let store = Arc::clone(&bed.jobs);
    let manager = Manager::open(store, job_id("job"), 0, 2, options).await.unwrap();
    assert_eq!(manager.job().tags, Some(["a", "b"].map(tag).into()));
    for (index, name) in [(0, "a"), (0, "b"), (1, "b")] {
        bed.put("job", index, name, i32::MAX).await;
    }
    assert_eq!(standing(&manager, Filter::job()).await, (1, Some("a".into()), 0, false));
    assert_eq!(
        standing(&manager, Filter::job().task(TaskIndex(1))).await,
        (1, Some("a".into()), 0, false)
    );
    bed.put("job", 1, "a", 3).await;
    assert_eq!(standing(&manager, Filter::job()).await, (1, Some("a".into()), 3, true));
    let late = bed.manager(1, 2).await;
    assert_eq!(late.job(), manager.job(), "later openers get the stored tags");
}

/// J8.
async fn a_summary_shows_what_the_lowest_status_hides(bed: Bed) {
    let manager = bed.manager(0, 6).await;
    let states =
        [(0, "a", -2), (1, "a", -1), (2, "a", -7), (3, "a", i32::MAX), (3, "b", 40), (4, "b", 0)];
    for (index, name, status) in states {
        bed.put("job", index, name, status).await;
    }
    let summary = manager.summary(&Filter::job()).await.unwrap();
    assert_eq!(summary.lowest.status, Status(-7));
    let expected =
        Counts { errors: 2, warnings: 1, not_started: 1, running: 1, finished: 1, missing: 1 };
    assert_eq!(summary.counts, expected);
    assert_eq!(summary.worst_error.as_ref().map(|worst| worst.task), Some(TaskIndex(2)));
    let by_tag: Vec<_> = summary
        .tags
        .iter()
        .map(|row| (row.tag.as_str(), row.lowest.0, row.counts.missing))
        .collect();
    assert_eq!(by_tag, [("a", -7, 2), ("b", 0, 4)]);
    let by_task: Vec<_> = summary.tasks.iter().map(|row| (row.task.0, row.lowest.0)).collect();
    assert_eq!(by_task, [(0, -2), (1, -1), (2, -7), (3, 40), (4, 0), (5, 0)]);
    bed.put("job", 2, "a", 1).await;
    bed.put("job", 1, "a", -1).await;
    let summary = manager.summary(&Filter::job().tag(tag("a"))).await.unwrap();
    assert_eq!(
        summary.lowest.status,
        Status::WARNING,
        "which alone would hide the error of task 1"
    );
    assert_eq!(summary.worst_error.as_ref().map(|worst| worst.task), Some(TaskIndex(1)));
    assert_eq!((summary.counts.missing, summary.counts.total()), (2, 6));
}

/// J9: to the same manager, and to any reader that passes the revision; while others write.
async fn a_write_is_visible_at_once(bed: Bed) {
    let mut race = tokio::task::JoinSet::new();
    for task in 0..8 {
        let bed = bed.clone();
        race.spawn(async move {
            let manager = bed.manager(task, 8).await;
            let cell = Filter::job().task(TaskIndex(task)).tag(tag("t"));
            let wanted = JobRef::from(manager.job());
            for status in 1..=50 {
                let written =
                    manager.set_state(Draft::new(tag("t"), Status(status))).await.unwrap();
                let revision = written.report().revision;
                assert_eq!(manager.get_state(&cell).await.unwrap().status, Status(status));
                let whole = bed.jobs.read(&wanted, &Filter::job(), revision).await.unwrap();
                assert!(whole.revision >= revision);
                let mine = whole.reports.iter().find(|report| report.task.0 == task).unwrap();
                assert_eq!(mine.status, Status(status));
            }
        });
    }
    race.join_all().await;
    let manager = bed.manager(0, 8).await;
    let future = bed.jobs.read(&JobRef::from(manager.job()), &Filter::job(), Seq(1_000_000)).await;
    assert_eq!(
        future.unwrap_err().field(),
        Some("min_revision"),
        "nothing pretends to be that new"
    );
}

/// A reading never mixes two moments: one writer raises two tags in turn, so that they are never
/// further apart than one.
async fn a_reading_is_of_one_moment(bed: Bed) {
    let manager = Arc::new(bed.manager(0, 1).await);
    let writing = {
        let manager = Arc::clone(&manager);
        tokio::spawn(async move {
            for status in 1..=200 {
                for name in ["a", "b"] {
                    manager.set_state(Draft::new(tag(name), Status(status))).await.unwrap();
                }
            }
        })
    };
    let wanted = JobRef::from(manager.job());
    let mut last = Seq::ZERO;
    while !writing.is_finished() {
        let reading = bed.jobs.read(&wanted, &Filter::job(), Seq::ZERO).await.unwrap();
        assert!(reading.revision >= last, "a later reading is not older");
        last = reading.revision;
        let newest = reading.reports.iter().map(|report| report.revision).max().unwrap_or(Seq(1));
        assert_eq!(reading.revision, newest, "the revision is the one of the newest state in it");
        if let [a, b] = &reading.reports[..] {
            assert!(a.status.0 - b.status.0 <= 1 && b.status <= a.status, "{a:?} {b:?}");
        }
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}
