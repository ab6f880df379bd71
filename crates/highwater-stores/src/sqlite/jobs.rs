//! Jobs in SQLite: the rules are asked inside the writer's transaction.

use std::sync::Arc;

use async_trait::async_trait;
use highwater::{
    Result,
    clock::Timestamp,
    feed::{Bell, Follow, Follower, Log, ScopeId, Seq, Slice, Span},
    jobs::{
        Created, Deleted, Deletion, Epoch, Filter, FollowRequest, Job, JobEvent, JobId, JobRef,
        JobStore, ListJobs, Reading, Report, Tag, TaskCount, TaskIndex, Write, Written, rules,
    },
    retention::Retention,
};
use rusqlite::Connection;

use super::{
    SqliteStore, feed,
    job_commands::{Delete, Expire, Open, Purge, Set, TakeOver},
    job_rows::{self, StoredJob},
};
use crate::boards::Found;

#[async_trait]
impl JobStore for SqliteStore {
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)> {
        let tags = rules::declared(num_tasks, tags)?;
        self.shared.writer.run(Open { id: id.clone(), num_tasks, tags, now: self.now() }).await
    }

    async fn job(&self, job: &JobRef) -> Result<Job> {
        let job = job.clone();
        self.shared.readers.read(move |connection| Ok(StoredJob::find(connection, &job)?.job)).await
    }

    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        self.shared.writer.run(TakeOver { job: job.clone(), task }).await
    }

    async fn set(&self, write: Write) -> Result<Written> {
        self.shared.writer.run(Set { write, now: self.now() }).await
    }

    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading> {
        let reading = match self.shared.boards.read(job, filter) {
            Found::Reading(reading) => reading?,
            // One task is a few rows: not worth loading its whole job for.
            Found::Absent(load) if filter.task.is_none() => {
                let whole = self.read_file(job, &Filter::job()).await?;
                load.keep(&whole);
                let reports =
                    whole.reports.into_iter().filter(|report| filter.selects(report)).collect();
                Reading { reports, ..whole }
            }
            Found::Absent(_) | Found::Busy => self.read_file(job, filter).await?,
        };
        rules::check_filter(&reading.job, filter)?;
        reading.check_is_at_least(at_least)
    }

    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>> {
        query.check()?;
        let query = query.clone();
        self.shared.readers.read(move |connection| job_rows::list(connection, &query)).await
    }

    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted> {
        let deleted =
            self.shared.writer.run(Delete { job: job.clone(), how, now: self.now() }).await?;
        if how == Deletion::Erase
            && let Err(error) = self.purge_erased_jobs().await
        {
            tracing::warn!(%error, job = %job.id, "the states of a deleted job are removed by the next sweep");
        }
        Ok(deleted)
    }

    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>> {
        let job = self.job(job).await?;
        let FollowRequest { filter, start, patience } = request;
        rules::check_filter(&job, &filter)?;
        let identity = (self.shared.feed, job.incarnation, filter.fingerprint());
        let log = SqliteJobLog { store: self.clone(), filter: filter.clone() };
        let clock = Arc::clone(&self.shared.clock);
        let follower = Follower::register(log, identity, &start, patience, clock, move |event| {
            filter.pick(event)
        })
        .await?;
        Ok(follower.into_stream())
    }
}

impl SqliteStore {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    async fn read_file(&self, job: &JobRef, filter: &Filter) -> Result<Reading> {
        let (job, filter) = (job.clone(), filter.clone());
        let look = move |connection: &Connection| {
            let StoredJob { job, head, .. } = StoredJob::find(connection, &job)?;
            let reports = job_rows::reports(connection, job.incarnation, &filter)?;
            Ok(Reading { job, revision: head, reports })
        };
        self.shared.readers.read(look).await
    }

    /// Erases the jobs that have ended long enough ago; answers how many.
    pub(super) async fn expire_jobs(&self, retention: &Retention) -> Result<u64> {
        let Some(keep) = retention.ended_jobs else { return Ok(0) };
        let now = self.now();
        let (mut expired, mut after) = (0, ScopeId(0));
        loop {
            let look = move |connection: &Connection| {
                job_rows::maybe_ended(connection, now.earlier_by(keep), after)
            };
            let page = self.shared.readers.read(look).await?;
            let Some(last) = page.last() else { return Ok(expired) };
            after = last.incarnation;
            for job in &page {
                let job = JobRef::from(job);
                expired += u64::from(self.shared.writer.run(Expire { job, keep, now }).await?);
            }
        }
    }

    /// Removes what deleted jobs left, a few thousand rows at a time.
    pub(super) async fn purge_erased_jobs(&self) -> Result<()> {
        while self.shared.writer.run(Purge).await? {}
        Ok(())
    }
}

/// The feed of jobs as one subscriber reads it.
#[derive(Debug)]
struct SqliteJobLog {
    store: SqliteStore,
    filter: Filter,
}

impl Log for SqliteJobLog {
    type Item = JobEvent;

    async fn head(&self, scope: ScopeId) -> Result<Option<Seq>> {
        let look = move |connection: &Connection| {
            feed::head(connection, scope, job_rows::feed_record(connection, scope)?)
        };
        self.store.shared.readers.read(look).await
    }

    async fn replay(&self, scope: ScopeId, span: Span, max: usize) -> Result<Vec<(Seq, JobEvent)>> {
        let filter = self.filter.clone();
        let look = move |connection: &Connection| {
            job_rows::changed_in(connection, scope, span, &filter, max)
        };
        let reports = self.store.shared.readers.read(look).await?;
        Ok(reports.into_iter().map(|report| (report.revision, JobEvent::Put(report))).collect())
    }

    async fn read(&self, scope: ScopeId, after: Seq, max: usize) -> Result<Slice<JobEvent>> {
        if let Some(entries) = self.store.shared.hub.read(scope, after, max) {
            return Ok(Slice::Entries(entries));
        }
        let look = move |connection: &Connection| {
            let record = job_rows::feed_record(connection, scope)?;
            feed::read(connection, scope, (after, max), record, JobEvent::parse)
        };
        self.store.shared.readers.read(look).await
    }

    fn bell(&self, scope: ScopeId) -> Bell {
        self.store.shared.hub.listen(scope)
    }
}
