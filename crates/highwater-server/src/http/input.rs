//! What comes in: bodies, queries and paths, each refused with the field, the value and the rule.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use highwater::{
    Error,
    feed::{ScopeId, Seq, Start, Token},
    jobs::{Filter, JobId, JobRef, Life, Tag, TaskIndex},
    limits::{DECLARED_TAGS_MAX, MESSAGE_BYTES_MAX, TAG_BYTES_MAX},
};
use http::{HeaderMap, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use utoipa::{IntoParams, ToSchema};

use super::problem::Refusal;
use crate::App;

/// A JSON body of bounded size that arrives in bounded time.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Body<T>, Refusal> {
        let bytes = read(request, app).await?;
        // Serde would take a list for the fields in their order.
        if bytes.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
            serde_json::from_slice::<IgnoredAny>(&bytes)
                .map_err(|error| malformed(&error.to_string()))?;
            return Err(broken_rule("must be a JSON object", "body"));
        }
        let mut json = serde_json::Deserializer::from_slice(&bytes);
        let value = serde_path_to_error::deserialize(&mut json).map_err(refused_json)?;
        json.end().map_err(|error| malformed(&error.to_string()))?;
        Ok(Body(value))
    }
}

async fn read(request: Request, app: &App) -> Result<Bytes, Refusal> {
    // The longest state or list of tags; twice, because JSON escapes, and room for everything else.
    let state = app.options.limits.payload_bytes_max + MESSAGE_BYTES_MAX;
    let bytes_max = 2 * state.max(DECLARED_TAGS_MAX * (TAG_BYTES_MAX + 3)) + 8 * 1024;
    let reading = Limited::new(request.into_body(), bytes_max).collect();
    let read = tokio::select! {
        read = reading => read,
        () = app.clock.sleep(app.options.body_timeout) => {
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "the body did not arrive in time"));
        }
    };
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("a body must have at most {bytes_max} bytes");
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail))
        }
        Err(error) => Err(malformed(&format!("the body broke off: {error}"))),
    }
}

fn malformed(detail: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "malformed", format!("the body is no JSON: {detail}"))
}

/// Text that is no JSON is malformed; JSON of the wrong shape breaks a rule.
fn refused_json(error: serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let path = error.path().to_string();
    let error = error.into_inner();
    if !error.is_data() {
        return malformed(&error.to_string());
    }
    let detail = error.to_string();
    // Serde puts what it does not know between backticks, and the path is that of the whole.
    let complaints = ["unknown field `", "missing field `", "duplicate field `"];
    let rest = complaints.iter().find_map(|complaint| detail.strip_prefix(complaint));
    let field = rest.and_then(|rest| rest.split('`').next()).map_or(path, str::to_owned);
    broken_rule(&detail, &field)
}

fn broken_rule(detail: &str, field: &str) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", format!("{field}: {detail}"))
        .about(field)
}

/// A query in which every part is known.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Refusal> {
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|axum::extract::Query(value)| Query(value)).map_err(|rejection| {
            let detail = rejection.body_text();
            let words = detail.rsplit("query string: ").next().unwrap_or_default();
            let unknown =
                words.split("unknown field `").nth(1).and_then(|rest| rest.split('`').next());
            let field = unknown.unwrap_or_else(|| words.split(':').next().unwrap_or_default());
            broken_rule(words.strip_prefix(&format!("{field}: ")).unwrap_or(words), field)
        })
    }
}

/// Segments of the path, decoded.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Refusal> {
        let path = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(value)| Path(value)).map_err(|rejection| {
            let detail = format!("the path cannot be read: {}", rejection.body_text());
            Refusal::new(StatusCode::BAD_REQUEST, "malformed", detail)
        })
    }
}

pub(crate) fn task(text: &str) -> Result<TaskIndex, Error> {
    text.parse()
        .map(TaskIndex)
        .map_err(|_| Error::invalid("task", text, "must be a whole number from 0"))
}

/// Which life of a job is meant.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfLife {
    /// Only this life of the job; another answers 404.
    incarnation: Option<u64>,
}

/// The job that a path and an `incarnation` mean.
pub(crate) fn job(name: &str, incarnation: Option<u64>) -> Result<JobRef, Error> {
    let life = incarnation.map_or(Life::Current, |number| Life::Exactly(ScopeId(number)));
    Ok(JobRef { id: JobId::new(name)?, life })
}

impl OfLife {
    pub(crate) fn job(&self, name: &str) -> Result<JobRef, Error> {
        job(name, self.incarnation)
    }
}

/// Which states are meant.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    /// Only this task.
    task: Option<u32>,
    /// Only this tag.
    tag: Option<String>,
    /// The answer shows at least this revision.
    min_revision: Option<u64>,
    /// Only this life of the job; another answers 404.
    incarnation: Option<u64>,
}

impl Selection {
    pub(crate) fn job(&self, name: &str) -> Result<JobRef, Error> {
        job(name, self.incarnation)
    }

    pub(crate) fn filter(&self) -> Result<Filter, Error> {
        filter(self.task, self.tag.as_deref())
    }

    pub(crate) fn at_least(&self) -> Seq {
        Seq(self.min_revision.unwrap_or(0))
    }
}

pub(crate) fn filter(task: Option<u32>, tag: Option<&str>) -> Result<Filter, Error> {
    Ok(Filter { task: task.map(TaskIndex), tag: tag.map(Tag::new).transpose()? })
}

/// Where a stream begins: behind the token of the query, or of the header that browsers send.
pub(crate) fn start(from: Option<String>, headers: &HeaderMap) -> Result<Start, Error> {
    let header = headers.get("last-event-id").map(|value| {
        let text = value.to_str().map(str::to_owned);
        text.map_err(|_| Error::invalid("Last-Event-ID", "?", "must be a token as it came"))
    });
    Ok(match (from, header.transpose()?) {
        // The header is newer: a client that reconnects by itself repeats the query it began with.
        (_, Some(token)) | (Some(token), None) => Start::After(Token::from_text(token)),
        (None, None) => Start::Snapshot,
    })
}
