//! The newest events of every scope that somebody follows, and a bell per scope.
//!
//! Whoever commits publishes here afterwards. Subscribers read from memory while they keep up and
//! from the log when they do not; they never delay a writer, because a writer never waits here.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::watch;

use super::{ScopeId, Seq};
use crate::{
    limits::{TAIL_BYTES_MAX, TAIL_EVENTS_MAX},
    sync::Mutex,
};

/// A committed event on its way to those who follow its scope.
#[derive(Debug, Clone)]
pub struct Published<E> {
    /// Whose event it is.
    pub scope: ScopeId,
    /// Its place there.
    pub seq: Seq,
    /// The event.
    pub event: E,
    /// About how much memory it takes.
    pub bytes: usize,
    /// Whether it is the last one of its scope.
    pub is_last: bool,
}

/// The tails of all scopes that have a listener. A scope that nobody follows costs nothing.
#[derive(Debug)]
pub struct Hub<E> {
    scopes: Mutex<HashMap<ScopeId, Followed<E>>>,
    bytes: AtomicUsize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Followed<E> {
    tail: Arc<Tail<E>>,
    listeners: usize,
}

#[derive(Debug)]
struct Tail<E> {
    ring: Mutex<Ring<E>>,
    rings: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring<E> {
    /// Dense: each is the one after its neighbour.
    events: VecDeque<(Seq, E, usize)>,
    is_over: bool,
    /// The last listener has left, and took the bytes off the books: nothing may be added.
    is_abandoned: bool,
}

/// A listener's hold on its scope, and the sound of its bell. Dropping it frees what it held.
#[derive(Debug)]
pub struct Bell {
    rings: watch::Receiver<u64>,
    _lease: Option<Box<dyn Lease>>,
}

trait Lease: std::fmt::Debug + Send + Sync {}

#[derive(Debug)]
struct HubLease<E> {
    hub: Arc<Hub<E>>,
    scope: ScopeId,
}

impl<E: std::fmt::Debug + Send + Sync> Lease for HubLease<E> {}

impl Bell {
    /// A bell on a string of the caller's own.
    pub fn of(rings: watch::Receiver<u64>) -> Bell {
        Bell { rings, _lease: None }
    }

    /// Forgets past rings. Call it before reading: what comes later rings again.
    pub fn mute(&mut self) {
        self.rings.borrow_and_update();
    }

    /// Ready when it rang since [`mute`](Bell::mute).
    pub async fn rang(&mut self) {
        if self.rings.changed().await.is_err() {
            // Whoever rang it is gone. The poll behind the bell goes on alone.
            std::future::pending::<()>().await;
        }
    }
}

impl<E> Default for Hub<E> {
    fn default() -> Hub<E> {
        Hub::with_capacity(TAIL_BYTES_MAX)
    }
}

impl<E> Hub<E> {
    /// A hub whose tails together keep about `bytes_max`.
    pub fn with_capacity(bytes_max: usize) -> Hub<E> {
        Hub { scopes: Mutex::new(HashMap::new()), bytes: AtomicUsize::new(0), bytes_max }
    }

    /// How many scopes somebody follows.
    pub fn scopes_followed(&self) -> usize {
        self.scopes.lock().len()
    }

    /// About how much memory all tails take.
    pub fn bytes_held(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl<E: Clone + std::fmt::Debug + Send + Sync + 'static> Hub<E> {
    /// Begins to keep the tail of `scope`, and hands out its bell.
    pub fn listen(self: &Arc<Self>, scope: ScopeId) -> Bell {
        let mut scopes = self.scopes.lock();
        let followed = scopes.entry(scope).or_insert_with(|| {
            let ring = Ring { events: VecDeque::new(), is_over: false, is_abandoned: false };
            let tail = Tail { ring: Mutex::new(ring), rings: watch::Sender::new(0) };
            Followed { tail: Arc::new(tail), listeners: 0 }
        });
        followed.listeners += 1;
        let lease = HubLease { hub: Arc::clone(self), scope };
        Bell { rings: followed.tail.rings.subscribe(), _lease: Some(Box::new(lease)) }
    }

    /// Takes over committed events, in the order of their commits, and rings.
    pub fn publish(&self, events: impl IntoIterator<Item = Published<E>>) {
        let mut ringing: Vec<Arc<Tail<E>>> = Vec::new();
        for published in events {
            let Some(tail) = self.tail(published.scope) else { continue };
            self.append(&tail, published);
            if !ringing.last().is_some_and(|last| Arc::ptr_eq(last, &tail)) {
                ringing.push(tail);
            }
        }
        for tail in ringing {
            tail.rings.send_modify(|rings| *rings += 1);
        }
    }

    fn tail(&self, scope: ScopeId) -> Option<Arc<Tail<E>>> {
        self.scopes.lock().get(&scope).map(|followed| Arc::clone(&followed.tail))
    }

    fn append(&self, tail: &Tail<E>, published: Published<E>) {
        let Published { scope: _, seq, event, bytes, is_last } = published;
        let mut ring = tail.ring.lock();
        if ring.is_abandoned {
            return;
        }
        match ring.events.back() {
            Some(&(newest, ..)) if seq <= newest => return,
            // A gap: what is before it can no longer be joined to what follows.
            Some(&(newest, ..)) if seq != newest.next() => self.forget(&mut ring, usize::MAX),
            Some(_) | None => {}
        }
        ring.events.push_back((seq, event, bytes));
        ring.is_over |= is_last;
        let mut held = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        while ring.events.len() > TAIL_EVENTS_MAX
            || (held > self.bytes_max && ring.events.len() > 1)
        {
            self.forget(&mut ring, 1);
            held = self.bytes_held();
        }
    }

    fn forget(&self, ring: &mut Ring<E>, count: usize) {
        let count = count.min(ring.events.len());
        let bytes = ring.events.drain(..count).map(|(_, _, bytes)| bytes).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The events behind `after`, if memory has them all; `None` means ask the log.
    pub fn read(&self, scope: ScopeId, after: Seq, max: usize) -> Option<Vec<(Seq, E)>> {
        let tail = self.tail(scope)?;
        let ring = tail.ring.lock();
        let (oldest, newest) = (ring.events.front()?.0, ring.events.back()?.0);
        if after >= newest {
            // Caught up; but only the log can say that there will be no more.
            return (!ring.is_over).then(Vec::new);
        }
        let skip = usize::try_from(after.next().0.checked_sub(oldest.0)?).ok()?;
        let events = ring.events.iter().skip(skip).take(max);
        Some(events.map(|(seq, event, _)| (*seq, event.clone())).collect())
    }
}

impl<E> Drop for HubLease<E> {
    fn drop(&mut self) {
        let mut scopes = self.hub.scopes.lock();
        let Some(followed) = scopes.get_mut(&self.scope) else { return };
        followed.listeners -= 1;
        if followed.listeners == 0
            && let Some(followed) = scopes.remove(&self.scope)
        {
            let mut ring = followed.tail.ring.lock();
            ring.is_abandoned = true;
            let bytes: usize = ring.events.drain(..).map(|(_, _, bytes)| bytes).sum();
            self.hub.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: ScopeId = ScopeId(1);

    fn event(seq: u64, bytes: usize) -> Published<u64> {
        Published { scope: SCOPE, seq: Seq(seq), event: seq, bytes, is_last: false }
    }

    fn seqs(read: Option<Vec<(Seq, u64)>>) -> Option<Vec<u64>> {
        read.map(|events| events.into_iter().map(|(_, event)| event).collect())
    }

    #[test]
    fn nobody_listens_and_nothing_is_kept() {
        let hub = Arc::new(Hub::default());
        hub.publish([event(1, 100)]);
        assert_eq!((hub.scopes_followed(), hub.bytes_held()), (0, 0));
    }

    #[test]
    fn memory_answers_only_what_it_has_without_a_gap() {
        let hub = Arc::new(Hub::default());
        let _bell = hub.listen(SCOPE);
        assert_eq!(seqs(hub.read(SCOPE, Seq(4), 10)), None, "nothing was published yet");
        hub.publish([event(5, 1), event(6, 1), event(7, 1)]);
        assert_eq!(seqs(hub.read(SCOPE, Seq(3), 10)), None, "4 is not in memory");
        assert_eq!(seqs(hub.read(SCOPE, Seq(4), 2)), Some(vec![5, 6]));
        assert_eq!(seqs(hub.read(SCOPE, Seq(7), 10)), Some(vec![]));
        hub.publish([event(9, 1)]);
        assert_eq!(seqs(hub.read(SCOPE, Seq(7), 10)), None, "8 was never seen");
        assert_eq!(seqs(hub.read(SCOPE, Seq(8), 10)), Some(vec![9]));
    }

    #[test]
    fn after_the_last_event_the_log_is_asked() {
        let hub = Arc::new(Hub::default());
        let _bell = hub.listen(SCOPE);
        hub.publish([Published { is_last: true, ..event(5, 1) }]);
        assert_eq!(seqs(hub.read(SCOPE, Seq(4), 10)), Some(vec![5]));
        assert_eq!(seqs(hub.read(SCOPE, Seq(5), 10)), None);
    }

    #[test]
    fn a_tail_is_bounded_in_events_and_in_bytes() {
        let hub = Arc::new(Hub::with_capacity(1_000));
        let _bell = hub.listen(SCOPE);
        hub.publish((1..=10).map(|seq| event(seq, 300)));
        assert_eq!(hub.bytes_held(), 900);
        assert_eq!(seqs(hub.read(SCOPE, Seq(7), 10)), Some(vec![8, 9, 10]));
        hub.publish((11..=5_000).map(|seq| event(seq, 0)));
        let oldest_kept = 5_000 - TAIL_EVENTS_MAX as u64;
        assert_eq!(seqs(hub.read(SCOPE, Seq(oldest_kept - 1), 1)), None);
        assert_eq!(seqs(hub.read(SCOPE, Seq(oldest_kept), 1)), Some(vec![oldest_kept + 1]));
    }

    #[test]
    fn the_last_listener_to_leave_frees_everything() {
        let hub = Arc::new(Hub::default());
        let (first, second) = (hub.listen(SCOPE), hub.listen(SCOPE));
        hub.publish([event(1, 100)]);
        drop(first);
        assert_eq!((hub.scopes_followed(), hub.bytes_held()), (1, 100));
        drop(second);
        assert_eq!((hub.scopes_followed(), hub.bytes_held()), (0, 0));
    }

    #[tokio::test]
    async fn a_bell_rings_for_its_own_scope_only() {
        let hub = Arc::new(Hub::default());
        let (mut mine, mut other) = (hub.listen(SCOPE), hub.listen(ScopeId(2)));
        mine.mute();
        other.mute();
        hub.publish([event(1, 1)]);
        mine.rang().await;
        assert!(!other.rings.has_changed().unwrap());
    }
}
