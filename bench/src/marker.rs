//! From the beginning of a subscription to its marker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use highwater::{
    feed::{Patience, Start, Step},
    jobs::{Filter, FollowRequest, Job, JobRef, JobStore},
};
use rusqlite::Connection;

use crate::{
    Result, baseline,
    fixture::{self, Plan},
    report::{Latencies, Span, Table, count, verdict},
};

const GOAL: Duration = Duration::from_secs(1);
const ROUNDS: usize = 10;

pub(crate) async fn measure(plan: &Plan) -> Result<()> {
    let states = plan.snapshot_states;
    let folder = plan.fresh_folder()?;
    let job = {
        let store = fixture::open(&folder).await?;
        let job = fixture::open_job(&*store, "job", states).await?;
        fixture::fill(&store, &job).await?;
        job
    };
    let store = fixture::open(&folder).await?;
    let first = until_marker(&store, &job).await?;
    let mut later = Vec::new();
    for _ in 0..ROUNDS {
        later.push(until_marker(&store, &job).await?);
    }
    let later = Latencies::of(later)?;

    let mut connection = baseline::open(&folder.path().join("bare.db"))?;
    baseline::fill(&mut connection, states)?;
    let bare_first = select(&connection)?;
    let bare_later =
        Latencies::of((0..ROUNDS).map(|_| select(&connection)).collect::<Result<Vec<_>>>()?)?;

    let table = Table::begin(
        "Time to the marker",
        "From `follow` to `SnapshotEnd` over 256-byte states, each received by the subscriber, beside a \
         bare `SELECT` of as many 256-byte rows; the first after opening the file, then ten more. Goal: \
         ≤ 1 s for 100,000 states.",
        &["", "states", "first", "p50", "max", "goal"],
    );
    let worst = later.max().max(Span(first));
    let goal = verdict(worst, GOAL);
    table.row(&[&"`follow`", &count(states), &Span(first), &later.p50(), &later.max(), &goal]);
    let (p50, max) = (bare_later.p50(), bare_later.max());
    table.row(&[&"bare `SELECT`", &count(states), &Span(bare_first), &p50, &max, &""]);
    Ok(())
}

async fn until_marker(store: &Arc<dyn JobStore>, job: &Job) -> Result<Duration> {
    let (store, job) = (Arc::clone(store), job.clone());
    // A task of its own, as subscribers are: the main task is polled outside of the workers.
    tokio::spawn(async move {
        let begun = Instant::now();
        let request = FollowRequest {
            filter: Filter::job(),
            start: Start::Snapshot,
            patience: Patience::Endless,
        };
        let mut follow = store.follow(&JobRef::from(&job), request).await?;
        let mut received = 0;
        while let Some(delivery) = follow.next().await {
            match delivery.step {
                Step::Replay(_) => received += 1,
                Step::SnapshotEnd { count, .. } if count == u64::from(job.num_tasks.get()) => {
                    return Ok(begun.elapsed());
                }
                unexpected @ (Step::SnapshotEnd { .. }
                | Step::Change(_)
                | Step::Stale
                | Step::Live
                | Step::Reset
                | Step::End(_)) => {
                    return Err(format!("after {received} states came {unexpected:?}").into());
                }
            }
        }
        Err("a subscription ended without a reason".into())
    })
    .await?
}

fn select(connection: &Connection) -> Result<Duration> {
    let begun = Instant::now();
    let mut statement = connection.prepare_cached("SELECT value FROM bare ORDER BY key")?;
    let values = statement.query_map([], |row| row.get::<_, String>(0))?;
    for value in values {
        std::hint::black_box(value?);
    }
    Ok(begun.elapsed())
}
