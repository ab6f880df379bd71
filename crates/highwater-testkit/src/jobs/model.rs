//! J1 to J6, and bad input: what is stored, by whom, and how often.

use std::{collections::HashSet, sync::Arc, time::Duration};

use highwater::{
    ErrorKind,
    clock::Clock as _,
    feed::Seq,
    jobs::{
        Created, Deleted, Draft, Filter, JobRef, Life, Manager, ManagerOptions, Payload, Status,
        TaskCount, TaskIndex, Write, Writer, Written,
    },
    limits::{Limits, MESSAGE_BYTES_MAX},
    retention::Retention,
};

use crate::promise::{Bed, event_id, job_id, promises, tag};

promises![
    the_first_creator_fixes_the_number_of_tasks,
    a_recreated_job_is_another_one,
    a_tombstoned_job_can_only_be_read,
    the_store_sets_version_and_time,
    everything_written_comes_back,
    odd_names_are_kept_apart,
    the_verbs_set_their_status_and_mark,
    a_manager_writes_for_its_own_task_only,
    job_wide_writes_of_other_tasks_are_ignored,
    a_restarted_task_fences_its_predecessor,
    an_event_id_counts_once,
    an_event_id_belongs_to_its_task_and_tag,
    an_event_id_is_kept_as_long_as_the_feed,
    racing_writers_each_get_a_version,
    bad_input_changes_nothing,
];

/// J1: six creators race with six numbers; all hear of one job, and one of them made it.
async fn the_first_creator_fixes_the_number_of_tasks(bed: Bed) {
    let mut race = tokio::task::JoinSet::new();
    for tasks in 1..=6 {
        let jobs = Arc::clone(&bed.jobs);
        race.spawn(async move {
            jobs.open(&job_id("job"), TaskCount::new(tasks).unwrap(), None).await.unwrap()
        });
    }
    let answers = race.join_all().await;
    let jobs: HashSet<_> =
        answers.iter().map(|(job, _)| (job.num_tasks.get(), job.incarnation)).collect();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(answers.iter().filter(|(_, created)| *created == Created::New).count(), 1);
}

/// J1: a new life has a later incarnation and none of the old states; handles of the old one are
/// refused, also for reading.
async fn a_recreated_job_is_another_one(bed: Bed) {
    let old = bed.manager(0, 1).await;
    old.set_started(tag("t"), "").await.unwrap();
    let deleting = bed.manager(0, 1).await;
    assert_eq!(deleting.delete().await.unwrap(), Deleted::Done);
    let new = bed.manager(0, 3).await;
    assert!(new.job().incarnation > old.job().incarnation);
    assert_eq!(new.job().num_tasks.get(), 3);
    assert_eq!(bed.states("job").await, []);
    let refused = old.set_finished(tag("t"), "").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(old.get_state(&Filter::job()).await.unwrap_err().kind(), ErrorKind::NotFound);
    let written = new.set_started(tag("t"), "").await.unwrap();
    assert_eq!(written.report().version.0, 1);
    assert_eq!(bed.put("job", 0, "t", 2).await.report().version.0, 2);
}

/// J1: writes and opens are refused, reads say so.
async fn a_tombstoned_job_can_only_be_read(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    manager.set_started(tag("t"), "").await.unwrap();
    let at = bed.clock.now();
    assert_eq!(manager.mark_deleted().await.unwrap(), Deleted::Done);
    assert_eq!(manager.mark_deleted().await.unwrap(), Deleted::Already);
    assert_eq!(manager.set_finished(tag("t"), "").await.unwrap_err().kind(), ErrorKind::Tombstoned);
    let anonymous = bed.set("job", 0, Draft::new(tag("t"), Status(2))).await;
    assert_eq!(anonymous.unwrap_err().kind(), ErrorKind::Tombstoned);
    let opened = Manager::open(Arc::clone(&bed.jobs), job_id("job"), 0, 1, bed.options()).await;
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::Tombstoned);
    let taken = bed.jobs.take_over(&JobRef::current(job_id("job")), TaskIndex(0)).await;
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Tombstoned);
    let standing = manager.get_state(&Filter::job()).await.unwrap();
    assert_eq!((standing.status, standing.tombstoned_at), (Status::STARTED, Some(at)));
    assert_eq!(manager.summary(&Filter::job()).await.unwrap().tombstoned_at, Some(at));
    assert_eq!(
        bed.jobs.job(&JobRef::current(job_id("job"))).await.unwrap().tombstoned_at,
        Some(at)
    );
}

/// J2: versions count from 1 per task and tag; the time is the store's; revisions are dense.
async fn the_store_sets_version_and_time(bed: Bed) {
    let manager = bed.manager(0, 2).await;
    let mut last = Seq::ZERO;
    for version in 1..=3 {
        bed.clock.advance(Duration::from_secs(1));
        let written = manager.set_state(Draft::new(tag("t"), Status(5))).await.unwrap();
        let Written::Applied(report) = written else { panic!("not applied") };
        assert_eq!((report.version.0, report.timestamp), (version, bed.clock.now()));
        assert!(last == Seq::ZERO || report.revision == last.next());
        last = report.revision;
    }
    assert_eq!(bed.put("job", 0, "other", 1).await.report().version.0, 1);
    assert_eq!(bed.put("job", 1, "t", 1).await.report().version.0, 1);
    let down_again = bed.put("job", 0, "t", 1).await;
    assert_eq!((down_again.report().status.0, down_again.report().version.0), (1, 4));
}

/// J2: what was written is what is read, in the answer, in a read and in the feed.
async fn everything_written_comes_back(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let payload =
        Payload::new(r#"{"n":123456789012345678901234567890,"ü":[null]}"#, &Limits::default())
            .unwrap();
    let draft = Draft::new(tag("t"), Status(-77))
        .message("two\nlines, ünd \"quotes\" \\ \u{7}")
        .payload(payload.clone())
        .event_id(event_id("e-1"))
        .schema_version(9);
    let written = manager.set_state(draft).await.unwrap();
    let report = Arc::clone(written.report());
    assert_eq!((report.job.as_str(), report.task.0, report.tag.as_str()), ("job", 0, "t"));
    assert_eq!(
        (report.status.0, report.message.as_str()),
        (-77, "two\nlines, ünd \"quotes\" \\ \u{7}")
    );
    assert_eq!(
        report.payload.as_ref().map(Payload::as_str),
        Some(payload.as_str()),
        "to the digit"
    );
    assert_eq!((report.event_id.as_str(), report.schema_version), ("e-1", 9));
    let read = manager.get_state(&Filter::job().task(TaskIndex(0)).tag(tag("t"))).await.unwrap();
    assert_eq!(read.report, Some(Arc::clone(&report)));
    let plain = manager.set_state(Draft::new(tag("plain"), Status(1))).await.unwrap();
    let plain = plain.report();
    assert_eq!((plain.message.as_str(), &plain.payload, plain.schema_version), ("", &None, 1));
    let mut history = crate::history::History::default();
    history.follow_to(&mut manager.subscribe(Filter::job()).await.unwrap(), plain.revision).await;
    assert_eq!(history.reports().cloned().collect::<Vec<_>>(), [report, Arc::clone(plain)]);
}

/// Bad input: names that look like paths, separators and escapes are names like any other.
async fn odd_names_are_kept_apart(bed: Bed) {
    let names = [
        "a/b",
        "a%2Fb",
        "0-x",
        "%",
        "%2F",
        "ü ß",
        "日本",
        "a",
        "A",
        "'; DROP TABLE job; --",
        "a\u{a0}b",
        "...",
    ];
    for name in names {
        let manager = bed.manager_of(name, 0, 1).await;
        for tag_name in names {
            manager
                .set_state(Draft::new(tag(tag_name), Status(3)).message(tag_name))
                .await
                .unwrap();
        }
    }
    for name in names {
        let states = bed.states(name).await;
        let mut expected: Vec<_> = names.map(|tag| (0, tag.to_owned(), 3, 1)).into();
        expected.sort();
        assert_eq!(states, expected, "job {name}");
    }
}

/// J3.
async fn the_verbs_set_their_status_and_mark(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let t = || tag("t");
    let shown = |written: Written| (written.report().status.0, written.report().message.clone());
    let is = |status: i32, message: &str| (status, message.to_owned());
    assert_eq!(shown(manager.set_started(t(), "").await.unwrap()), is(1, "🟢 Started"));
    assert_eq!(shown(manager.set_started(t(), "go").await.unwrap()), is(1, "go"));
    assert_eq!(shown(manager.set_error(t(), "no disk").await.unwrap()), is(-1, "🔴 no disk"));
    assert_eq!(shown(manager.set_error(t(), "🔴 no disk").await.unwrap()), is(-1, "🔴 no disk"));
    assert_eq!(shown(manager.set_error_code(t(), Status(-9), "x").await.unwrap()), is(-9, "🔴 x"));
    assert_eq!(shown(manager.set_warning(t(), "slow").await.unwrap()), is(-2, "🟡 slow"));
    assert_eq!(shown(manager.set_finished(t(), "").await.unwrap()), is(i32::MAX, "⚫ Finished"));
    assert_eq!(shown(manager.set_error(t(), "").await.unwrap()), is(-1, "🔴 Error"));
    assert_eq!(shown(manager.set_warning(t(), "").await.unwrap()), is(-2, "🟡 Warning"));
    for code in [0, 5, -2] {
        let refused = manager.set_error_code(t(), Status(code), "x").await.unwrap_err();
        assert_eq!(refused.field(), Some("code"));
    }
}

/// J4.
async fn a_manager_writes_for_its_own_task_only(bed: Bed) {
    let manager = bed.manager(1, 2).await;
    let draft = || Draft::new(tag("t"), Status(1));
    let other_task = manager.set_state(draft().of_task(TaskIndex(0))).await.unwrap_err();
    assert_eq!((other_task.kind(), other_task.field()), (ErrorKind::Invalid, Some("task")));
    let other_job = manager.set_state(draft().of_job(job_id("other"))).await.unwrap_err();
    assert_eq!((other_job.kind(), other_job.field()), (ErrorKind::Invalid, Some("job")));
    manager.set_state(draft().of_task(TaskIndex(1)).of_job(job_id("job"))).await.unwrap();
    let beyond = Manager::open(Arc::clone(&bed.jobs), job_id("job"), 2, 99, bed.options()).await;
    assert_eq!(beyond.unwrap_err().field(), Some("task"), "the stored number of tasks wins");
    assert_eq!(bed.states("job").await, [(1, "t".to_owned(), 1, 1)]);
}

/// J4.
async fn job_wide_writes_of_other_tasks_are_ignored(bed: Bed) {
    let manager = bed.manager(1, 2).await;
    manager.set_started(tag("t"), "").await.unwrap();
    assert_eq!(manager.delete().await.unwrap(), Deleted::Ignored);
    assert_eq!(manager.mark_deleted().await.unwrap(), Deleted::Ignored);
    assert_eq!(bed.states("job").await.len(), 1);
    assert_eq!(manager.get_state(&Filter::job()).await.unwrap().tombstoned_at, None);
}

/// J5: each opening takes a higher epoch; the old process is refused, a script is not.
async fn a_restarted_task_fences_its_predecessor(bed: Bed) {
    let old = bed.manager(0, 2).await;
    let neighbour = bed.manager(1, 2).await;
    old.set_started(tag("t"), "").await.unwrap();
    let new = bed.manager(0, 2).await;
    assert!(new.epoch() > old.epoch());
    assert_eq!(old.set_finished(tag("t"), "").await.unwrap_err().kind(), ErrorKind::Fenced);
    new.set_state(Draft::new(tag("t"), Status(7))).await.unwrap();
    neighbour.set_started(tag("t"), "").await.unwrap();
    bed.put("job", 0, "t", 8).await;
    let invented = Writer::Fenced(highwater::jobs::Epoch(new.epoch().0 + 1));
    let draft = Draft::new(tag("t"), Status(9));
    let write = Write::new(JobRef::current(job_id("job")), TaskIndex(0), draft, invented).unwrap();
    assert_eq!(bed.jobs.set(write).await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(bed.states("job").await, [(0, "t".to_owned(), 8, 3), (1, "t".to_owned(), 1, 1)]);
}

/// J6: the first result again, no version, no event; also after later writes and newer epochs.
async fn an_event_id_counts_once(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let draft = |status: i32| Draft::new(tag("t"), Status(status)).event_id(event_id("once"));
    let first = manager.set_state(draft(5)).await.unwrap();
    manager.set_state(Draft::new(tag("t"), Status(6))).await.unwrap();
    let _newer = bed.manager(0, 1).await;
    let again = manager.set_state(draft(5)).await.unwrap();
    assert!(matches!(again, Written::Repeated(_)), "{again:?}");
    assert_eq!(again.report(), first.report());
    let other = manager.set_state(draft(7)).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);
    let other = manager.set_state(draft(5).message("more")).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);
    let next = bed.put("job", 0, "t", 8).await;
    assert_eq!(
        (next.report().version.0, next.report().revision.0),
        (3, first.report().revision.0 + 2)
    );
}

/// J6: the same id elsewhere is another id, also where the parts could run together.
async fn an_event_id_belongs_to_its_task_and_tag(bed: Bed) {
    let _manager = bed.manager(0, 2).await;
    for (task, tag_name, id) in
        [(0, "a", "b/c"), (0, "a/b", "c"), (1, "a", "b/c"), (0, "a", "c"), (0, "a/b", "b/c")]
    {
        let draft = Draft::new(tag(tag_name), Status(task + 1)).event_id(event_id(id));
        let written = bed.set("job", task.unsigned_abs(), draft).await.unwrap();
        assert!(matches!(written, Written::Applied(_)), "{task} {tag_name} {id}");
    }
}

/// J6: an id is remembered while its event is in the feed, and no longer.
async fn an_event_id_is_kept_as_long_as_the_feed(bed: Bed) {
    let _manager = bed.manager(0, 1).await;
    let again = || bed.set("job", 0, Draft::new(tag("t"), Status(5)).event_id(event_id("e")));
    let day = Duration::from_hours(24);
    again().await.unwrap();
    bed.clock.advance(6 * day);
    bed.upkeep.sweep(&Retention::default()).await.unwrap();
    assert!(matches!(again().await.unwrap(), Written::Repeated(_)));
    bed.clock.advance(2 * day);
    bed.upkeep.sweep(&Retention::default()).await.unwrap();
    let Written::Applied(report) = again().await.unwrap() else {
        panic!("remembered beyond the feed")
    };
    assert_eq!(report.version.0, 2, "the state itself is not forgotten");
}

/// J2: 1,000 racing writes to one task and tag are 1,000 versions.
async fn racing_writers_each_get_a_version(bed: Bed) {
    let _manager = bed.manager(0, 1).await;
    let mut race = tokio::task::JoinSet::new();
    for writer in 0..100 {
        let bed = bed.clone();
        race.spawn(async move {
            let mut versions = Vec::new();
            for status in 1..=10 {
                versions
                    .push(bed.put("job", 0, "t", 10 * writer + status).await.report().version.0);
            }
            versions
        });
    }
    let mut versions: Vec<_> = race.join_all().await.into_iter().flatten().collect();
    versions.sort_unstable();
    assert!(versions.into_iter().eq(1..=1_000));
}

/// Each is refused with its field, and neither a state nor an event is left behind.
async fn bad_input_changes_nothing(bed: Bed) {
    let options = ManagerOptions { tags: Some(vec![tag("t")]), ..bed.options() };
    let manager = Manager::open(Arc::clone(&bed.jobs), job_id("job"), 0, 2, options).await.unwrap();
    let before = bed.put("job", 0, "t", 1).await.report().revision;
    let refused = |field: &'static str, result: highwater::Result<Written>| {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some(field)), "{error}");
    };
    refused("message", manager.set_state(Draft::new(tag("t"), Status(0)).message("hm")).await);
    let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
    refused("message", manager.set_state(Draft::new(tag("t"), Status(1)).message(long)).await);
    refused("tag", manager.set_state(Draft::new(tag("undeclared"), Status(1))).await);
    refused("task", bed.set("job", 2, Draft::new(tag("t"), Status(1))).await);
    refused("task", bed.set("job", u32::MAX, Draft::new(tag("t"), Status(1))).await);
    let unknown = bed.set("no such job", 0, Draft::new(tag("t"), Status(1))).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    let earlier = JobRef { id: job_id("job"), life: Life::Exactly(highwater::feed::ScopeId(0)) };
    let write =
        Write::new(earlier, TaskIndex(0), Draft::new(tag("t"), Status(1)), Writer::Anonymous)
            .unwrap();
    assert_eq!(bed.jobs.set(write).await.unwrap_err().kind(), ErrorKind::NotFound);
    let taken =
        bed.jobs.take_over(&JobRef::current(job_id("job")), TaskIndex(2)).await.unwrap_err();
    assert_eq!(taken.field(), Some("task"));
    for filter in [Filter::job().task(TaskIndex(2)), Filter::job().tag(tag("undeclared"))] {
        let seen = bed.jobs.read(&JobRef::current(job_id("job")), &filter, Seq::ZERO).await;
        assert_eq!(seen.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(manager.subscribe(filter).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let no_tags = bed.jobs.open(&job_id("empty"), TaskCount::new(1).unwrap(), Some(&[])).await;
    assert_eq!(no_tags.unwrap_err().field(), Some("tags"));
    let two_tags = ["a", "b"].map(tag);
    let too_many =
        bed.jobs.open(&job_id("vast"), TaskCount::new(500_001).unwrap(), Some(&two_tags)).await;
    assert_eq!(too_many.unwrap_err().field(), Some("tags"), "more cells than anybody can read");
    let after = bed.put("job", 0, "t", 2).await.report().revision;
    assert_eq!(after, before.next(), "a refusal left an event");
    assert_eq!(bed.states("job").await, [(0, "t".to_owned(), 2, 2)]);
}
