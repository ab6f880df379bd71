//! Errors on the wire.

use highwater::{Error, ErrorKind, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// RFC 9457: what is said when a call fails.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:highwater:` and the kind of the error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status; 0 where there is none.
    pub status: u16,
    /// What happened, this time.
    pub detail: String,
    /// Which part of the input was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Whether the write may have landed.
    pub outcome: WriteOutcome,
}

/// What is known of a write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteOutcome {
    /// Nothing was changed.
    NotApplied,
    /// It may have landed: repeat it only with the same event id.
    Unknown,
}

const KIND_PREFIX: &str = "urn:highwater:";

impl Problem {
    /// An error as a problem; the server has the table of statuses.
    pub fn new(error: &Error, status: u16) -> Problem {
        let mut detail = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            detail = format!("{detail}: {source}");
            cause = source.source();
        }
        Problem {
            kind: format!("{KIND_PREFIX}{}", error.kind().name()),
            title: error.kind().name().replace('_', " "),
            status,
            detail,
            field: error.field().map(str::to_owned),
            outcome: match error.outcome() {
                Outcome::NotApplied => WriteOutcome::NotApplied,
                Outcome::Unknown => WriteOutcome::Unknown,
            },
        }
    }

    /// The error that the server meant. A kind that this build does not know is taken for the most
    /// careful one that fits the outcome.
    pub fn into_error(self) -> Error {
        let unknown = match self.outcome {
            WriteOutcome::NotApplied => ErrorKind::Unsupported,
            WriteOutcome::Unknown => ErrorKind::Interrupted,
        };
        let name = self.kind.strip_prefix(KIND_PREFIX).unwrap_or_default();
        let error = Error::new(ErrorKind::named(name).unwrap_or(unknown), self.detail);
        match self.field {
            Some(field) => error.with_field(field),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_survives_the_way_there_and_back() {
        for kind in ErrorKind::ALL {
            let error = Error::new(kind, "what happened").with_field("tag");
            let json = serde_json::to_string(&Problem::new(&error, 422)).unwrap();
            let back = serde_json::from_str::<Problem>(&json).unwrap().into_error();
            assert_eq!(
                (back.kind(), back.field(), back.to_string().as_str()),
                (kind, Some("tag"), "what happened")
            );
        }
    }

    #[test]
    fn an_unknown_kind_keeps_its_outcome() {
        let mut problem = Problem::new(&Error::new(ErrorKind::Interrupted, "lost"), 504);
        problem.kind = "urn:highwater:from_the_future".to_owned();
        assert_eq!(problem.into_error().outcome(), Outcome::Unknown);
    }
}
