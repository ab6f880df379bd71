//! What changes jobs: each command asks the rules first, then writes.

use std::{sync::Arc, time::Duration};

use highwater::{
    Result,
    clock::Timestamp,
    feed::{Published, ScopeId, Seq},
    jobs::{
        Created, Deleted, Deletion, Epoch, Filter, Job, JobEvent, JobId, JobRef, Tag, TaskCount,
        TaskIndex, Version, Write, Writer, Written,
        rules::{self, Before, Verdict},
    },
};
use rusqlite::{OptionalExtension as _, ToSql};
use serde_json::value::RawValue;

use super::{
    error::in_statement,
    feed::{self, Entry},
    job_rows::{self, StoredJob},
    writer::{Command, Transaction},
};

/// Most rows removed in one command, so that writers in between wait briefly.
const PURGE_ROWS_MAX: usize = 5_000;

/// Appends an event to the feed of a job, and tells everybody after the commit.
fn append(
    transaction: &mut Transaction<'_>,
    (scope, seq, at): (ScopeId, Seq, Timestamp),
    key: Option<&str>,
    event: JobEvent,
) -> Result<Box<RawValue>> {
    let (kind, body) = (event.kind(), event.body()?);
    feed::append(transaction, &Entry { scope, seq, at, kind, key, body: body.get() })?;
    let (bytes, is_last) = (event.bytes(), event.is_last());
    transaction.publish(Published { scope, seq, event, bytes, is_last });
    Ok(body)
}

pub(super) struct Open {
    pub(super) id: JobId,
    pub(super) num_tasks: TaskCount,
    pub(super) tags: Option<Vec<Tag>>,
    pub(super) now: Timestamp,
}

impl Command for Open {
    type Answer = (Job, Created);

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(Job, Created)> {
        if let Some(StoredJob { job, .. }) = StoredJob::of_name(transaction.connection(), &self.id)?
        {
            rules::check_is_alive(&job)?;
            return Ok((job, Created::Existing));
        }
        let job = Job {
            id: self.id.clone(),
            num_tasks: self.num_tasks,
            incarnation: feed::mint(transaction)?,
            created_at: self.now,
            tags: self.tags.clone(),
            tombstoned_at: None,
        };
        let (scope, seq, at) = (job.incarnation, Seq::ZERO.next(), self.now);
        let tags = job.tags.as_ref().map(serde_json::to_string).transpose();
        let tags = tags.map_err(|error| super::error::corrupt("a job", error))?;
        transaction.execute(
            "INSERT INTO job (scope, id, num_tasks, tags, created_at, head, changed_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5)",
            (scope.0, job.id.as_str(), job.num_tasks.get(), tags, at.as_micros(), seq.0),
        )?;
        append(transaction, (scope, seq, at), None, JobEvent::Created(Arc::new(job.clone())))?;
        Ok((job, Created::New))
    }
}

pub(super) struct TakeOver {
    pub(super) job: JobRef,
    pub(super) task: TaskIndex,
}

impl Command for TakeOver {
    type Answer = Epoch;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Epoch> {
        let StoredJob { job, .. } = StoredJob::find(transaction.connection(), &self.job)?;
        rules::check_is_alive(&job)?;
        rules::check_task(&job, self.task)?;
        let epoch = rules::next_epoch(newest_epoch(transaction, job.incarnation, self.task)?);
        transaction.execute(
            "INSERT INTO job_writer (scope, task, epoch) VALUES (?1, ?2, ?3) \
             ON CONFLICT (scope, task) DO UPDATE SET epoch = excluded.epoch",
            (job.incarnation.0, self.task.0, epoch.0),
        )?;
        Ok(epoch)
    }
}

fn newest_epoch(
    transaction: &Transaction<'_>,
    scope: ScopeId,
    task: TaskIndex,
) -> Result<Option<Epoch>> {
    let sql = "SELECT epoch FROM job_writer WHERE scope = ?1 AND task = ?2";
    look_up(transaction, sql, &[&scope.0, &task.0]).map(|epoch| epoch.map(Epoch))
}

fn look_up(transaction: &Transaction<'_>, sql: &str, params: &[&dyn ToSql]) -> Result<Option<u64>> {
    transaction.prepare(sql)?.query_row(params, |row| row.get(0)).optional().map_err(in_statement)
}

pub(super) struct Set {
    pub(super) write: Write,
    pub(super) now: Timestamp,
}

impl Set {
    /// An event id belongs to one task and tag. None of the parts can contain the separator, because
    /// it is a control character. The id comes first: ours rise with time, so that new keys lie
    /// side by side in the index, and a commit touches few of its pages.
    fn event_key(&self) -> String {
        format!("{}\u{1f}{}\u{1f}{}", self.write.event_id, self.write.task, self.write.tag)
    }
}

impl Command for Set {
    type Answer = Written;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Written> {
        let write = &self.write;
        let StoredJob { job, head, .. } = StoredJob::find(transaction.connection(), &write.job)?;
        let scope = job.incarnation;
        let key = self.event_key();
        let same_id = match feed::find(transaction, scope, &key)? {
            Some((kind, body)) => Filter::job().pick(JobEvent::parse(&kind, &body)?),
            None => None,
        };
        let epoch = match write.writer {
            Writer::Fenced(_) => newest_epoch(transaction, scope, write.task)?,
            Writer::Anonymous => None,
        };
        let sql = "SELECT version FROM job_state WHERE scope = ?1 AND task = ?2 AND tag = ?3";
        let version = look_up(transaction, sql, &[&scope.0, &write.task.0, &write.tag.as_str()])?
            .map(Version);
        let before = Before { job: &job, same_id: same_id.as_deref(), epoch, version };
        let version = match (rules::judge(write, before)?, same_id) {
            (Verdict::Repeat, Some(earlier)) => return Ok(Written::Repeated(earlier)),
            (Verdict::Repeat, None) => {
                return Err(super::error::corrupt("an event", "it repeats nothing"));
            }
            (Verdict::Apply(version), _) => version,
        };
        let report = Arc::new(write.report(version, head.next(), self.now));
        let (seq, at) = (report.revision, self.now);
        let body =
            append(transaction, (scope, seq, at), Some(&key), JobEvent::Put(Arc::clone(&report)))?;
        transaction.execute(
            "INSERT INTO job_state (scope, task, tag, seq, version, status, report) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (scope, task, tag) DO UPDATE \
             SET seq = excluded.seq, version = excluded.version, status = excluded.status, report = excluded.report",
            (scope.0, write.task.0, write.tag.as_str(), seq.0, version.0, write.status.0, body.get()),
        )?;
        transaction.execute(
            "UPDATE job SET head = ?2, changed_at = ?3 WHERE scope = ?1",
            (scope.0, seq.0, at.as_micros()),
        )?;
        Ok(Written::Applied(report))
    }
}

pub(super) struct Delete {
    pub(super) job: JobRef,
    pub(super) how: Deletion,
    pub(super) now: Timestamp,
}

impl Command for Delete {
    type Answer = Deleted;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Deleted> {
        let stored = StoredJob::find(transaction.connection(), &self.job)?;
        match (self.how, stored.job.tombstoned_at) {
            (Deletion::Tombstone, Some(_)) => return Ok(Deleted::Already),
            (Deletion::Tombstone, None) => tombstone(transaction, stored, self.now)?,
            (Deletion::Erase, _) => erase(transaction, stored, self.now)?,
        }
        Ok(Deleted::Done)
    }
}

fn tombstone(transaction: &mut Transaction<'_>, stored: StoredJob, now: Timestamp) -> Result<()> {
    let StoredJob { mut job, head, .. } = stored;
    job.tombstoned_at = Some(now);
    let (scope, seq) = (job.incarnation, head.next());
    transaction.execute(
        "UPDATE job SET head = ?2, tombstoned_at = ?3, changed_at = ?3 WHERE scope = ?1",
        (scope.0, seq.0, now.as_micros()),
    )?;
    append(transaction, (scope, seq, now), None, JobEvent::Tombstoned(Arc::new(job)))?;
    Ok(())
}

/// The job is gone at once; its states, which nobody can see any more, are purged bit by bit.
fn erase(transaction: &mut Transaction<'_>, stored: StoredJob, now: Timestamp) -> Result<()> {
    let StoredJob { job, head, .. } = stored;
    let (scope, seq) = (job.incarnation, head.next());
    transaction.execute("DELETE FROM job WHERE scope = ?1", [scope.0])?;
    transaction.execute("INSERT INTO job_erased (scope) VALUES (?1)", [scope.0])?;
    append(transaction, (scope, seq, now), None, JobEvent::Deleted(Arc::new(job)))?;
    Ok(())
}

/// Erases a job if it has ended long enough ago; answers whether it did.
pub(super) struct Expire {
    pub(super) job: JobRef,
    pub(super) keep: Duration,
    pub(super) now: Timestamp,
}

impl Command for Expire {
    type Answer = bool;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<bool> {
        let Some(stored) = StoredJob::of_name(transaction.connection(), &self.job.id)? else {
            return Ok(false);
        };
        let is_same_life = rules::resolve(&self.job, Some(&stored.job)).is_ok();
        let reports =
            job_rows::reports(transaction.connection(), stored.job.incarnation, &Filter::job())?;
        let is_expired =
            rules::is_expired(&stored.job, &reports, stored.changed_at, self.now, self.keep);
        if is_same_life && is_expired {
            erase(transaction, stored, self.now)?;
        }
        Ok(is_same_life && is_expired)
    }
}

/// Removes some of what deleted jobs left; answers whether there is more.
pub(super) struct Purge;

impl Command for Purge {
    type Answer = bool;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<bool> {
        let Some(scope) =
            look_up(transaction, "SELECT min(scope) FROM job_erased HAVING count(*) > 0", &[])?
        else {
            return Ok(false);
        };
        let states = transaction.execute(
            "DELETE FROM job_state WHERE rowid IN (SELECT rowid FROM job_state WHERE scope = ?1 LIMIT ?2)",
            (scope, PURGE_ROWS_MAX),
        )?;
        let writers = transaction.execute(
            "DELETE FROM job_writer WHERE scope = ?1 AND task IN \
             (SELECT task FROM job_writer WHERE scope = ?1 LIMIT ?2)",
            (scope, PURGE_ROWS_MAX),
        )?;
        if states < PURGE_ROWS_MAX && writers < PURGE_ROWS_MAX {
            transaction.execute("DELETE FROM job_erased WHERE scope = ?1", [scope])?;
        }
        Ok(true)
    }
}
