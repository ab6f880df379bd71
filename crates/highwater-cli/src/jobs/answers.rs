//! The tables of the verbs of jobs. Their JSON is that of the HTTP surface, so that a script does not
//! care which of the two it talks to.

use highwater::jobs::{Deleted, Deletion, Job, JobId, Report, Tag, rules};
use highwater_stores::remote::wire::{
    self, DeletedJob, JobsPage, OpenedJob, Standing, WaitEnded, WrittenState,
};
use serde::Serialize;

use crate::output::{Answer, printable, table};

/// Where there is nothing to show.
const NOTHING: &str = "-";

impl Answer for OpenedJob {
    fn table(&self) -> String {
        jobs_table([&self.job])
    }
}

impl Answer for JobsPage {
    fn table(&self) -> String {
        jobs_table(&self.jobs)
    }
}

fn jobs_table<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> String {
    let row = |job: &Job| {
        let tags = job.tags.as_ref().map(|tags| {
            let names: Vec<_> = tags.iter().map(Tag::as_str).collect();
            names.join(",")
        });
        [
            job.id.to_string(),
            job.num_tasks.get().to_string(),
            or_nothing(tags),
            job.created_at.to_string(),
            or_nothing(job.tombstoned_at),
        ]
    };
    table(["JOB", "TASKS", "TAGS", "CREATED", "DELETED"], jobs.into_iter().map(row))
}

fn or_nothing(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

/// `delete`: people are also told what they asked for.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Removed<'a> {
    deleted: DeletedJob,
    #[serde(skip)]
    job: &'a JobId,
    #[serde(skip)]
    how: Deletion,
}

impl<'a> Removed<'a> {
    pub(super) fn new(job: &'a JobId, how: Deletion, deleted: Deleted) -> Removed<'a> {
        Removed { deleted: deleted.into(), job, how }
    }
}

impl Answer for Removed<'_> {
    fn table(&self) -> String {
        let how = match self.how {
            Deletion::Tombstone => "tombstoned",
            Deletion::Erase => "erased",
        };
        let outcome = match self.deleted.deleted {
            wire::Deletion::Done => "done",
            wire::Deletion::Already => "already",
            wire::Deletion::Ignored => "ignored",
        };
        let row = [self.job.as_str(), how, outcome].map(str::to_owned);
        table(["JOB", "DELETED", "OUTCOME"], [row])
    }
}

impl Answer for WrittenState {
    fn table(&self) -> String {
        table(STATE_HEADER, [reported_row(&self.state)])
    }
}

impl Answer for Standing {
    fn table(&self) -> String {
        table(STATE_HEADER, [standing_row(self)])
    }
}

impl Answer for WaitEnded {
    fn table(&self) -> String {
        let states = [&self.state, &self.blocking].into_iter().flatten().map(standing_row);
        let failed = self.failed.iter().map(|report| reported_row(report));
        table(STATE_HEADER, states.chain(failed))
    }
}

pub(super) const STATE_HEADER: [&str; 6] = ["TASK", "TAG", "STATUS", "VERSION", "AT", "MESSAGE"];

pub(super) fn reported_row(report: &Report) -> [String; 6] {
    [
        report.task.to_string(),
        report.tag.to_string(),
        report.status.to_string(),
        report.version.to_string(),
        report.timestamp.to_string(),
        printable(&report.message),
    ]
}

pub(super) fn standing_row(standing: &Standing) -> [String; 6] {
    let message =
        if standing.synthesized { NOTHING.to_owned() } else { printable(&standing.message) };
    [
        standing.task.to_string(),
        or_nothing(standing.tag.as_ref()),
        standing.status.to_string(),
        or_nothing(standing.version),
        or_nothing(standing.timestamp),
        message,
    ]
}

/// What holds a job back, in words.
pub(super) fn described(standing: &rules::Standing) -> String {
    let rules::Standing { task, tag, status, report, tombstoned_at: _ } = standing;
    let tag = tag.as_ref().map_or_else(String::new, |tag| format!(" in tag `{tag}`"));
    let said = match report.as_ref().map(|report| printable(&report.message)) {
        None => " (it has not reported)".to_owned(),
        Some(message) if message.is_empty() => String::new(),
        Some(message) => format!(": {message}"),
    };
    format!("task {task}{tag} holds it at status `{status}`{said}")
}
