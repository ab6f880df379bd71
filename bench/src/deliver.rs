//! From a write to its subscribers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use highwater::{
    feed::{Follow, Patience, Start, Step},
    jobs::{Filter, FollowRequest, Job, JobRef, JobStore, Report, Status},
};
use tokio::{sync::broadcast, task::JoinSet};

use crate::{
    Result,
    fixture::{self, Plan, PutState, closed_loop},
    pace::{Pace, Phase, since_stamp, stamped},
    report::{Latencies, Rate, Span, Table, count, verdict},
};

pub(crate) const P99_GOAL: Duration = Duration::from_millis(10);

/// What a state's status stands for here.
const WARM_UP: Status = Status(2);
const MEASURED: Status = Status(3);
const LAST: Status = Status::FINISHED;

fn status_of(phase: Phase) -> Status {
    match phase {
        Phase::WarmUp => WARM_UP,
        Phase::Measured => MEASURED,
    }
}

pub(crate) async fn measure(plan: &Plan) -> Result<()> {
    measure_latency(plan).await?;
    measure_stopped(plan).await?;
    measure_throughput(plan).await
}

async fn measure_latency(plan: &Plan) -> Result<()> {
    let table = Table::begin(
        "Delivery",
        "From just before `set` of a 256-byte state is called to its receipt by every subscriber, at a \
         fixed pace, beside the same pace and fan-out through a bare `tokio::sync::broadcast` channel, \
         which keeps nothing: the floor of the machine. Goal: p99 ≤ 10 ms.",
        &[
            "subscribers",
            "puts/s",
            "p50",
            "p99",
            "max",
            "goal",
            "`set` p50",
            "`set` p99",
            "bare p50",
            "bare p99",
            "bare max",
        ],
    );
    for (subscribers, rate) in [(1, 1_000), (10, 1_000), (100, 1_000), (plan.subscribers_max, 100)]
    {
        let pace = Pace::new(plan, rate)?;
        let Delivered { delivery, set, rate } =
            highwater(plan, pace, Crowd::all(subscribers)).await?;
        let bare = bare(pace, subscribers).await?;
        table.row(&[
            &count(subscribers),
            &rate,
            &delivery.p50(),
            &delivery.p99(),
            &delivery.max(),
            &verdict(delivery.p99(), P99_GOAL),
            &set.p50(),
            &set.p99(),
            &bare.p50(),
            &bare.p99(),
            &bare.max(),
        ]);
    }
    Ok(())
}

async fn measure_stopped(plan: &Plan) -> Result<()> {
    let table = Table::begin(
        "One stopped subscriber of 100",
        "Delivery to the others at 1,000 puts/s while one subscriber is never polled, beside the same \
         without it; alternating. Goal: their p99 stays where it was.",
        &["stopped", "measured", "p50", "p99", "max", "`set` p99"],
    );
    let pace = Pace::new(plan, 1_000)?;
    for _ in 0..plan.rounds {
        for crowd in [Crowd { polled: 99, stopped: 0 }, Crowd { polled: 99, stopped: 1 }] {
            let Delivered { delivery, set, .. } = highwater(plan, pace, crowd).await?;
            table.row(&[
                &crowd.stopped,
                &crowd.polled,
                &delivery.p50(),
                &delivery.p99(),
                &delivery.max(),
                &set.p99(),
            ]);
        }
    }
    Ok(())
}

async fn measure_throughput(plan: &Plan) -> Result<()> {
    const WRITERS: u32 = 64;
    let table = Table::begin(
        "Flat out",
        "64 writers in a closed loop on one job while subscribers follow it; deliveries are counted until \
         the last subscriber has the last state.",
        &["subscribers", "writes/s", "`set` p50", "`set` p99", "deliveries/s", "caught up after"],
    );
    for subscribers in [0, 1, 100] {
        let folder = plan.fresh_folder()?;
        let put = Arc::new(PutState::new(fixture::open(&folder).await?, 1, WRITERS).await?);
        closed_loop(&put, WRITERS, plan.warm_up).await?;
        let mut counting = JoinSet::new();
        for _ in 0..subscribers {
            let follow = follow_live(&*put.store, &put.jobs[0]).await?;
            counting.spawn(receive(follow, |_| ()));
        }
        let begun = Instant::now();
        let load = closed_loop(&put, WRITERS, plan.span).await?;
        let written = Instant::now();
        put_last(&*put.store, &put.jobs[0]).await?;
        let received = counting.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        let deliveries = received.iter().map(|states| states.len() as u64).sum();
        table.row(&[
            &subscribers,
            &load.rate,
            &load.latencies.p50(),
            &load.latencies.p99(),
            &Rate::of(deliveries, begun.elapsed()),
            &Span(written.elapsed()),
        ]);
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Crowd {
    polled: u32,
    /// Subscribed, and never polled behind the marker.
    stopped: u32,
}

impl Crowd {
    fn all(polled: u32) -> Crowd {
        Crowd { polled, stopped: 0 }
    }
}

struct Delivered {
    delivery: Latencies,
    set: Latencies,
    rate: Rate,
}

async fn highwater(plan: &Plan, pace: Pace, crowd: Crowd) -> Result<Delivered> {
    let folder = plan.fresh_folder()?;
    let store = fixture::open(&folder).await?;
    let job = fixture::open_job(&*store, "job", 1).await?;
    let epoch = Instant::now();
    let mut subscribers = JoinSet::new();
    for _ in 0..crowd.polled {
        let follow = follow_live(&*store, &job).await?;
        subscribers.spawn(receive(follow, move |report| {
            (report.status, since_stamp(epoch, &report.message))
        }));
    }
    let mut stopped = Vec::new();
    for _ in 0..crowd.stopped {
        stopped.push(follow_live(&*store, &job).await?);
    }
    let mut sets = JoinSet::new();
    let put = |phase| {
        let status = status_of(phase);
        let write = fixture::anonymous(&job, 0, status, stamped(epoch))?;
        let store = Arc::clone(&store);
        let begun = Instant::now();
        sets.spawn(async move {
            store.set(write).await?;
            Ok((status, begun.elapsed()))
        });
        Ok(())
    };
    let rate = pace.keep(put).await?;
    let sets = sets.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    put_last(&*store, &job).await?;
    let received = subscribers.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let mut latencies = Vec::new();
    for (status, latency) in received.into_iter().flatten() {
        if status == MEASURED {
            latencies.push(latency?);
        }
    }
    let expected = u64::from(pace.puts) * u64::from(crowd.polled);
    let delivery = Latencies::of(latencies)?;
    if delivery.count() != expected {
        return Err(format!("{} of {expected} states were delivered", delivery.count()).into());
    }
    let sets = sets.into_iter().filter(|&(status, _)| status == MEASURED);
    let set = Latencies::of(sets.map(|(_, latency)| latency))?;
    drop(stopped);
    Ok(Delivered { delivery, set, rate })
}

async fn bare(pace: Pace, subscribers: u32) -> Result<Latencies> {
    const CAPACITY: usize = 1_024;
    let epoch = Instant::now();
    let (sender, _) = broadcast::channel::<(Status, Arc<str>)>(CAPACITY);
    let mut receiving = JoinSet::new();
    for _ in 0..subscribers {
        let mut receiver = sender.subscribe();
        receiving.spawn(async move {
            let mut latencies = Vec::new();
            loop {
                match receiver.recv().await {
                    Ok((MEASURED, message)) => latencies.push(since_stamp(epoch, &message)?),
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Closed) => return Ok(latencies),
                    Err(lagged @ broadcast::error::RecvError::Lagged(_)) => {
                        return Err(lagged.into());
                    }
                }
            }
        });
    }
    let put = |phase| {
        sender.send((status_of(phase), stamped(epoch).into()))?;
        Ok(())
    };
    pace.keep(put).await?;
    drop(sender);
    let latencies = receiving.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    Latencies::of(latencies.into_iter().flatten())
}

/// The state after which subscribers may go.
async fn put_last(store: &dyn JobStore, job: &Job) -> Result<()> {
    store.set(fixture::anonymous(job, 0, LAST, String::new())?).await?;
    Ok(())
}

/// A subscription that has its snapshot behind it.
async fn follow_live(store: &dyn JobStore, job: &Job) -> Result<Follow<Arc<Report>>> {
    let request = FollowRequest {
        filter: Filter::job(),
        start: Start::Snapshot,
        patience: Patience::Endless,
    };
    let mut follow = store.follow(&JobRef::from(job), request).await?;
    loop {
        match follow.next().await.ok_or("a subscription ended without a reason")?.step {
            Step::Replay(_) => {}
            Step::SnapshotEnd { .. } => return Ok(follow),
            unexpected @ (Step::Change(_)
            | Step::Stale
            | Step::Live
            | Step::Reset
            | Step::End(_)) => {
                return Err(format!("before the marker came {unexpected:?}").into());
            }
        }
    }
}

/// What `note` makes of every change up to the last.
async fn receive<T>(
    mut follow: Follow<Arc<Report>>,
    note: impl Fn(&Report) -> T,
) -> Result<Vec<T>> {
    let mut notes = Vec::new();
    loop {
        match follow.next().await.ok_or("a subscription ended without a reason")?.step {
            Step::Change(report) if report.status == LAST => return Ok(notes),
            Step::Change(report) => notes.push(note(&report)),
            unexpected @ (Step::Replay(_)
            | Step::SnapshotEnd { .. }
            | Step::Stale
            | Step::Live
            | Step::Reset
            | Step::End(_)) => {
                return Err(format!("behind the marker came {unexpected:?}").into());
            }
        }
    }
}
