//! Jobs in memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_trait::async_trait;

use super::{
    MemoryStore,
    feed::{Committed, MemoryFeed},
};
use crate::{
    Result,
    clock::Timestamp,
    feed::{Bell, Domain, FeedEvent, Follow, Follower, Log, Published, ScopeId, Seq, Slice, Span},
    jobs::{
        Board, Created, Deleted, Deletion, Epoch, EventId, Filter, FollowRequest, Job, JobEvent,
        JobId, JobRef, JobStore, ListJobs, Reading, Report, Tag, TaskCount, TaskIndex, Write,
        Written,
        rules::{self, Before, Verdict},
    },
    retention::{Retention, Swept},
};

/// An event id belongs to one task and tag.
type Key = (TaskIndex, Tag, EventId);

/// All jobs, and their feed.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    by_name: BTreeMap<JobId, Record>,
    names: HashMap<ScopeId, JobId>,
    feed: MemoryFeed<JobEvent, Key>,
}

#[derive(Debug)]
struct Record {
    job: Job,
    board: Board,
    epochs: BTreeMap<TaskIndex, Epoch>,
    last_change: Timestamp,
}

impl Jobs {
    /// All events behind a revision.
    pub(super) fn events(&self, after: Seq, max: usize) -> Result<Slice<Arc<FeedEvent>>> {
        let entries = match self.feed.read_all(after, max) {
            Slice::Entries(entries) => entries,
            Slice::Gone { floor } => return Ok(Slice::Gone { floor }),
            Slice::Ended => return Ok(Slice::Ended),
        };
        let event = |(revision, committed): (Seq, Committed<JobEvent>)| {
            let Committed { scope, seq, at, event } = committed;
            let (domain, kind, body) =
                (Domain::Jobs, event.kind().to_owned(), event.body()?.into());
            Ok((revision, Arc::new(FeedEvent { revision, domain, kind, scope, seq, at, body })))
        };
        entries.into_iter().map(event).collect::<Result<_>>().map(Slice::Entries)
    }

    pub(super) fn oldest_event(&self) -> Option<Timestamp> {
        self.feed.oldest()
    }

    /// The newest revision of all.
    pub(super) fn newest(&self) -> Seq {
        self.feed.newest()
    }

    fn find(&self, job: &JobRef) -> Result<&Record> {
        let found = self.by_name.get(&job.id);
        rules::resolve(job, found.map(|record| &record.job))?;
        found.ok_or_else(|| unreachable_record(job))
    }

    fn find_mut(&mut self, job: &JobRef) -> Result<&mut Record> {
        let found = self.by_name.get_mut(&job.id);
        rules::resolve(job, found.as_ref().map(|record| &record.job))?;
        found.ok_or_else(|| unreachable_record(job))
    }

    fn of_scope(&self, scope: ScopeId) -> Option<&Record> {
        self.by_name.get(self.names.get(&scope)?)
    }

    fn forget(&mut self, id: &JobId) {
        if let Some(record) = self.by_name.remove(id) {
            self.names.remove(&record.job.incarnation);
        }
    }

    fn append(
        &mut self,
        scope: ScopeId,
        at: Timestamp,
        key: Option<Key>,
        event: JobEvent,
    ) -> Published<JobEvent> {
        let (bytes, is_last) = (event.bytes(), event.is_last());
        let seq = self.feed.append(scope, at, key, event.clone());
        Published { scope, seq, event, bytes, is_last }
    }

    fn open(&mut self, job: Job) -> Result<(Job, Created, Option<Published<JobEvent>>)> {
        if let Some(record) = self.by_name.get(&job.id) {
            rules::check_is_alive(&record.job)?;
            return Ok((record.job.clone(), Created::Existing, None));
        }
        let (scope, at) = (job.incarnation, job.created_at);
        let record = Record {
            job: job.clone(),
            board: Board::default(),
            epochs: BTreeMap::new(),
            last_change: at,
        };
        self.by_name.insert(job.id.clone(), record);
        self.names.insert(scope, job.id.clone());
        let published = self.append(scope, at, None, JobEvent::Created(Arc::new(job.clone())));
        Ok((job, Created::New, Some(published)))
    }

    fn take_over(&mut self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        let record = self.find_mut(job)?;
        rules::check_is_alive(&record.job)?;
        rules::check_task(&record.job, task)?;
        let epoch = rules::next_epoch(record.epochs.get(&task).copied());
        record.epochs.insert(task, epoch);
        Ok(epoch)
    }

    fn set(
        &mut self,
        write: &Write,
        now: Timestamp,
    ) -> Result<(Written, Option<Published<JobEvent>>)> {
        let record = self.find(&write.job)?;
        let scope = record.job.incarnation;
        let key = (write.task, write.tag.clone(), write.event_id.clone());
        let same_id = self.feed.find(scope, &key).and_then(report_of);
        let before = Before {
            job: &record.job,
            same_id: same_id.map(|report| &**report),
            epoch: record.epochs.get(&write.task).copied(),
            version: record.board.get(write.task, &write.tag).map(|report| report.version),
        };
        let version = match (rules::judge(write, before)?, same_id) {
            (Verdict::Apply(version), _) => version,
            (Verdict::Repeat, Some(earlier)) => {
                return Ok((Written::Repeated(Arc::clone(earlier)), None));
            }
            (Verdict::Repeat, None) => return Err(unreachable_record(&write.job)),
        };
        let report = Arc::new(write.report(version, self.feed.next(scope), now));
        let record = self.find_mut(&write.job)?;
        record.board.put(Arc::clone(&report));
        record.last_change = now;
        let published = self.append(scope, now, Some(key), JobEvent::Put(Arc::clone(&report)));
        Ok((Written::Applied(report), Some(published)))
    }

    fn delete(
        &mut self,
        job: &JobRef,
        how: Deletion,
        now: Timestamp,
    ) -> Result<(Deleted, Option<Published<JobEvent>>)> {
        let record = self.find_mut(job)?;
        let scope = record.job.incarnation;
        let event = match (how, record.job.tombstoned_at) {
            (Deletion::Tombstone, Some(_)) => return Ok((Deleted::Already, None)),
            (Deletion::Tombstone, None) => {
                record.job.tombstoned_at = Some(now);
                record.last_change = now;
                JobEvent::Tombstoned(Arc::new(record.job.clone()))
            }
            (Deletion::Erase, _) => {
                let event = JobEvent::Deleted(Arc::new(record.job.clone()));
                self.forget(&job.id);
                event
            }
        };
        Ok((Deleted::Done, Some(self.append(scope, now, None, event))))
    }

    pub(super) fn sweep(
        &mut self,
        retention: &Retention,
        now: Timestamp,
    ) -> (Swept, Vec<Published<JobEvent>>) {
        let is_expired = |record: &&Record| {
            retention.ended_jobs.is_some_and(|keep| {
                let reports = record.board.select(&Filter::job());
                rules::is_expired(&record.job, &reports, record.last_change, now, keep)
            })
        };
        let expired: Vec<_> =
            self.by_name.values().filter(is_expired).map(|record| record.job.clone()).collect();
        let mut published = Vec::new();
        for job in &expired {
            self.forget(&job.id);
            let event = JobEvent::Deleted(Arc::new(job.clone()));
            published.push(self.append(job.incarnation, now, None, event));
        }
        let names = &self.names;
        let events = self.feed.trim(retention, now, |scope| names.contains_key(&scope));
        (Swept { events, jobs: expired.len() as u64 }, published)
    }
}

/// What the rule has promised is not there: a bug, answered as damage rather than with a panic.
fn unreachable_record(job: &JobRef) -> crate::Error {
    crate::Error::new(
        crate::ErrorKind::Corrupt,
        format!("job `{}` is not where it must be", job.id),
    )
}

fn report_of(event: &JobEvent) -> Option<&Arc<Report>> {
    match event {
        JobEvent::Put(report) => Some(report),
        JobEvent::Created(_) | JobEvent::Tombstoned(_) | JobEvent::Deleted(_) => None,
    }
}

#[async_trait]
impl JobStore for MemoryStore {
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)> {
        let tags = rules::declared(num_tasks, tags)?;
        let mut jobs = self.jobs();
        let (id, incarnation, created_at) = (id.clone(), jobs.feed.mint(), self.shared.clock.now());
        let job = Job { id, num_tasks, incarnation, created_at, tags, tombstoned_at: None };
        let (job, created, published) = jobs.open(job)?;
        self.publish(published);
        Ok((job, created))
    }

    async fn job(&self, job: &JobRef) -> Result<Job> {
        self.jobs().find(job).map(|record| record.job.clone())
    }

    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch> {
        self.jobs().take_over(job, task)
    }

    async fn set(&self, write: Write) -> Result<Written> {
        let mut jobs = self.jobs();
        let (written, published) = jobs.set(&write, self.shared.clock.now())?;
        self.publish(published);
        Ok(written)
    }

    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading> {
        let jobs = self.jobs();
        let Record { job, board, .. } = jobs.find(job)?;
        rules::check_filter(job, filter)?;
        let revision = jobs.feed.head(job.incarnation).unwrap_or(Seq::ZERO);
        let reading = Reading { job: job.clone(), revision, reports: board.select(filter) };
        reading.check_is_at_least(at_least)
    }

    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>> {
        query.check()?;
        let jobs = self.jobs();
        let selected =
            jobs.by_name.values().map(|record| &record.job).filter(|job| query.selects(job));
        Ok(selected.take(query.limit).cloned().collect())
    }

    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted> {
        let mut jobs = self.jobs();
        let (deleted, published) = jobs.delete(job, how, self.shared.clock.now())?;
        self.publish(published);
        Ok(deleted)
    }

    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>> {
        let job = self.job(job).await?;
        let FollowRequest { filter, start, patience } = request;
        rules::check_filter(&job, &filter)?;
        let identity = (self.shared.feed, job.incarnation, filter.fingerprint());
        let log = MemoryJobLog { store: self.clone() };
        let clock = Arc::clone(&self.shared.clock);
        let follower = Follower::register(log, identity, &start, patience, clock, move |event| {
            filter.pick(event)
        })
        .await?;
        Ok(follower.into_stream())
    }
}

#[derive(Debug)]
struct MemoryJobLog {
    store: MemoryStore,
}

impl Log for MemoryJobLog {
    type Item = JobEvent;

    async fn head(&self, scope: ScopeId) -> Result<Option<Seq>> {
        Ok(self.store.jobs().feed.head(scope))
    }

    async fn replay(&self, scope: ScopeId, span: Span, max: usize) -> Result<Vec<(Seq, JobEvent)>> {
        let jobs = self.store.jobs();
        let reports = jobs
            .of_scope(scope)
            .map(|record| record.board.select(&Filter::job()))
            .unwrap_or_default();
        let mut page: Vec<_> = reports
            .into_iter()
            .filter(|report| span.after < report.revision && report.revision <= span.upto)
            .map(|report| (report.revision, JobEvent::Put(report)))
            .collect();
        page.sort_by_key(|(seq, _)| *seq);
        page.truncate(max);
        Ok(page)
    }

    async fn read(&self, scope: ScopeId, after: Seq, max: usize) -> Result<Slice<JobEvent>> {
        let jobs = self.store.jobs();
        let is_over = jobs.of_scope(scope).is_none_or(|record| record.job.tombstoned_at.is_some());
        Ok(jobs.feed.read(scope, after, max, is_over))
    }

    fn bell(&self, scope: ScopeId) -> Bell {
        self.store.shared.hub.listen(scope)
    }
}
