//! The embedded engine: SQLite in one file that belongs to one process.
//!
//! One thread writes (`writer.rs`), a few connections read (`readers.rs`), and what was committed is
//! shared in memory with those who follow it.

mod connection;
mod error;
mod events;
mod feed;
mod job_commands;
mod job_rows;
mod jobs;
mod readers;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use async_trait::async_trait;
use highwater::{
    Error, ErrorKind, Result,
    clock::{Clock, SystemClock, Timestamp},
    feed::{FeedId, Hub, Published},
    jobs::JobEvent,
    retention::{Retention, Swept, Upkeep},
};
use tokio::{sync::watch, task::AbortHandle};

use crate::{boards::Boards, upkeep};

/// A write-ahead log that is longer is emptied by force. A quiet one stays a quarter as long.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Keeps everything in one file. Clones share it; the file is closed with the last of them.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // Dropped in this order: the writer ends before the readers, and the lock goes last.
    writer: writer::WriterThread,
    readers: readers::Readers,
    hub: Arc<Hub<JobEvent>>,
    boards: Arc<Boards>,
    /// Rings whenever anything was committed.
    bell: watch::Sender<u64>,
    feed: FeedId,
    path: PathBuf,
    clock: Arc<dyn Clock>,
    sweeping: AbortHandle,
    _lock: connection::Lock,
    /// Removed with the store, if it was only meant to last as long.
    _folder: Option<tempfile::TempDir>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.sweeping.abort();
    }
}

/// What an embedded store can be told when it is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// How long things are kept.
    pub retention: Retention,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { retention: Retention::default(), clock: Arc::new(SystemClock) }
    }
}

impl SqliteStore {
    /// Opens the file, or creates it. Fails at once if another process has it open.
    pub async fn open(path: impl Into<PathBuf>, options: SqliteOptions) -> Result<SqliteStore> {
        let path = path.into();
        SqliteStore::open_blocking(move || Ok((path, None)), options).await
    }

    /// A store in a private file that is removed with the store.
    pub async fn open_temporary(options: SqliteOptions) -> Result<SqliteStore> {
        let make = || {
            let folder =
                tempfile::Builder::new().prefix("highwater-").tempdir().map_err(|error| {
                    Error::new(ErrorKind::Unavailable, "cannot make a temporary folder")
                        .with_source(error)
                })?;
            Ok((folder.path().join("highwater.db"), Some(folder)))
        };
        SqliteStore::open_blocking(make, options).await
    }

    async fn open_blocking(
        place: impl FnOnce() -> Result<(PathBuf, Option<tempfile::TempDir>)> + Send + 'static,
        options: SqliteOptions,
    ) -> Result<SqliteStore> {
        let opening = tokio::task::spawn_blocking(move || {
            let (path, folder) = place()?;
            Parts::open(&path).map(|parts| (parts, folder))
        });
        let (parts, folder) = opening.await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the embedded file was not opened")
                .with_source(error)
        })??;
        let SqliteOptions { retention, clock } = options;
        let shared = Arc::new_cyclic(|shared| Shared {
            writer: parts.writer,
            readers: parts.readers,
            hub: parts.hub,
            boards: parts.boards,
            bell: parts.bell,
            feed: parts.feed,
            path: parts.path,
            sweeping: sweeping(Weak::clone(shared), Arc::clone(&clock), retention),
            clock,
            _lock: parts.lock,
            _folder: folder,
        });
        Ok(SqliteStore { shared })
    }
}

/// What opening a file gives, before anything runs on it.
struct Parts {
    path: PathBuf,
    lock: connection::Lock,
    feed: FeedId,
    writer: writer::WriterThread,
    readers: readers::Readers,
    hub: Arc<Hub<JobEvent>>,
    boards: Arc<Boards>,
    bell: watch::Sender<u64>,
}

impl Parts {
    fn open(path: &Path) -> Result<Parts> {
        let lock = connection::Lock::take(path)?;
        let connection = connection::open_writer(path)?;
        let feed = connection::feed_id(&connection)?;
        let readers = readers::Readers::open(path)?;
        let (hub, boards) = (Arc::<Hub<JobEvent>>::default(), Boards::new());
        let bell = watch::Sender::new(0);
        let listeners =
            Listeners { hub: Arc::clone(&hub), boards: Arc::clone(&boards), bell: bell.clone() };
        let writer = writer::WriterThread::start(connection, listeners)?;
        Ok(Parts { path: path.to_owned(), lock, feed, writer, readers, hub, boards, bell })
    }
}

/// Who must know of a commit.
struct Listeners {
    hub: Arc<Hub<JobEvent>>,
    boards: Arc<Boards>,
    bell: watch::Sender<u64>,
}

impl writer::AfterCommit for Listeners {
    fn before_answers(&self, events: &[Published<JobEvent>]) {
        self.boards.apply(events);
    }

    fn after_answers(&self, events: Vec<Published<JobEvent>>) {
        if !events.is_empty() {
            self.hub.publish(events);
            self.bell.send_modify(|rings| *rings += 1);
        }
    }
}

fn sweeping(shared: Weak<Shared>, clock: Arc<dyn Clock>, retention: Retention) -> AbortHandle {
    let store = move || shared.upgrade().map(|shared| SqliteStore { shared });
    tokio::spawn(upkeep::forever(store, clock, retention)).abort_handle()
}

#[async_trait]
impl Upkeep for SqliteStore {
    async fn sweep(&self, retention: &Retention) -> Result<Swept> {
        let mut swept = Swept { jobs: self.expire_jobs(retention).await?, events: 0 };
        self.purge_erased_jobs().await?;
        loop {
            let (events, has_more) = self.shared.writer.run(self.trim(*retention)).await?;
            swept.events += events;
            if !has_more {
                break;
            }
        }
        let path = self.shared.path.clone();
        if connection::wal_bytes(&path) > WAL_BYTES_MAX {
            self.shared.readers.alone(move || connection::empty_wal(&path)).await?;
        }
        Ok(swept)
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>> {
        self.shared.readers.read(feed::oldest).await
    }
}

impl SqliteStore {
    fn trim(&self, retention: Retention) -> Trim {
        Trim { retention, now: self.shared.clock.now() }
    }
}

struct Trim {
    retention: Retention,
    now: Timestamp,
}

impl writer::Command for Trim {
    type Answer = (u64, bool);

    fn apply(&self, transaction: &mut writer::Transaction<'_>) -> Result<(u64, bool)> {
        feed::trim(transaction, &self.retention, self.now)
    }
}
