//! `GET /v1/events`: every event of every domain.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use highwater::feed::{FeedEvent, FollowEvents, Patience};
use http::HeaderMap;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    input::{Query, start},
    problem::Refusal,
    stream,
};
use crate::App;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(events))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Which {
    /// Only this domain: `jobs`.
    domain: Option<String>,
    /// Goes on behind the event with this token.
    from: Option<String>,
}

/// Every event of every domain, live.
///
/// SSE: `snapshot_end` at once, then a `put` per event; `stale`, `live`, `reset`, `end`.
#[utoipa::path(get, path = "/events", params(Which), responses((status = OK, body = FeedEvent, content_type = "text/event-stream")))]
async fn events(
    State(app): State<Arc<App>>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let domain = which.domain.as_deref().map(str::parse).transpose()?;
    let start = start(which.from, &headers)?;
    let place = stream::place(&app)?;
    let request = FollowEvents { domain, start: start.clone(), patience: Patience::Endless };
    let steps = app.slots.events.follow_events(request).await?;
    stream::follow(&app, place, steps, &start)
}
