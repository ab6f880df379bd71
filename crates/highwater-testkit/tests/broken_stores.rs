//! A check that cannot fail proves nothing: each promise here must turn red over a broken store, and
//! stay green over the same store without the flaw.

use std::{sync::Arc, time::Duration};

use highwater::{jobs::JobStore, memory::MemoryStore};
use highwater_testkit::{
    Bed,
    broken::{BrokenStore, Flaw},
    clock::ManualClock,
    faulty::{Fate, FaultyStore},
    jobs,
};

const TRIAL_MAX: Duration = Duration::from_mins(1);

fn bed() -> Bed {
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    Bed { jobs: store.clone(), events: store.clone(), upkeep: store, clock }
}

/// Whether the promise holds over a store with this flaw.
async fn holds(promise: &str, flaw: Option<Flaw>) -> bool {
    let bed = bed();
    let store = match flaw {
        Some(flaw) => Arc::new(BrokenStore::new(Arc::clone(&bed.jobs), flaw)),
        None => Arc::clone(&bed.jobs),
    };
    let checking = tokio::spawn((jobs::promise(promise).check)(bed.with_jobs(store)));
    // A broken store may also leave the promise hanging, which is as red as a panic.
    tokio::time::timeout(TRIAL_MAX, checking).await.is_ok_and(|ended| ended.is_ok())
}

async fn finds(flaw: Flaw, promise: &str) {
    assert!(holds(promise, None).await, "{promise} is red without any flaw");
    assert!(!holds(promise, Some(flaw)).await, "{promise} stays green over a store that {flaw:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_skips_is_found() {
    finds(Flaw::SkipsAChange, "every_racing_write_is_told_once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_repeats_is_found() {
    finds(Flaw::RepeatsAChange, "every_racing_write_is_told_once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lossy_hub_is_found() {
    finds(
        Flaw::DropsForTheSlow,
        "a_subscriber_that_is_never_polled_loses_nothing_and_delays_nobody",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marker_that_moves_is_found() {
    finds(Flaw::MovesTheMarker, "a_nonstop_writer_cannot_postpone_the_marker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_cache_is_found() {
    finds(Flaw::ReadsAStaleCache, "a_write_is_visible_at_once").await;
}

#[tokio::test]
async fn a_retry_without_the_id_is_found() {
    // The third call is the first write: its answer is lost, and the retry counts twice.
    let lost_reply =
        |inner| Arc::new(FaultyStore::at(inner, 3, Fate::ReplyLost)) as Arc<dyn JobStore>;
    let careful = tokio::spawn(jobs::live_a_life("job", lost_reply(bed().jobs)));
    assert!(careful.await.is_ok());
    let careless = BrokenStore::new(lost_reply(bed().jobs), Flaw::RetriesWithoutTheId);
    assert!(tokio::spawn(jobs::live_a_life("job", Arc::new(careless))).await.is_err());
}
