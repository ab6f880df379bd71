//! Where a job of many tasks stands.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use highwater::{
    feed::Seq,
    jobs::{Filter, Job, JobRef, JobStore, Status, rules},
};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Result, baseline,
    fixture::{self, Plan},
    report::{Latencies, Table, count, verdict},
};

const GOAL: Duration = Duration::from_millis(1);
const COLD_READS: usize = 10;
const WARM_READS_MAX: usize = 10_000;
const JOB: &str = "job";

pub(crate) async fn measure(plan: &Plan) -> Result<()> {
    let tasks = plan.aggregate_tasks;
    let folder = plan.fresh_folder()?;
    {
        let store = fixture::open(&folder).await?;
        let job = fixture::open_job(&*store, JOB, tasks).await?;
        fixture::fill(&store, &job).await?;
    }
    let cold = cold_reads(&folder, tasks).await?;
    let store = fixture::open(&folder).await?;
    let job = fixture::open_job(&*store, JOB, tasks).await?;
    read(&*store, &job).await?;
    let warm = warm_reads(plan, &store, &job).await?;
    let writing = tokio::spawn(write_on(Arc::clone(&store), job.clone()));
    let busy = warm_reads(plan, &store, &job).await?;
    writing.abort();
    drop(store);

    let mut connection = baseline::open(&folder.path().join("bare.db"))?;
    baseline::fill(&mut connection, tasks)?;
    let bare = bare_reads(plan, &connection)?;

    let table = Table::begin(
        "Aggregate",
        "`read` and `rules::standing` over all tasks, as `Manager::get_state` does, 256-byte states, beside a bare \
         `SELECT min(status)` over as many rows. Goal: ≤ 1 ms over 10,000 tasks.",
        &["", "tasks", "reads", "p50", "p99", "max", "goal (p99)"],
    );
    let row = |name: &str, reads: &Latencies, goal: &str| {
        let (all, reads_count) = (count(tasks), count(reads.count()));
        table.row(&[&name, &all, &reads_count, &reads.p50(), &reads.p99(), &reads.max(), &goal]);
    };
    row("warm", &warm, verdict(warm.p99(), GOAL));
    row("warm, 1,000 puts/s beside it", &busy, verdict(busy.p99(), GOAL));
    row("first after opening the file", &cold, verdict(cold.p99(), GOAL));
    row("bare `SELECT min(status)`", &bare, "");
    Ok(())
}

/// What `Manager::get_state` does.
async fn read(store: &dyn JobStore, job: &Job) -> Result<Duration> {
    let begun = Instant::now();
    let filter = Filter::job();
    let reading = store.read(&JobRef::from(job), &filter, Seq::ZERO).await?;
    let standing = rules::standing(&reading.job, &filter, &reading.reports);
    drop(reading);
    let latency = begun.elapsed();
    if standing.status != Status::STARTED {
        return Err(format!("the job stands at {}", standing.status).into());
    }
    Ok(latency)
}

async fn cold_reads(folder: &TempDir, tasks: u32) -> Result<Latencies> {
    let mut reads = Vec::new();
    for _ in 0..COLD_READS {
        let store = fixture::open(folder).await?;
        let job = fixture::open_job(&*store, JOB, tasks).await?;
        reads.push(read(&*store, &job).await?);
    }
    Latencies::of(reads)
}

/// One after the other, in a task of their own.
async fn warm_reads(plan: &Plan, store: &Arc<dyn JobStore>, job: &Job) -> Result<Latencies> {
    let (span, store, job) = (plan.span, Arc::clone(store), job.clone());
    let reading = tokio::spawn(async move {
        let begun = Instant::now();
        let mut reads = Vec::new();
        while begun.elapsed() < span && reads.len() < WARM_READS_MAX {
            reads.push(read(&*store, &job).await?);
        }
        Latencies::of(reads)
    });
    reading.await?
}

/// Writes at a steady pace until it is aborted.
async fn write_on(store: Arc<dyn JobStore>, job: Job) -> Result<()> {
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for task in job.num_tasks.tasks().cycle() {
        ticks.tick().await;
        let message = fixture::message(task.0.into());
        store.set(fixture::anonymous(&job, task.0, Status::STARTED, message)?).await?;
    }
    Ok(())
}

fn bare_reads(plan: &Plan, connection: &Connection) -> Result<Latencies> {
    let begun = Instant::now();
    let mut reads = Vec::new();
    while begun.elapsed() < plan.span && reads.len() < WARM_READS_MAX {
        let before = Instant::now();
        let mut statement = connection.prepare_cached("SELECT min(status) FROM bare")?;
        let lowest: i32 = statement.query_row([], |row| row.get(0))?;
        reads.push(before.elapsed());
        if lowest != 1 {
            return Err(format!("the bare table stands at {lowest}").into());
        }
    }
    Latencies::of(reads)
}
