//! What an engine with a log offers to the shared loop.

use std::{fmt::Debug, future::Future};

use super::{Bell, ScopeId, Seq};
use crate::Result;

/// A stretch of a scope's feed: behind `after`, up to and with `upto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Not included.
    pub after: Seq,
    /// Included.
    pub upto: Seq,
}

/// What was found behind a place in the feed.
#[derive(Debug, PartialEq, Eq)]
pub enum Slice<E> {
    /// The next events, dense and in order; none if the reader has caught up.
    Entries(Vec<(Seq, E)>),
    /// The feed was trimmed past the reader: the first event left is behind `floor`.
    Gone {
        /// The last event that was trimmed.
        floor: Seq,
    },
    /// The scope is over, and the reader has seen all of it that is left.
    Ended,
}

/// The read side of a feed. The write side has no trait: each engine appends in its own transaction.
pub trait Log: Debug + Send + Sync + 'static {
    /// A record or an event.
    type Item: Send + 'static;

    /// The newest place of the scope; `None` if nothing of it is left.
    fn head(&self, scope: ScopeId) -> impl Future<Output = Result<Option<Seq>>> + Send;

    /// Records whose last change lies in `span`, in order, at most `max`; fewer than `max` means
    /// that these are all. One rewritten since falls out: its change comes live. An engine may leave
    /// out records that the reader's filter would drop.
    fn replay(
        &self,
        scope: ScopeId,
        span: Span,
        max: usize,
    ) -> impl Future<Output = Result<Vec<(Seq, Self::Item)>>> + Send;

    /// The events behind `after`, at most `max`, none left out.
    fn read(
        &self,
        scope: ScopeId,
        after: Seq,
        max: usize,
    ) -> impl Future<Output = Result<Slice<Self::Item>>> + Send;

    /// Rings when the scope may have moved. A hint: early is harmless, and "never" is covered by the
    /// poll behind it.
    fn bell(&self, scope: ScopeId) -> Bell;
}
