//! J16: live aggregates and waits.

use std::{sync::Arc, time::Duration};

use highwater::{
    ErrorKind,
    jobs::{Draft, Filter, OnError, Status, TaskIndex, Waited},
    limits::SILENT_BELL_TRUSTED,
};

use crate::promise::{Bed, promises, tag};

promises![
    a_watched_summary_never_goes_back_and_ends_up_right,
    a_wait_ends_as_soon_as_the_status_is_reached,
    a_wait_fails_fast_on_an_error_and_names_the_task,
    a_wait_that_times_out_says_what_blocks_it,
    a_wait_ends_when_the_job_is_deleted,
    news_is_told_before_the_end,
];

const SOON: Duration = Duration::from_secs(20);

/// A slow watcher may skip pictures (how many depends on what arrives together; see
/// `tests/conflation.rs`); none is older than the one before, and the last one is right.
async fn a_watched_summary_never_goes_back_and_ends_up_right(bed: Bed) {
    let manager = bed.manager(0, 2).await;
    let mut watch = manager.watch_summary(Filter::job()).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().counts.missing, 2);
    for status in 1..=500 {
        bed.put("job", 0, "t", status).await;
    }
    let last = bed.put("job", 1, "t", i32::MAX).await.report().revision;
    let mut revision = highwater::feed::Seq::ZERO;
    let last_picture = loop {
        let summary = watch.next().await.unwrap().unwrap();
        assert!(summary.revision > revision);
        revision = summary.revision;
        if revision == last {
            break summary;
        }
    };
    assert_eq!((last_picture.lowest.status, last_picture.counts.finished), (Status(500), 1));
    assert_eq!(last_picture, manager.summary(&Filter::job()).await.unwrap());
    manager.mark_deleted().await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    assert!(watch.next().await.is_none());
}

async fn a_wait_ends_as_soon_as_the_status_is_reached(bed: Bed) {
    let manager = Arc::new(bed.manager(0, 2).await);
    let waiting = {
        let manager = Arc::clone(&manager);
        tokio::spawn(async move {
            manager.wait_until(Filter::job(), Status(10), SOON, OnError::Fail).await.unwrap()
        })
    };
    for (task, status) in [(0, 3), (1, 20), (0, -2), (0, 9), (0, 10)] {
        assert!(!waiting.is_finished(), "ended before task {task} got to {status}");
        bed.put("job", task, "t", status).await;
    }
    let Waited::Reached(standing) = waiting.await.unwrap() else { panic!("not reached") };
    assert_eq!((standing.task, standing.status), (TaskIndex(0), Status(10)));
    let already = manager.wait_until(Filter::job(), Status(5), SOON, OnError::Fail).await.unwrap();
    assert!(matches!(already, Waited::Reached(_)));
}

/// Also when a warning is lower than the error.
async fn a_wait_fails_fast_on_an_error_and_names_the_task(bed: Bed) {
    let manager = bed.manager(0, 3).await;
    bed.put("job", 0, "t", -2).await;
    bed.set("job", 1, Draft::new(tag("t"), Status(-1)).message("no disk")).await.unwrap();
    let waited =
        manager.wait_until(Filter::job(), Status::FINISHED, SOON, OnError::Fail).await.unwrap();
    let Waited::Failed(report) = waited else { panic!("{waited:?}") };
    assert_eq!((report.task, report.message.as_str()), (TaskIndex(1), "no disk"));
    let told_to_wait = manager.wait_until(Filter::job(), Status::FINISHED, SOON, OnError::Wait);
    let mending = async {
        for task in 0..3 {
            bed.put("job", task, "t", i32::MAX).await;
        }
    };
    let (waited, ()) = tokio::join!(told_to_wait, mending);
    assert!(matches!(waited.unwrap(), Waited::Reached(_)));
}

async fn a_wait_that_times_out_says_what_blocks_it(bed: Bed) {
    let manager = bed.manager(0, 2).await;
    bed.put("job", 0, "t", i32::MAX).await;
    let waiting = manager.wait_until(Filter::job(), Status::FINISHED, SOON, OnError::Fail);
    let time_passes = async {
        // Its subscription has read everything there is, and waits for its bell.
        bed.clock.is_slept_on_for(SILENT_BELL_TRUSTED).await;
        bed.clock.advance(SOON);
    };
    let (waited, ()) = tokio::join!(waiting, time_passes);
    let Waited::TimedOut(standing) = waited.unwrap() else { panic!("not timed out") };
    assert_eq!((standing.task, standing.status, standing.report), (TaskIndex(1), Status(0), None));
}

async fn a_wait_ends_when_the_job_is_deleted(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let waiting = manager.wait_until(Filter::job(), Status::FINISHED, SOON, OnError::Fail);
    let (waited, deleted) = tokio::join!(waiting, manager.delete());
    deleted.unwrap();
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::NotFound);
}

/// A job that is finished and deleted at once was finished, also for those who hear both together.
async fn news_is_told_before_the_end(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let mut watch = manager.watch_summary(Filter::job()).await.unwrap();
    watch.next().await.unwrap().unwrap();
    bed.put("job", 0, "t", i32::MAX).await;
    manager.mark_deleted().await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().lowest.status, Status::FINISHED);
    assert_eq!(watch.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
    let late = manager.wait_until(Filter::job(), Status::FINISHED, SOON, OnError::Fail).await;
    assert!(matches!(late.unwrap(), Waited::Reached(_)), "a tombstoned job can still be read");
}
