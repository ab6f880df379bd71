//! The loop over a log that goes away: stale once, patient, live again, and nothing lost.

#![expect(clippy::unwrap_used, reason = "a test reports by panicking")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use highwater::{
    Error, ErrorKind, Result,
    feed::{
        Bell, End, FeedId, Fingerprint, Follower, Log, Patience, ScopeId, Seq, Slice, Span, Start,
        Step,
    },
    limits::SILENT_BELL_TRUSTED,
};
use highwater_testkit::clock::ManualClock;
use tokio::sync::watch;

const SCOPE: ScopeId = ScopeId(1);

/// A log of numbers that fails as often as it is told to.
#[derive(Debug, Clone)]
struct FlakyLog {
    events: Arc<Mutex<Vec<u64>>>,
    failures: Arc<AtomicU32>,
    kind: ErrorKind,
    rings: watch::Sender<u64>,
}

impl FlakyLog {
    fn new(kind: ErrorKind) -> FlakyLog {
        FlakyLog {
            events: Arc::default(),
            failures: Arc::default(),
            kind,
            rings: watch::Sender::new(0),
        }
    }

    fn append_silently(&self, event: u64) {
        self.events.lock().unwrap().push(event);
    }

    fn append(&self, event: u64) {
        self.append_silently(event);
        self.rings.send_modify(|rings| *rings += 1);
    }

    fn fail(&self, times: u32) {
        self.failures.store(times, Ordering::SeqCst);
        self.rings.send_modify(|rings| *rings += 1);
    }

    fn try_reach(&self) -> Result<()> {
        let left = self
            .failures
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { Err(Error::new(self.kind, "away")) } else { Ok(()) }
    }
}

impl Log for FlakyLog {
    type Item = u64;

    async fn head(&self, _: ScopeId) -> Result<Option<Seq>> {
        self.try_reach()?;
        Ok(Some(Seq(self.events.lock().unwrap().len() as u64)))
    }

    async fn replay(&self, _: ScopeId, _: Span, _: usize) -> Result<Vec<(Seq, u64)>> {
        self.try_reach()?;
        Ok(Vec::new())
    }

    async fn read(&self, _: ScopeId, after: Seq, max: usize) -> Result<Slice<u64>> {
        self.try_reach()?;
        let events = self.events.lock().unwrap();
        let entries = (1..).map(Seq).zip(events.iter().copied());
        Ok(Slice::Entries(entries.skip_while(|(seq, _)| *seq <= after).take(max).collect()))
    }

    fn bell(&self, _: ScopeId) -> Bell {
        Bell::of(self.rings.subscribe())
    }
}

type Numbers = Follower<FlakyLog, u64, fn(u64) -> Option<u64>>;

async fn follow(log: &FlakyLog, clock: &Arc<ManualClock>, patience: Patience) -> Numbers {
    let identity = (FeedId(1), SCOPE, Fingerprint::of(&[]));
    let clock = Arc::clone(clock) as Arc<_>;
    let registering = Follower::register(
        log.clone(),
        identity,
        &Start::Snapshot,
        patience,
        clock,
        Some as fn(u64) -> _,
    );
    let mut follower = registering.await.unwrap();
    assert!(matches!(follower.next().await.unwrap().step, Step::SnapshotEnd { count: 0, .. }));
    follower
}

async fn told(follower: &mut Numbers) -> String {
    match follower.next().await.map(|delivery| delivery.step) {
        Some(Step::Change(event)) => event.to_string(),
        Some(Step::Stale) => "stale".to_owned(),
        Some(Step::Live) => "live".to_owned(),
        Some(Step::End(End::Failed(error))) => format!("failed: {error}"),
        None => "over".to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_store_that_was_away_is_stale_then_live_and_nothing_is_lost() {
    let (log, clock) = (FlakyLog::new(ErrorKind::Unavailable), Arc::new(ManualClock::default()));
    let mut follower = follow(&log, &clock, Patience::Endless).await;
    log.append(10);
    assert_eq!(told(&mut follower).await, "10");
    log.fail(4);
    assert_eq!(told(&mut follower).await, "stale");
    log.append(20);
    log.append(30);
    // Each failed try is followed by a longer wait; the time is moved until it comes back.
    let time = async {
        loop {
            clock.advance(Duration::from_millis(500));
            tokio::task::yield_now().await;
        }
    };
    let telling =
        async { [told(&mut follower).await, told(&mut follower).await, told(&mut follower).await] };
    tokio::select! {
        words = telling => assert_eq!(words, ["live", "20", "30"]),
        () = time => {}
    }
}

#[tokio::test]
async fn a_subscription_ends_after_the_tries_it_was_given() {
    let (log, clock) = (FlakyLog::new(ErrorKind::Interrupted), Arc::new(ManualClock::jumping()));
    let mut follower = follow(&log, &clock, Patience::Tries(3)).await;
    log.fail(3);
    assert_eq!(told(&mut follower).await, "stale");
    assert_eq!(told(&mut follower).await, "failed: away");
    assert_eq!(told(&mut follower).await, "over");
}

#[tokio::test]
async fn what_no_retry_can_mend_ends_it_at_once() {
    let (log, clock) = (FlakyLog::new(ErrorKind::Corrupt), Arc::new(ManualClock::default()));
    let mut follower = follow(&log, &clock, Patience::Endless).await;
    log.fail(1);
    assert_eq!(told(&mut follower).await, "failed: away");
}

#[tokio::test]
async fn a_lost_ring_costs_time_and_nothing_else() {
    let (log, clock) = (FlakyLog::new(ErrorKind::Busy), Arc::new(ManualClock::default()));
    let mut follower = follow(&log, &clock, Patience::Endless).await;
    let hearing = tokio::spawn(async move { told(&mut follower).await });
    clock.is_slept_on_for(SILENT_BELL_TRUSTED).await;
    log.append_silently(10);
    assert!(!hearing.is_finished());
    clock.advance(SILENT_BELL_TRUSTED);
    assert_eq!(hearing.await.unwrap(), "10");
}
