//! A promise: what an engine must keep, as a function that panics if it does not.

use std::{pin::Pin, sync::Arc};

use futures_util::{StreamExt as _, stream};
use highwater::{
    feed::EventFeed,
    jobs::{
        Draft, EventId, Filter, JobId, JobRef, JobStore, Manager, ManagerOptions, Status, Tag,
        TaskIndex, Write, Writer, Written,
    },
    retention::Upkeep,
};

use crate::clock::ManualClock;

/// An engine in a namespace of its own, ready to be tried.
#[derive(Debug, Clone)]
pub struct Bed {
    /// Under test.
    pub jobs: Arc<dyn JobStore>,
    /// The same engine's whole feed.
    pub events: Arc<dyn EventFeed>,
    /// The same engine's upkeep.
    pub upkeep: Arc<dyn Upkeep>,
    /// The time, as the engine and its managers see it.
    pub clock: Arc<ManualClock>,
}

/// As many writers as an engine should find easy to serve together.
const WRITES_AT_A_TIME: usize = 64;

/// One promise. Worth listing only if breaking the rule breaks it.
#[derive(Clone, Copy)]
pub struct Promise {
    /// The sentence that it proves.
    pub name: &'static str,
    /// Panics if the engine breaks it.
    pub check: fn(Bed) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl std::fmt::Debug for Promise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Lists the promises of a module. One that is written but not listed is dead code, and dead code
/// does not compile here.
macro_rules! promises {
    ($($name:ident),* $(,)?) => {
        pub(super) const PROMISES: &[$crate::Promise] =
            &[$($crate::Promise { name: stringify!($name), check: |bed| Box::pin($name(bed)) }),*];
    };
}
pub(crate) use promises;

/// Names for tests, where a bad one is a bug of the test.
pub(crate) fn job_id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

/// See [`job_id`].
pub(crate) fn tag(name: &str) -> Tag {
    Tag::new(name).unwrap()
}

/// See [`job_id`].
pub(crate) fn event_id(name: &str) -> EventId {
    EventId::new(name).unwrap()
}

impl Bed {
    /// The same bed with another store in it, such as a wrapper of its own.
    #[must_use]
    pub fn with_jobs(&self, jobs: Arc<dyn JobStore>) -> Bed {
        Bed { jobs, ..self.clone() }
    }

    pub(crate) fn options(&self) -> ManagerOptions {
        let clock = self.clock.clone();
        ManagerOptions { clock, ..ManagerOptions::default() }
    }

    /// A manager of one task of the job called `job`.
    pub(crate) async fn manager(&self, task: u32, num_tasks: u32) -> Manager {
        self.manager_of("job", task, num_tasks).await
    }

    pub(crate) async fn manager_of(&self, job: &str, task: u32, num_tasks: u32) -> Manager {
        let store = Arc::clone(&self.jobs);
        Manager::open(store, job_id(job), task, num_tasks, self.options()).await.unwrap()
    }

    /// An anonymous write, as from a script.
    pub(crate) async fn set(
        &self,
        job: &str,
        task: u32,
        draft: Draft,
    ) -> highwater::Result<Written> {
        let job = JobRef::current(job_id(job));
        self.jobs.set(Write::new(job, TaskIndex(task), draft, Writer::Anonymous)?).await
    }

    /// An anonymous write of a bare status, which must succeed.
    pub(crate) async fn put(&self, job: &str, task: u32, tag_name: &str, status: i32) -> Written {
        self.set(job, task, Draft::new(tag(tag_name), Status(status))).await.unwrap()
    }

    /// Anonymous writes, some at a time, in no order; each must succeed.
    pub(crate) async fn set_all(
        &self,
        job: &str,
        task: u32,
        drafts: impl IntoIterator<Item = Draft>,
    ) {
        let writes = drafts.into_iter().map(|draft| self.set(job, task, draft));
        let mut writes = stream::iter(writes).buffer_unordered(WRITES_AT_A_TIME);
        while let Some(written) = writes.next().await {
            written.unwrap();
        }
    }

    /// Every state of a job, as `(task, tag, status, version)`.
    pub(crate) async fn states(&self, job: &str) -> Vec<(u32, String, i32, u64)> {
        let wanted = JobRef::current(job_id(job));
        let reading =
            self.jobs.read(&wanted, &Filter::job(), highwater::feed::Seq::ZERO).await.unwrap();
        let rows = reading.reports.iter();
        rows.map(|row| (row.task.0, row.tag.to_string(), row.status.0, row.version.0)).collect()
    }
}
