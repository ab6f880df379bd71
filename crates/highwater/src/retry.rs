//! When to try again: two pure functions, and the loop around an idempotent call.

use std::time::Duration;

use crate::{Error, ErrorKind, Outcome, Result, clock::Clock};

/// Shortest wait of a subscription for a store that is away.
const RECONNECT_DELAY_MIN: Duration = Duration::from_secs(1);
/// Longest wait of a subscription for a store that is away.
const RECONNECT_DELAY_MAX: Duration = Duration::from_mins(1);

/// First wait of a call that failed.
const CALL_DELAY_MIN: Duration = Duration::from_millis(20);
/// Tries of a call, the first included: with the waits between them about a second, which covers
/// the restart of a store, and no caller hangs on a store that stays away.
const CALL_TRIES: u32 = 6;

/// How long to wait before reconnecting, `outage` after the link broke. `chance` is in `0.0..1.0`.
///
/// The wait grows with the outage (half of it, which makes the tries grow exponentially), so an
/// outage of 10 s is noticed to be over within 5 s; jitter takes up to half of it away, so that a
/// thousand subscribers do not come back in the same instant.
pub fn reconnect_delay(outage: Duration, chance: f64) -> Duration {
    let longest = (outage / 2).clamp(RECONNECT_DELAY_MIN, RECONNECT_DELAY_MAX);
    longest.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
}

/// How long to wait after the `failed`-th failure of a call (from 1), or `None` to give up.
fn call_delay(failed: u32, chance: f64) -> Option<Duration> {
    let longest = CALL_DELAY_MIN * 2_u32.saturating_pow(failed);
    (failed < CALL_TRIES).then(|| longest.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0))
}

/// Makes an idempotent call until it succeeds, fails for good, or has failed too often.
///
/// `call` gets the number of the try, from 1. The last error reaches the caller, who decides.
pub async fn idempotent<T, F>(clock: &dyn Clock, mut call: impl FnMut(u32) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut failed = 0;
    let mut is_in_doubt = false;
    loop {
        let error: Error = match call(failed + 1).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        failed += 1;
        is_in_doubt |= error.outcome() == Outcome::Unknown;
        match call_delay(failed, fastrand::f64()) {
            Some(delay) if error.is_transient() => clock.sleep(delay).await,
            Some(_) | None => return Err(if is_in_doubt { doubtful(error) } else { error }),
        }
    }
}

/// The last error of a call of which an earlier try may have landed. That the last one did not says
/// nothing about the earlier one; only an answer that looked at what is stored does.
fn doubtful(last: Error) -> Error {
    match last.kind() {
        ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Fenced
        | ErrorKind::Tombstoned
        | ErrorKind::BadToken
        | ErrorKind::Gone
        | ErrorKind::Interrupted => last,
        ErrorKind::InUse
        | ErrorKind::Unsupported
        | ErrorKind::Full
        | ErrorKind::Busy
        | ErrorKind::Unavailable
        | ErrorKind::Closed
        | ErrorKind::Corrupt => {
            let detail = "an earlier try may have landed, and later ones failed";
            Error::new(ErrorKind::Interrupted, detail).with_source(last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outage_ms: u64, chance: f64, expected_ms: u64) {
        let delay = reconnect_delay(Duration::from_millis(outage_ms), chance);
        assert_eq!(delay, Duration::from_millis(expected_ms));
    }

    #[test]
    fn the_first_wait_is_a_second_at_most() {
        check(0, 0.0, 1_000);
        check(0, 1.0, 500);
    }

    #[test]
    fn an_outage_of_ten_seconds_is_over_within_five() {
        check(10_000, 0.0, 5_000);
    }

    #[test]
    fn the_wait_stops_growing_at_a_minute() {
        check(3_600_000, 0.0, 60_000);
        check(3_600_000, 1.0, 30_000);
    }

    #[test]
    fn a_call_gives_up_after_about_a_second() {
        let waits: Vec<_> = (1..).map_while(|failed| call_delay(failed, 0.0)).collect();
        let total: Duration = waits.iter().sum();
        assert!(
            waits.is_sorted() && total > Duration::from_secs(1) && total < Duration::from_secs(2),
            "{waits:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_doubt_is_not_talked_away_by_a_later_failure() {
        use ErrorKind::{Fenced, Full, Interrupted, Unavailable};
        let fail = |kinds: &'static [ErrorKind]| async move {
            let call = |attempt: u32| {
                let kind = kinds[(attempt as usize - 1).min(kinds.len() - 1)];
                std::future::ready(Err::<(), _>(Error::new(kind, "no")))
            };
            idempotent(&crate::clock::SystemClock, call).await.unwrap_err().kind()
        };
        assert_eq!(fail(&[Unavailable]).await, Unavailable);
        assert_eq!(fail(&[Interrupted, Unavailable]).await, Interrupted);
        assert_eq!(fail(&[Interrupted, Full]).await, Interrupted);
        assert_eq!(fail(&[Interrupted, Fenced]).await, Fenced, "ids are looked up before epochs");
    }
}
