//! What a reader holds: one job, seen whole.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    Filter, FollowRequest, Job, JobId, JobRef, JobStore, OnError, Reading, Status, Subscription,
    Summary, SummaryWatch, Waited, rules, watch,
};
use crate::{
    Error, ErrorKind, Result,
    clock::{Clock, SystemClock},
    feed::{Patience, Seq, Start},
    retry,
};

/// One life of a job, to look at: it has no task, takes no epoch and writes nothing.
///
/// Dropping it ends its subscriptions, as [`close`](Viewer::close) does.
#[derive(Debug)]
pub struct Viewer {
    store: Arc<dyn JobStore>,
    clock: Arc<dyn Clock>,
    job: Job,
    patience: Patience,
    /// The newest revision that this viewer was told: its reads are never older.
    seen: AtomicU64,
    closed: CancellationToken,
}

impl Viewer {
    /// Finds a job; tombstoned ones can be looked at too.
    pub async fn open(store: Arc<dyn JobStore>, id: JobId) -> Result<Viewer> {
        Viewer::of(store, JobRef::current(id)).await
    }

    /// Finds one life of a job.
    pub async fn of(store: Arc<dyn JobStore>, wanted: JobRef) -> Result<Viewer> {
        let clock = Arc::new(SystemClock);
        let job = retry::idempotent(&*clock, |_| store.job(&wanted)).await?;
        Ok(Viewer::new(store, job, Patience::default(), clock))
    }

    pub(super) fn new(
        store: Arc<dyn JobStore>,
        job: Job,
        patience: Patience,
        clock: Arc<dyn Clock>,
    ) -> Viewer {
        let (seen, closed) = (AtomicU64::new(0), CancellationToken::new());
        Viewer { store, clock, job, patience, seen, closed }
    }

    /// The job as it was when this viewer was opened.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub(super) fn store(&self) -> &dyn JobStore {
        &*self.store
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn saw(&self, revision: Seq) {
        self.seen.fetch_max(revision.0, Ordering::SeqCst);
    }

    /// Where the job, a tag or a task stands: the lowest status wins.
    pub async fn get_state(&self, filter: &Filter) -> Result<rules::Standing> {
        let reading = self.read(filter).await?;
        Ok(rules::standing(&reading.job, filter, &reading.reports))
    }

    /// The full picture beside the lowest status.
    pub async fn summary(&self, filter: &Filter) -> Result<Summary> {
        Ok(Summary::of(&self.read(filter).await?, filter))
    }

    async fn read(&self, filter: &Filter) -> Result<Reading> {
        self.check_is_open()?;
        rules::check_filter(&self.job, filter)?;
        let (job, seen) = (JobRef::from(&self.job), Seq(self.seen.load(Ordering::SeqCst)));
        retry::idempotent(&*self.clock, |_| self.store.read(&job, filter, seen)).await
    }

    /// Everything there is, one marker, then every change, without a gap and without a duplicate.
    pub async fn subscribe(&self, filter: Filter) -> Result<Subscription> {
        self.subscribe_from(filter, Start::Snapshot).await
    }

    /// The same, from where an earlier subscription stopped.
    pub async fn subscribe_from(&self, filter: Filter, start: Start) -> Result<Subscription> {
        self.check_is_open()?;
        let request = FollowRequest { filter, start, patience: self.patience };
        let job = JobRef::from(&self.job);
        let following = |_| self.store.follow(&job, request.clone());
        let steps = retry::idempotent(&*self.clock, following).await?;
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
            let mut watch = self.watch_summary(filter.clone()).await?;
            watch::until(&mut watch, status, on_error, &mut last).await
        };
        tokio::select! {
            biased;
            waited = waiting => return waited,
            () = deadline => {}
        }
        let blocking = match last {
            Some(standing) => standing,
            None => self.get_state(&filter).await?,
        };
        Ok(Waited::TimedOut(blocking))
    }

    /// Ends this viewer's subscriptions and refuses further calls. The store closes with its last
    /// user.
    pub fn close(&self) {
        self.closed.cancel();
    }

    pub(super) fn check_is_open(&self) -> Result<()> {
        if self.closed.is_cancelled() {
            return Err(Error::new(ErrorKind::Closed, "this handle was closed"));
        }
        Ok(())
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Draft, Manager};

    fn is_send<T: Send>(_: T) {}

    /// Workers run on many threads: every call of a handle can be spawned. Compiled, never run.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn every_call_can_be_spawned(viewer: &Viewer, manager: &Manager, draft: Draft) {
        let filter = Filter::job();
        is_send(viewer.get_state(&filter));
        is_send(viewer.subscribe(filter.clone()));
        is_send(viewer.wait_until(filter.clone(), Status(1), Duration::ZERO, OnError::Fail));
        is_send(manager.set_state(draft));
        is_send(manager.delete());
        is_send(async { viewer.subscribe(Filter::job()).await.ok()?.next().await });
        is_send(async { viewer.watch_summary(Filter::job()).await.ok()?.next().await });
    }
}
