//! Every engine × every promise, one line each. An engine that cannot be tried is named as ignored.

use std::{sync::Arc, time::Duration};

use highwater::memory::MemoryStore;
use highwater_stores::sqlite::{SqliteOptions, SqliteStore};
use highwater_testkit::{Bed, clock::ManualClock, differential, jobs};
use libtest_mimic::{Arguments, Failed, Trial};

/// The engines delivered so far.
#[derive(Debug, Clone, Copy)]
enum Engine {
    Memory,
    Sqlite,
}

const ENGINES: [(&str, Engine); 2] = [("memory", Engine::Memory), ("sqlite", Engine::Sqlite)];

/// Random runs against the memory store. More with `HIGHWATER_SEEDS`, one of them again with
/// `HIGHWATER_SEED`.
const SEEDS: u64 = 10;

impl Engine {
    /// In a namespace of its own.
    async fn bed(self) -> highwater::Result<Bed> {
        let clock = Arc::new(ManualClock::default());
        match self {
            Engine::Memory => {
                let store = Arc::new(MemoryStore::new(clock.clone()));
                Ok(Bed { jobs: store.clone(), events: store.clone(), upkeep: store, clock })
            }
            Engine::Sqlite => {
                let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
                let store = Arc::new(SqliteStore::open_temporary(options).await?);
                Ok(Bed { jobs: store.clone(), events: store.clone(), upkeep: store, clock })
            }
        }
    }
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
        for seed in seeds() {
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
