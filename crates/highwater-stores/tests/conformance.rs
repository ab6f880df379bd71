//! Every engine × every promise, one line each. An engine that cannot be tried is named as ignored.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use highwater::{Error, ErrorKind, memory::MemoryStore};
use highwater_server::ServerOptions;
use highwater_stores::{
    Slots,
    remote::{RemoteOptions, RemoteStore},
    sqlite::{SqliteOptions, SqliteStore},
};
use highwater_testkit::{
    Bed,
    clock::ManualClock,
    differential, jobs,
    proxy::{Fault, FaultProxy},
};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::net::TcpListener;

/// The engines delivered so far.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Memory,
    Sqlite,
    /// Through a real server over an embedded file.
    Remote,
    /// The same, behind a network with latency.
    FarRemote,
}

const ENGINES: [(&str, Engine); 4] = [
    ("memory", Engine::Memory),
    ("sqlite", Engine::Sqlite),
    ("remote", Engine::Remote),
    ("far_remote", Engine::FarRemote),
];

/// Of every chunk, each way.
const LATENCY: Duration = Duration::from_millis(1);

/// Random runs against the memory store. More with `HIGHWATER_SEEDS`, one of them again with
/// `HIGHWATER_SEED`.
const SEEDS: u64 = 10;

impl Engine {
    /// Latency makes a thousand calls long, and their answers no different.
    fn seeds(self) -> Vec<u64> {
        match self {
            Engine::Memory | Engine::Sqlite | Engine::Remote => seeds(),
            Engine::FarRemote => vec![],
        }
    }

    /// In a namespace of its own.
    async fn bed(self) -> highwater::Result<Bed> {
        let clock = Arc::new(ManualClock::default());
        match self {
            Engine::Memory => {
                let store = Arc::new(MemoryStore::new(clock.clone()));
                Ok(Bed { jobs: store.clone(), events: store.clone(), upkeep: store, clock })
            }
            Engine::Sqlite => {
                let store = sqlite(&clock).await?;
                Ok(Bed { jobs: store.clone(), events: store.clone(), upkeep: store, clock })
            }
            Engine::Remote => {
                let backing = sqlite(&clock).await?;
                let address = serve(&backing).await?;
                Ok(remote(address, backing, clock)?)
            }
            Engine::FarRemote => {
                let backing = sqlite(&clock).await?;
                let proxy = FaultProxy::start(serve(&backing).await?).await;
                proxy.set(Fault::Latency(LATENCY));
                let bed = remote(proxy.address(), backing, clock)?;
                // It lives as long as the trial's runtime.
                tokio::spawn(async move {
                    let _proxy = proxy;
                    std::future::pending::<()>().await;
                });
                Ok(bed)
            }
        }
    }
}

async fn sqlite(clock: &Arc<ManualClock>) -> highwater::Result<Arc<SqliteStore>> {
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    SqliteStore::open_temporary(options).await.map(Arc::new)
}

/// A server of the trial's own, for as long as its runtime lives.
async fn serve(store: &Arc<SqliteStore>) -> highwater::Result<SocketAddr> {
    let cannot = |error: std::io::Error| Error::new(ErrorKind::Unavailable, error.to_string());
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let slots =
        Slots { jobs: store.clone(), jobs_engine: "sqlite", events: store.clone(), upkeep: vec![] };
    tokio::spawn(highwater_server::serve(
        listener,
        slots,
        ServerOptions::default(),
        std::future::pending(),
    ));
    Ok(address)
}

fn remote(
    address: SocketAddr,
    upkeep: Arc<SqliteStore>,
    clock: Arc<ManualClock>,
) -> highwater::Result<Bed> {
    let store =
        Arc::new(RemoteStore::open(&format!("http://{address}"), RemoteOptions::default())?);
    Ok(Bed { jobs: store.clone(), events: store, upkeep, clock })
}

/// A broken promise may hang; a trial does not.
const TRIAL_MAX: Duration = Duration::from_mins(1);

fn run(test: impl Future<Output = highwater::Result<()>>) -> Result<(), Failed> {
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(async { tokio::time::timeout(TRIAL_MAX, test).await });
    runtime.shutdown_background();
    ended
        .map_err(|_| Failed::from(format!("it hangs: no end after {TRIAL_MAX:?}")))?
        .map_err(Failed::from)
}

/// The same seeds in every run, and one that nobody has tried before; its trial is named after it.
fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("HIGHWATER_SEED") {
        return vec![seed];
    }
    let fresh = highwater::feed::FeedId::random().0;
    (1..=number("HIGHWATER_SEEDS").unwrap_or(SEEDS)).chain([fresh]).collect()
}

fn main() {
    let mut trials = Vec::new();
    for (name, engine) in ENGINES {
        for promise in jobs::promises() {
            let check = async move || {
                (promise.check)(engine.bed().await?).await;
                Ok(())
            };
            trials
                .push(Trial::test(format!("{name}::jobs::{}", promise.name), move || run(check())));
        }
        for seed in engine.seeds() {
            let check = async move || {
                differential::agrees_with_memory(&engine.bed().await?, seed).await;
                Ok(())
            };
            let label = format!("{name}::jobs::answers_like_the_memory_store::seed_{seed}");
            trials.push(Trial::test(label, move || run(check())));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
