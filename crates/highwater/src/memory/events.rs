//! The whole feed in memory.

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::{
    Result,
    feed::{
        ALL, Bell, EventFeed, FeedEvent, Follow, FollowEvents, Follower, Log, ScopeId, Seq, Slice,
        Span,
    },
};

#[async_trait]
impl EventFeed for MemoryStore {
    async fn follow_events(&self, request: FollowEvents) -> Result<Follow<Arc<FeedEvent>>> {
        let identity = (self.shared.feed, ALL, request.fingerprint());
        let log = MemoryEventLog { store: self.clone() };
        let (start, patience, clock) =
            (request.start.clone(), request.patience, Arc::clone(&self.shared.clock));
        let select = move |event: Arc<FeedEvent>| request.selects(&event).then_some(event);
        Ok(Follower::register(log, identity, &start, patience, clock, select).await?.into_stream())
    }
}

#[derive(Debug)]
struct MemoryEventLog {
    store: MemoryStore,
}

impl Log for MemoryEventLog {
    type Item = Arc<FeedEvent>;

    async fn head(&self, _: ScopeId) -> Result<Option<Seq>> {
        Ok(Some(self.store.jobs().newest()))
    }

    async fn replay(&self, _: ScopeId, _: Span, _: usize) -> Result<Vec<(Seq, Arc<FeedEvent>)>> {
        Ok(Vec::new())
    }

    async fn read(&self, _: ScopeId, after: Seq, max: usize) -> Result<Slice<Arc<FeedEvent>>> {
        self.store.jobs().events(after, max)
    }

    fn bell(&self, _: ScopeId) -> Bell {
        Bell::of(self.store.shared.bell.subscribe())
    }
}
