//! A store behind a bad network.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use highwater::{
    Error, ErrorKind, Result,
    feed::{Follow, Seq},
    jobs::{
        Created, Deleted, Deletion, Epoch, Filter, FollowRequest, Job, JobId, JobRef, JobStore,
        ListJobs, Reading, Report, Tag, TaskCount, TaskIndex, Write, Written,
    },
};

use crate::prng::Prng;

/// What becomes of a call. The third fate is the one that finds bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// As if nothing were between.
    Delivered,
    /// The store never hears of it.
    RequestLost,
    /// The write lands and the answer does not: the caller must not count twice.
    ReplyLost,
}

/// Decides the fate of every call.
#[derive(Debug)]
enum Fates {
    /// By chance: one call in `one_in` is lost, before or after.
    Seeded { prng: Mutex<Prng>, one_in: u64 },
    /// One fate at one call, counted from 1.
    At { call: u64, fate: Fate },
}

/// Loses some calls on their way to a store, or their answers on the way back.
///
/// What is lost is an error of unknown outcome: from the outside the two look the same.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn JobStore>,
    fates: Fates,
    calls: AtomicU64,
}

impl FaultyStore {
    /// One call in `one_in` is lost; the seed decides which and how, so a failure can be replayed.
    pub fn seeded(inner: Arc<dyn JobStore>, seed: u64, one_in: u64) -> FaultyStore {
        FaultyStore::new(inner, Fates::Seeded { prng: Mutex::new(Prng(seed)), one_in })
    }

    /// The `call`-th call, from 1, meets this fate, and no other does.
    pub fn at(inner: Arc<dyn JobStore>, call: u64, fate: Fate) -> FaultyStore {
        FaultyStore::new(inner, Fates::At { call, fate })
    }

    fn new(inner: Arc<dyn JobStore>, fates: Fates) -> FaultyStore {
        FaultyStore { inner, fates, calls: AtomicU64::new(0) }
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn next_fate(&self) -> Fate {
        let this_call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match &self.fates {
            Fates::At { call, fate } if *call == this_call => *fate,
            Fates::At { .. } => Fate::Delivered,
            Fates::Seeded { prng, one_in } => {
                let mut prng = prng.lock().unwrap_or_else(PoisonError::into_inner);
                match prng.below(*one_in * 2) {
                    0 => Fate::RequestLost,
                    1 => Fate::ReplyLost,
                    _ => Fate::Delivered,
                }
            }
        }
    }

    async fn pass<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let lost = || Err(Error::new(ErrorKind::Interrupted, "lost on the way"));
        match self.next_fate() {
            Fate::Delivered => call.await,
            Fate::RequestLost => lost(),
            Fate::ReplyLost => {
                call.await?;
                lost()
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl JobStore for FaultyStore {
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)> {
        self.pass(self.inner.open(id, num_tasks, tags)).await
    }

    async fn job(&self, job: &JobRef) -> Result<Job> {
        self.pass(self.inner.job(job)).await
    }

    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        self.pass(self.inner.take_over(job, task)).await
    }

    async fn set(&self, write: Write) -> Result<Written> {
        self.pass(self.inner.set(write)).await
    }

    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading> {
        self.pass(self.inner.read(job, filter, at_least)).await
    }

    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>> {
        self.pass(self.inner.list(query)).await
    }

    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted> {
        self.pass(self.inner.delete(job, how)).await
    }

    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>> {
        self.pass(self.inner.follow(job, request)).await
    }
}
