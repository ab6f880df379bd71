//! A clock that is told the time.

use std::time::Duration;

use highwater::clock::{Clock, Sleep, Timestamp};
use tokio::sync::watch;

/// Stands still until it is told to move. Starts in the middle of 2024.
#[derive(Debug)]
pub struct ManualClock {
    state: watch::Sender<State>,
    when_slept_on: WhenSleptOn,
}

#[derive(Debug)]
struct State {
    now: Timestamp,
    /// How long each of those who sleep wants to.
    sleepers: Vec<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhenSleptOn {
    Waits,
    Jumps,
}

const START: Timestamp = Timestamp::from_micros(1_720_000_000_000_000);

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new(WhenSleptOn::Waits)
    }
}

impl ManualClock {
    fn new(when_slept_on: WhenSleptOn) -> ManualClock {
        ManualClock {
            state: watch::Sender::new(State { now: START, sleepers: Vec::new() }),
            when_slept_on,
        }
    }

    /// A clock that jumps ahead whenever somebody wants to sleep: retries take no time.
    pub fn jumping() -> ManualClock {
        ManualClock::new(WhenSleptOn::Jumps)
    }

    /// Moves the time, and wakes whoever has slept long enough.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.state
            .send_modify(|state| state.now = Timestamp::from_micros(state.now.as_micros() + by));
    }

    /// Sets the time back, as a wall clock may be.
    pub fn set_back(&self, by: Duration) {
        self.state.send_modify(|state| state.now = state.now.earlier_by(by));
    }

    /// Ready when somebody sleeps on this clock for `span`: then it is time to move it.
    pub async fn is_slept_on_for(&self, span: Duration) {
        let mut state = self.state.subscribe();
        let waited = state.wait_for(|state| state.sleepers.contains(&span)).await;
        assert!(waited.is_ok(), "the clock outlives the wait: it is borrowed");
    }
}

/// Counts a sleeper for as long as it sleeps.
struct Sleeper(watch::Sender<State>, Duration);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let Sleeper(state, span) = self;
        state.send_modify(|state| {
            let index = state.sleepers.iter().position(|sleeper| sleeper == span);
            index.map(|index| state.sleepers.swap_remove(index));
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.state.borrow().now
    }

    fn sleep(&self, span: Duration) -> Sleep {
        if self.when_slept_on == WhenSleptOn::Jumps {
            self.advance(span);
            return Box::pin(tokio::task::yield_now());
        }
        let wake_at = self
            .now()
            .as_micros()
            .saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX));
        let mut state = self.state.subscribe();
        self.state.send_modify(|state| state.sleepers.push(span));
        let sleeper = Sleeper(self.state.clone(), span);
        Box::pin(async move {
            let _sleeper = sleeper;
            // Ends early only if the clock is gone, and then nobody is left to care.
            let _ = state.wait_for(|state| state.now.as_micros() >= wake_at).await;
        })
    }
}
