//! Reporting a state by hand.

use clap::{ArgGroup, Args};
use highwater::{
    Result,
    clock::SystemClock,
    jobs::{
        Draft, Epoch, EventId, JobId, JobRef, Payload, Status, Tag, TaskIndex, Write, Writer,
        Written,
    },
    limits::Limits,
    retry,
};
use highwater_stores::remote::wire::WrittenState;

use super::wait;
use crate::{Exit, Globals, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  highwater jobs set nightly 0 ingest --started
  highwater jobs set nightly 0 ingest --status 40 --message '40 % of the files'
  highwater jobs set nightly 1 ingest --error --code -7 --message 'disk full'
  highwater jobs set nightly 0 ingest --finished --payload '{\"rows\": 1200}' --event-id load-42

Without --epoch nobody is shut out and nobody can shut this write out. The same --event-id again
changes nothing and repeats the first answer.";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags; clap sees to it that one of them is set")]
#[command(group = ArgGroup::new("what").required(true))]
pub(crate) struct Set {
    /// The job's name
    job: String,
    /// Which task, from 0
    #[arg(allow_negative_numbers = true)]
    task: u32,
    /// In which work stream
    tag: String,

    /// Any status: a number, `started` or `finished`
    #[arg(long, group = "what", value_parser = wait::status, allow_negative_numbers = true)]
    status: Option<Status>,
    /// Work has begun
    #[arg(long, group = "what")]
    started: bool,
    /// Work is done
    #[arg(long, group = "what")]
    finished: bool,
    /// Work has failed
    #[arg(long, group = "what")]
    error: bool,
    /// Something to look at, and yet no error
    #[arg(long, group = "what")]
    warning: bool,

    /// The error's code: negative, and not -2
    // Not `requires = "error"`: clap waives that when another of the group is given.
    #[arg(long, value_name = "N", conflicts_with_all = ["status", "started", "finished", "warning"],
        allow_negative_numbers = true)]
    code: Option<i32>,
    /// What the task has to say
    #[arg(long, default_value = "", hide_default_value = true)]
    message: String,
    /// Data of your own: a JSON object
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Makes the write idempotent
    #[arg(long, value_name = "ID")]
    event_id: Option<String>,
    /// The version of the payload's schema [default: 1]
    #[arg(long, value_name = "N")]
    schema_version: Option<u32>,
    /// Writes as the worker that holds this epoch: refused once a newer one has taken over
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

impl Set {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit> {
        let job = JobRef::current(JobId::new(&self.job)?);
        let writer = self.epoch.map_or(Writer::Anonymous, |epoch| Writer::Fenced(Epoch(epoch)));
        let write =
            Write::new(job, TaskIndex(self.task), self.draft(globals.place.limits())?, writer)?;
        let store = globals.place.jobs().await?;
        // Safe to repeat: the write carries its event id.
        let writing = retry::idempotent(&SystemClock, |_| store.set(write.clone()));
        let written = writing.await?;
        if let Written::Repeated(report) = &written {
            output::note(&format!(
                "event id `{}` was written before: nothing changed",
                report.event_id
            ));
        }
        output::show(globals.output, &WrittenState::from(written))?;
        Ok(Exit::Done)
    }

    fn draft(&self, limits: Limits) -> Result<Draft> {
        let mut draft = self.marked()?;
        if let Some(json) = &self.payload {
            draft = draft.payload(Payload::new(json, &limits)?);
        }
        if let Some(id) = &self.event_id {
            draft = draft.event_id(EventId::new(id)?);
        }
        if let Some(version) = self.schema_version {
            draft = draft.schema_version(version);
        }
        Ok(draft)
    }

    /// Status and message, with the marks that a manager's would have.
    fn marked(&self) -> Result<Draft> {
        let (tag, message) = (Tag::new(&self.tag)?, self.message.as_str());
        if self.started {
            return Ok(Draft::started(tag, message));
        }
        if self.finished {
            return Ok(Draft::finished(tag, message));
        }
        if self.warning {
            return Ok(Draft::warning(tag, message));
        }
        match self.status {
            Some(status) => Ok(Draft::new(tag, status).message(message)),
            // Clap has seen to it that one of the five is there, so this is `--error`.
            None => Draft::error(tag, self.code.map_or(Status::ERROR, Status), message),
        }
    }
}
