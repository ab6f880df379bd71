//! What a worker holds: one task of one job.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    Created, Deleted, Deletion, Draft, Epoch, Filter, FollowRequest, Job, JobId, JobRef, JobStore,
    OnError, Reading, Status, Subscription, Summary, SummaryWatch, Tag, TaskCount, TaskIndex,
    Waited, Write, Writer, Written, rules, summary, watch,
};
use crate::{
    Error, ErrorKind, Result,
    clock::{Clock, SystemClock},
    feed::{Patience, Seq, Start},
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
    store: Arc<dyn JobStore>,
    clock: Arc<dyn Clock>,
    job: Job,
    created: Created,
    task: TaskIndex,
    epoch: Epoch,
    patience: Patience,
    /// The newest revision this manager was told: its own reads are never older.
    seen: AtomicU64,
    closed: CancellationToken,
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
        let opening =
            retry::idempotent(&*clock, async |_| store.open(&id, num_tasks, tags.as_deref()).await);
        let (job, created) = opening.await?;
        rules::check_task(&job, task)?;
        // An epoch whose answer got lost is simply superseded by the next.
        let job_ref = JobRef::from(&job);
        let epoch =
            retry::idempotent(&*clock, async |_| store.take_over(&job_ref, task).await).await?;
        tracing::debug!(job = %job.id, task = task.0, epoch = epoch.0, "manager opened");
        let (seen, closed) = (AtomicU64::new(0), CancellationToken::new());
        Ok(Manager { store, clock, job, created, task, epoch, patience, seen, closed })
    }

    /// The job as it is stored.
    pub fn job(&self) -> &Job {
        &self.job
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
        self.check_is_open()?;
        rules::check_is_own(&draft, &self.job, self.task)?;
        let write =
            Write::new(JobRef::from(&self.job), self.task, draft, Writer::Fenced(self.epoch))?;
        let (tag, event_id) = (write.tag.clone(), write.event_id.clone());
        let result =
            retry::idempotent(&*self.clock, async |_| self.store.set(write.clone()).await).await;
        match &result {
            Ok(written) => {
                let report = written.report();
                self.seen.fetch_max(report.revision.0, Ordering::SeqCst);
                tracing::debug!(job = %self.job.id, tag = %tag, task = self.task.0, version = report.version.0,
                    event_id = %event_id, status = report.status.0, "state written");
            }
            Err(error) => {
                tracing::error!(job = %self.job.id, tag = %tag, task = self.task.0, event_id = %event_id,
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
        let code = rules::check_error_code(code)?;
        let message = rules::marked("🔴", &error.to_string());
        self.set_state(Draft::new(tag, code).message(message)).await
    }

    /// Reports a warning: status −2, and the message behind a yellow mark.
    pub async fn set_warning(&self, tag: Tag, warning: impl Display) -> Result<Written> {
        let message = rules::marked("🟡", &warning.to_string());
        self.set_state(Draft::new(tag, Status::WARNING).message(message)).await
    }

    /// Reports that work has begun; an empty message becomes `🟢 Started`.
    pub async fn set_started(&self, tag: Tag, message: impl Into<String>) -> Result<Written> {
        let draft = Draft::new(tag, Status::STARTED).message(or(message.into(), "🟢 Started"));
        self.set_state(draft).await
    }

    /// Reports that work is done; an empty message becomes `⚫ Finished`.
    pub async fn set_finished(&self, tag: Tag, message: impl Into<String>) -> Result<Written> {
        let draft = Draft::new(tag, Status::FINISHED).message(or(message.into(), "⚫ Finished"));
        self.set_state(draft).await
    }

    /// Where the job, a tag or a task stands: the lowest status wins. Includes whatever this manager
    /// has written.
    pub async fn get_state(&self, filter: &Filter) -> Result<rules::Standing> {
        let reading = self.read(filter).await?;
        Ok(rules::standing(&reading.job, filter, &reading.reports))
    }

    /// The full picture beside the lowest status.
    pub async fn summary(&self, filter: &Filter) -> Result<Summary> {
        Ok(summary::summarise(&self.read(filter).await?, filter))
    }

    async fn read(&self, filter: &Filter) -> Result<Reading> {
        self.check_is_open()?;
        rules::check_filter(&self.job, filter)?;
        let (job, seen) = (JobRef::from(&self.job), Seq(self.seen.load(Ordering::SeqCst)));
        retry::idempotent(&*self.clock, async |_| self.store.read(&job, filter, seen).await).await
    }

    /// Everything there is, one marker, then every change, without a gap and without a duplicate.
    pub async fn subscribe(&self, filter: Filter) -> Result<Subscription> {
        self.subscribe_from(filter, Start::Snapshot).await
    }

    /// The same, from where an earlier subscription stopped.
    pub async fn subscribe_from(&self, filter: Filter, start: Start) -> Result<Subscription> {
        self.check_is_open()?;
        let request = FollowRequest { filter, start, patience: self.patience };
        let steps = self.store.follow(&JobRef::from(&self.job), request).await?;
        Ok(Subscription::new(steps, self.closed.clone()))
    }

    /// The live aggregate; changes that arrive faster than it is read are folded together.
    pub async fn watch_summary(&self, filter: Filter) -> Result<SummaryWatch> {
        let steps = self.subscribe(filter.clone()).await?;
        Ok(SummaryWatch::new(steps, self.job.clone(), filter))
    }

    /// Waits until the lowest status of what `filter` selects reaches `status`.
    ///
    /// Fails fast when a task reports an error (a warning is none), unless `on_error` says to wait on.
    pub async fn wait_until(
        &self,
        filter: Filter,
        status: Status,
        timeout: Duration,
        on_error: OnError,
    ) -> Result<Waited> {
        let deadline = self.clock.sleep(timeout);
        let mut last = None;
        let waiting = async {
            let mut watch = self.watch_summary(filter).await?;
            watch::until(&mut watch, status, on_error, &mut last).await
        };
        tokio::select! {
            biased;
            waited = waiting => return waited,
            () = deadline => {}
        }
        Ok(Waited::TimedOut(last))
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
        self.check_is_open()?;
        match rules::job_wide_write(self.task) {
            rules::JobWide::Counts => {}
            rules::JobWide::Ignored => return Ok(Deleted::Ignored),
        }
        let job = JobRef::from(&self.job);
        let deleting = retry::idempotent(&*self.clock, async |attempt| {
            match self.store.delete(&job, how).await {
                // An earlier try of this very call may have done it, and lost its answer.
                Err(error) if error.kind() == ErrorKind::NotFound && attempt > 1 => {
                    Ok(Deleted::Done)
                }
                result => result,
            }
        });
        deleting.await
    }

    /// Ends this manager's subscriptions and refuses further calls. The store closes with its last
    /// user.
    pub fn close(&self) {
        self.closed.cancel();
    }

    fn check_is_open(&self) -> Result<()> {
        if self.closed.is_cancelled() {
            return Err(Error::new(ErrorKind::Closed, "this manager was closed"));
        }
        Ok(())
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.close();
    }
}

fn or(message: String, default: &str) -> String {
    if message.is_empty() { default.to_owned() } else { message }
}
