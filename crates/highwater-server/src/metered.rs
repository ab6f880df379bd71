//! A store that counts what is done to it.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use highwater::{
    Error, Outcome, Result,
    clock::{Clock, SystemClock, Timestamp},
    feed::{Delivery, Follow, Seq, Step},
    jobs::{
        Created, Deleted, Deletion, Epoch, Filter, FollowRequest, Job, JobId, JobRef, JobStore,
        ListJobs, Reading, Report, Tag, TaskCount, TaskIndex, Write, Written,
    },
};
use metrics::{counter, gauge, histogram};

/// Passes everything on, and counts it under the name of its engine.
#[derive(Debug)]
pub(crate) struct MeteredJobs {
    inner: Arc<dyn JobStore>,
    engine: &'static str,
}

impl MeteredJobs {
    pub(crate) fn new(inner: Arc<dyn JobStore>, engine: &'static str) -> MeteredJobs {
        MeteredJobs { inner, engine }
    }

    fn counted<T>(&self, answer: Result<T>) -> Result<T> {
        answer.inspect_err(|error| {
            counter!("highwater_jobs_errors_total", "engine" => self.engine, "kind" => error.kind().name()).increment(1);
        })
    }
}

fn outcome(answer: &Result<Written>) -> &'static str {
    match answer {
        Ok(Written::Applied(_)) => "applied",
        Ok(Written::Repeated(_)) => "repeated",
        Err(error) => match error.outcome() {
            Outcome::NotApplied => "not_applied",
            Outcome::Unknown => "unknown",
        },
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl JobStore for MeteredJobs {
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)> {
        self.counted(self.inner.open(id, num_tasks, tags).await)
    }

    async fn job(&self, job: &JobRef) -> Result<Job> {
        self.counted(self.inner.job(job).await)
    }

    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        self.counted(self.inner.take_over(job, task).await)
    }

    async fn set(&self, write: Write) -> Result<Written> {
        let start = Instant::now();
        let (job, task, tag) = (write.job.id.clone(), write.task, write.tag.clone());
        let event_id = write.event_id.clone();
        let answer = self.counted(self.inner.set(write).await);
        let labels = [("engine", self.engine), ("outcome", outcome(&answer))];
        histogram!("highwater_jobs_write_seconds", &labels).record(start.elapsed());
        match &answer {
            Ok(written) => {
                let version = written.report().version.0;
                tracing::debug!(%job, %tag, task = task.0, version, %event_id, "state written");
            }
            Err(error) => log_failure(error, &job, task, &tag, &event_id),
        }
        answer
    }

    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading> {
        self.counted(self.inner.read(job, filter, at_least).await)
    }

    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>> {
        self.counted(self.inner.list(query).await)
    }

    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted> {
        self.counted(self.inner.delete(job, how).await)
    }

    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>> {
        let start = Instant::now();
        let steps = self.counted(self.inner.follow(job, request).await)?;
        let open = Open::new(self.engine);
        Ok(steps.inspect(move |delivery| open.count(delivery, start)).boxed())
    }
}

/// A caller's mistake is its own business; a store's is everybody's.
fn log_failure(
    error: &Error,
    job: &JobId,
    task: TaskIndex,
    tag: &Tag,
    event_id: &highwater::jobs::EventId,
) {
    let (task, kind) = (task.0, error.kind().name());
    if error.is_transient() || error.outcome() == Outcome::Unknown {
        tracing::error!(%job, %tag, task, %event_id, kind, %error, "state not written");
    } else {
        tracing::info!(%job, %tag, task, %event_id, kind, %error, "state refused");
    }
}

/// Counts a subscription for as long as it is open.
struct Open(&'static str);

impl Open {
    fn new(engine: &'static str) -> Open {
        gauge!("highwater_jobs_subscribers", "engine" => engine).increment(1);
        Open(engine)
    }

    fn count(&self, delivery: &Delivery<Arc<Report>>, start: Instant) {
        let Open(engine) = *self;
        match &delivery.step {
            Step::SnapshotEnd { .. } => {
                histogram!("highwater_jobs_replay_seconds", "engine" => engine)
                    .record(start.elapsed());
            }
            Step::Change(report) => {
                let seconds = seconds_since(report.timestamp, SystemClock.now());
                histogram!("highwater_jobs_delivery_seconds", "engine" => engine).record(seconds);
            }
            Step::Live => {
                counter!("highwater_jobs_reconnects_total", "engine" => engine).increment(1);
            }
            Step::Replay(_) | Step::Stale | Step::Reset | Step::End(_) => {}
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!("highwater_jobs_subscribers", "engine" => self.0).decrement(1);
    }
}

/// The time from `then` to `now`; none if a clock was set back in between.
pub(crate) fn seconds_since(then: Timestamp, now: Timestamp) -> f64 {
    let micros = now.as_micros().saturating_sub(then.as_micros()).max(0);
    std::time::Duration::from_micros(micros.unsigned_abs()).as_secs_f64()
}
