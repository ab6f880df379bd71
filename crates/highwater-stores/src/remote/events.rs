//! The whole feed of the server's store.

use std::sync::Arc;

use async_trait::async_trait;
use highwater::{
    Result,
    feed::{EventFeed, FeedEvent, Follow, FollowEvents},
};

use super::{
    RemoteStore,
    sse::{Listener, Topic},
};

#[async_trait]
impl EventFeed for RemoteStore {
    async fn follow_events(&self, request: FollowEvents) -> Result<Follow<Arc<FeedEvent>>> {
        let FollowEvents { domain, start, patience } = request;
        let query = domain.map(|domain| ("domain", domain.name().to_owned()));
        let topic = Topic {
            operation: "follow the feed",
            path: vec!["events".to_owned()],
            query: query.into_iter().collect(),
            life: None,
        };
        Listener::follow(Arc::clone(&self.http), topic, start, patience).await
    }
}
