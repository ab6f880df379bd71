//! What goes over HTTP as JSON: the one definition that the server, the remote engine and the command
//! line share.

mod problem;

use std::sync::Arc;

use highwater::{
    Error, Result,
    clock::Timestamp,
    feed::{End, Seq},
    jobs::{
        self, Counts, Created, Deleted, Draft, Epoch, EventId, Job, JobId, Payload, Reading,
        Report, Status, Tag, TagSummary, TaskIndex, TaskSummary, Version, Waited, Written, rules,
    },
    limits::Limits,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub use problem::{Problem, WriteOutcome};

/// What creates a job.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenJob {
    /// How many tasks it is split over; what is stored wins.
    pub num_tasks: u32,
    /// Declares its tags: it then has no others, and every task owes a state in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

/// A job that was created or found.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OpenedJob {
    /// The job as it is stored.
    #[serde(flatten)]
    pub job: Job,
    /// Whether this call created it.
    pub created: bool,
}

impl OpenedJob {
    /// What a store answered.
    pub fn new(job: Job, created: Created) -> OpenedJob {
        OpenedJob { job, created: created == Created::New }
    }
}

/// A page of jobs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobsPage {
    /// By name.
    pub jobs: Vec<Job>,
    /// Pass it as `after` for the next page; missing on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<JobId>,
}

impl JobsPage {
    /// A page that was asked for with `limit`.
    pub fn new(jobs: Vec<Job>, limit: usize) -> JobsPage {
        let next = jobs.last().filter(|_| jobs.len() == limit).map(|job| job.id.clone());
        JobsPage { jobs, next }
    }
}

/// What sets a state: a `status`, or one of the verbs in `set`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetState {
    /// Any status. 0 is not started, 1 started, 2147483647 finished; negative is an error, but −2 a
    /// warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// Sets the status that goes with the word, and its mark in the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<Verb>,
    /// With `set: "error"`: its negative code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// What the task has to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A JSON object of the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub payload: Option<Box<RawValue>>,
    /// Makes the write idempotent; one is made if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The version of the payload's schema; 1 unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    /// Writes as the manager that holds this epoch; refused once a newer one has taken over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Which task the caller is; refused unless it is the one in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_task: Option<u32>,
}

/// A word for a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// 1.
    Started,
    /// 2147483647.
    Finished,
    /// −1, or `code`.
    Error,
    /// −2.
    Warning,
}

impl SetState {
    /// The state that is meant, and under which epoch; refuses what contradicts itself.
    pub fn draft(
        self,
        task: TaskIndex,
        tag: Tag,
        limits: &Limits,
    ) -> Result<(Draft, jobs::Writer)> {
        if let Some(other) = self.as_task.filter(|other| *other != task.0) {
            return Err(Error::invalid(
                "as_task",
                other,
                &format!("must be the task in the path, {task}"),
            ));
        }
        if let Some(code) = self.code.filter(|_| self.set != Some(Verb::Error)) {
            return Err(Error::invalid("code", code, "goes with `set: \"error\"` only"));
        }
        let message = self.message;
        let mut draft = match (self.status, self.set) {
            (Some(status), None) => Draft::new(tag, Status(status)).message(message),
            (None, Some(Verb::Started)) => Draft::started(tag, message),
            (None, Some(Verb::Finished)) => Draft::finished(tag, message),
            (None, Some(Verb::Warning)) => Draft::warning(tag, message),
            (None, Some(Verb::Error)) => {
                Draft::error(tag, self.code.map_or(Status::ERROR, Status), message)?
            }
            (Some(status), Some(_)) => {
                return Err(Error::invalid("status", status, "excludes `set`: one of the two"));
            }
            (None, None) => {
                return Err(Error::invalid(
                    "status",
                    "",
                    "is missing, and so is `set`: one of the two",
                ));
            }
        };
        if let Some(payload) = self.payload {
            draft = draft.payload(Payload::new(payload.get(), limits)?);
        }
        if let Some(id) = self.event_id {
            draft = draft.event_id(EventId::new(id)?);
        }
        if let Some(version) = self.schema_version {
            draft = draft.schema_version(version);
        }
        let writer =
            self.epoch.map_or(jobs::Writer::Anonymous, |epoch| jobs::Writer::Fenced(Epoch(epoch)));
        Ok((draft, writer))
    }
}

/// What became of a write.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WrittenState {
    /// The state that it left, when it was first made.
    #[schema(value_type = Report)]
    pub state: Arc<Report>,
    /// Pass it as `min_revision` to a read that must see it.
    pub revision: Seq,
    /// False if the same event id had been written before.
    pub applied: bool,
}

impl From<Written> for WrittenState {
    fn from(written: Written) -> WrittenState {
        let (state, applied) = match written {
            Written::Applied(state) => (state, true),
            Written::Repeated(state) => (state, false),
        };
        WrittenState { revision: state.revision, state, applied }
    }
}

impl From<WrittenState> for Written {
    fn from(written: WrittenState) -> Written {
        if written.applied {
            Written::Applied(written.state)
        } else {
            Written::Repeated(written.state)
        }
    }
}

/// The epoch of a task's new manager.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub struct TakenOver {
    /// Goes with every later write.
    pub epoch: Epoch,
}

/// The states of a job, all of one moment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct States {
    /// The job.
    pub job: Job,
    /// Everything up to here is in it.
    pub revision: Seq,
    /// By task, then by tag.
    #[schema(value_type = Vec<Report>)]
    pub states: Vec<Arc<Report>>,
}

impl From<Reading> for States {
    fn from(Reading { job, revision, reports }: Reading) -> States {
        States { job, revision, states: reports }
    }
}

impl From<States> for Reading {
    fn from(States { job, revision, states }: States) -> Reading {
        Reading { job, revision, reports: states }
    }
}

/// The winning state; where silence won, only what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// Whose.
    pub job: JobId,
    /// Which task.
    pub task: TaskIndex,
    /// In which work stream; missing if the task has not reported at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Tag>,
    /// How far it got.
    pub status: Status,
    /// What it had to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the store took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// How often this task and tag were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// What made the write idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// The caller's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// The version of the payload's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u32>,
    /// Its place in the feed of its job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Seq>,
    /// Whether it stands for silence.
    pub synthesized: bool,
    /// Since when the job is marked as deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstoned_at: Option<Timestamp>,
}

impl Standing {
    /// Where something of `job` stands.
    pub fn new(job: &JobId, standing: rules::Standing) -> Standing {
        let rules::Standing { task, tag, status, report, tombstoned_at } = standing;
        let known = report.as_deref();
        Standing {
            job: job.clone(),
            task,
            tag,
            status,
            message: known.map(|report| report.message.clone()).unwrap_or_default(),
            timestamp: known.map(|report| report.timestamp),
            version: known.map(|report| report.version),
            event_id: known.map(|report| report.event_id.clone()),
            payload: known.and_then(|report| report.payload.clone()),
            schema_version: known.map(|report| report.schema_version),
            revision: known.map(|report| report.revision),
            synthesized: known.is_none(),
            tombstoned_at,
        }
    }
}

/// The full picture beside the lowest status.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// Whose.
    pub job: JobId,
    /// Everything up to here is in it.
    pub revision: Seq,
    /// The winning state.
    pub lowest: Standing,
    /// Over all cells: a task in a tag.
    pub counts: Counts,
    /// The lowest status that is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Report>)]
    pub worst_error: Option<Arc<Report>>,
    /// Per work stream, by name.
    pub tags: Vec<TagSummary>,
    /// Per task.
    pub tasks: Vec<TaskSummary>,
    /// Since when the job is marked as deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstoned_at: Option<Timestamp>,
}

impl Summary {
    /// The summary of `job`.
    pub fn new(job: &JobId, summary: jobs::Summary) -> Summary {
        let jobs::Summary { revision, lowest, counts, worst_error, tags, tasks, tombstoned_at } =
            summary;
        let lowest = Standing::new(job, lowest);
        Summary {
            job: job.clone(),
            revision,
            lowest,
            counts,
            worst_error,
            tags,
            tasks,
            tombstoned_at,
        }
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WaitEnded {
    /// Whether the lowest status got there.
    pub reached: bool,
    /// The winning state, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Standing>,
    /// The error that ended the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Report>)]
    pub failed: Option<Arc<Report>>,
    /// What held it back when time was up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking: Option<Standing>,
}

impl WaitEnded {
    /// How a wait for `job` ended.
    pub fn new(job: &JobId, waited: Waited) -> WaitEnded {
        let ended = WaitEnded { reached: false, state: None, failed: None, blocking: None };
        match waited {
            Waited::Reached(standing) => {
                WaitEnded { reached: true, state: Some(Standing::new(job, standing)), ..ended }
            }
            Waited::Failed(report) => WaitEnded { failed: Some(report), ..ended },
            Waited::TimedOut(standing) => {
                WaitEnded { blocking: Some(Standing::new(job, standing)), ..ended }
            }
        }
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedJob {
    /// `done`, or `already` for a job that was tombstoned before.
    pub deleted: Deletion,
}

/// What became of a deletion, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Deletion {
    /// It was done now.
    Done,
    /// It was done before.
    Already,
    /// It was not done: only task 0 writes what belongs to the whole job.
    Ignored,
}

impl From<Deleted> for DeletedJob {
    fn from(deleted: Deleted) -> DeletedJob {
        let deleted = match deleted {
            Deleted::Done => Deletion::Done,
            Deleted::Already => Deletion::Already,
            Deleted::Ignored => Deletion::Ignored,
        };
        DeletedJob { deleted }
    }
}

impl From<DeletedJob> for Deleted {
    fn from(deleted: DeletedJob) -> Deleted {
        match deleted.deleted {
            Deletion::Done => Deleted::Done,
            Deletion::Already => Deleted::Already,
            Deletion::Ignored => Deleted::Ignored,
        }
    }
}

/// The data of an SSE `snapshot_end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotEnd {
    /// The snapshot shows everything up to here.
    pub revision: Seq,
    /// How many states were replayed.
    pub count: u64,
}

/// The data of an SSE `end`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// Why.
    pub reason: EndReason,
    /// With `failed`: what happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The server is going away: connect again.
    Cancelled,
    /// What was followed was deleted.
    Deleted,
    /// It cannot go on.
    Failed,
}

impl From<&End> for Ended {
    fn from(end: &End) -> Ended {
        match end {
            End::Cancelled => Ended { reason: EndReason::Cancelled, problem: None },
            End::Deleted => Ended { reason: EndReason::Deleted, problem: None },
            End::Failed(error) => {
                Ended { reason: EndReason::Failed, problem: Some(Problem::new(error, 0)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_names_its_status_once() {
        let tag = || Tag::new("t").unwrap();
        let refused = |body: &str| {
            let body: SetState = serde_json::from_str(body).unwrap();
            let error = body.draft(TaskIndex(1), tag(), &Limits::default()).unwrap_err();
            error.field().unwrap().to_owned()
        };
        assert_eq!(refused("{}"), "status");
        assert_eq!(refused(r#"{"status":1,"set":"started"}"#), "status");
        assert_eq!(refused(r#"{"status":-1,"code":-3}"#), "code");
        assert_eq!(refused(r#"{"set":"error","code":3}"#), "code");
        assert_eq!(refused(r#"{"status":1,"as_task":0}"#), "as_task");
        assert_eq!(refused(r#"{"status":1,"payload":[1]}"#), "payload");
        let body: SetState =
            serde_json::from_str(r#"{"set":"error","code":-3,"message":"x"}"#).unwrap();
        let (draft, _) = body.draft(TaskIndex(1), tag(), &Limits::default()).unwrap();
        assert_eq!(draft, Draft::error(tag(), Status(-3), "x").unwrap());
    }

    #[test]
    fn a_payload_in_a_body_keeps_its_digits() {
        let body: SetState = serde_json::from_str(r#"{"status":1,"payload":{"n":1.10}}"#).unwrap();
        assert_eq!(body.payload.unwrap().get(), r#"{"n":1.10}"#);
    }
}
