//! The feed: what changed, in order, for everybody, at their own pace.
//!
//! Every scope (one life of one thing, such as an incarnation of a job) has a dense sequence of
//! events: 1, 2, 3 … in commit order. A reader first replays a snapshot, then gets one marker, then
//! follows the feed. Which of these comes next is decided by a pure machine ([`Machine`]); the loop
//! around it ([`Follower`]) is the same for every engine with a [`Log`]; the [`Hub`] keeps the newest
//! events in memory and rings a bell per scope.

mod events;
mod follow;
mod hub;
mod log;
mod machine;
mod token;

use std::fmt;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};

pub use events::{ALL, Domain, EventFeed, FeedEvent, FollowEvents};
pub use follow::{Follower, Patience};
pub use hub::{Bell, Hub, Published};
pub use log::{Log, Slice, Span};
pub use machine::{Machine, Want};
pub use token::{Fingerprint, Mark, Token};

use crate::Error;

/// A place in a scope's feed. The first event is 1; 0 is "before everything".
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = u64))]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first event.
    pub const ZERO: Seq = Seq(0);

    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of one thing. Minted by the store from its revision, so later is greater; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = u64))]
pub struct ScopeId(pub u64);

impl fmt::Display for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which feed a token was cut from: another file or another server has another id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedId(pub u64);

impl FeedId {
    /// An id that no other feed has.
    pub fn random() -> FeedId {
        FeedId(uuid::Uuid::new_v4().as_u64_pair().0)
    }
}

/// Where a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// In the snapshot: records up to `at` were delivered, `count` of them, the boundary is `upto`.
    Replaying {
        /// The last record that was delivered.
        at: Seq,
        /// The boundary, fixed when the reader registered.
        upto: Seq,
        /// How many were delivered.
        count: u64,
    },
    /// Behind the marker: every change up to `at` was delivered.
    Live {
        /// The last change that was delivered.
        at: Seq,
    },
}

/// What a subscriber is told next.
#[derive(Debug)]
pub enum Step<T> {
    /// A record that existed when the subscriber registered; oldest change first.
    Replay(T),
    /// The snapshot is complete. Comes exactly once per snapshot, also when nothing was replayed.
    SnapshotEnd {
        /// The snapshot shows everything up to here.
        revision: Seq,
        /// How many records were replayed.
        count: u64,
    },
    /// A change, in order. None is left out.
    Change(T),
    /// The store is away. What was delivered stands, but may be out of date.
    Stale,
    /// The store is back, and no change was lost.
    Live,
    /// The feed was trimmed past this reader: drop what you hold, a new snapshot follows.
    Reset,
    /// Nothing follows, and this is why.
    End(End),
}

/// Why a subscription ended.
#[derive(Debug)]
pub enum End {
    /// Its owner closed it.
    Cancelled,
    /// What it followed was deleted.
    Deleted,
    /// It cannot go on.
    Failed(Error),
}

/// One step and the place behind it, from which another reader can resume.
#[derive(Debug)]
pub struct Delivery<T> {
    /// What happened.
    pub step: Step<T>,
    /// Where the subscriber stands once it has taken this step; `None` before the first.
    pub mark: Option<Mark>,
}

impl<T> Delivery<T> {
    /// What to keep in order to resume behind this step.
    pub fn token(&self) -> Option<Token> {
        self.mark.map(|mark| mark.token())
    }
}

/// A pull stream: nothing happens while nobody polls it. Ends after [`Step::End`].
pub type Follow<T> = BoxStream<'static, Delivery<T>>;

/// Where a subscription begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With a snapshot of what there is.
    Snapshot,
    /// Behind the step that this token came with.
    After(Token),
}
