//! The least that durable writes need: one thread, one table, one transaction for all who wait.

use std::{path::Path, sync::Arc, thread::JoinHandle};

use rusqlite::{Connection, params};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Result,
    fixture::{Put, message},
};

const BATCH_COMMANDS_MAX: usize = 1_024;
const QUEUE_COMMANDS_MAX: usize = 2 * BATCH_COMMANDS_MAX;

/// A bare table with the settings of the embedded engine (its `connection.rs`).
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
         PRAGMA cache_size = -65536; PRAGMA mmap_size = 268435456;",
    )?;
    connection.pragma_update(None, "wal_autocheckpoint", 16_000)?;
    connection.execute_batch(
        "CREATE TABLE bare (key INTEGER PRIMARY KEY, status INTEGER NOT NULL, value TEXT NOT NULL);
         CREATE TABLE log (rev INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL, value TEXT NOT NULL);",
    )?;
    Ok(connection)
}

/// Fills the table in one transaction.
pub(crate) fn fill(connection: &mut Connection, rows: u32) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for key in 0..rows {
        upsert(&transaction, key, &message(key.into()))?;
    }
    transaction.commit()
}

fn upsert(connection: &Connection, key: u32, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO bare (key, status, value) VALUES (?1, 1, ?2) \
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute(params![key, value])?;
    Ok(())
}

fn append(connection: &Connection, key: u32, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO log (key, value) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![key, value])?;
    Ok(())
}

/// What the loop does for each command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// One upsert: the newest value of a key.
    Upsert,
    /// The upsert and an event in a log without an index: the least that can be followed.
    UpsertAndAppend,
}

struct Command {
    key: u32,
    value: String,
    reply: oneshot::Sender<()>,
}

/// The bare group-commit loop.
pub(crate) struct GroupCommit {
    queue: mpsc::Sender<Command>,
    thread: JoinHandle<rusqlite::Result<()>>,
}

impl GroupCommit {
    pub(crate) fn start(connection: Connection, work: Work) -> GroupCommit {
        let (queue, commands) = mpsc::channel(QUEUE_COMMANDS_MAX);
        let thread = std::thread::spawn(move || write(&connection, work, commands));
        GroupCommit { queue, thread }
    }

    /// Ends the thread, and tells if it failed. Nobody may hold the loop any more.
    pub(crate) fn stop(this: Arc<GroupCommit>) -> Result<()> {
        let GroupCommit { queue, thread } =
            Arc::into_inner(this).ok_or("a writer still holds the bare loop")?;
        drop(queue);
        thread.join().map_err(|_| "the bare loop panicked")??;
        Ok(())
    }
}

impl Put for GroupCommit {
    async fn put(&self, writer: u32, message: String) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let command = Command { key: writer, value: message, reply };
        self.queue.send(command).await.map_err(|_| "the bare loop has ended")?;
        Ok(answer.await?)
    }
}

fn write(
    connection: &Connection,
    work: Work,
    mut commands: mpsc::Receiver<Command>,
) -> rusqlite::Result<()> {
    let mut batch = Vec::with_capacity(BATCH_COMMANDS_MAX);
    while commands.blocking_recv_many(&mut batch, BATCH_COMMANDS_MAX) > 0 {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for Command { key, value, .. } in &batch {
            upsert(connection, *key, value)?;
            match work {
                Work::Upsert => {}
                Work::UpsertAndAppend => append(connection, *key, value)?,
            }
        }
        connection.execute_batch("COMMIT")?;
        for Command { reply, .. } in batch.drain(..) {
            // A writer that has gone away does not want to know.
            let _ = reply.send(());
        }
    }
    Ok(())
}
