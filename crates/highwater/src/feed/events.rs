//! The whole feed, for monitors and audits: every event of every scope, in the order of commits.

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Fingerprint, Follow, Patience, ScopeId, Seq, Start};
use crate::{Error, Result, clock::Timestamp};

/// The domains that write to the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Domain {
    /// Jobs.
    Jobs,
}

impl Domain {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Domain::Jobs => "jobs",
        }
    }
}

impl std::str::FromStr for Domain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Domain> {
        match text {
            "jobs" => Ok(Domain::Jobs),
            _ => Err(Error::invalid("domain", text, "must be `jobs`")),
        }
    }
}

/// One event of any domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedEvent {
    /// Its place among all events of the store.
    pub revision: Seq,
    /// Whose event it is.
    pub domain: Domain,
    /// What happened, such as `job.put`.
    pub kind: String,
    /// In which life of which thing.
    pub scope: ScopeId,
    /// Its place there.
    pub seq: Seq,
    /// When it was committed.
    pub at: Timestamp,
    /// What it happened to, as it is after the event.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub body: Arc<RawValue>,
}

impl PartialEq for FeedEvent {
    fn eq(&self, other: &FeedEvent) -> bool {
        let place =
            |event: &FeedEvent| (event.revision, event.domain, event.scope, event.seq, event.at);
        place(self) == place(other)
            && self.kind == other.kind
            && self.body.get() == other.body.get()
    }
}

impl Eq for FeedEvent {}

/// Which events to follow, from where, and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowEvents {
    /// Only those of one domain.
    pub domain: Option<Domain>,
    /// From where. A [`Snapshot`](Start::Snapshot) is empty here: it begins with what comes next.
    pub start: Start,
    /// For how long to try while the store is away.
    pub patience: Patience,
}

impl FollowEvents {
    /// What goes into a resume token.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&["events", self.domain.map_or("", Domain::name)])
    }

    /// Whether an event is wanted.
    pub fn selects(&self, event: &FeedEvent) -> bool {
        self.domain.is_none_or(|domain| domain == event.domain)
    }
}

/// The scope of all scopes. No life has this number: revisions count from 1.
pub const ALL: ScopeId = ScopeId(0);

/// A store whose whole feed can be followed.
///
/// # Contract
///
/// Events come in the order of their commits, none is left out and none comes twice; their revisions
/// are dense. A reader behind the retention of the feed is told so by a [`Reset`](super::Step::Reset)
/// and goes on with what comes next.
#[async_trait]
pub trait EventFeed: Debug + Send + Sync {
    /// A marker, then every event. Registered when this returns.
    async fn follow_events(&self, request: FollowEvents) -> Result<Follow<Arc<FeedEvent>>>;
}
