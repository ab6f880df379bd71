//! What the verbs of jobs answer. The JSON is that of the HTTP surface, so that a script does not
//! care which of the two it talks to.

use highwater::{
    clock::Timestamp,
    feed::Seq,
    jobs::{
        Created, Deleted, Deletion, Job, JobId, Report, Status, Tag, TaskIndex, Waited, Written,
        rules::Standing,
    },
};
use serde::Serialize;

use crate::output::{Answer, printable, table};

/// Where there is nothing to show.
const NOTHING: &str = "-";

/// `create`.
#[derive(Debug, Serialize)]
pub(super) struct Opened<'a> {
    #[serde(flatten)]
    job: &'a Job,
    created: bool,
}

impl<'a> Opened<'a> {
    pub(super) fn new(job: &'a Job, created: Created) -> Opened<'a> {
        let created = match created {
            Created::New => true,
            Created::Existing => false,
        };
        Opened { job, created }
    }
}

impl Answer for Opened<'_> {
    fn table(&self) -> String {
        jobs_table([self.job])
    }
}

/// `list`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Jobs<'a>(pub(super) &'a [Job]);

impl Answer for Jobs<'_> {
    fn table(&self) -> String {
        jobs_table(self.0)
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
            tags.unwrap_or_else(|| NOTHING.to_owned()),
            job.created_at.to_string(),
            or_nothing(job.tombstoned_at),
        ]
    };
    table(["JOB", "TASKS", "TAGS", "CREATED", "DELETED"], jobs.into_iter().map(row))
}

fn or_nothing(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

/// `delete`.
#[derive(Debug, Serialize)]
pub(super) struct Removed<'a> {
    job: &'a JobId,
    deleted: &'static str,
    outcome: &'static str,
}

impl<'a> Removed<'a> {
    pub(super) fn new(job: &'a JobId, how: Deletion, deleted: Deleted) -> Removed<'a> {
        let how = match how {
            Deletion::Tombstone => "tombstoned",
            Deletion::Erase => "erased",
        };
        let outcome = match deleted {
            Deleted::Done => "done",
            Deleted::Already => "already",
            Deleted::Ignored => "ignored",
        };
        Removed { job, deleted: how, outcome }
    }
}

impl Answer for Removed<'_> {
    fn table(&self) -> String {
        let row = [self.job.as_str(), self.deleted, self.outcome].map(str::to_owned);
        table(["JOB", "DELETED", "OUTCOME"], [row])
    }
}

/// `set`.
#[derive(Debug, Serialize)]
pub(super) struct Set<'a> {
    state: &'a Report,
    revision: Seq,
    applied: bool,
}

impl<'a> Set<'a> {
    pub(super) fn new(written: &'a Written) -> Set<'a> {
        let (state, applied) = match written {
            Written::Applied(state) => (state, true),
            Written::Repeated(state) => (state, false),
        };
        Set { state, revision: state.revision, applied }
    }
}

impl Answer for Set<'_> {
    fn table(&self) -> String {
        table(STATE_HEADER, [reported_row(self.state)])
    }
}

/// `get`: the winning state, or the silence that won.
#[derive(Debug, Serialize)]
pub(super) struct Stands<'a> {
    #[serde(flatten)]
    state: Winner<'a>,
    synthesized: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tombstoned_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Winner<'a> {
    Reported(&'a Report),
    Silent { job: &'a JobId, task: TaskIndex, tag: Option<&'a Tag>, status: Status },
}

impl<'a> Stands<'a> {
    pub(super) fn new(job: &'a JobId, standing: &'a Standing) -> Stands<'a> {
        let Standing { task, tag, status, report, tombstoned_at } = standing;
        let state = match report {
            Some(report) => Winner::Reported(report),
            None => Winner::Silent { job, task: *task, tag: tag.as_ref(), status: *status },
        };
        Stands { state, synthesized: report.is_none(), tombstoned_at: *tombstoned_at }
    }

    pub(super) fn row(&self) -> [String; 6] {
        match self.state {
            Winner::Reported(report) => reported_row(report),
            Winner::Silent { job: _, task, tag, status } => [
                task.to_string(),
                or_nothing(tag),
                status.to_string(),
                NOTHING.to_owned(),
                NOTHING.to_owned(),
                NOTHING.to_owned(),
            ],
        }
    }
}

impl Answer for Stands<'_> {
    fn table(&self) -> String {
        table(STATE_HEADER, [self.row()])
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

/// What holds a job back, in words.
pub(super) fn described(standing: &Standing) -> String {
    let Standing { task, tag, status, report, tombstoned_at: _ } = standing;
    let tag = tag.as_ref().map_or_else(String::new, |tag| format!(" in tag `{tag}`"));
    let said = match report.as_ref().map(|report| printable(&report.message)) {
        None => " (it has not reported)".to_owned(),
        Some(message) if message.is_empty() => String::new(),
        Some(message) => format!(": {message}"),
    };
    format!("task {task}{tag} holds it at status `{status}`{said}")
}

/// `wait`.
#[derive(Debug, Serialize)]
pub(super) struct WaitEnded<'a> {
    reached: bool,
    #[serde(flatten)]
    with: WaitEndedWith<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum WaitEndedWith<'a> {
    State(Stands<'a>),
    Failed(&'a Report),
    Blocking(Stands<'a>),
}

impl<'a> WaitEnded<'a> {
    pub(super) fn new(job: &'a JobId, waited: &'a Waited) -> WaitEnded<'a> {
        let (reached, with) = match waited {
            Waited::Reached(standing) => (true, WaitEndedWith::State(Stands::new(job, standing))),
            Waited::Failed(report) => (false, WaitEndedWith::Failed(report)),
            Waited::TimedOut(standing) => {
                (false, WaitEndedWith::Blocking(Stands::new(job, standing)))
            }
        };
        WaitEnded { reached, with }
    }
}

impl Answer for WaitEnded<'_> {
    fn table(&self) -> String {
        let row = match &self.with {
            WaitEndedWith::State(state) | WaitEndedWith::Blocking(state) => state.row(),
            WaitEndedWith::Failed(report) => reported_row(report),
        };
        table(STATE_HEADER, [row])
    }
}
