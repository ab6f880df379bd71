//! The executable specification: one lock, one map, and the rules applied under the lock.
//!
//! The other engines are compared with this one. It is also good for tests and for one process that
//! needs no durability: what it acknowledges is applied, and gone with the process.

mod events;
mod feed;
mod jobs;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    Result,
    clock::{Clock, SystemClock, Timestamp},
    feed::{FeedId, Hub, Published},
    jobs::JobEvent,
    retention::{Retention, Swept, Upkeep},
    sync::{Mutex, MutexGuard},
};

/// Keeps everything in this process. Clones share what they keep.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Never held across an await, and each critical section is a few lines.
    jobs: Mutex<jobs::Jobs>,
    /// For its bells; the feed itself is in memory anyway.
    hub: Arc<Hub<JobEvent>>,
    /// Rings whenever anything was committed.
    bell: watch::Sender<u64>,
    feed: FeedId,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store that tells the time by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        let (jobs, hub, bell) = (Mutex::default(), Arc::default(), watch::Sender::new(0));
        MemoryStore { shared: Arc::new(Shared { jobs, hub, bell, feed: FeedId::random(), clock }) }
    }

    /// The store again, for as long as somebody else has it.
    pub fn downgrade(&self) -> impl Fn() -> Option<MemoryStore> + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| MemoryStore { shared })
    }

    /// Tells everybody. Called under the lock, so that the order is that of the commits.
    fn publish(&self, events: impl IntoIterator<Item = Published<JobEvent>>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_some() {
            self.shared.hub.publish(events);
            self.shared.bell.send_modify(|rings| *rings += 1);
        }
    }

    fn jobs(&self) -> MutexGuard<'_, jobs::Jobs> {
        self.shared.jobs.lock()
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(Arc::new(SystemClock))
    }
}

#[async_trait]
impl Upkeep for MemoryStore {
    async fn sweep(&self, retention: &Retention) -> Result<Swept> {
        let now = self.shared.clock.now();
        let mut jobs = self.jobs();
        let (swept, published) = jobs.sweep(retention, now);
        self.publish(published);
        Ok(swept)
    }

    async fn oldest_event(&self) -> Result<Option<Timestamp>> {
        Ok(self.jobs().oldest_event())
    }
}
