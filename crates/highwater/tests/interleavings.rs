//! Every order in which a writer, the hub and its readers may run, as shuttle finds them.
//!
//! Built and run by `cargo xtask test` with `--cfg shuttle`, which swaps the locks of the library for
//! shuttle's; without it there is nothing to see here.
#![cfg(shuttle)]

use std::sync::Arc;

use highwater::{
    Result,
    clock::{Clock, Sleep, Timestamp},
    feed::{
        Bell, End, FeedId, Fingerprint, Follower, Hub, Log, Patience, Published, ScopeId, Seq,
        Slice, Span, Start, Step,
    },
    jobs::{
        Deletion, Draft, Filter, FollowRequest, JobId, JobRef, JobStore as _, Status, Tag,
        TaskCount, TaskIndex, Write, Writer,
    },
    memory::MemoryStore,
};
use shuttle::{future::block_on, sync::Mutex, thread};

const SCOPE: ScopeId = ScopeId(1);
const EVENTS: u64 = 4;
const SCHEDULES: usize = 5_000;

/// Time never passes: whoever misses a ring is stuck, and shuttle says so.
#[derive(Debug)]
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0)
    }

    fn sleep(&self, _: std::time::Duration) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A log as the embedded engine has it: commits first, publishes after, reads memory before the log.
#[derive(Debug, Clone)]
struct TailedLog {
    committed: Arc<Mutex<Vec<u64>>>,
    hub: Arc<Hub<u64>>,
}

impl TailedLog {
    fn new() -> TailedLog {
        // Room for two events: readers fall behind and must join memory and log without a seam.
        TailedLog { committed: Arc::default(), hub: Arc::new(Hub::with_capacity(2)) }
    }

    fn commit(&self, event: u64) {
        self.committed.lock().unwrap().push(event);
        let is_last = event == EVENTS;
        self.hub.publish([Published { scope: SCOPE, seq: Seq(event), event, bytes: 1, is_last }]);
    }
}

impl TailedLog {
    fn look(&self, scope: ScopeId, after: Seq, max: usize) -> Slice<u64> {
        if let Some(entries) = self.hub.read(scope, after, max) {
            return Slice::Entries(entries);
        }
        let committed = self.committed.lock().unwrap();
        if after.0 == EVENTS {
            return Slice::Ended;
        }
        let behind = committed.iter().filter(|event| **event > after.0).take(max);
        Slice::Entries(behind.map(|event| (Seq(*event), *event)).collect())
    }
}

impl Log for TailedLog {
    type Item = u64;

    async fn head(&self, _: ScopeId) -> Result<Option<Seq>> {
        Ok(Some(Seq(self.committed.lock().unwrap().len() as u64)))
    }

    async fn replay(&self, _: ScopeId, span: Span, _: usize) -> Result<Vec<(Seq, u64)>> {
        Ok((span.after.0 + 1..=span.upto.0).map(|event| (Seq(event), event)).collect())
    }

    async fn read(&self, scope: ScopeId, after: Seq, max: usize) -> Result<Slice<u64>> {
        let slice = self.look(scope, after, max);
        // What was read takes its time to arrive, and the world goes on.
        thread::yield_now();
        Ok(slice)
    }

    fn bell(&self, scope: ScopeId) -> Bell {
        self.hub.listen(scope)
    }
}

/// Follows to the end; answers what was told, replayed and live together.
async fn follow_to_the_end(log: TailedLog) -> Vec<u64> {
    let identity = (FeedId(1), SCOPE, Fingerprint::of(&[]));
    let clock = Arc::new(NoTime);
    let registering =
        Follower::register(log, identity, &Start::Snapshot, Patience::Endless, clock, Some);
    let mut follower = registering.await.unwrap();
    let (mut told, mut markers) = (Vec::new(), 0);
    while let Some(delivery) = follower.next().await {
        match delivery.step {
            Step::Replay(event) | Step::Change(event) => told.push(event),
            Step::SnapshotEnd { .. } => markers += 1,
            Step::End(End::Deleted) => {}
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(markers, 1);
    told
}

#[test]
fn readers_of_the_hub_miss_nothing_and_leave_nothing() {
    shuttle::check_random(
        || {
            let log = TailedLog::new();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let log = log.clone();
                    thread::spawn(move || block_on(follow_to_the_end(log)))
                })
                .collect();
            (1..=EVENTS).for_each(|event| log.commit(event));
            for reader in readers {
                assert!(reader.join().unwrap().into_iter().eq(1..=EVENTS));
            }
            assert_eq!((log.hub.scopes_followed(), log.hub.bytes_held()), (0, 0));
        },
        SCHEDULES,
    );
}

#[test]
fn a_listener_that_leaves_in_mid_publication_leaves_nothing() {
    shuttle::check_random(
        || {
            let log = TailedLog::new();
            let bell = log.bell(SCOPE);
            let leaving = thread::spawn(move || drop(bell));
            (1..=EVENTS).for_each(|event| log.commit(event));
            leaving.join().unwrap();
            assert_eq!((log.hub.scopes_followed(), log.hub.bytes_held()), (0, 0));
        },
        SCHEDULES,
    );
}

#[test]
fn a_job_is_replayed_and_followed_without_a_seam() {
    shuttle::check_random(
        || {
            let store = MemoryStore::new(Arc::new(NoTime));
            let job = JobRef::current(JobId::new("job").unwrap());
            block_on(store.open(&job.id, TaskCount::new(2).unwrap(), None)).unwrap();
            let writers: Vec<_> = (0..2)
                .map(|task| {
                    thread::spawn({
                        let (store, job) = (store.clone(), job.clone());
                        move || {
                            for status in 1..=2 {
                                let draft = Draft::new(Tag::new("t").unwrap(), Status(status));
                                let write = Write::new(
                                    job.clone(),
                                    TaskIndex(task),
                                    draft,
                                    Writer::Anonymous,
                                );
                                block_on(store.set(write.unwrap())).unwrap();
                            }
                        }
                    })
                })
                .collect();
            let reader = thread::spawn({
                let (store, job) = (store.clone(), job.clone());
                move || block_on(newest_versions(&store, &job))
            });
            for writer in writers {
                writer.join().unwrap();
            }
            block_on(store.delete(&job, Deletion::Tombstone)).unwrap();
            assert_eq!(reader.join().unwrap(), [2, 2]);
        },
        SCHEDULES,
    );
}

/// Follows to the end, and sees that revisions only rise; answers the last version of each task.
async fn newest_versions(store: &MemoryStore, job: &JobRef) -> [u64; 2] {
    use futures_util::StreamExt as _;
    let request = FollowRequest {
        filter: Filter::job(),
        start: Start::Snapshot,
        patience: Patience::Endless,
    };
    let mut steps = store.follow(job, request).await.unwrap();
    let (mut newest, mut last) = ([0, 0], Seq::ZERO);
    while let Some(delivery) = steps.next().await {
        if let Step::Replay(report) | Step::Change(report) = delivery.step {
            assert!(report.revision > last);
            last = report.revision;
            newest[report.task.0 as usize] = report.version.0;
        }
    }
    newest
}
