//! J17: lists, deletion, retention.

use std::time::Duration;

use highwater::{
    ErrorKind,
    jobs::{Deletion, Draft, JobRef, ListJobs, Shown, Status, TaskCount},
    retention::{Retention, Swept},
};

use crate::promise::{Bed, job_id, promises, tag};

promises![
    jobs_are_listed_by_name_in_pages,
    a_deleted_job_leaves_nothing_to_read,
    ended_jobs_are_erased_after_their_time,
    the_feed_keeps_its_newest_events,
];

async fn names(bed: &Bed, query: ListJobs) -> Vec<String> {
    let jobs = bed.jobs.list(&query).await.unwrap();
    jobs.into_iter().map(|job| job.id.to_string()).collect()
}

async fn jobs_are_listed_by_name_in_pages(bed: Bed) {
    for name in ["b/2", "a", "b/1", "ü", "b", "B"] {
        bed.manager_of(name, 0, 1).await;
    }
    bed.manager_of("b/1", 0, 1).await.mark_deleted().await.unwrap();
    let all = ListJobs::default;
    assert_eq!(
        names(&bed, all()).await,
        ["B", "a", "b", "b/1", "b/2", "ü"],
        "in the order of bytes"
    );
    assert_eq!(names(&bed, ListJobs { prefix: "b/".into(), ..all() }).await, ["b/1", "b/2"]);
    assert_eq!(
        names(&bed, ListJobs { shown: Shown::Alive, prefix: "b".into(), ..all() }).await,
        ["b", "b/2"]
    );
    assert_eq!(names(&bed, ListJobs { shown: Shown::Tombstoned, ..all() }).await, ["b/1"]);
    let mut paged = Vec::new();
    let mut query = ListJobs { limit: 2, ..all() };
    loop {
        let page = bed.jobs.list(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(last.id.clone());
        paged.extend(page.into_iter().map(|job| job.id.to_string()));
    }
    assert_eq!(paged, names(&bed, all()).await);
    for limit in [0, 1_001] {
        let refused = bed.jobs.list(&ListJobs { limit, ..all() }).await.unwrap_err();
        assert_eq!(refused.field(), Some("limit"));
    }
}

async fn a_deleted_job_leaves_nothing_to_read(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let drafts = (0..6_000).map(|index| Draft::new(tag(&format!("tag {index}")), Status(1)));
    bed.set_all("job", 0, drafts).await;
    let wanted = JobRef::from(manager.job());
    bed.jobs.delete(&wanted, Deletion::Erase).await.unwrap();
    let again = bed.jobs.delete(&wanted, Deletion::Erase).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NotFound);
    assert_eq!(bed.jobs.job(&wanted).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(names(&bed, ListJobs::default()).await, [""; 0]);
    let recreated = bed.manager(0, 1).await;
    assert_eq!(bed.states("job").await, []);
    assert_eq!(recreated.set_started(tag("tag 1"), "").await.unwrap().report().version.0, 1);
}

/// Off by default; then finished and tombstoned ones, after their last change, and no others.
async fn ended_jobs_are_erased_after_their_time(bed: Bed) {
    let day = Duration::from_hours(24);
    // Jobs that never began are never erased, and hide none of those that come after them.
    for number in 0..120 {
        bed.jobs
            .open(&job_id(&format!("abandoned {number}")), TaskCount::new(1).unwrap(), None)
            .await
            .unwrap();
    }
    for name in ["done", "half done", "failed", "buried", "done late"] {
        let manager = bed.manager_of(name, 0, 2).await;
        for task in 0..2 {
            let status = match (name, task) {
                ("failed" | "buried", 0) => -1,
                ("half done", 1) => continue,
                _ => i32::MAX,
            };
            bed.set(name, task, Draft::new(tag("t"), Status(status))).await.unwrap();
        }
        if name == "buried" {
            manager.mark_deleted().await.unwrap();
        }
    }
    bed.clock.advance(2 * day);
    bed.put("done late", 0, "t", i32::MAX).await;
    bed.clock.advance(day);
    let swept = bed.upkeep.sweep(&Retention::default()).await.unwrap();
    assert_eq!(swept, Swept { events: 0, jobs: 0 }, "retention is off by default");
    let retention = Retention { ended_jobs: Some(2 * day), ..Retention::default() };
    assert_eq!(bed.upkeep.sweep(&retention).await.unwrap().jobs, 2);
    let after = Some(job_id("abandoned 99"));
    let left = names(&bed, ListJobs { after, ..ListJobs::default() }).await;
    assert_eq!(left, ["done late", "failed", "half done"]);
    bed.clock.advance(day);
    assert_eq!(bed.upkeep.sweep(&retention).await.unwrap().jobs, 1);
    assert_eq!(
        bed.jobs.job(&JobRef::current(job_id("done late"))).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

/// Retention by number; and scopes are never reused, even if the feed was emptied.
async fn the_feed_keeps_its_newest_events(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    for status in 1..=20 {
        bed.put("job", 0, "t", status).await;
    }
    let keep_ten = Retention { feed_events: 10, ..Retention::default() };
    assert_eq!(bed.upkeep.sweep(&keep_ten).await.unwrap().events, 11);
    assert_eq!(bed.upkeep.sweep(&keep_ten).await.unwrap().events, 0);
    let keep_none = Retention { feed_events: 0, ..Retention::default() };
    assert_eq!(bed.upkeep.sweep(&keep_none).await.unwrap().events, 10);
    assert_eq!(bed.put("job", 0, "t", 21).await.report().version.0, 21);
    manager.delete().await.unwrap();
    bed.upkeep.sweep(&keep_none).await.unwrap();
    assert!(bed.manager(0, 1).await.job().incarnation > manager.job().incarnation);
}
