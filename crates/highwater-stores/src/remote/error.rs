//! The only place that knows reqwest's errors, and what an answer that is no answer means.

use std::time::Duration;

use highwater::{Error, ErrorKind, error::BoxError};
use reqwest::StatusCode;

use super::wire::Problem;

/// What was being done, and where: every error says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// Such as `set a state`.
    pub(super) operation: &'static str,
    /// Of the server.
    pub(super) address: &'a str,
}

impl Call<'_> {
    /// The request or its answer did not get through. Only one that never had a connection is known
    /// not to have been sent.
    pub(super) fn translate(self, error: reqwest::Error) -> Error {
        let (kind, why) = if error.is_connect() {
            (ErrorKind::Unavailable, "no connection")
        } else if error.is_builder() {
            (ErrorKind::Unsupported, "it cannot be put as a request")
        } else {
            (ErrorKind::Interrupted, "the connection broke before the answer was complete")
        };
        // The address is in our own text, and the query is nobody's business.
        self.failed(kind, why).with_source(error.without_url())
    }

    /// Time was up.
    pub(super) fn timed_out(self, limit: Duration) -> Error {
        self.failed(ErrorKind::Interrupted, &format!("no answer within {limit:?}"))
    }

    /// Time was up before its turn had come: nothing was sent.
    pub(super) fn crowded(self, calls: usize) -> Error {
        self.failed(ErrorKind::Busy, &format!("{calls} calls are under way already"))
    }

    /// The server did it, and what it answered cannot be read.
    pub(super) fn unreadable(self, error: impl Into<BoxError>) -> Error {
        self.failed(ErrorKind::Interrupted, "the answer cannot be read").with_source(error)
    }

    /// The server said no, or something in front of it did.
    pub(super) fn refused(self, status: StatusCode, problem: Option<Problem>) -> Error {
        let Some(problem) = problem else {
            let why = format!("it answered {status} and not why");
            return self.failed(kind_of(status), &why);
        };
        let error = problem.into_error();
        let kind = match error.kind() {
            // The server's handle on its store was closed, not the caller's on the server.
            ErrorKind::Closed => ErrorKind::Unavailable,
            // A word of HTTP's own, or of a newer server: the status is all there is to go by.
            ErrorKind::Unsupported => kind_of(status),
            ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Fenced
            | ErrorKind::Tombstoned
            | ErrorKind::BadToken
            | ErrorKind::Gone
            | ErrorKind::InUse
            | ErrorKind::Full
            | ErrorKind::Busy
            | ErrorKind::Unavailable
            | ErrorKind::Interrupted
            | ErrorKind::Corrupt => return error,
        };
        let translated = Error::new(kind, error.to_string());
        match error.field() {
            Some(field) => translated.with_field(field.to_owned()),
            None => translated,
        }
    }

    /// The answer is no stream of events.
    pub(super) fn no_stream(self) -> Error {
        self.failed(ErrorKind::Unsupported, "the answer is no stream of events")
    }

    /// A stream ended without an end.
    pub(super) fn cut(self) -> Error {
        self.failed(ErrorKind::Interrupted, "the stream was cut")
    }

    /// A stream said nothing for too long, not even that it is alive.
    pub(super) fn silent(self, limit: Duration) -> Error {
        self.failed(ErrorKind::Interrupted, &format!("no sign of life for {limit:?}"))
    }

    /// The server said goodbye.
    pub(super) fn going_away(self) -> Error {
        self.failed(ErrorKind::Unavailable, "the server is going away")
    }

    /// A stream has something in it that makes no sense, and would have it again.
    pub(super) fn garbled(self, error: impl Into<BoxError>) -> Error {
        self.failed(ErrorKind::Corrupt, "an event cannot be read").with_source(error)
    }

    /// A stream has an event that this build does not know. It is not skipped: it may matter.
    pub(super) fn unknown_event(self, name: &str) -> Error {
        self.failed(
            ErrorKind::Unsupported,
            &format!("this build knows no event `{}`", name.escape_debug()),
        )
    }

    fn failed(self, kind: ErrorKind, why: &str) -> Error {
        Error::new(kind, format!("cannot {} at {}: {why}", self.operation, self.address))
    }
}

/// What a status means that comes without an error of Highwater's.
fn kind_of(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => ErrorKind::Busy,
        StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Unavailable,
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => {
            ErrorKind::Unsupported
        }
        // Whoever gave up on the server may have done so after the write.
        status if status.is_server_error() => ErrorKind::Interrupted,
        _ => ErrorKind::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::wire::WriteOutcome, *};

    const CALL: Call<'_> = Call { operation: "set a state", address: "http://host:1" };

    #[track_caller]
    fn check_bare(status: u16, expected: ErrorKind) {
        let error = CALL.refused(StatusCode::from_u16(status).unwrap(), None);
        assert_eq!(error.kind(), expected, "{status}");
        let text = error.to_string();
        assert!(text.starts_with("cannot set a state at http://host:1: it answered"), "{text}");
        assert!(text.contains(&status.to_string()), "{text}");
    }

    #[test]
    fn a_bare_status_is_taken_for_the_most_careful_kind() {
        check_bare(503, ErrorKind::Unavailable);
        for status in [500, 502, 504, 524] {
            check_bare(status, ErrorKind::Interrupted);
        }
        check_bare(429, ErrorKind::Busy);
        for status in [301, 400, 404, 410, 501] {
            check_bare(status, ErrorKind::Unsupported);
        }
    }

    fn problem(kind: &str, outcome: WriteOutcome) -> Problem {
        let (kind, title) = (format!("urn:highwater:{kind}"), String::new());
        let (detail, field) = ("what happened".to_owned(), Some("tag".to_owned()));
        Problem { kind, title, status: 0, detail, field, outcome }
    }

    #[track_caller]
    fn check_problem(status: u16, name: &str, outcome: WriteOutcome, expected: ErrorKind) {
        let status = StatusCode::from_u16(status).unwrap();
        let error = CALL.refused(status, Some(problem(name, outcome)));
        assert_eq!(error.kind(), expected, "{name}");
        assert_eq!((error.to_string().as_str(), error.field()), ("what happened", Some("tag")));
    }

    #[test]
    fn a_problem_is_the_error_that_the_server_meant() {
        use WriteOutcome::{NotApplied, Unknown};
        check_problem(404, "not_found", NotApplied, ErrorKind::NotFound);
        check_problem(503, "full", NotApplied, ErrorKind::Full);
        check_problem(503, "closed", NotApplied, ErrorKind::Unavailable);
        check_problem(429, "too_many_streams", NotApplied, ErrorKind::Busy);
        check_problem(404, "no_such_route", NotApplied, ErrorKind::Unsupported);
        check_problem(501, "unsupported", NotApplied, ErrorKind::Unsupported);
        check_problem(500, "panic", Unknown, ErrorKind::Interrupted);
    }
}
