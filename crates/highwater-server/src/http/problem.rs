//! The one table from Highwater's errors to the wire's (RFC 9457).

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use highwater::{Error, ErrorKind};
use highwater_stores::remote::wire::{Problem, WriteOutcome};
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};

/// The status of an error. No wildcard arm: a new kind needs a status.
fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::Fenced | ErrorKind::Tombstoned => StatusCode::CONFLICT,
        ErrorKind::BadToken => StatusCode::BAD_REQUEST,
        ErrorKind::Gone => StatusCode::GONE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Full
        | ErrorKind::Busy
        | ErrorKind::Unavailable
        | ErrorKind::InUse
        | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Interrupted => StatusCode::GATEWAY_TIMEOUT, // It may have been applied.
        ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Why a request gets no answer but this.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    problem: Problem,
}

impl Refusal {
    /// One that belongs to HTTP alone: nothing was done.
    pub(crate) fn new(status: StatusCode, name: &str, detail: impl Into<String>) -> Refusal {
        let problem = Problem {
            kind: format!("urn:highwater:{name}"),
            title: name.replace('_', " "),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            outcome: WriteOutcome::NotApplied,
        };
        Refusal { status, problem }
    }

    /// The same, about this part of the input.
    pub(crate) fn about(mut self, field: impl Into<String>) -> Refusal {
        self.problem.field = Some(field.into());
        self
    }

    /// The same, and what was done is not known.
    pub(crate) fn of_unknown_outcome(mut self) -> Refusal {
        self.problem.outcome = WriteOutcome::Unknown;
        self
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let status = status(error.kind());
        if status.is_server_error() {
            tracing::error!(%error, kind = error.kind().name(), "a request failed");
        }
        Refusal { status, problem: Problem::new(&error, status.as_u16()) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.problem)).into_response();
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}
