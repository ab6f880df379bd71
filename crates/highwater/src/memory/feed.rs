//! A feed in memory: dense per scope, trimmed from its old end.

use std::collections::{HashMap, VecDeque};

use crate::{
    clock::Timestamp,
    feed::{ScopeId, Seq, Slice},
    retention::Retention,
};

/// The events of all scopes. `E` is the event, `K` what makes a write idempotent within its scope.
#[derive(Debug)]
pub(super) struct MemoryFeed<E, K> {
    revision: u64,
    scopes: HashMap<ScopeId, ScopeFeed<E, K>>,
    /// Which scope each event belongs to, oldest first: the order in which they are trimmed.
    order: VecDeque<(Timestamp, ScopeId, Seq)>,
}

#[derive(Debug)]
struct ScopeFeed<E, K> {
    /// The last event that was trimmed.
    floor: Seq,
    entries: VecDeque<(Option<K>, E)>,
    by_key: HashMap<K, Seq>,
}

/// An event with its place and time.
pub(super) struct Committed<E> {
    pub(super) scope: ScopeId,
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    pub(super) event: E,
}

impl<E, K> Default for MemoryFeed<E, K> {
    fn default() -> MemoryFeed<E, K> {
        MemoryFeed { revision: 0, scopes: HashMap::new(), order: VecDeque::new() }
    }
}

impl<E, K> ScopeFeed<E, K> {
    fn head(&self) -> Seq {
        Seq(self.floor.0 + self.entries.len() as u64)
    }
}

impl<E: Clone, K: Clone + Eq + std::hash::Hash> MemoryFeed<E, K> {
    /// The scope of a life that begins with the next event.
    pub(super) fn mint(&self) -> ScopeId {
        ScopeId(self.revision + 1)
    }

    /// The place of the scope's next event.
    pub(super) fn next(&self, scope: ScopeId) -> Seq {
        self.head(scope).unwrap_or(Seq::ZERO).next()
    }

    /// The only way into the feed.
    pub(super) fn append(
        &mut self,
        scope: ScopeId,
        at: Timestamp,
        key: Option<K>,
        event: E,
    ) -> Seq {
        self.revision += 1;
        let empty =
            || ScopeFeed { floor: Seq::ZERO, entries: VecDeque::new(), by_key: HashMap::new() };
        let feed = self.scopes.entry(scope).or_insert_with(empty);
        let seq = feed.head().next();
        self.order.push_back((at, scope, seq));
        if let Some(key) = &key {
            feed.by_key.insert(key.clone(), seq);
        }
        feed.entries.push_back((key, event));
        seq
    }

    /// The event that was appended under `key`, if it is still there.
    pub(super) fn find(&self, scope: ScopeId, key: &K) -> Option<&E> {
        let feed = self.scopes.get(&scope)?;
        let seq = feed.by_key.get(key)?;
        let index = usize::try_from(seq.0 - feed.floor.0 - 1).ok()?;
        feed.entries.get(index).map(|(_, event)| event)
    }

    pub(super) fn head(&self, scope: ScopeId) -> Option<Seq> {
        self.scopes.get(&scope).map(ScopeFeed::head)
    }

    /// The events behind `after`; what it means that there are none depends on `is_over`.
    pub(super) fn read(&self, scope: ScopeId, after: Seq, max: usize, is_over: bool) -> Slice<E> {
        let Some(feed) = self.scopes.get(&scope) else { return Slice::Ended };
        let Some(skip) = after.0.checked_sub(feed.floor.0) else {
            return Slice::Gone { floor: feed.floor };
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let entries: Vec<_> = (after.0 + 1..)
            .map(Seq)
            .zip(feed.entries.iter().skip(skip).take(max).map(|(_, event)| event.clone()))
            .collect();
        if entries.is_empty() && is_over { Slice::Ended } else { Slice::Entries(entries) }
    }

    /// When the oldest event was appended.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.order.front().map(|&(at, ..)| at)
    }

    /// The newest revision.
    pub(super) fn newest(&self) -> Seq {
        Seq(self.revision)
    }

    /// The events of all scopes behind a revision.
    pub(super) fn read_all(&self, after: Seq, max: usize) -> Slice<Committed<E>> {
        let floor = Seq(self.revision - self.order.len() as u64);
        let Some(skip) = after.0.checked_sub(floor.0) else { return Slice::Gone { floor } };
        let behind = self.order.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)).take(max);
        let events = behind.filter_map(|&(at, scope, seq)| {
            let feed = self.scopes.get(&scope)?;
            let index = usize::try_from(seq.0 - feed.floor.0 - 1).ok()?;
            Some(Committed { scope, seq, at, event: feed.entries.get(index)?.1.clone() })
        });
        Slice::Entries((after.0 + 1..).map(Seq).zip(events).collect())
    }

    /// Drops what `retention` no longer covers; `is_alive` says which scopes go on without events.
    pub(super) fn trim(
        &mut self,
        retention: &Retention,
        now: Timestamp,
        is_alive: impl Fn(ScopeId) -> bool,
    ) -> u64 {
        let oldest_kept = now.earlier_by(retention.feed_age);
        let mut trimmed = 0;
        while let Some(&(at, scope, _)) = self.order.front() {
            let is_too_many = self.order.len() as u64 > retention.feed_events;
            if at >= oldest_kept && !is_too_many {
                break;
            }
            self.order.pop_front();
            trimmed += 1;
            let Some(feed) = self.scopes.get_mut(&scope) else { continue };
            feed.floor = feed.floor.next();
            if let Some((Some(key), _)) = feed.entries.pop_front() {
                feed.by_key.remove(&key);
            }
            if feed.entries.is_empty() && !is_alive(scope) {
                self.scopes.remove(&scope);
            }
        }
        trimmed
    }
}
