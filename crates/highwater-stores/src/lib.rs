//! The engines of Highwater, and [`open`], which picks them by URL.

mod boards;
pub mod remote;
pub mod sqlite;
mod upkeep;

use std::sync::Arc;

use highwater::{
    Error, ErrorKind, Result,
    clock::{Clock, SystemClock},
    feed::EventFeed,
    jobs::JobStore,
    memory::MemoryStore,
    retention::{Retention, Upkeep},
};

use remote::{RemoteOptions, RemoteStore};
use sqlite::{SqliteOptions, SqliteStore};

/// Which store fills which slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrls {
    /// Fills every slot that is not set on its own.
    pub store: String,
    /// Fills the slot of jobs.
    pub jobs: Option<String>,
}

impl StoreUrls {
    /// One store for everything.
    pub fn all(store: impl Into<String>) -> StoreUrls {
        StoreUrls { store: store.into(), jobs: None }
    }
}

/// What every engine is told.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// How long things are kept.
    pub retention: Retention,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { retention: Retention::default(), clock: Arc::new(SystemClock) }
    }
}

/// A deployment: one store per domain.
#[derive(Debug, Clone)]
pub struct Slots {
    /// Where jobs are kept.
    pub jobs: Arc<dyn JobStore>,
    /// The name of their engine.
    pub jobs_engine: &'static str,
    /// The whole feed of the store.
    pub events: Arc<dyn EventFeed>,
    /// The engines behind the slots that need looking after, each once.
    pub upkeep: Vec<Arc<dyn Upkeep>>,
}

/// Fills the slots of a deployment from URLs: `sqlite:PATH` (a file of this process's own),
/// `sqlite::memory:` (a private file that is removed at the end), `http://HOST:PORT` (another server)
/// or `memory:`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> highwater::Result<()> {
/// use highwater_stores::{StoreOptions, StoreUrls, open};
/// let slots = open(&StoreUrls::all("sqlite::memory:"), StoreOptions::default()).await?;
/// # let _ = slots.jobs; Ok(()) }
/// ```
pub async fn open(urls: &StoreUrls, options: StoreOptions) -> Result<Slots> {
    let url = urls.jobs.as_ref().unwrap_or(&urls.store);
    let engine = Engine::open(url, options).await?;
    Ok(Slots {
        jobs: engine.jobs(),
        jobs_engine: engine.name(),
        events: engine.events(),
        upkeep: engine.upkeep().into_iter().collect(),
    })
}

/// The only list of engines.
#[derive(Debug)]
enum Engine {
    Memory(MemoryStore),
    Sqlite(SqliteStore),
    Remote(RemoteStore),
}

impl Engine {
    async fn open(url: &str, options: StoreOptions) -> Result<Engine> {
        let StoreOptions { retention, clock } = options;
        match url.split_once(':') {
            Some(("memory", "")) => {
                let store = MemoryStore::new(Arc::clone(&clock));
                tokio::spawn(upkeep::forever(store.downgrade(), clock, retention));
                Ok(Engine::Memory(store))
            }
            Some(("sqlite", place)) => {
                let options = SqliteOptions { retention, clock };
                let store = match place.strip_prefix("//").unwrap_or(place) {
                    "" => {
                        return Err(Error::invalid(
                            "store",
                            url,
                            "must name a file, as in `sqlite:highwater.db`",
                        ));
                    }
                    ":memory:" => SqliteStore::open_temporary(options).await?,
                    path => SqliteStore::open(path, options).await?,
                };
                Ok(Engine::Sqlite(store))
            }
            Some(("http" | "https", _)) => {
                let options = RemoteOptions { clock, ..RemoteOptions::default() };
                RemoteStore::open(url, options).map(Engine::Remote)
            }
            Some((scheme @ ("postgres" | "postgresql" | "redis" | "firestore"), _)) => {
                let detail = format!(
                    "this build has no `{scheme}:` engine: use `sqlite:PATH`, `http://HOST:PORT` or `memory:`"
                );
                Err(Error::new(ErrorKind::Unsupported, detail))
            }
            _ => Err(Error::invalid(
                "store",
                url,
                "must be `sqlite:PATH`, `sqlite::memory:`, `http://HOST:PORT` or `memory:`",
            )),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Engine::Memory(_) => "memory",
            Engine::Sqlite(_) => "sqlite",
            Engine::Remote(_) => "remote",
        }
    }

    fn jobs(&self) -> Arc<dyn JobStore> {
        match self {
            Engine::Memory(store) => Arc::new(store.clone()),
            Engine::Sqlite(store) => Arc::new(store.clone()),
            Engine::Remote(store) => Arc::new(store.clone()),
        }
    }

    fn events(&self) -> Arc<dyn EventFeed> {
        match self {
            Engine::Memory(store) => Arc::new(store.clone()),
            Engine::Sqlite(store) => Arc::new(store.clone()),
            Engine::Remote(store) => Arc::new(store.clone()),
        }
    }

    /// `None` where somebody else sees to it.
    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        match self {
            Engine::Memory(store) => Some(Arc::new(store.clone())),
            Engine::Sqlite(store) => Some(Arc::new(store.clone())),
            Engine::Remote(_) => None,
        }
    }
}

/// The README's example is compiled and run with the other examples in the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
