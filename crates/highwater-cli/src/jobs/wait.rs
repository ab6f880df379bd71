//! Waiting for a job, for scripts: the exit code says how it ended.

use clap::Args;
use highwater::{
    Result,
    jobs::{OnError, Report, Status, Waited},
};
use highwater_stores::remote::wire::WaitEnded;

use super::{Look, answers};
use crate::{Exit, Globals, output, quantity::TimeSpan};

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
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: TimeSpan,
    /// Waits on when a task fails: it may be retried
    #[arg(long)]
    keep_waiting_on_error: bool,
}

impl Wait {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit> {
        let (viewer, filter) = self.look.open(globals).await?;
        let on_error = if self.keep_waiting_on_error { OnError::Wait } else { OnError::Fail };
        let waited = viewer.wait_until(filter, self.status, self.timeout.0, on_error).await?;
        let (exit, why) = self.verdict(&waited);
        output::show(globals.output, &WaitEnded::new(&viewer.job().id, waited))?;
        if let Some(why) = why {
            output::note(&format!("🔴 {why}"));
        }
        Ok(exit)
    }

    /// What a script decides by, and what people are told if it is not what they hoped for.
    fn verdict(&self, waited: &Waited) -> (Exit, Option<String>) {
        match waited {
            Waited::Reached(_) => (Exit::Done, None),
            Waited::Failed(report) => {
                let Report { task, tag, status, message, .. } = &**report;
                let said = output::printable(message);
                let why = format!("task {task} failed in tag `{tag}` ({status}): {said}");
                (Exit::Failed, Some(why))
            }
            Waited::TimedOut(blocking) => {
                let by = answers::described(blocking);
                (Exit::TimedOut, Some(format!("timed out after {}: {by}", self.timeout)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_name_or_a_number() {
        assert_eq!(status("finished"), Ok(Status::FINISHED));
        assert_eq!(status("-3"), Ok(Status(-3)));
        assert!(status("2147483648").is_err() && status("done").is_err());
    }
}
