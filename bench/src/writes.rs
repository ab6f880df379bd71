//! Durable writes per second.

use std::{fmt, sync::Arc};

use crate::{
    Result,
    baseline::{self, GroupCommit, Work},
    fixture::{self, Load, Plan, Put, PutState, closed_loop},
    report::{Table, count},
};

const WRITERS: [u32; 3] = [1, 64, 1_000];
const JOBS_MAX: u32 = 100;

pub(crate) async fn measure(plan: &Plan) -> Result<()> {
    let table = Table::begin(
        "Durable writes",
        "`set` of 256-byte states by writers in a closed loop, each with a task of its own, beside the \
         bare group-commit loop with the same settings and one upsert of 256 bytes per command (its \
         keys: one per writer); and the same loop with one row appended to a log as well, the least that \
         subscribers could follow. All answer after fsync, one per commit. Rounds alternate; the one with the median \
         rate is shown, and the range of all.",
        &[
            "writers",
            "what",
            "writes/s",
            "p50",
            "p99",
            "range of writes/s",
            "share of the bare upsert",
        ],
    );
    for writers in WRITERS {
        let mut cases = vec![Case::Set { jobs: 1 }, Case::Bare(Work::Upsert)];
        if writers > 1 {
            cases.push(Case::Set { jobs: writers.min(JOBS_MAX) });
        }
        cases.push(Case::Bare(Work::UpsertAndAppend));
        let mut rounds: Vec<Vec<Load>> = cases.iter().map(|_| Vec::new()).collect();
        for _ in 0..plan.rounds {
            for (case, loads) in cases.iter().zip(&mut rounds) {
                loads.push(case.load(plan, writers).await?);
            }
        }
        for loads in &mut rounds {
            loads.sort_by(|a, b| a.rate.total_cmp(b.rate));
        }
        let bare = median(&rounds[1]).rate;
        for (case, loads) in cases.iter().zip(&rounds) {
            let Load { rate, latencies } = median(loads);
            let range = format!("{}–{}", loads[0].rate, loads[loads.len() - 1].rate);
            let (p50, p99) = (latencies.p50(), latencies.p99());
            table.row(&[&count(writers), &case, rate, &p50, &p99, &range, &rate.share_of(bare)]);
        }
    }
    Ok(())
}

/// What is written, and how.
#[derive(Debug, Clone, Copy)]
enum Case {
    Set { jobs: u32 },
    Bare(Work),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Set { jobs: 1 } => f.write_str("`set`, 1 job"),
            Case::Set { jobs } => write!(f, "`set`, {jobs} jobs"),
            Case::Bare(Work::Upsert) => f.write_str("bare upsert"),
            Case::Bare(Work::UpsertAndAppend) => f.write_str("bare upsert and append"),
        }
    }
}

impl Case {
    async fn load(self, plan: &Plan, writers: u32) -> Result<Load> {
        match self {
            Case::Set { jobs } => highwater_load(plan, writers, jobs).await,
            Case::Bare(work) => bare_load(plan, writers, work).await,
        }
    }
}

/// The middle one of `loads`, which are in order and at least one.
fn median(loads: &[Load]) -> &Load {
    &loads[loads.len() / 2]
}

async fn highwater_load(plan: &Plan, writers: u32, jobs: u32) -> Result<Load> {
    let folder = plan.fresh_folder()?;
    let put = PutState::new(fixture::open(&folder).await?, jobs, writers).await?;
    warm_load(plan, &Arc::new(put), writers).await
}

async fn bare_load(plan: &Plan, writers: u32, work: Work) -> Result<Load> {
    let folder = plan.fresh_folder()?;
    let connection = baseline::open(&folder.path().join("bare.db"))?;
    let put = Arc::new(GroupCommit::start(connection, work));
    let load = warm_load(plan, &put, writers).await?;
    GroupCommit::stop(put)?;
    Ok(load)
}

async fn warm_load(plan: &Plan, put: &Arc<impl Put>, writers: u32) -> Result<Load> {
    closed_loop(put, writers, plan.warm_up).await?;
    closed_loop(put, writers, plan.span).await
}
