//! Replay, marker, live: what a subscriber is told next, decided without waiting for anything.

use std::collections::VecDeque;

use super::{End, Position, Seq, Slice, Span, Step};
use crate::{Error, ErrorKind, limits::REPLAY_PAGE_STATES};

/// What the machine needs to hear before it can say more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The head of the scope: [`Machine::registered`].
    Head,
    /// A page of the snapshot, at most [`REPLAY_PAGE_STATES`] long: [`Machine::replayed`].
    Replay(Span),
    /// The events behind a place: [`Machine::read`].
    Changes {
        /// Not included.
        after: Seq,
    },
    /// Nothing: it is over.
    Nothing,
}

/// The pure part of a subscription. `T` is what the subscriber gets; items it did not ask for are
/// dropped by the `select` functions on the way in, and still move its position.
#[derive(Debug)]
pub struct Machine<T> {
    phase: Phase,
    /// The position behind what was read; `ready` may be behind it.
    position: Position,
    ready: VecDeque<(Step<T>, Position)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// The boundary is not known yet, or no longer.
    Unregistered,
    /// A resumed reader whose position was not yet compared with the feed.
    Unchecked,
    Registered,
    Over,
}

impl<T> Machine<T> {
    /// A reader that begins with a snapshot.
    pub fn from_snapshot() -> Machine<T> {
        Machine::new(Phase::Unregistered, Position::Live { at: Seq::ZERO })
    }

    /// A reader that goes on where another stopped.
    pub fn resumed(position: Position) -> Machine<T> {
        Machine::new(Phase::Unchecked, position)
    }

    fn new(phase: Phase, position: Position) -> Machine<T> {
        Machine { phase, position, ready: VecDeque::new() }
    }

    /// The next step and the position behind it.
    pub fn pop(&mut self) -> Option<(Step<T>, Position)> {
        self.ready.pop_front()
    }

    /// What to read next; meaningful once [`pop`](Machine::pop) has nothing more.
    pub fn want(&self) -> Want {
        match (&self.phase, self.position) {
            (Phase::Over, _) => Want::Nothing,
            (Phase::Unregistered | Phase::Unchecked, _) => Want::Head,
            (Phase::Registered, Position::Replaying { at, upto, .. }) => {
                Want::Replay(Span { after: at, upto })
            }
            (Phase::Registered, Position::Live { at }) => Want::Changes { after: at },
        }
    }

    /// The newest place of the scope is `head`. For a new reader this fixes the boundary, and a busy
    /// writer cannot move it any more.
    pub fn registered(&mut self, head: Option<Seq>) {
        let Some(head) = head else { return self.end(End::Deleted) };
        let seen = match self.position {
            Position::Replaying { upto, .. } => upto,
            Position::Live { at } => at,
        };
        if self.phase == Phase::Unchecked && seen > head {
            // The store was set back, by a backup say: what this reader holds may never have been.
            self.say(Step::Reset);
            self.phase = Phase::Unregistered;
        }
        if self.phase == Phase::Unregistered {
            self.position = Position::Replaying { at: Seq::ZERO, upto: head, count: 0 };
        }
        self.phase = Phase::Registered;
    }

    /// A page of the snapshot was read.
    pub fn replayed<E>(&mut self, page: Vec<(Seq, E)>, select: impl Fn(E) -> Option<T>) {
        let Position::Replaying { mut at, upto, mut count } = self.position else { return };
        let is_last = page.len() < REPLAY_PAGE_STATES;
        for (seq, item) in page {
            at = seq;
            if let Some(item) = select(item) {
                count += 1;
                self.ready.push_back((Step::Replay(item), Position::Replaying { at, upto, count }));
            }
        }
        self.position = Position::Replaying { at, upto, count };
        if is_last {
            self.position = Position::Live { at: upto };
            self.say(Step::SnapshotEnd { revision: upto, count });
        }
    }

    /// Events were read. Answers whether the reader moved.
    pub fn read<E>(&mut self, slice: Slice<E>, select: impl Fn(E) -> Option<T>) -> bool {
        let Position::Live { at } = self.position else { return false };
        match slice {
            Slice::Entries(entries) => self.follow(at, entries, select),
            Slice::Gone { .. } => {
                self.say(Step::Reset);
                self.phase = Phase::Unregistered;
                true
            }
            Slice::Ended => {
                self.end(End::Deleted);
                true
            }
        }
    }

    fn follow<E>(
        &mut self,
        mut at: Seq,
        entries: Vec<(Seq, E)>,
        select: impl Fn(E) -> Option<T>,
    ) -> bool {
        let before = at;
        for (seq, item) in entries {
            if seq <= at {
                continue; // Read twice; told once.
            }
            if seq != at.next() {
                let hole = format!("the feed skips from {at} to {seq}");
                self.end(End::Failed(Error::new(ErrorKind::Corrupt, hole)));
                return true;
            }
            at = seq;
            self.position = Position::Live { at };
            if let Some(item) = select(item) {
                self.say(Step::Change(item));
            }
        }
        at != before
    }

    /// Adds a step that does not move the reader.
    pub fn say(&mut self, step: Step<T>) {
        self.ready.push_back((step, self.position));
    }

    /// Nothing follows but this.
    pub fn end(&mut self, end: End) {
        self.say(Step::End(end));
        self.phase = Phase::Over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(machine: &mut Machine<char>) -> String {
        let mut words = Vec::new();
        while let Some((step, _)) = machine.pop() {
            words.push(match step {
                Step::Replay(item) => format!("replay {item}"),
                Step::SnapshotEnd { revision, count } => format!("end@{revision}#{count}"),
                Step::Change(item) => format!("change {item}"),
                Step::Stale => "stale".to_owned(),
                Step::Live => "live".to_owned(),
                Step::Reset => "reset".to_owned(),
                Step::End(End::Deleted) => "deleted".to_owned(),
                Step::End(End::Cancelled) => "cancelled".to_owned(),
                Step::End(End::Failed(error)) => format!("failed: {error}"),
            });
        }
        words.join(", ")
    }

    fn entries(items: &[(u64, char)]) -> Vec<(Seq, char)> {
        items.iter().map(|&(seq, item)| (Seq(seq), item)).collect()
    }

    fn live(at: u64) -> Machine<char> {
        let mut machine = Machine::resumed(Position::Live { at: Seq(at) });
        machine.registered(Some(Seq(at)));
        machine
    }

    #[test]
    fn an_empty_snapshot_still_has_its_marker() {
        let mut machine = Machine::from_snapshot();
        assert_eq!(machine.want(), Want::Head);
        machine.registered(Some(Seq(0)));
        machine.replayed(entries(&[]), Some);
        assert_eq!(said(&mut machine), "end@0#0");
        assert_eq!(machine.want(), Want::Changes { after: Seq(0) });
    }

    #[test]
    fn replay_then_marker_then_changes() {
        let mut machine = Machine::from_snapshot();
        machine.registered(Some(Seq(7)));
        assert_eq!(machine.want(), Want::Replay(Span { after: Seq(0), upto: Seq(7) }));
        machine.replayed(entries(&[(2, 'b'), (7, 'g')]), Some);
        assert!(machine.read(Slice::Entries(entries(&[(8, 'h'), (9, 'i')])), Some));
        assert_eq!(said(&mut machine), "replay b, replay g, end@7#2, change h, change i");
    }

    #[test]
    fn a_full_page_is_not_the_last() {
        let mut machine = Machine::from_snapshot();
        machine.registered(Some(Seq(5_000)));
        let page = (1..=REPLAY_PAGE_STATES as u64).map(|seq| (Seq(seq), 'x')).collect();
        machine.replayed(page, Some);
        let after = Seq(REPLAY_PAGE_STATES as u64);
        while machine.pop().is_some() {}
        assert_eq!(machine.want(), Want::Replay(Span { after, upto: Seq(5_000) }));
    }

    #[test]
    fn what_the_filter_drops_moves_the_reader_and_is_not_counted() {
        let mut machine = Machine::from_snapshot();
        machine.registered(Some(Seq(2)));
        let only_b = |item| (item == 'b').then_some(item);
        machine.replayed(entries(&[(1, 'a'), (2, 'b')]), only_b);
        assert!(machine.read(Slice::Entries(entries(&[(3, 'a')])), only_b));
        assert_eq!(said(&mut machine), "replay b, end@2#1");
        assert_eq!(machine.want(), Want::Changes { after: Seq(3) });
    }

    #[test]
    fn a_change_read_twice_is_told_once() {
        let mut machine = live(4);
        assert!(machine.read(Slice::Entries(entries(&[(4, 'd'), (5, 'e')])), Some));
        assert!(!machine.read(Slice::Entries(entries(&[(5, 'e')])), Some));
        assert_eq!(said(&mut machine), "change e");
    }

    #[test]
    fn a_hole_is_seen_not_suffered() {
        let mut machine = live(4);
        machine.read(Slice::Entries(entries(&[(5, 'e'), (7, 'g')])), Some);
        assert_eq!(said(&mut machine), "change e, failed: the feed skips from 5 to 7");
        assert_eq!(machine.want(), Want::Nothing);
    }

    #[test]
    fn a_reader_behind_the_retention_is_reset_and_gets_a_new_snapshot() {
        let mut machine = live(4);
        machine.read(Slice::Gone { floor: Seq(9) }, Some);
        assert_eq!(machine.want(), Want::Head);
        machine.registered(Some(Seq(12)));
        machine.replayed(entries(&[(12, 'l')]), Some);
        assert_eq!(said(&mut machine), "reset, replay l, end@12#1");
    }

    #[test]
    fn a_reader_ahead_of_a_store_that_was_set_back_is_reset() {
        let mut machine = Machine::resumed(Position::Live { at: Seq(9) });
        machine.registered(Some(Seq(3)));
        machine.replayed(entries(&[(3, 'c')]), Some);
        assert_eq!(said(&mut machine), "reset, replay c, end@3#1");
    }

    #[test]
    fn a_replay_is_resumed_in_its_middle_and_keeps_its_boundary_and_count() {
        let halfway = Position::Replaying { at: Seq(3), upto: Seq(7), count: 2 };
        let mut machine = Machine::resumed(halfway);
        machine.registered(Some(Seq(20)));
        assert_eq!(machine.want(), Want::Replay(Span { after: Seq(3), upto: Seq(7) }));
        machine.replayed(entries(&[(6, 'f')]), Some);
        assert_eq!(said(&mut machine), "replay f, end@7#3");
    }

    #[test]
    fn every_step_carries_the_position_behind_it() {
        let mut machine = Machine::from_snapshot();
        machine.registered(Some(Seq(2)));
        machine.replayed(entries(&[(1, 'a'), (2, 'b')]), Some);
        machine.read(Slice::Entries(entries(&[(3, 'c')])), Some);
        let positions: Vec<_> = std::iter::from_fn(|| machine.pop()).map(|(_, at)| at).collect();
        let upto = Seq(2);
        assert_eq!(
            positions,
            [
                Position::Replaying { at: Seq(1), upto, count: 1 },
                Position::Replaying { at: Seq(2), upto, count: 2 },
                Position::Live { at: Seq(2) },
                Position::Live { at: Seq(3) },
            ]
        );
    }

    #[test]
    fn a_scope_that_is_over_ends_the_reader() {
        let mut machine = live(4);
        machine.read(Slice::<char>::Ended, Some);
        assert_eq!(said(&mut machine), "deleted");
        let mut machine = Machine::from_snapshot();
        machine.registered(None);
        assert_eq!(said(&mut machine), "deleted");
        assert_eq!(machine.want(), Want::Nothing);
    }
}
