//! The one thread that writes: whatever waits goes into one transaction with one fsync.

use std::thread::JoinHandle;

use highwater::{Error, ErrorKind, Result, feed::Published, jobs::JobEvent};
use rusqlite::{CachedStatement, Connection, Params};
use tokio::sync::{mpsc, oneshot};

use super::error::{Stage, in_statement, translate};

/// Most commands in one transaction: more would make the first of them wait for the last.
const BATCH_COMMANDS_MAX: usize = 1_024;

/// Commands that may wait; whoever comes later waits for a place.
const QUEUE_COMMANDS_MAX: usize = 2 * BATCH_COMMANDS_MAX;

/// A change of any domain, as a value. It is applied inside the writer's open transaction, and maybe
/// again: when a neighbour fails half-way, the others are applied anew.
pub(super) trait Command: Send + 'static {
    type Answer: Send + 'static;

    /// Asks the rules, then writes. An error before the first write is a refusal, and concerns nobody
    /// else.
    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Self::Answer>;
}

/// The open transaction, as commands see it.
pub(super) struct Transaction<'a> {
    connection: &'a Connection,
    writes: u64,
    published: Vec<Published<JobEvent>>,
}

impl<'a> Transaction<'a> {
    pub(super) fn prepare(&self, sql: &str) -> Result<CachedStatement<'a>> {
        self.connection.prepare_cached(sql).map_err(in_statement)
    }

    pub(super) fn connection(&self) -> &'a Connection {
        self.connection
    }

    pub(super) fn execute(&mut self, sql: &str, params: impl Params) -> Result<usize> {
        self.writes += 1;
        self.prepare(sql)?.execute(params).map_err(in_statement)
    }

    /// Tells everybody, once the transaction is committed.
    pub(super) fn publish(&mut self, event: Published<JobEvent>) {
        self.published.push(event);
    }
}

/// What else is to be done with what was committed, on the writer's thread.
pub(super) trait AfterCommit: Send + 'static {
    /// Before any caller hears of the commit: whoever then reads must find it.
    fn before_answers(&self, events: &[Published<JobEvent>]);

    /// Afterwards: callers do not wait for subscribers to be woken.
    fn after_answers(&self, events: Vec<Published<JobEvent>>);
}

/// A handle on the thread. The thread ends, and the file is closed, when the handle is dropped.
#[derive(Debug)]
pub(super) struct WriterThread {
    /// `None` only while dropping.
    queue: Option<mpsc::Sender<Box<dyn Queued>>>,
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    pub(super) fn start(
        connection: Connection,
        after_commit: impl AfterCommit,
    ) -> Result<WriterThread> {
        let (queue, commands) = mpsc::channel(QUEUE_COMMANDS_MAX);
        let builder = std::thread::Builder::new().name("highwater-sqlite-writer".to_owned());
        let thread =
            builder.spawn(move || write(connection, commands, &after_commit)).map_err(|error| {
                Error::new(ErrorKind::Unavailable, "cannot start the writer's thread")
                    .with_source(error)
            })?;
        Ok(WriterThread { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) async fn run<C: Command>(&self, command: C) -> Result<C::Answer> {
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { command, answer: None, saw_neighbours: false, reply };
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Box::new(waiting)).await.map_err(|_| stopped())?;
        // The thread answers every command that it takes, unless it dies with it.
        answer.await.map_err(|_| {
            Error::new(ErrorKind::Interrupted, "the embedded writer died in mid-write")
        })?
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Closed, "the embedded writer has stopped")
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        drop(self.queue.take());
        let result = self.thread.take().map(JoinHandle::join);
        if let Some(Err(_)) = result {
            tracing::error!("the embedded writer had died");
        }
    }
}

/// A command of any type, with whoever waits for its answer.
trait Queued: Send {
    /// Answers whether the transaction can go on.
    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Continue;

    /// Answers the caller: `failure` if the transaction failed, else what `apply` found.
    fn reply(self: Box<Self>, failure: Option<Error>);
}

#[derive(Debug, PartialEq, Eq)]
enum Continue {
    Yes,
    /// The command failed behind its first write: all must be rolled back.
    No,
}

struct Waiting<C: Command> {
    command: C,
    answer: Option<Result<C::Answer>>,
    /// Whether others had written in the same transaction before.
    saw_neighbours: bool,
    reply: oneshot::Sender<Result<C::Answer>>,
}

impl<C: Command> Queued for Waiting<C> {
    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Continue {
        let before = transaction.writes;
        let answer = self.command.apply(transaction);
        let is_half_done = answer.is_err() && transaction.writes != before;
        self.saw_neighbours = before > 0;
        self.answer = Some(answer);
        if is_half_done { Continue::No } else { Continue::Yes }
    }

    fn reply(self: Box<Self>, failure: Option<Error>) {
        let Waiting { answer, reply, saw_neighbours, .. } = *self;
        let unanswered = || Err(Error::new(ErrorKind::Busy, "the transaction was given up"));
        let answer = match (failure, answer) {
            // A refusal stands, unless it may rest on what a neighbour wrote and lost.
            (Some(failure), None | Some(Ok(_))) => Err(failure),
            (Some(failure), Some(Err(_))) if saw_neighbours => Err(failure),
            (_, answer) => answer.unwrap_or_else(unanswered),
        };
        // A caller that has gone away does not want to know.
        let _ = reply.send(answer);
    }
}

fn write(
    connection: Connection,
    mut commands: mpsc::Receiver<Box<dyn Queued>>,
    after_commit: &impl AfterCommit,
) {
    let mut batch = Vec::with_capacity(BATCH_COMMANDS_MAX);
    while commands.blocking_recv_many(&mut batch, BATCH_COMMANDS_MAX) > 0 {
        if attempt(&connection, &mut batch, after_commit) == Continue::No {
            // One of them failed half-way. Alone, it fails alone.
            for command in std::mem::take(&mut batch) {
                attempt(&connection, &mut vec![command], after_commit);
            }
        }
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the embedded file was not closed cleanly; it recovers when it is opened");
    }
}

/// Applies a batch in one transaction and answers its callers. `No` leaves a batch of several
/// unanswered and the file as it was.
fn attempt(
    connection: &Connection,
    batch: &mut Vec<Box<dyn Queued>>,
    after_commit: &impl AfterCommit,
) -> Continue {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        fail(batch, Stage::Statement, error);
        return Continue::Yes;
    }
    let mut transaction = Transaction { connection, writes: 0, published: Vec::new() };
    for command in batch.iter_mut() {
        // After some errors, of reads too, SQLite rolls back by itself: nothing may follow then.
        if command.apply(&mut transaction) == Continue::No || connection.is_autocommit() {
            roll_back(connection);
            if batch.len() > 1 {
                return Continue::No;
            }
            batch.drain(..).for_each(|command| command.reply(None));
            return Continue::Yes;
        }
    }
    let published = transaction.published;
    match connection.execute_batch("COMMIT") {
        Ok(()) => {
            after_commit.before_answers(&published);
            batch.drain(..).for_each(|command| command.reply(None));
            after_commit.after_answers(published);
        }
        Err(error) => {
            roll_back(connection);
            fail(batch, Stage::Commit, error);
        }
    }
    Continue::Yes
}

fn roll_back(connection: &Connection) {
    // SQLite rolls back by itself after some errors.
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "a failed transaction could not be rolled back");
    }
}

/// Everybody in the batch hears the same.
fn fail(batch: &mut Vec<Box<dyn Queued>>, stage: Stage, error: rusqlite::Error) {
    let error = translate(stage, error);
    tracing::error!(%error, commands = batch.len(), "a transaction failed");
    let (kind, detail, source) = (error.kind(), error.to_string(), std::sync::Arc::new(error));
    for command in batch.drain(..) {
        command.reply(Some(Error::new(kind, detail.clone()).with_source(source.clone())));
    }
}
