//! Stores that are broken on purpose: each must turn some promise red, or the promise proves nothing.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use highwater::{
    Result,
    feed::{Delivery, Follow, Seq, Step},
    jobs::{
        Created, Deleted, Deletion, Epoch, EventId, Filter, FollowRequest, Job, JobId, JobRef,
        JobStore, ListJobs, Reading, Report, Tag, TaskCount, TaskIndex, Write, Written,
    },
};
use tokio::sync::{Mutex, mpsc};

/// What is wrong with it. All of these were seen in real systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// A feed that is read by sequence alone passes over what commits late.
    SkipsAChange,
    /// A reconnect that starts one too early.
    RepeatsAChange,
    /// A hub that drops events when a subscriber is slow, and does not say so.
    DropsForTheSlow,
    /// A snapshot that is still open while writers go on.
    MovesTheMarker,
    /// A read from a cache that a write has not reached.
    ReadsAStaleCache,
    /// A retry that is a new write.
    RetriesWithoutTheId,
}

/// A store with a flaw.
#[derive(Debug)]
pub struct BrokenStore {
    inner: Arc<dyn JobStore>,
    flaw: Flaw,
    /// The last reading that was given out, for [`Flaw::ReadsAStaleCache`].
    cached: Mutex<Option<Reading>>,
}

impl BrokenStore {
    /// Breaks a store.
    pub fn new(inner: Arc<dyn JobStore>, flaw: Flaw) -> BrokenStore {
        BrokenStore { inner, flaw, cached: Mutex::new(None) }
    }
}

/// Every 97th change is the unlucky one.
fn is_unlucky(delivery: &Delivery<Arc<Report>>) -> bool {
    matches!(&delivery.step, Step::Change(report) if report.revision.0 % 97 == 0)
}

fn skip(steps: Follow<Arc<Report>>) -> Follow<Arc<Report>> {
    steps.filter(|delivery| std::future::ready(!is_unlucky(delivery))).boxed()
}

fn repeat(steps: Follow<Arc<Report>>) -> Follow<Arc<Report>> {
    let twice = |delivery: Delivery<Arc<Report>>| {
        let again = if let Step::Change(report) = &delivery.step
            && is_unlucky(&delivery)
        {
            Some(Delivery { step: Step::Change(Arc::clone(report)), mark: delivery.mark })
        } else {
            None
        };
        stream::iter([Some(delivery), again].into_iter().flatten())
    };
    steps.flat_map(twice).boxed()
}

fn drop_for_the_slow(mut steps: Follow<Arc<Report>>) -> Follow<Arc<Report>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::spawn(async move {
        while let Some(delivery) = steps.next().await {
            let _ = sender.try_send(delivery);
        }
    });
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|delivery| (delivery, receiver))
    })
    .boxed()
}

/// Tells changes as if they still belonged to the snapshot, up to a hundred of them.
fn move_the_marker(steps: Follow<Arc<Report>>) -> Follow<Arc<Report>> {
    let mut held = None;
    let mut moved = 0;
    let shuffle = move |delivery: Delivery<Arc<Report>>| {
        let Delivery { step, mark } = delivery;
        let told = match step {
            Step::SnapshotEnd { .. } => {
                held = Some(Delivery { step, mark });
                vec![]
            }
            Step::Change(report) if held.is_some() && moved < 100 => {
                moved += 1;
                vec![Delivery { step: Step::Replay(report), mark }]
            }
            step @ (Step::Replay(_)
            | Step::Change(_)
            | Step::Stale
            | Step::Live
            | Step::Reset
            | Step::End(_)) => held.take().into_iter().chain([Delivery { step, mark }]).collect(),
        };
        stream::iter(told)
    };
    steps.flat_map(shuffle).boxed()
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl JobStore for BrokenStore {
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)> {
        self.inner.open(id, num_tasks, tags).await
    }

    async fn job(&self, job: &JobRef) -> Result<Job> {
        self.inner.job(job).await
    }

    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        self.inner.take_over(job, task).await
    }

    async fn set(&self, write: Write) -> Result<Written> {
        match self.inner.set(write.clone()).await {
            Err(error) if self.flaw == Flaw::RetriesWithoutTheId && error.is_transient() => {
                self.inner.set(Write { event_id: EventId::unique(), ..write }).await
            }
            answer => answer,
        }
    }

    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading> {
        let reading = self.inner.read(job, filter, at_least).await?;
        if self.flaw != Flaw::ReadsAStaleCache {
            return Ok(reading);
        }
        let mut cached = self.cached.lock().await;
        Ok(cached.replace(reading.clone()).unwrap_or(reading))
    }

    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>> {
        self.inner.list(query).await
    }

    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted> {
        self.inner.delete(job, how).await
    }

    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>> {
        let steps = self.inner.follow(job, request).await?;
        Ok(match self.flaw {
            Flaw::SkipsAChange => skip(steps),
            Flaw::RepeatsAChange => repeat(steps),
            Flaw::DropsForTheSlow => drop_for_the_slow(steps),
            Flaw::MovesTheMarker => move_the_marker(steps),
            Flaw::ReadsAStaleCache | Flaw::RetriesWithoutTheId => steps,
        })
    }
}
