//! A small pool of connections that only read.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use highwater::{Error, ErrorKind, Result};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{connection::open_reader, error::in_statement};

/// More than the cores of a small machine, so that a long replay does not hold up a short look.
const READERS: usize = 4;

#[derive(Debug)]
pub(super) struct Readers {
    idle: Arc<Idle>,
    permits: Arc<Semaphore>,
}

/// A std mutex: held for a push or a pop.
#[derive(Debug)]
struct Idle(Mutex<Vec<Connection>>);

impl Idle {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes back to the pool when it is dropped, also when whoever used it panicked.
struct Borrowed {
    connection: Option<Connection>,
    idle: Arc<Idle>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.lock().push(connection);
        }
    }
}

impl Readers {
    pub(super) fn open(path: &Path) -> Result<Readers> {
        let connections = (0..READERS).map(|_| open_reader(path)).collect::<Result<Vec<_>>>()?;
        let idle = Arc::new(Idle(Mutex::new(connections)));
        Ok(Readers { idle, permits: Arc::new(Semaphore::new(READERS)) })
    }

    /// Runs `work` while nobody reads: readers wait for it, and it for them.
    pub(super) async fn alone<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let closed = || Error::new(ErrorKind::Closed, "the embedded store was closed");
        let all = u32::try_from(READERS).unwrap_or(u32::MAX);
        let permits =
            Arc::clone(&self.permits).acquire_many_owned(all).await.map_err(|_| closed())?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permits);
            done
        });
        working.await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "upkeep of the embedded file did not end")
                .with_source(error)
        })?
    }

    /// Runs `look` in a read transaction of its own: everything it sees is of one moment.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let closed = || Error::new(ErrorKind::Closed, "the embedded store was closed");
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let idle = Arc::clone(&self.idle);
        let reading = tokio::task::spawn_blocking(move || {
            let connection = idle.lock().pop();
            let borrowed = Borrowed { connection, idle };
            let connection = borrowed.connection.as_ref().ok_or_else(closed)?;
            let transaction = connection.unchecked_transaction().map_err(in_statement)?;
            let found = look(&transaction);
            drop(transaction);
            drop(borrowed);
            drop(permit);
            found
        });
        reading.await.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "a read of the embedded file did not end")
                .with_source(error)
        })?
    }
}
