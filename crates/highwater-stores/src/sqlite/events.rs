//! The whole feed of the file.

use std::sync::Arc;

use async_trait::async_trait;
use highwater::{
    Result,
    feed::{
        ALL, Bell, EventFeed, FeedEvent, Follow, FollowEvents, Follower, Log, ScopeId, Seq, Slice,
        Span,
    },
};

use super::{SqliteStore, feed};

#[async_trait]
impl EventFeed for SqliteStore {
    async fn follow_events(&self, request: FollowEvents) -> Result<Follow<Arc<FeedEvent>>> {
        let identity = (self.shared.feed, ALL, request.fingerprint());
        let log = SqliteEventLog { store: self.clone() };
        let (start, patience, clock) =
            (request.start.clone(), request.patience, Arc::clone(&self.shared.clock));
        let select = move |event: Arc<FeedEvent>| request.selects(&event).then_some(event);
        Ok(Follower::register(log, identity, &start, patience, clock, select).await?.into_stream())
    }
}

/// Read from the file at every ring: monitors are few, and what they read is in the kernel's memory.
#[derive(Debug)]
struct SqliteEventLog {
    store: SqliteStore,
}

impl Log for SqliteEventLog {
    type Item = Arc<FeedEvent>;

    async fn head(&self, _: ScopeId) -> Result<Option<Seq>> {
        self.store.shared.readers.read(|connection| feed::newest(connection).map(Some)).await
    }

    async fn replay(&self, _: ScopeId, _: Span, _: usize) -> Result<Vec<(Seq, Arc<FeedEvent>)>> {
        Ok(Vec::new())
    }

    async fn read(&self, _: ScopeId, after: Seq, max: usize) -> Result<Slice<Arc<FeedEvent>>> {
        self.store
            .shared
            .readers
            .read(move |connection| feed::read_all(connection, after, max))
            .await
    }

    fn bell(&self, _: ScopeId) -> Bell {
        Bell::of(self.store.shared.bell.subscribe())
    }
}
