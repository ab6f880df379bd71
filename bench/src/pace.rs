//! Writes at a fixed pace, each with the moment in it at which it was begun.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Result,
    fixture::{Plan, message},
    report::Rate,
};

/// Whether a write counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    WarmUp,
    Measured,
}

/// How often is written, and how often in all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    gap: Duration,
    warm_up: u32,
    pub(crate) puts: u32,
}

impl Pace {
    pub(crate) fn new(plan: &Plan, per_second: u32) -> Result<Pace> {
        let per_second = NonZeroU32::new(per_second).ok_or("the pace must not be zero")?.get();
        let gap = Duration::from_secs(1) / per_second;
        let within = |span: Duration| u32::try_from(span.as_nanos() / gap.as_nanos());
        Ok(Pace { gap, warm_up: within(plan.warm_up)?, puts: within(plan.span)? })
    }

    /// Calls `put` at every tick, whether the last put was answered or not.
    pub(crate) async fn keep(self, mut put: impl FnMut(Phase) -> Result<()>) -> Result<Rate> {
        let mut ticks = interval(self.gap);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for _ in 0..self.warm_up {
            ticks.tick().await;
            put(Phase::WarmUp)?;
        }
        let begun = Instant::now();
        for _ in 0..self.puts {
            ticks.tick().await;
            put(Phase::Measured)?;
        }
        Ok(Rate::of(self.puts.into(), begun.elapsed()))
    }
}

/// A message that ends with the nanoseconds since `epoch`.
pub(crate) fn stamped(epoch: Instant) -> String {
    message(epoch.elapsed().as_nanos())
}

/// When after its epoch a message was stamped.
pub(crate) fn stamp(message: &str) -> Result<Duration> {
    const DIGITS: usize = 19; // Leads beyond the year 2200, and is parsed quickly.
    let digits = message.len().checked_sub(DIGITS).and_then(|start| message.get(start..));
    Ok(digits.ok_or("a message without a stamp")?.parse().map(Duration::from_nanos)?)
}

pub(crate) fn since_stamp(epoch: Instant, message: &str) -> Result<Duration> {
    let now = epoch.elapsed();
    Ok(now.saturating_sub(stamp(message)?))
}
