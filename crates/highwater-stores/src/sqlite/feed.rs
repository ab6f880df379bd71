//! The feed in SQLite. `append` is the only way into it.

use std::sync::Arc;

use highwater::{
    Result,
    clock::Timestamp,
    feed::{Domain, FeedEvent, ScopeId, Seq, Slice},
    retention::Retention,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::value::RawValue;

use super::{
    error::{corrupt, in_statement},
    writer::Transaction,
};

/// Most events trimmed in one command, so that writers in between wait briefly.
const TRIM_EVENTS_MAX: usize = 5_000;

/// The scope of a life that begins with the next event.
pub(super) fn mint(transaction: &Transaction<'_>) -> Result<ScopeId> {
    Ok(ScopeId(newest(transaction.connection())?.next().0))
}

/// An event on its way into the feed.
pub(super) struct Entry<'a> {
    pub(super) scope: ScopeId,
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    pub(super) kind: &'static str,
    /// What makes the write idempotent within its scope.
    pub(super) key: Option<&'a str>,
    pub(super) body: &'a str,
}

pub(super) fn append(transaction: &mut Transaction<'_>, entry: &Entry<'_>) -> Result<()> {
    let Entry { scope, seq, at, kind, key, body } = entry;
    transaction.execute(
        "INSERT INTO feed (scope, seq, at, kind, event_key, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![scope.0, seq.0, at.as_micros(), kind, key, body],
    )?;
    Ok(())
}

/// The kind and body of what was appended under `key`, if it is still there.
pub(super) fn find(
    transaction: &Transaction<'_>,
    scope: ScopeId,
    key: &str,
) -> Result<Option<(String, String)>> {
    let mut statement =
        transaction.prepare("SELECT kind, body FROM feed WHERE scope = ?1 AND event_key = ?2")?;
    let found = statement.query_row(params![scope.0, key], |row| Ok((row.get(0)?, row.get(1)?)));
    found.optional().map_err(in_statement)
}

/// What the record of a scope knows of its feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record {
    /// It goes on.
    Open { head: Seq },
    /// It is still there, and nothing but its removal will follow.
    Closed { head: Seq },
    /// It is gone.
    Missing,
}

/// The newest place of a scope, of which the record may be gone while events are left.
pub(super) fn head(connection: &Connection, scope: ScopeId, record: Record) -> Result<Option<Seq>> {
    match record {
        Record::Open { head } | Record::Closed { head } => Ok(Some(head)),
        Record::Missing => {
            let sql = "SELECT max(seq) FROM feed WHERE scope = ?1";
            let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
            let newest: Option<u64> =
                statement.query_row([scope.0], |row| row.get(0)).map_err(in_statement)?;
            Ok(newest.map(Seq))
        }
    }
}

/// The events behind `after`. `connection` must be in a transaction in which `record` was read.
pub(super) fn read<E>(
    connection: &Connection,
    scope: ScopeId,
    (after, max): (Seq, usize),
    record: Record,
    decode: impl Fn(&str, &str) -> Result<E>,
) -> Result<Slice<E>> {
    let sql =
        "SELECT seq, kind, body FROM feed WHERE scope = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let mut rows = statement.query(params![scope.0, after.0, max]).map_err(in_statement)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(in_statement)? {
        let seq = Seq(row.get(0).map_err(in_statement)?);
        let text =
            |index| row.get_ref(index).and_then(|value| Ok(value.as_str()?)).map_err(in_statement);
        entries.push((seq, decode(text(1)?, text(2)?)?));
    }
    Ok(match (entries.first(), record) {
        (Some(&(first, _)), _) if first != after.next() => Slice::Gone { floor: Seq(first.0 - 1) },
        (None, Record::Open { head } | Record::Closed { head }) if head > after => {
            Slice::Gone { floor: head }
        }
        (Some(_), _) | (None, Record::Open { .. }) => Slice::Entries(entries),
        (None, Record::Closed { .. } | Record::Missing) => Slice::Ended,
    })
}

/// When the oldest event that is left was committed.
pub(super) fn oldest(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql = "SELECT at FROM feed ORDER BY rev LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let oldest = statement.query_row([], |row| row.get(0)).optional().map_err(in_statement)?;
    Ok(oldest.map(Timestamp::from_micros))
}

/// The newest revision of all. Remembered by SQLite also when its event was trimmed.
pub(super) fn newest(connection: &Connection) -> Result<Seq> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'feed'";
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let newest = statement.query_row([], |row| row.get(0)).optional().map_err(in_statement)?;
    Ok(Seq(newest.unwrap_or(0)))
}

/// The events of all scopes behind a revision.
pub(super) fn read_all(
    connection: &Connection,
    after: Seq,
    max: usize,
) -> Result<Slice<Arc<FeedEvent>>> {
    let sql =
        "SELECT rev, scope, seq, at, kind, body FROM feed WHERE rev > ?1 ORDER BY rev LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let mut rows = statement.query(params![after.0, max]).map_err(in_statement)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(in_statement)? {
        let event = feed_event(row)?;
        entries.push((event.revision, Arc::new(event)));
    }
    match entries.first() {
        Some(&(first, _)) if first != after.next() => Ok(Slice::Gone { floor: Seq(first.0 - 1) }),
        Some(_) => Ok(Slice::Entries(entries)),
        None => match newest(connection)? {
            newest if newest > after => Ok(Slice::Gone { floor: newest }),
            _ => Ok(Slice::Entries(entries)),
        },
    }
}

fn feed_event(row: &Row<'_>) -> Result<FeedEvent> {
    let body = RawValue::from_string(row.get(5).map_err(in_statement)?);
    Ok(FeedEvent {
        revision: Seq(row.get(0).map_err(in_statement)?),
        domain: Domain::Jobs,
        kind: row.get(4).map_err(in_statement)?,
        scope: ScopeId(row.get(1).map_err(in_statement)?),
        seq: Seq(row.get(2).map_err(in_statement)?),
        at: Timestamp::from_micros(row.get(3).map_err(in_statement)?),
        body: body.map_err(|error| corrupt("an event", error))?.into(),
    })
}

/// Drops some of what `retention` no longer covers; answers how many events, and whether there are
/// more. Always the oldest first, so that every scope loses a beginning and no middle.
pub(super) fn trim(
    transaction: &mut Transaction<'_>,
    retention: &Retention,
    now: Timestamp,
) -> Result<(u64, bool)> {
    let oldest_kept = now.earlier_by(retention.feed_age).as_micros();
    let events = {
        let mut statement = transaction.prepare("SELECT min(rev), max(rev) FROM feed")?;
        let ends: (Option<u64>, Option<u64>) =
            statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(in_statement)?;
        // Dense: revisions are given out in order, and taken away from the old end.
        ends.0.zip(ends.1).map_or(0, |(oldest, newest)| newest - oldest + 1)
    };
    let mut too_many = events.saturating_sub(retention.feed_events);
    let mut last = None;
    let mut trimmed = 0;
    {
        let mut statement =
            transaction.prepare("SELECT rev, at FROM feed ORDER BY rev LIMIT ?1")?;
        let mut rows = statement.query([TRIM_EVENTS_MAX]).map_err(in_statement)?;
        while let Some(row) = rows.next().map_err(in_statement)? {
            let at: i64 = row.get(1).map_err(in_statement)?;
            if at >= oldest_kept && too_many == 0 {
                break;
            }
            too_many = too_many.saturating_sub(1);
            last = Some(row.get::<_, u64>(0).map_err(in_statement)?);
            trimmed += 1;
        }
    }
    if let Some(last) = last {
        transaction.execute("DELETE FROM feed WHERE rev <= ?1", [last])?;
    }
    Ok((trimmed, trimmed == TRIM_EVENTS_MAX as u64))
}
