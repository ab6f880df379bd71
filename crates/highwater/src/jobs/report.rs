//! What is stored: jobs, and the reports of their tasks.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{EventId, JobId, Status, Tag, TaskCount, TaskIndex, Version, rules};
use crate::{
    Error, ErrorKind, Result,
    clock::Timestamp,
    feed::{ScopeId, Seq},
    limits::{Limits, MESSAGE_BYTES_MAX, PAYLOAD_DEPTH_MAX},
};

/// A job, as whoever created it first wanted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    /// Its name.
    #[serde(rename = "job")]
    pub id: JobId,
    /// How many tasks it has.
    pub num_tasks: TaskCount,
    /// Which life of the name this is: a job that is deleted and created again is another job.
    pub incarnation: ScopeId,
    /// When it was created.
    pub created_at: Timestamp,
    /// The only tags it has, if they were declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<Tag>>,
    /// Since when it is marked as deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tombstoned_at: Option<Timestamp>,
}

/// Which job is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// Its name.
    pub id: JobId,
    /// Which of its lives.
    pub life: Life,
}

/// Which life of a name is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Whichever there is now.
    Current,
    /// This one and no other.
    Exactly(ScopeId),
}

impl JobRef {
    /// The job that has this name now.
    pub fn current(id: JobId) -> JobRef {
        JobRef { id, life: Life::Current }
    }
}

impl From<&Job> for JobRef {
    fn from(job: &Job) -> JobRef {
        JobRef { id: job.id.clone(), life: Life::Exactly(job.incarnation) }
    }
}

/// How one task stands in one tag: the state that its last write left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    /// Whose task.
    pub job: JobId,
    /// Which task.
    pub task: TaskIndex,
    /// In which work stream.
    pub tag: Tag,
    /// How far it got.
    pub status: Status,
    /// What it has to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the store took it.
    pub timestamp: Timestamp,
    /// How often this task and tag were written.
    pub version: Version,
    /// What made the write idempotent.
    pub event_id: EventId,
    /// The caller's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// The version of the payload's schema.
    pub schema_version: u32,
    /// Its place in the feed of its job.
    pub revision: Seq,
}

impl Report {
    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        let texts = [self.job.as_str(), self.tag.as_str(), &self.message, self.event_id.as_str()];
        let payload = self.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        size_of::<Report>() + texts.iter().map(|text| text.len()).sum::<usize>() + payload
    }
}

/// A JSON object of bounded size, kept as it came but for the white space between its tokens: no
/// number loses a digit, and it always fits on one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = Object))]
pub struct Payload(Arc<RawValue>);

impl Payload {
    /// Refuses what is no JSON object, and what is larger than `limits` allow.
    pub fn new(json: impl Into<String>, limits: &Limits) -> Result<Payload> {
        let json = json.into();
        let bytes_max = limits.payload_bytes_max;
        if json.len() > bytes_max {
            let rule = format!("must have at most {bytes_max} bytes, and has {}", json.len());
            return Err(Error::invalid("payload", json, &rule));
        }
        match serde_json::from_str::<Box<RawValue>>(&json) {
            Ok(raw) if raw.get().starts_with('{') => compact(&raw).map(Payload),
            Ok(_) => Err(Error::invalid("payload", json, "must be a JSON object")),
            Err(error) => Err(Error::invalid("payload", json, "must be JSON").with_source(error)),
        }
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

/// The same JSON without white space between its tokens. By hand, because to parse and print it
/// again would round numbers.
fn compact(json: &RawValue) -> Result<Arc<RawValue>> {
    let (mut is_in_string, mut is_escaped) = (false, false);
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut text = String::with_capacity(json.get().len());
    for character in json.get().chars() {
        match character {
            '"' if !is_escaped => is_in_string = !is_in_string,
            '{' | '[' if !is_in_string => depth += 1,
            '}' | ']' if !is_in_string => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
        is_escaped = is_in_string && character == '\\' && !is_escaped;
        if is_in_string || !character.is_ascii_whitespace() {
            text.push(character);
        }
    }
    if deepest > PAYLOAD_DEPTH_MAX {
        let rule = format!("must be nested at most {PAYLOAD_DEPTH_MAX} deep, and is {deepest}");
        return Err(Error::invalid("payload", json.get(), &rule));
    }
    let raw = RawValue::from_string(text).map_err(|error| {
        Error::invalid("payload", json.get(), "must be JSON").with_source(error)
    })?;
    Ok(raw.into())
}

/// Equal as JSON: neither white space nor the order of keys matters, and numbers are compared by
/// their digits, because to parse them would round them.
impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        is_same_json(self.as_str(), other.as_str())
    }
}

/// Recursive, which is safe because a payload is not nested deeply.
fn is_same_json(one: &str, other: &str) -> bool {
    type Object<'a> = std::collections::BTreeMap<String, &'a RawValue>;
    fn both<'a, T: Deserialize<'a>>(one: &'a str, other: &'a str) -> Option<(T, T)> {
        Some((serde_json::from_str(one).ok()?, serde_json::from_str(other).ok()?))
    }
    let is_same = |(one, other): (&&RawValue, &&RawValue)| is_same_json(one.get(), other.get());
    match one.as_bytes().first() {
        _ if one == other => true,
        Some(b'{') => both::<Object<'_>>(one, other).is_some_and(|(one, other)| {
            one.keys().eq(other.keys()) && one.values().zip(other.values()).all(is_same)
        }),
        Some(b'[') => both::<Vec<&RawValue>>(one, other).is_some_and(|(one, other)| {
            one.len() == other.len() && one.iter().zip(&other).all(is_same)
        }),
        Some(b'"') => both::<String>(one, other).is_some_and(|(one, other)| one == other),
        Some(_) | None => false,
    }
}

impl Eq for Payload {}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What happened in a job: the body of its feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// The job came to be.
    Created(Arc<Job>),
    /// A task reported.
    Put(Arc<Report>),
    /// The job was marked as deleted.
    Tombstoned(Arc<Job>),
    /// The job was deleted with all its states.
    Deleted(Arc<Job>),
}

impl JobEvent {
    /// What the feed calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            JobEvent::Created(_) => "job.created",
            JobEvent::Put(_) => "job.put",
            JobEvent::Tombstoned(_) => "job.tombstoned",
            JobEvent::Deleted(_) => "job.deleted",
        }
    }

    /// What the feed keeps of it: the job or the report, as JSON.
    pub fn body(&self) -> Result<Box<RawValue>> {
        let json = match self {
            JobEvent::Put(report) => serde_json::value::to_raw_value(&**report),
            JobEvent::Created(job) | JobEvent::Tombstoned(job) | JobEvent::Deleted(job) => {
                serde_json::value::to_raw_value(&**job)
            }
        };
        json.map_err(|error| {
            Error::new(ErrorKind::Corrupt, "an event is no JSON").with_source(error)
        })
    }

    /// The event that has this kind and body.
    pub fn parse(kind: &str, body: &str) -> Result<JobEvent> {
        let damaged = |error: serde_json::Error| {
            let detail = format!("an event `{kind}` of the feed cannot be read");
            Error::new(ErrorKind::Corrupt, detail).with_source(error)
        };
        let job = || serde_json::from_str::<Job>(body).map(Arc::new).map_err(damaged);
        match kind {
            "job.created" => Ok(JobEvent::Created(job()?)),
            "job.put" => {
                Ok(JobEvent::Put(serde_json::from_str(body).map(Arc::new).map_err(damaged)?))
            }
            "job.tombstoned" => Ok(JobEvent::Tombstoned(job()?)),
            "job.deleted" => Ok(JobEvent::Deleted(job()?)),
            unknown => {
                let detail = format!("the feed has an event of the unknown kind `{unknown}`");
                Err(Error::new(ErrorKind::Corrupt, detail))
            }
        }
    }

    /// Whether nothing can follow it in its scope, but a deletion.
    pub fn is_last(&self) -> bool {
        match self {
            JobEvent::Created(_) | JobEvent::Put(_) => false,
            JobEvent::Tombstoned(_) | JobEvent::Deleted(_) => true,
        }
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        match self {
            JobEvent::Put(report) => report.bytes(),
            JobEvent::Created(job) | JobEvent::Tombstoned(job) | JobEvent::Deleted(job) => {
                let tags = job.tags.iter().flatten().map(|tag| tag.as_str().len()).sum::<usize>();
                size_of::<Job>() + job.id.as_str().len() + tags
            }
        }
    }
}

/// A state on its way to the store.
///
/// ```
/// # use highwater::jobs::{Draft, Status, Tag};
/// let draft = Draft::new(Tag::new("ingest")?, Status(40)).message("40 % of the files");
/// # Ok::<(), highwater::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub(super) job: Option<JobId>,
    pub(super) task: Option<TaskIndex>,
    pub(super) tag: Tag,
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) payload: Option<Payload>,
    pub(super) event_id: Option<EventId>,
    pub(super) schema_version: u32,
}

/// The version of a payload's schema, unless the caller says otherwise.
const SCHEMA_VERSION: u32 = 1;

impl Draft {
    /// A state of the manager's own task.
    pub fn new(tag: Tag, status: Status) -> Draft {
        let (job, task, payload, event_id) = (None, None, None, None);
        let (message, schema_version) = (String::new(), SCHEMA_VERSION);
        Draft { job, task, tag, status, message, payload, event_id, schema_version }
    }

    /// An error with a negative code; the message stands behind a red mark.
    pub fn error(tag: Tag, code: Status, error: impl fmt::Display) -> Result<Draft> {
        let message = rules::marked("🔴", &or(error.to_string(), "Error"));
        Ok(Draft::new(tag, rules::check_error_code(code)?).message(message))
    }

    /// A warning; the message stands behind a yellow mark.
    pub fn warning(tag: Tag, warning: impl fmt::Display) -> Draft {
        let message = rules::marked("🟡", &or(warning.to_string(), "Warning"));
        Draft::new(tag, Status::WARNING).message(message)
    }

    /// Work has begun; an empty message becomes `🟢 Started`.
    pub fn started(tag: Tag, message: impl Into<String>) -> Draft {
        Draft::new(tag, Status::STARTED).message(or(message.into(), "🟢 Started"))
    }

    /// Work is done; an empty message becomes `⚫ Finished`.
    pub fn finished(tag: Tag, message: impl Into<String>) -> Draft {
        Draft::new(tag, Status::FINISHED).message(or(message.into(), "⚫ Finished"))
    }

    /// Says whose state it is meant to be; the manager of another job refuses it.
    #[must_use]
    pub fn of_job(mut self, job: JobId) -> Draft {
        self.job = Some(job);
        self
    }

    /// Says whose state it is meant to be; the manager of another task refuses it.
    #[must_use]
    pub fn of_task(mut self, task: TaskIndex) -> Draft {
        self.task = Some(task);
        self
    }

    /// What the task has to say.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Draft {
        self.message = message.into();
        self
    }

    /// The caller's own data.
    #[must_use]
    pub fn payload(mut self, payload: Payload) -> Draft {
        self.payload = Some(payload);
        self
    }

    /// Makes the write idempotent across calls and processes. Without one the manager makes one per
    /// call, so that its own retries are safe.
    #[must_use]
    pub fn event_id(mut self, event_id: EventId) -> Draft {
        self.event_id = Some(event_id);
        self
    }

    /// The version of the payload's schema; 1 unless set.
    #[must_use]
    pub fn schema_version(mut self, schema_version: u32) -> Draft {
        self.schema_version = schema_version;
        self
    }

    /// Refuses what no store should ever hold.
    pub(super) fn check(&self) -> Result<()> {
        if self.message.len() > MESSAGE_BYTES_MAX {
            let rule = format!(
                "must have at most {MESSAGE_BYTES_MAX} bytes, and has {}",
                self.message.len()
            );
            return Err(Error::invalid("message", &self.message, &rule));
        }
        if self.status == Status::NOT_STARTED && !self.message.is_empty() {
            return Err(Error::invalid(
                "message",
                &self.message,
                "must be empty while the status is 0",
            ));
        }
        Ok(())
    }
}

fn or(message: String, default: &str) -> String {
    if message.is_empty() { default.to_owned() } else { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_an_object_of_bounded_size() {
        let limits = Limits { payload_bytes_max: 12 };
        let refused = |json: &str| Payload::new(json, &limits).unwrap_err().to_string();
        assert!(refused("[1]").contains("must be a JSON object"));
        assert!(refused("null").contains("must be a JSON object"));
        assert!(refused("{\"a\":").contains("must be JSON"));
        assert!(refused("{} {}").contains("must be JSON"));
        assert!(refused("{\"a\":12345678}").contains("at most 12 bytes, and has 14"));
        assert_eq!(Payload::new(" {\"a\":1}", &limits).unwrap().as_str(), "{\"a\":1}");
    }

    #[test]
    fn a_payload_keeps_every_digit_and_compares_as_json() {
        let payload = |json: &str| Payload::new(json, &Limits::default()).unwrap();
        let long = "{\"n\":123456789012345678901234567890.10}";
        let json = serde_json::to_string(&payload(long)).unwrap();
        assert_eq!(json, long);
        assert_eq!(payload("{\"a\": 1, \"b\": 2}"), payload("{\"b\":2,\"a\":1}"));
        assert_ne!(payload("{\"a\":1}"), payload("{\"a\":2}"));
        assert_ne!(
            payload("{\"n\":123456789012345678901}"),
            payload("{\"n\":123456789012345678902}")
        );
        assert_eq!(payload("{\"a\":[\"\\u0041\",{}]}"), payload("{\"a\":[\"A\",{}]}"));
        assert_ne!(payload("{\"a\":[1]}"), payload("{\"a\":[1,1]}"));
    }

    #[test]
    fn a_payload_is_not_nested_too_deeply() {
        let nested = |depth: usize| {
            let json = format!("{{\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
            Payload::new(json, &Limits::default())
        };
        assert!(nested(PAYLOAD_DEPTH_MAX).is_ok());
        let error = nested(PAYLOAD_DEPTH_MAX + 1).unwrap_err();
        assert!(error.to_string().contains("at most 100 deep, and is 101"), "{error}");
    }

    #[test]
    fn a_payload_fits_on_one_line() {
        let odd = "{ \"a b\" :\n[ \"x \\\" y\\\\\" ,\t1 ] }";
        let payload = Payload::new(odd, &Limits::default()).unwrap();
        assert_eq!(payload.as_str(), "{\"a b\":[\"x \\\" y\\\\\",1]}");
    }

    #[test]
    fn silence_has_no_message() {
        let draft = Draft::new(Tag::new("t").unwrap(), Status::NOT_STARTED);
        assert!(draft.check().is_ok());
        assert!(draft.message("hm").check().unwrap_err().to_string().contains("status is 0"));
    }
}
