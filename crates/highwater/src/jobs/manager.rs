//! What a worker holds: one task of one job.

use std::{fmt::Display, sync::Arc, time::Duration};

use super::{
    Created, Deleted, Deletion, Draft, Epoch, Filter, Job, JobId, JobRef, JobStore, OnError,
    Status, Subscription, Summary, SummaryWatch, Tag, TaskCount, TaskIndex, Viewer, Waited, Write,
    Writer, Written, rules,
};
use crate::{
    ErrorKind, Result,
    clock::{Clock, SystemClock},
    feed::{Patience, Start},
    retry,
};

/// One task's view of its job: the only writer of that task, and a reader of all.
///
/// ```
/// use std::sync::Arc;
/// use highwater::jobs::{Filter, JobId, Manager, ManagerOptions, Status, Tag};
/// use highwater::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> highwater::Result<()> {
/// let store = Arc::new(MemoryStore::default());
/// let ingest = Tag::new("ingest")?;
/// // This process is task 0 of 2.
/// let task = Manager::open(store, JobId::new("nightly")?, 0, 2, ManagerOptions::default()).await?;
/// task.set_started(ingest.clone(), "").await?;
/// task.set_finished(ingest.clone(), "").await?;
/// // Task 1 has said nothing yet, so the job has not started.
/// let job = task.get_state(&Filter::job()).await?;
/// assert_eq!((job.task.0, job.status), (1, Status::NOT_STARTED));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Manager {
    viewer: Viewer,
    created: Created,
    task: TaskIndex,
    epoch: Epoch,
}

/// What a manager can be told when it is opened.
#[derive(Debug, Clone)]
pub struct ManagerOptions {
    /// The only tags of the job; the first to create it decides. Every task then owes a state in each.
    pub tags: Option<Vec<Tag>>,
    /// How often subscriptions try to reach a store that is away before they end.
    pub patience: Patience,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for ManagerOptions {
    fn default() -> ManagerOptions {
        ManagerOptions { tags: None, patience: Patience::Endless, clock: Arc::new(SystemClock) }
    }
}

impl Manager {
    /// Creates or finds the job, and takes over its task: an older process of the same task can write
    /// no more. The number of tasks that is stored wins over the one that is passed.
    pub async fn open(
        store: Arc<dyn JobStore>,
        id: JobId,
        task: u32,
        num_tasks: u32,
        options: ManagerOptions,
    ) -> Result<Manager> {
        let ManagerOptions { tags, patience, clock } = options;
        let num_tasks = TaskCount::new(num_tasks)?;
        let task = TaskIndex(task);
        let opening = retry::idempotent(&*clock, |_| store.open(&id, num_tasks, tags.as_deref()));
        let (job, created) = opening.await?;
        rules::check_task(&job, task)?;
        // An epoch whose answer got lost is simply superseded by the next.
        let job_ref = JobRef::from(&job);
        let epoch = retry::idempotent(&*clock, |_| store.take_over(&job_ref, task)).await?;
        tracing::debug!(job = %job.id, task = task.0, epoch = epoch.0, "manager opened");
        let viewer = Viewer::new(store, job, patience, clock);
        Ok(Manager { viewer, created, task, epoch })
    }

    /// The job as it is stored.
    pub fn job(&self) -> &Job {
        self.viewer.job()
    }

    /// Whether this manager created the job.
    pub fn created(&self) -> Created {
        self.created
    }

    /// The task this manager writes for.
    pub fn task(&self) -> TaskIndex {
        self.task
    }

    /// The epoch under which it writes.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Reports a state of this manager's task.
    ///
    /// Tried again by itself while the store is busy or away, always under one event id, so it counts
    /// once. An error that is left after that reaches the caller, who decides.
    pub async fn set_state(&self, draft: Draft) -> Result<Written> {
        self.viewer.check_is_open()?;
        rules::check_is_own(&draft, self.job(), self.task)?;
        let write =
            Write::new(JobRef::from(self.job()), self.task, draft, Writer::Fenced(self.epoch))?;
        let (tag, event_id) = (write.tag.clone(), write.event_id.clone());
        let result =
            retry::idempotent(self.viewer.clock(), |_| self.viewer.store().set(write.clone()))
                .await;
        match &result {
            Ok(written) => {
                let report = written.report();
                self.viewer.saw(report.revision);
                tracing::debug!(job = %self.job().id, tag = %tag, task = self.task.0, version = report.version.0,
                    event_id = %event_id, status = report.status.0, "state written");
            }
            Err(error) => {
                tracing::error!(job = %self.job().id, tag = %tag, task = self.task.0, event_id = %event_id,
                    error = %error, outcome = ?error.outcome(), "state not written");
            }
        }
        result
    }

    /// Reports an error: status −1, and the message behind a red mark.
    pub async fn set_error(&self, tag: Tag, error: impl Display) -> Result<Written> {
        self.set_error_code(tag, Status::ERROR, error).await
    }

    /// Reports an error with a negative code of the caller's.
    pub async fn set_error_code(
        &self,
        tag: Tag,
        code: Status,
        error: impl Display,
    ) -> Result<Written> {
        self.set_state(Draft::error(tag, code, error)?).await
    }

    /// Reports a warning: status −2, and the message behind a yellow mark.
    pub async fn set_warning(&self, tag: Tag, warning: impl Display) -> Result<Written> {
        self.set_state(Draft::warning(tag, warning)).await
    }

    /// Reports that work has begun; an empty message becomes `🟢 Started`.
    pub async fn set_started(&self, tag: Tag, message: impl Into<String>) -> Result<Written> {
        self.set_state(Draft::started(tag, message)).await
    }

    /// Reports that work is done; an empty message becomes `⚫ Finished`.
    pub async fn set_finished(&self, tag: Tag, message: impl Into<String>) -> Result<Written> {
        self.set_state(Draft::finished(tag, message)).await
    }

    /// Where the job, a tag or a task stands: the lowest status wins. Includes whatever this manager
    /// has written.
    pub async fn get_state(&self, filter: &Filter) -> Result<rules::Standing> {
        self.viewer.get_state(filter).await
    }

    /// The full picture beside the lowest status.
    pub async fn summary(&self, filter: &Filter) -> Result<Summary> {
        self.viewer.summary(filter).await
    }

    /// Everything there is, one marker, then every change, without a gap and without a duplicate.
    pub async fn subscribe(&self, filter: Filter) -> Result<Subscription> {
        self.viewer.subscribe(filter).await
    }

    /// The same, from where an earlier subscription stopped.
    pub async fn subscribe_from(&self, filter: Filter, start: Start) -> Result<Subscription> {
        self.viewer.subscribe_from(filter, start).await
    }

    /// The live aggregate; changes that arrive faster than it is read are folded together.
    pub async fn watch_summary(&self, filter: Filter) -> Result<SummaryWatch> {
        self.viewer.watch_summary(filter).await
    }

    /// Waits until the lowest status of what `filter` selects reaches `status`. See
    /// [`Viewer::wait_until`].
    pub async fn wait_until(
        &self,
        filter: Filter,
        status: Status,
        timeout: Duration,
        on_error: OnError,
    ) -> Result<Waited> {
        self.viewer.wait_until(filter, status, timeout, on_error).await
    }

    /// Marks the job as deleted: it can be read, and not be written or opened. Only task 0's counts.
    pub async fn mark_deleted(&self) -> Result<Deleted> {
        self.delete_as(Deletion::Tombstone).await
    }

    /// Deletes the job with all its states. Only task 0's counts.
    pub async fn delete(&self) -> Result<Deleted> {
        self.delete_as(Deletion::Erase).await
    }

    async fn delete_as(&self, how: Deletion) -> Result<Deleted> {
        self.viewer.check_is_open()?;
        match rules::job_wide_write(self.task) {
            rules::JobWide::Counts => {}
            rules::JobWide::Ignored => return Ok(Deleted::Ignored),
        }
        let (job, store) = (JobRef::from(self.job()), self.viewer.store());
        let deleting = retry::idempotent(self.viewer.clock(), |attempt| {
            let deleting = store.delete(&job, how);
            async move {
                match deleting.await {
                    // An earlier try of this very call may have done it, and lost its answer.
                    Err(error) if error.kind() == ErrorKind::NotFound && attempt > 1 => {
                        Ok(Deleted::Done)
                    }
                    result => result,
                }
            }
        });
        deleting.await
    }

    /// Ends this manager's subscriptions and refuses further calls. The store closes with its last
    /// user.
    pub fn close(&self) {
        self.viewer.close();
    }
}
