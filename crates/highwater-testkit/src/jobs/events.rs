//! The whole feed: every event of every job, for monitors.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use highwater::{
    ErrorKind,
    feed::{Delivery, Domain, FeedEvent, Follow, FollowEvents, Patience, Start, Step, Token},
    jobs::{Draft, Status},
    retention::Retention,
};

use crate::promise::{Bed, promises, tag};

promises![
    every_event_of_every_job_is_told_in_order,
    a_monitor_resumes_and_is_reset_like_any_reader
];

async fn follow(bed: &Bed, start: Start) -> Follow<Arc<FeedEvent>> {
    let request = FollowEvents { domain: Some(Domain::Jobs), start, patience: Patience::Endless };
    bed.events.follow_events(request).await.unwrap()
}

async fn next(steps: &mut Follow<Arc<FeedEvent>>) -> Delivery<Arc<FeedEvent>> {
    steps.next().await.unwrap()
}

/// The next so many events, by kind and body.
async fn told(steps: &mut Follow<Arc<FeedEvent>>, count: usize) -> (Vec<String>, Option<Token>) {
    let (mut kinds, mut token) = (Vec::new(), None);
    let mut last = None;
    while kinds.len() < count {
        let delivery = next(steps).await;
        token = delivery.token();
        let Step::Change(event) = delivery.step else { panic!("{:?}", delivery.step) };
        assert!(last.is_none_or(|last| event.revision.0 == last + 1), "{event:?} after {last:?}");
        last = Some(event.revision.0);
        let body: serde_json::Value = serde_json::from_str(event.body.get()).unwrap();
        kinds.push(format!("{} {}", event.kind, body["job"].as_str().unwrap()));
    }
    (kinds, token)
}

async fn every_event_of_every_job_is_told_in_order(bed: Bed) {
    bed.manager_of("before", 0, 1).await;
    let mut steps = follow(&bed, Start::Snapshot).await;
    assert!(matches!(next(&mut steps).await.step, Step::SnapshotEnd { count: 0, .. }));
    let a = bed.manager_of("a", 0, 1).await;
    let b = bed.manager_of("b", 0, 1).await;
    a.set_started(tag("t"), "").await.unwrap();
    b.set_started(tag("t"), "").await.unwrap();
    // Refusals and repetitions are no events.
    assert!(a.set_state(Draft::new(tag("t"), Status(0)).message("no")).await.is_err());
    a.mark_deleted().await.unwrap();
    b.delete().await.unwrap();
    let (kinds, _) = told(&mut steps, 6).await;
    let expected = [
        "job.created a",
        "job.created b",
        "job.put a",
        "job.put b",
        "job.tombstoned a",
        "job.deleted b",
    ];
    assert_eq!(kinds, expected);
}

async fn a_monitor_resumes_and_is_reset_like_any_reader(bed: Bed) {
    let mut steps = follow(&bed, Start::Snapshot).await;
    next(&mut steps).await;
    bed.manager_of("a", 0, 1).await;
    let (_, token) = told(&mut steps, 1).await;
    drop(steps);
    for status in 1..=3 {
        bed.put("a", 0, "t", status).await;
    }
    let after = Start::After(token.unwrap());
    assert_eq!(told(&mut follow(&bed, after.clone()).await, 3).await.0, ["job.put a"; 3]);
    let everything =
        FollowEvents { domain: None, start: after.clone(), patience: Patience::Endless };
    let other = bed.events.follow_events(everything).await.err().unwrap();
    assert_eq!(other.kind(), ErrorKind::BadToken, "a token of another selection");
    bed.clock.advance(Duration::from_hours(8 * 24));
    bed.upkeep.sweep(&Retention::default()).await.unwrap();
    let mut trimmed = follow(&bed, after).await;
    assert!(matches!(next(&mut trimmed).await.step, Step::Reset));
    assert!(matches!(next(&mut trimmed).await.step, Step::SnapshotEnd { .. }));
    bed.put("a", 0, "t", 9).await;
    assert_eq!(told(&mut trimmed, 1).await.0, ["job.put a"]);
}
