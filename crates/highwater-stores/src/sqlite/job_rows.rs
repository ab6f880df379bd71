//! The rows of jobs: every statement that reads them, and how they become values.

use std::sync::Arc;

use highwater::{
    Error, ErrorKind, Result,
    clock::Timestamp,
    feed::{ScopeId, Seq, Span},
    jobs::{Filter, Job, JobId, JobRef, ListJobs, Report, Status, Tag, TaskCount, rules},
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, types::FromSql};

use super::{
    error::{corrupt, in_statement},
    feed::Record,
};

/// Jobs that a sweep looks at together.
const MAYBE_ENDED_JOBS_MAX: usize = 100;

/// A job with what only the engine needs to know.
pub(super) struct StoredJob {
    pub(super) job: Job,
    pub(super) head: Seq,
    pub(super) changed_at: Timestamp,
}

macro_rules! select_job {
    ($rest:literal) => {
        concat!("SELECT scope, id, num_tasks, tags, created_at, tombstoned_at, head, changed_at FROM job ", $rest)
    };
}

fn column<T: FromSql>(row: &Row<'_>, index: usize) -> Result<T> {
    row.get(index).map_err(in_statement)
}

/// Runs a query and makes a value of each row, for as long as `make` gives one.
fn collect<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut make: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let mut rows = statement.query(params).map_err(in_statement)?;
    let mut values = Vec::new();
    while let Some(row) = rows.next().map_err(in_statement)? {
        values.push(make(row)?);
    }
    Ok(values)
}

impl StoredJob {
    fn from_row(row: &Row<'_>) -> Result<StoredJob> {
        let damaged = |error: Error| corrupt("a job", error);
        let tags =
            column::<Option<String>>(row, 3)?.map(|json| serde_json::from_str(&json)).transpose();
        let job = Job {
            incarnation: ScopeId(column(row, 0)?),
            id: JobId::new(column::<String>(row, 1)?).map_err(damaged)?,
            num_tasks: TaskCount::new(column(row, 2)?).map_err(damaged)?,
            tags: tags.map_err(|error| corrupt("a job", error))?,
            created_at: Timestamp::from_micros(column(row, 4)?),
            tombstoned_at: column::<Option<i64>>(row, 5)?.map(Timestamp::from_micros),
        };
        let (head, changed_at) = (Seq(column(row, 6)?), Timestamp::from_micros(column(row, 7)?));
        Ok(StoredJob { job, head, changed_at })
    }

    pub(super) fn of_name(connection: &Connection, id: &JobId) -> Result<Option<StoredJob>> {
        let sql = select_job!("WHERE id = ?1");
        Ok(collect(connection, sql, [id.as_str()], StoredJob::from_row)?.pop())
    }

    pub(super) fn find(connection: &Connection, wanted: &JobRef) -> Result<StoredJob> {
        let found = StoredJob::of_name(connection, &wanted.id)?;
        rules::resolve(wanted, found.as_ref().map(|stored| &stored.job))?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("job `{}` does not exist", wanted.id))
        })
    }
}

pub(super) fn list(connection: &Connection, query: &ListJobs) -> Result<Vec<Job>> {
    let sql = select_job!("WHERE id >= ?1 AND (?2 IS NULL OR id > ?2) ORDER BY id");
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let after = query.after.as_ref().map(JobId::as_str);
    let mut rows = statement.query((query.prefix.as_str(), after)).map_err(in_statement)?;
    let mut jobs = Vec::new();
    while jobs.len() < query.limit
        && let Some(row) = rows.next().map_err(in_statement)?
    {
        let job = StoredJob::from_row(row)?.job;
        // In order of bytes all names with the prefix stand together, and the scan began with them.
        if !job.id.as_str().starts_with(&query.prefix) {
            break;
        }
        if query.selects(&job) {
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// What the job of a scope knows of its feed.
pub(super) fn feed_record(connection: &Connection, scope: ScopeId) -> Result<Record> {
    let sql = "SELECT head, tombstoned_at IS NULL FROM job WHERE scope = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(in_statement)?;
    let found: Option<(u64, bool)> = statement
        .query_row([scope.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(in_statement)?;
    Ok(match found {
        None => Record::Missing,
        Some((head, true)) => Record::Open { head: Seq(head) },
        Some((head, false)) => Record::Closed { head: Seq(head) },
    })
}

fn decode_report(json: &str) -> Result<Arc<Report>> {
    serde_json::from_str(json).map(Arc::new).map_err(|error| corrupt("a state", error))
}

fn report_in_first_column(row: &Row<'_>) -> Result<Arc<Report>> {
    decode_report(row.get_ref(0).and_then(|value| Ok(value.as_str()?)).map_err(in_statement)?)
}

/// The states that `filter` selects, by task, then by tag.
pub(super) fn reports(
    connection: &Connection,
    scope: ScopeId,
    filter: &Filter,
) -> Result<Vec<Arc<Report>>> {
    let tag = filter.tag.as_ref().map(Tag::as_str);
    match filter.task {
        Some(task) => {
            let sql = "SELECT report FROM job_state WHERE scope = ?1 AND task = ?2 AND (?3 IS NULL OR tag = ?3) \
                       ORDER BY task, tag";
            collect(connection, sql, (scope.0, task.0, tag), report_in_first_column)
        }
        None => {
            let sql = "SELECT report FROM job_state WHERE scope = ?1 AND (?2 IS NULL OR tag = ?2) \
                       ORDER BY task, tag";
            collect(connection, sql, (scope.0, tag), report_in_first_column)
        }
    }
}

/// The states whose last change lies in `span`, in the order of their changes.
pub(super) fn changed_in(
    connection: &Connection,
    scope: ScopeId,
    span: Span,
    filter: &Filter,
    max: usize,
) -> Result<Vec<Arc<Report>>> {
    let tag = filter.tag.as_ref().map(Tag::as_str);
    let Span { after: Seq(after), upto: Seq(upto) } = span;
    match filter.task {
        // The few states of one task are found by key and sorted …
        Some(task) => {
            let sql = "SELECT report FROM job_state INDEXED BY job_state_by_key \
                       WHERE scope = ?1 AND task = ?2 AND (?3 IS NULL OR tag = ?3) AND seq > ?4 AND seq <= ?5 \
                       ORDER BY seq LIMIT ?6";
            collect(
                connection,
                sql,
                (scope.0, task.0, tag, after, upto, max),
                report_in_first_column,
            )
        }
        // … the many of all tasks in the order in which they changed.
        None => {
            let sql = "SELECT report FROM job_state INDEXED BY job_state_by_seq \
                       WHERE scope = ?1 AND (?2 IS NULL OR tag = ?2) AND seq > ?3 AND seq <= ?4 \
                       ORDER BY seq LIMIT ?5";
            collect(connection, sql, (scope.0, tag, after, upto, max), report_in_first_column)
        }
    }
}

/// Some jobs behind `after` that have not changed since `before` and may have ended; the rule decides
/// later. No state that is not finished is a condition of the rule that SQLite can check without
/// reading reports.
pub(super) fn maybe_ended(
    connection: &Connection,
    before: Timestamp,
    after: ScopeId,
) -> Result<Vec<Job>> {
    let sql = select_job!(
        "WHERE scope > ?3 AND changed_at <= ?1 AND (tombstoned_at IS NOT NULL OR NOT EXISTS \
         (SELECT 1 FROM job_state WHERE job_state.scope = job.scope AND status <> ?2)) ORDER BY scope LIMIT ?4"
    );
    let params = (before.as_micros(), Status::FINISHED.0, after.0, MAYBE_ENDED_JOBS_MAX);
    collect(connection, sql, params, |row| Ok(StoredJob::from_row(row)?.job))
}
