//! The port that engines of jobs implement.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;

use super::{
    Draft, Epoch, EventId, Job, JobEvent, JobId, JobRef, Payload, Report, Status, Tag, TaskCount,
    TaskIndex, Version,
};
use crate::{
    Error, Result,
    clock::Timestamp,
    feed::{Fingerprint, Follow, Patience, Seq, Start},
    limits::LIST_JOBS_MAX,
};

/// Where jobs and the reports of their tasks are kept.
///
/// # Contract
///
/// Each method is atomic per job and, once it returns, visible to every later call from any process.
/// A change of a job and its event in the feed are one transaction. After an error,
/// [`Error::outcome`] tells whether the write may have landed; a refusal has written nothing.
///
/// The rules are in [`rules`](super::rules): an engine asks them inside its transaction, or restates
/// them and proves itself equal to [`memory`](crate::memory).
///
/// This is the least an engine must do. No method has a default body: a default is a rule that some
/// wrapper will silently fail to forward. Conveniences live on [`Manager`](super::Manager).
#[async_trait]
pub trait JobStore: Debug + Send + Sync {
    /// Creates the job, or finds it: the one that is stored wins, whatever is passed. Refused if the
    /// job is tombstoned.
    async fn open(
        &self,
        id: &JobId,
        num_tasks: TaskCount,
        tags: Option<&[Tag]>,
    ) -> Result<(Job, Created)>;

    /// The job, or [`NotFound`](crate::ErrorKind::NotFound). Never creates it.
    async fn job(&self, job: &JobRef) -> Result<Job>;

    /// Makes the caller the writer of a task: writes under an older epoch are refused from now on.
    async fn take_over(&self, job: &JobRef, task: TaskIndex) -> Result<Epoch>;

    /// Stores a state as the next version of its task and tag, or repeats the answer to a write with
    /// the same event id.
    async fn set(&self, write: Write) -> Result<Written>;

    /// The states that `filter` selects, all of one moment, which is `at_least` or later.
    async fn read(&self, job: &JobRef, filter: &Filter, at_least: Seq) -> Result<Reading>;

    /// Jobs by name, one page.
    async fn list(&self, query: &ListJobs) -> Result<Vec<Job>>;

    /// Marks the job as deleted, or deletes it with all its states. Its subscribers see everything
    /// that was written before, then the end.
    async fn delete(&self, job: &JobRef, how: Deletion) -> Result<Deleted>;

    /// Snapshot, marker, then every change. Registered when this returns: what is written later
    /// comes behind the marker.
    async fn follow(&self, job: &JobRef, request: FollowRequest) -> Result<Follow<Arc<Report>>>;
}

/// Whether a job was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It is new.
    New,
    /// It was there; what was passed changed nothing.
    Existing,
}

/// A state on its way into a store. Its parts keep their rules; whether it fits the job is judged
/// inside the store's transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Whose.
    pub job: JobRef,
    /// Which task's.
    pub task: TaskIndex,
    /// In which work stream.
    pub tag: Tag,
    /// How far it got.
    pub status: Status,
    /// What it has to say.
    pub message: String,
    /// The caller's own data.
    pub payload: Option<Payload>,
    /// The version of the payload's schema.
    pub schema_version: u32,
    /// Makes the write idempotent.
    pub event_id: EventId,
    /// Who writes.
    pub writer: Writer,
}

impl Write {
    /// A write of `draft` for one task; refuses what no store should hold.
    pub fn new(job: JobRef, task: TaskIndex, draft: Draft, writer: Writer) -> Result<Write> {
        draft.check()?;
        let Draft { tag, status, message, payload, event_id, schema_version, job: _, task: _ } =
            draft;
        let event_id = event_id.unwrap_or_else(EventId::unique);
        Ok(Write { job, task, tag, status, message, payload, schema_version, event_id, writer })
    }

    /// The state that this write leaves, once it was judged to be `version`.
    pub fn report(&self, version: Version, revision: Seq, timestamp: Timestamp) -> Report {
        Report {
            job: self.job.id.clone(),
            task: self.task,
            tag: self.tag.clone(),
            status: self.status,
            message: self.message.clone(),
            timestamp,
            version,
            event_id: self.event_id.clone(),
            payload: self.payload.clone(),
            schema_version: self.schema_version,
            revision,
        }
    }
}

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The manager that holds this epoch; refused once a newer one has taken over.
    Fenced(Epoch),
    /// A script or a person: neither needs nor takes an epoch.
    Anonymous,
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is stored, as this version.
    Applied(Arc<Report>),
    /// It was stored before: this is what it became then.
    Repeated(Arc<Report>),
}

impl Written {
    /// The state that the write left.
    pub fn report(&self) -> &Arc<Report> {
        let (Written::Applied(report) | Written::Repeated(report)) = self;
        report
    }
}

/// Which states are meant: all of a job, or those of one task, of one tag, or of both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this task.
    pub task: Option<TaskIndex>,
    /// Only this tag.
    pub tag: Option<Tag>,
}

impl Filter {
    /// Everything.
    pub fn job() -> Filter {
        Filter::default()
    }

    /// Only this task.
    #[must_use]
    pub fn task(mut self, task: TaskIndex) -> Filter {
        self.task = Some(task);
        self
    }

    /// Only this tag.
    #[must_use]
    pub fn tag(mut self, tag: Tag) -> Filter {
        self.tag = Some(tag);
        self
    }

    /// Whether it selects a report.
    pub fn selects(&self, report: &Report) -> bool {
        self.task.is_none_or(|task| task == report.task)
            && self.tag.as_ref().is_none_or(|tag| *tag == report.tag)
    }

    /// The report in an event, if it has one that is selected.
    pub fn pick(&self, event: JobEvent) -> Option<Arc<Report>> {
        match event {
            JobEvent::Put(report) => self.selects(&report).then_some(report),
            JobEvent::Created(_) | JobEvent::Tombstoned(_) | JobEvent::Deleted(_) => None,
        }
    }

    /// What goes into a resume token.
    pub fn fingerprint(&self) -> Fingerprint {
        let task = self.task.map_or_else(String::new, |task| task.to_string());
        // No tag is empty, so an empty part stands for any.
        Fingerprint::of(&["jobs", &task, self.tag.as_ref().map_or("", Tag::as_str)])
    }
}

/// The states of a job at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The job.
    pub job: Job,
    /// Everything up to here is in it.
    pub revision: Seq,
    /// What was selected, by task, then by tag.
    pub reports: Vec<Arc<Report>>,
}

impl Reading {
    /// Refuses a reading from before the moment that the caller has seen.
    pub fn check_is_at_least(self, at_least: Seq) -> Result<Reading> {
        if self.revision >= at_least {
            return Ok(self);
        }
        let rule =
            format!("must not be ahead of job `{}`, which is at {}", self.job.id, self.revision);
        Err(Error::invalid("min_revision", at_least, &rule))
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListJobs {
    /// Only names that begin like this.
    pub prefix: String,
    /// Whether to show tombstoned ones.
    pub shown: Shown,
    /// Only names behind this one.
    pub after: Option<JobId>,
    /// At most this many.
    pub limit: usize,
}

/// Which jobs a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Those that are not tombstoned.
    Alive,
    /// Those that are.
    Tombstoned,
    /// Both.
    All,
}

impl Default for ListJobs {
    fn default() -> ListJobs {
        ListJobs { prefix: String::new(), shown: Shown::All, after: None, limit: 100 }
    }
}

impl ListJobs {
    /// Refuses a page that is empty or too long.
    pub fn check(&self) -> Result<()> {
        if (1..=LIST_JOBS_MAX).contains(&self.limit) {
            return Ok(());
        }
        Err(Error::invalid("limit", self.limit, &format!("must be between 1 and {LIST_JOBS_MAX}")))
    }

    /// Whether a job belongs in the listing, the limit aside.
    pub fn selects(&self, job: &Job) -> bool {
        let is_shown = match self.shown {
            Shown::Alive => job.tombstoned_at.is_none(),
            Shown::Tombstoned => job.tombstoned_at.is_some(),
            Shown::All => true,
        };
        let is_behind = self.after.as_ref().is_none_or(|after| job.id > *after);
        is_shown && is_behind && job.id.as_str().starts_with(&self.prefix)
    }
}

/// How a job is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// Marked: it can still be read, and not be written or opened.
    Tombstone,
    /// Gone, with all its states. The name is free again.
    Erase,
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// Done.
    Done,
    /// It was tombstoned before.
    Already,
    /// Not done: only task 0 writes what belongs to the whole job.
    Ignored,
}

/// What to follow, from where, and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowRequest {
    /// Which states.
    pub filter: Filter,
    /// From where.
    pub start: Start,
    /// For how long to try while the store is away.
    pub patience: Patience,
}
