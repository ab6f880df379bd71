//! Jobs over HTTP.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures_util::stream as futures_stream;
use highwater::{
    Error,
    feed::{End, Patience},
    jobs::{
        Created, Deletion, Filter, FollowRequest, Job, JobId, ListJobs, OnError, Report, Shown,
        Status, Summary, SummaryWatch, Tag, TaskCount, Viewer, Write, rules,
    },
};
use highwater_stores::remote::wire;
use http::{HeaderMap, StatusCode, header::ACCEPT};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    input::{Body, OfLife, Path, Query, Selection, filter, job, start, task},
    problem::Refusal,
    stream,
};
use crate::App;

/// Longest wait in one request.
const WAIT_MAX: Duration = Duration::from_hours(1);

/// How long a wait is if the caller does not say.
const WAIT_DEFAULT: &str = "30s";

type Answer<T> = Result<Json<T>, Refusal>;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(open, get_job, delete))
        .routes(routes!(set))
        .routes(routes!(take_over))
        .routes(routes!(state))
        .routes(routes!(states))
        .routes(routes!(summary))
        .routes(routes!(wait))
        .routes(routes!(events))
}

/// Creates a job, or finds it: what is stored wins.
#[utoipa::path(put, path = "/jobs/{job}", params(("job" = String, Path)), request_body = wire::OpenJob,
    responses((status = CREATED, body = wire::OpenedJob), (status = OK, body = wire::OpenedJob)))]
async fn open(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Body(body): Body<wire::OpenJob>,
) -> Result<Response, Refusal> {
    let (id, num_tasks) = (JobId::new(name)?, TaskCount::new(body.num_tasks)?);
    let tags = body
        .tags
        .map(|tags| tags.iter().map(Tag::new).collect::<Result<Vec<_>, _>>())
        .transpose()?;
    let (job, created) = app.slots.jobs.open(&id, num_tasks, tags.as_deref()).await?;
    let status = match created {
        Created::New => StatusCode::CREATED,
        Created::Existing => StatusCode::OK,
    };
    Ok((status, Json(wire::OpenedJob::new(job, created))).into_response())
}

/// The job as it is stored.
#[utoipa::path(get, path = "/jobs/{job}", params(("job" = String, Path), OfLife), responses((status = OK, body = Job)))]
async fn get_job(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(life): Query<OfLife>,
) -> Answer<Job> {
    Ok(Json(app.slots.jobs.job(&life.job(&name)?).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only names that begin like this.
    #[serde(default)]
    prefix: String,
    /// `alive`, `tombstoned` or `all` (the default).
    shown: Option<String>,
    /// Only names behind this one.
    after: Option<String>,
    /// At most this many: 1 to 1000, 100 unless said.
    limit: Option<usize>,
}

impl Which {
    fn query(self) -> Result<ListJobs, Error> {
        let shown = match self.shown.as_deref() {
            None | Some("all") => Shown::All,
            Some("alive") => Shown::Alive,
            Some("tombstoned") => Shown::Tombstoned,
            Some(other) => {
                return Err(Error::invalid(
                    "shown",
                    other,
                    "must be `alive`, `tombstoned` or `all`",
                ));
            }
        };
        let after = self.after.map(JobId::new).transpose()?;
        let limit = self.limit.unwrap_or(ListJobs::default().limit);
        Ok(ListJobs { prefix: self.prefix, shown, after, limit })
    }
}

/// Jobs by name, one page.
#[utoipa::path(get, path = "/jobs", params(Which), responses((status = OK, body = wire::JobsPage)))]
async fn list(State(app): State<Arc<App>>, Query(which): Query<Which>) -> Answer<wire::JobsPage> {
    let query = which.query()?;
    let jobs = app.slots.jobs.list(&query).await?;
    Ok(Json(wire::JobsPage::new(jobs, query.limit)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct HowToDelete {
    /// Only marks it: it can be read, and not be written or opened.
    #[serde(default)]
    tombstone: bool,
    /// Only this life of the job; another answers 404.
    incarnation: Option<u64>,
}

/// Deletes a job with all its states, or marks it as deleted.
#[utoipa::path(delete, path = "/jobs/{job}", params(("job" = String, Path), HowToDelete),
    responses((status = OK, body = wire::DeletedJob)))]
async fn delete(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(how): Query<HowToDelete>,
) -> Answer<wire::DeletedJob> {
    let deletion = if how.tombstone { Deletion::Tombstone } else { Deletion::Erase };
    let deleted = app.slots.jobs.delete(&job(&name, how.incarnation)?, deletion).await?;
    Ok(Json(deleted.into()))
}

/// Reports a state. Without `epoch` it is anonymous: never fenced.
#[utoipa::path(put, path = "/jobs/{job}/tasks/{task}/tags/{tag}", request_body = wire::SetState,
    params(("job" = String, Path), ("task" = u32, Path), ("tag" = String, Path), OfLife),
    responses((status = OK, body = wire::WrittenState)))]
async fn set(
    State(app): State<Arc<App>>,
    Path((name, index, tag)): Path<(String, String, String)>,
    Query(life): Query<OfLife>,
    Body(body): Body<wire::SetState>,
) -> Answer<wire::WrittenState> {
    let task = task(&index)?;
    let (draft, writer) = body.draft(task, Tag::new(tag)?, &app.options.limits)?;
    let write = Write::new(life.job(&name)?, task, draft, writer)?;
    Ok(Json(app.slots.jobs.set(write).await?.into()))
}

/// Makes the caller the writer of a task: older epochs are refused from now on.
#[utoipa::path(post, path = "/jobs/{job}/tasks/{task}/open",
    params(("job" = String, Path), ("task" = u32, Path), OfLife), responses((status = OK, body = wire::TakenOver)))]
async fn take_over(
    State(app): State<Arc<App>>,
    Path((name, index)): Path<(String, String)>,
    Query(life): Query<OfLife>,
) -> Answer<wire::TakenOver> {
    let epoch = app.slots.jobs.take_over(&life.job(&name)?, task(&index)?).await?;
    Ok(Json(wire::TakenOver { epoch }))
}

/// Where the job, a task or a tag stands: the lowest status wins.
#[utoipa::path(get, path = "/jobs/{job}/state", params(("job" = String, Path), Selection),
    responses((status = OK, body = wire::Standing)))]
async fn state(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(selection): Query<Selection>,
) -> Answer<wire::Standing> {
    let filter = selection.filter()?;
    let reading =
        app.slots.jobs.read(&selection.job(&name)?, &filter, selection.at_least()).await?;
    let standing = rules::standing(&reading.job, &filter, &reading.reports);
    Ok(Json(wire::Standing::new(&reading.job.id, standing)))
}

/// All states of the job, a task or a tag, of one moment.
#[utoipa::path(get, path = "/jobs/{job}/states", params(("job" = String, Path), Selection),
    responses((status = OK, body = wire::States)))]
async fn states(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(selection): Query<Selection>,
) -> Answer<wire::States> {
    let job = selection.job(&name)?;
    let reading = app.slots.jobs.read(&job, &selection.filter()?, selection.at_least()).await?;
    Ok(Json(reading.into()))
}

/// The full picture; live with `accept: text/event-stream`, a `summary` at every change.
#[utoipa::path(get, path = "/jobs/{job}/summary", params(("job" = String, Path), Selection),
    responses((status = OK, body = wire::Summary)))]
async fn summary(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(selection): Query<Selection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (job, filter) = (selection.job(&name)?, selection.filter()?);
    if headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"))
    {
        let place = stream::place(&app)?;
        let viewer = Viewer::of(Arc::clone(&app.slots.jobs), job).await?;
        let watch = viewer.watch_summary(filter).await?;
        return Ok(stream::respond(&app, place, pictures(viewer, watch)));
    }
    let reading = app.slots.jobs.read(&job, &filter, selection.at_least()).await?;
    let summary = Summary::of(&reading, &filter);
    Ok(Json(wire::Summary::new(&reading.job.id, summary)).into_response())
}

fn pictures(
    viewer: Viewer,
    watch: SummaryWatch,
) -> impl futures_stream::Stream<Item = axum::response::sse::Event> {
    futures_stream::unfold((viewer, watch), |(viewer, mut watch)| async {
        let event = match watch.next().await? {
            Ok(summary) => stream::named("summary", &wire::Summary::new(&viewer.job().id, summary)),
            Err(error) if error.kind() == highwater::ErrorKind::NotFound => {
                stream::ended(&End::Deleted)
            }
            Err(error) => stream::ended(&End::Failed(error)),
        };
        Some((event, (viewer, watch)))
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Until {
    /// How far it must get: `finished` (the default), `started` or a number.
    status: Option<String>,
    /// For how long to wait, such as `30s`; at most an hour.
    timeout: Option<String>,
    /// Only this task.
    task: Option<u32>,
    /// Only this tag.
    tag: Option<String>,
    /// `fail` (the default) ends the wait when a task reports an error, `wait` waits on.
    on_error: Option<String>,
    /// Only this life of the job; another answers 404.
    incarnation: Option<u64>,
}

impl Until {
    fn status(&self) -> Result<Status, Error> {
        match self.status.as_deref() {
            None | Some("finished") => Ok(Status::FINISHED),
            Some("started") => Ok(Status::STARTED),
            Some(number) => number.parse().map(Status).map_err(|_| {
                Error::invalid(
                    "status",
                    number,
                    "must be `finished`, `started` or a whole number of 32 bits",
                )
            }),
        }
    }

    fn timeout(&self) -> Result<Duration, Error> {
        let text = self.timeout.as_deref().unwrap_or(WAIT_DEFAULT);
        let span = text
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|span| Duration::try_from(span).ok());
        span.filter(|span| *span <= WAIT_MAX).ok_or_else(|| {
            Error::invalid(
                "timeout",
                text,
                "must be a time such as `500ms`, `30s` or `5m`, at most 1h",
            )
        })
    }

    fn on_error(&self) -> Result<OnError, Error> {
        match self.on_error.as_deref() {
            None | Some("fail") => Ok(OnError::Fail),
            Some("wait") => Ok(OnError::Wait),
            Some(other) => Err(Error::invalid("on_error", other, "must be `fail` or `wait`")),
        }
    }
}

/// Waits until the lowest status gets there, a task fails, or time is up: each is a 200.
#[utoipa::path(get, path = "/jobs/{job}/wait", params(("job" = String, Path), Until),
    responses((status = OK, body = wire::WaitEnded)))]
async fn wait(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(until): Query<Until>,
) -> Answer<wire::WaitEnded> {
    let (status, timeout, on_error) = (until.status()?, until.timeout()?, until.on_error()?);
    let filter: Filter = filter(until.task, until.tag.as_deref())?;
    let viewer = Viewer::of(Arc::clone(&app.slots.jobs), job(&name, until.incarnation)?).await?;
    let waited = tokio::select! {
        waited = viewer.wait_until(filter, status, timeout, on_error) => waited?,
        () = app.stopping.cancelled() => {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the server is stopping: ask again"));
        }
    };
    Ok(Json(wire::WaitEnded::new(&viewer.job().id, waited)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Follow {
    /// Only this task.
    task: Option<u32>,
    /// Only this tag.
    tag: Option<String>,
    /// Goes on behind the event with this token; `Last-Event-ID` does the same.
    from: Option<String>,
    /// Only this life of the job; another answers 404.
    incarnation: Option<u64>,
}

/// What there is, one marker, then every change.
///
/// SSE: `replay`, `snapshot_end`, `put`, `delete`, `stale`, `live`, `reset`, `end`; the `id` of each
/// resumes behind it.
#[utoipa::path(get, path = "/jobs/{job}/events", params(("job" = String, Path), Follow),
    responses((status = OK, body = Report, content_type = "text/event-stream")))]
async fn events(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Query(follow): Query<Follow>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let filter = filter(follow.task, follow.tag.as_deref())?;
    let start = start(follow.from, &headers)?;
    let place = stream::place(&app)?;
    let request = FollowRequest { filter, start: start.clone(), patience: Patience::Endless };
    let steps = app.slots.jobs.follow(&job(&name, follow.incarnation)?, request).await?;
    stream::follow(&app, place, steps, &start)
}
