//! What every measurement begins with: a fresh folder, a store in it, a job, writes to it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use highwater::jobs::{
    Draft, Job, JobId, JobRef, JobStore, Status, Tag, TaskCount, TaskIndex, Write, Writer,
};
use highwater_stores::sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    Result,
    report::{Latencies, Rate},
};

/// Bytes of what a state says.
pub(crate) const STATE_BYTES: usize = 256;

/// How much is measured, for how long, and where.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) folder: PathBuf,
    pub(crate) span: Duration,
    /// Before each measurement of a rate, the same load for this long, uncounted.
    pub(crate) warm_up: Duration,
    /// How often a rate is measured, in turn with what it is compared with.
    pub(crate) rounds: usize,
    /// The most subscribers.
    pub(crate) subscribers_max: u32,
    /// States in a snapshot.
    pub(crate) snapshot_states: u32,
    /// Tasks under an aggregate.
    pub(crate) aggregate_tasks: u32,
    /// Subscribers of a server that wait for something to happen.
    pub(crate) idle_subscribers: u32,
}

impl Plan {
    pub(crate) fn full(folder: &Path) -> Plan {
        Plan {
            folder: folder.to_owned(),
            span: Duration::from_secs(5),
            warm_up: Duration::from_millis(500),
            rounds: 3,
            subscribers_max: 1_000,
            snapshot_states: 100_000,
            aggregate_tasks: 10_000,
            idle_subscribers: 10_000,
        }
    }

    pub(crate) fn quick(folder: &Path) -> Plan {
        Plan {
            span: Duration::from_secs(1),
            warm_up: Duration::from_millis(100),
            rounds: 1,
            subscribers_max: 200,
            snapshot_states: 10_000,
            aggregate_tasks: 1_000,
            idle_subscribers: 1_000,
            ..Plan::full(folder)
        }
    }

    /// A folder of one measurement's own, removed with what is returned.
    pub(crate) fn fresh_folder(&self) -> Result<TempDir> {
        Ok(tempfile::tempdir_in(&self.folder)?)
    }
}

pub(crate) async fn open(folder: &TempDir) -> Result<Arc<dyn JobStore>> {
    let path = folder.path().join("highwater.db");
    Ok(Arc::new(SqliteStore::open(path, SqliteOptions::default()).await?))
}

pub(crate) async fn open_job(store: &dyn JobStore, name: &str, tasks: u32) -> Result<Job> {
    Ok(store.open(&JobId::new(name)?, TaskCount::new(tasks)?, None).await?.0)
}

/// A write of nobody in particular.
pub(crate) fn anonymous(job: &Job, task: u32, status: Status, message: String) -> Result<Write> {
    let draft = Draft::new(Tag::new("work")?, status).message(message);
    Ok(Write::new(JobRef::from(job), TaskIndex(task), draft, Writer::Anonymous)?)
}

/// What a state says: `number`, at the usual length. No two writes to a place may say the same, because
/// SQLite skips a page that does not change, and with it the fsync.
pub(crate) fn message(number: u128) -> String {
    format!("{number:0STATE_BYTES$}")
}

/// What a writer of a closed loop does over and over.
pub(crate) trait Put: Send + Sync + 'static {
    /// Answers once `message` is durable in the writer's place.
    fn put(&self, writer: u32, message: String) -> impl Future<Output = Result<()>> + Send;
}

/// States of jobs: every writer has a task of its own, the tasks are dealt out to the jobs.
pub(crate) struct PutState {
    pub(crate) store: Arc<dyn JobStore>,
    pub(crate) jobs: Vec<Job>,
}

impl PutState {
    pub(crate) async fn new(store: Arc<dyn JobStore>, jobs: u32, tasks: u32) -> Result<PutState> {
        let mut opened = Vec::new();
        for job in 0..jobs {
            opened.push(open_job(&*store, &format!("job-{job}"), tasks).await?);
        }
        Ok(PutState { store, jobs: opened })
    }
}

impl Put for PutState {
    async fn put(&self, writer: u32, message: String) -> Result<()> {
        let job = &self.jobs[writer as usize % self.jobs.len()];
        let write = anonymous(job, writer, Status::STARTED, message)?;
        self.store.set(write).await?;
        Ok(())
    }
}

/// What a closed loop did.
pub(crate) struct Load {
    pub(crate) rate: Rate,
    pub(crate) latencies: Latencies,
}

/// Every writer begins its next write when its last is answered.
pub(crate) async fn closed_loop(put: &Arc<impl Put>, writers: u32, span: Duration) -> Result<Load> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let put = Arc::clone(put);
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut now = Instant::now();
            while now.duration_since(begun) < span {
                put.put(writer, message(now.duration_since(begun).as_nanos())).await?;
                let after = Instant::now();
                latencies.push(after.duration_since(now));
                now = after;
            }
            Ok(latencies)
        });
    }
    let latencies = tasks.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let elapsed = begun.elapsed();
    let latencies = Latencies::of(latencies.into_iter().flatten())?;
    Ok(Load { rate: Rate::of(latencies.count(), elapsed), latencies })
}

/// Writes a state of every task of a job, many at a time.
pub(crate) async fn fill(store: &Arc<dyn JobStore>, job: &Job) -> Result<()> {
    const WRITERS: u32 = 1_000;
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, job) = (Arc::clone(store), job.clone());
        tasks.spawn(async move {
            for task in (writer..job.num_tasks.get()).step_by(WRITERS as usize) {
                let write = anonymous(&job, task, Status::STARTED, message(task.into()))?;
                store.set(write).await?;
            }
            Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}
