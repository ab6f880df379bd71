//! Waiting for a job, for scripts: the exit code says how it ended.

use std::time::Duration;

use clap::Args;
use highwater::{
    Result,
    jobs::{OnError, Status, Waited},
};
use jiff::{Span, SpanRelativeTo};

use super::{Look, answers};
use crate::{Exit, Globals, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  highwater jobs wait nightly --timeout 2h && ./publish
  highwater jobs wait nightly --tag ingest --status started --timeout 500ms
  highwater jobs wait nightly --timeout 7d --keep-waiting-on-error

Exit codes: 0 it got there, 4 a task failed, 5 timed out, 1 any other error.";

#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    look: Look,
    /// How far it must get: `finished`, `started` or a number
    #[arg(long, default_value = "finished", value_parser = status, allow_negative_numbers = true)]
    status: Status,
    /// For how long to wait: 500ms, 30s, 5m, 2h, 7d
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// Waits on when a task fails: it may be retried
    #[arg(long)]
    keep_waiting_on_error: bool,
}

impl Wait {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit> {
        let (viewer, filter) = self.look.open(globals).await?;
        let on_error = if self.keep_waiting_on_error { OnError::Wait } else { OnError::Fail };
        let waited = viewer.wait_until(filter, self.status, self.timeout, on_error).await?;
        output::show(globals.output, &answers::WaitEnded::new(&viewer.job().id, &waited))?;
        match &waited {
            Waited::Reached(_) => Ok(Exit::Done),
            Waited::Failed(report) => {
                let said = output::printable(&report.message);
                output::note(&format!(
                    "🔴 task {} failed in tag `{}` ({}): {said}",
                    report.task, report.tag, report.status
                ));
                Ok(Exit::Failed)
            }
            Waited::TimedOut(blocking) => {
                let by = answers::described(blocking);
                output::note(&format!("🔴 timed out after {:?}: {by}", self.timeout));
                Ok(Exit::TimedOut)
            }
        }
    }
}

/// A status by its name or by its number.
pub(super) fn status(text: &str) -> Result<Status, String> {
    match text {
        "started" => Ok(Status::STARTED),
        "finished" => Ok(Status::FINISHED),
        number => number
            .parse()
            .map(Status)
            .map_err(|_| "must be `started`, `finished` or a 32-bit number".to_owned()),
    }
}

/// A span of time as people write it. A day has 24 hours here: nobody waits for a calendar.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text
        .parse::<Span>()
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .ok()
        .and_then(|span| Duration::try_from(span).ok());
    parsed.ok_or_else(|| "must be a span of time such as 500ms, 30s, 5m, 2h or 7d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_as_people_write_them() {
        let cases = [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("1h 30m", 5_400_000),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "30", "-5s", "1mo", "soon"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_status_has_a_name_or_a_number() {
        assert_eq!(status("finished"), Ok(Status::FINISHED));
        assert_eq!(status("-3"), Ok(Status(-3)));
        assert!(status("2147483648").is_err() && status("done").is_err());
    }
}
