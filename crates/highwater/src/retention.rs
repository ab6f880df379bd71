//! How long things are kept, and the port through which an engine lets go of them.

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;

use crate::{Result, clock::Timestamp};

const DAY: Duration = Duration::from_hours(24);

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events older than this leave the feed, and with them their event ids.
    pub feed_age: Duration,
    /// Past this many events the oldest leave the feed, however young.
    pub feed_events: u64,
    /// A job is erased this long after its last change if it is finished or tombstoned; never if
    /// `None`.
    pub ended_jobs: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { feed_age: 7 * DAY, feed_events: 10_000_000, ended_jobs: None }
    }
}

/// What a sweep let go of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Events that left the feed.
    pub events: u64,
    /// Jobs that were erased.
    pub jobs: u64,
}

/// An engine that keeps more than it must. One method, for all of its domains: they share a feed.
#[async_trait]
pub trait Upkeep: Debug + Send + Sync {
    /// Lets go of what `retention` no longer covers. Safe to call at any time, from any process;
    /// readers that are overtaken are told by a [`Reset`](crate::feed::Step::Reset).
    async fn sweep(&self, retention: &Retention) -> Result<Swept>;

    /// When the oldest event that is still in the feed was committed.
    async fn oldest_event(&self) -> Result<Option<Timestamp>>;
}
