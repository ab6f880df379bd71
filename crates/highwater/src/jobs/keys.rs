//! The names and numbers of jobs. Each can only be made from a value that keeps its rule.

use std::{fmt, num::NonZeroU32, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    limits::{EVENT_ID_BYTES_MAX, JOB_ID_BYTES_MAX, TAG_BYTES_MAX, TASKS_MAX},
};

/// A name that people choose: bounded, printable, and no step up or down in a path.
fn name(field: &'static str, text: &str, bytes_max: usize) -> Result<Arc<str>> {
    let refuse = |rule: &str| Err(Error::invalid(field, text, rule));
    if text.is_empty() {
        return refuse("must not be empty");
    }
    if text.len() > bytes_max {
        return refuse(&format!("must have at most {bytes_max} bytes, and has {}", text.len()));
    }
    if text.chars().any(char::is_control) {
        return refuse("must not contain control characters");
    }
    if text == "." || text == ".." {
        return refuse("must not be `.` or `..`");
    }
    Ok(text.into())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $field:literal, $bytes_max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String))]
        pub struct $name(Arc<str>);

        impl $name {
            /// Refuses a text that is no such name, and says why.
            pub fn new(text: impl AsRef<str>) -> Result<$name> {
                name($field, text.as_ref(), $bytes_max).map($name)
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<$name> {
                $name::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<$name> {
                $name::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name_type! {
    /// The id of a job.
    JobId, "job", JOB_ID_BYTES_MAX
}

name_type! {
    /// A work stream within a job, such as `ingest` or `export`.
    Tag, "tag", TAG_BYTES_MAX
}

name_type! {
    /// Makes a write idempotent. Belongs to one task and tag in one life of a job.
    EventId, "event_id", EVENT_ID_BYTES_MAX
}

impl EventId {
    /// An id that nobody else has. Ids made later sort later, which keeps indexes compact.
    pub fn unique() -> EventId {
        EventId(uuid::Uuid::now_v7().to_string().into())
    }
}

/// How many tasks a job has. Never zero, fixed when the job is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = u32))]
pub struct TaskCount(NonZeroU32);

impl TaskCount {
    /// Refuses zero, and more than [`TASKS_MAX`].
    pub fn new(count: u32) -> Result<TaskCount> {
        let fits = NonZeroU32::new(count).filter(|count| count.get() <= TASKS_MAX);
        let rule = || format!("must be between 1 and {TASKS_MAX}");
        fits.map(TaskCount).ok_or_else(|| Error::invalid("num_tasks", count, &rule()))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// Whether the job has this task.
    pub fn has(self, task: TaskIndex) -> bool {
        task.0 < self.0.get()
    }

    /// All tasks, from 0.
    pub fn tasks(self) -> impl DoubleEndedIterator<Item = TaskIndex> + Clone {
        (0..self.0.get()).map(TaskIndex)
    }
}

impl TryFrom<u32> for TaskCount {
    type Error = Error;

    fn try_from(count: u32) -> Result<TaskCount> {
        TaskCount::new(count)
    }
}

impl From<TaskCount> for u32 {
    fn from(count: TaskCount) -> u32 {
        count.get()
    }
}

/// One task of a job, from 0. Whether the job has it is checked where the job is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = u32))]
pub struct TaskIndex(pub u32);

impl fmt::Display for TaskIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far a task got. Lower is worse: below zero are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = i32))]
pub struct Status(pub i32);

impl Status {
    /// Nothing was reported yet, or it was taken back.
    pub const NOT_STARTED: Status = Status(0);
    /// At work.
    pub const STARTED: Status = Status(1);
    /// Done.
    pub const FINISHED: Status = Status(i32::MAX);
    /// An error without a code of its own.
    pub const ERROR: Status = Status(-1);
    /// Something to look at. Below zero, and yet no error.
    pub const WARNING: Status = Status(-2);

    /// Whether it stands for a failure: negative, and not the warning.
    pub fn is_error(self) -> bool {
        self < Status::NOT_STARTED && self != Status::WARNING
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Status::NOT_STARTED => f.write_str("not started"),
            Status::STARTED => f.write_str("started"),
            Status::FINISHED => f.write_str("finished"),
            Status::ERROR => f.write_str("error"),
            Status::WARNING => f.write_str("warning"),
            Status(code) if code < 0 => write!(f, "error {code}"),
            Status(code) => code.fmt(f),
        }
    }
}

/// Counts the writes to one task and tag, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = u64))]
pub struct Version(pub u64);

impl Version {
    /// The version of a first write.
    pub const FIRST: Version = Version(1);

    /// The version of the write after this one.
    #[must_use]
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which process writes for a task: a restarted one takes a higher epoch, and the old one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = u64))]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_refused_and_why() {
        let too_long = "x".repeat(257);
        let cases = [
            ("", "must not be empty"),
            (too_long.as_str(), "at most 256 bytes, and has 257"),
            ("a\nb", "control characters"),
            ("\u{85}", "control characters"),
            (".", "must not be `.` or `..`"),
            ("..", "must not be `.` or `..`"),
        ];
        for (text, why) in cases {
            let error = Tag::new(text).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.field(), Some("tag"));
        }
    }

    #[test]
    fn names_that_look_odd_are_names() {
        let longest = "ü".repeat(128);
        for text in ["a/b", "0-x", "%", "%2F", "ü/ß 日本", "...", " ", longest.as_str()] {
            assert_eq!(JobId::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_job_has_between_one_and_a_million_tasks() {
        assert!(TaskCount::new(0).unwrap_err().to_string().contains("`0` must be between 1 and"));
        assert!(TaskCount::new(TASKS_MAX + 1).is_err());
        assert!(TaskCount::new(TASKS_MAX).unwrap().has(TaskIndex(TASKS_MAX - 1)));
        assert!(!TaskCount::new(3).unwrap().has(TaskIndex(3)));
    }

    #[test]
    fn a_warning_is_no_error() {
        assert!(Status(-1).is_error() && Status(-3).is_error() && Status(i32::MIN).is_error());
        assert!(!Status::WARNING.is_error() && !Status::NOT_STARTED.is_error());
    }
}
