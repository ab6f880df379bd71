//! Server-sent events: the steps of a subscription, each with the token that resumes behind it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use highwater::{
    Error, ErrorKind,
    feed::{Delivery, End, Follow, Start, Step},
};
use highwater_stores::remote::wire::{Ended, SnapshotEnd};
use http::StatusCode;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::problem::Refusal;
use crate::App;

/// How often a silent stream shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A place among the streams, or the word that there is none.
pub(crate) fn place(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    Arc::clone(&app.streams).try_acquire_owned().map_err(|_| {
        let detail =
            format!("there are {} streams already: try again later", app.options.streams_max);
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
    })
}

/// A subscription as a response. A token that the feed has been trimmed past is refused at once.
pub(crate) fn follow<T: Serialize + Send + 'static>(
    app: &App,
    place: OwnedSemaphorePermit,
    mut steps: Follow<T>,
    start: &Start,
) -> Result<Response, Refusal> {
    let first = steps.next().now_or_never().flatten();
    if let (Start::After(_), Some(Delivery { step: Step::Reset, .. })) = (start, &first) {
        let detail =
            "the feed was trimmed past this token: subscribe without one, and drop what you hold";
        return Err(Error::new(ErrorKind::Gone, detail).into());
    }
    let steps = stream::iter(first).chain(steps);
    Ok(respond(app, place, steps.map(|delivery| event(&delivery))))
}

/// Sends events until they end or the server stops, which is an `end` of its own.
pub(crate) fn respond(
    app: &App,
    place: OwnedSemaphorePermit,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    let state = (Some(events.boxed()), app.stopping.clone(), place);
    let events = stream::unfold(state, |(events, stopping, place)| async move {
        let mut events = events?; // Gone once goodbye was said.
        let event = tokio::select! {
            biased;
            () = stopping.cancelled() => match events.next().now_or_never() {
                // It has ended by itself, and said why.
                Some(None) => return None,
                Some(Some(_)) | None => {
                    return Some((Ok::<_, Infallible>(ended(&End::Cancelled)), (None, stopping, place)));
                }
            },
            event = events.next() => event?,
        };
        Some((Ok(event), (Some(events), stopping, place)))
    });
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    // Proxies that buffer would keep events from those who wait for them.
    response.headers_mut().insert("x-accel-buffering", http::HeaderValue::from_static("no"));
    response
}

fn event<T: Serialize>(delivery: &Delivery<T>) -> Event {
    let event = match &delivery.step {
        Step::Replay(item) => named("replay", item),
        Step::Change(item) => named("put", item),
        &Step::SnapshotEnd { revision, count } => {
            named("snapshot_end", &SnapshotEnd { revision, count })
        }
        Step::Stale => named("stale", &Nothing {}),
        Step::Live => named("live", &Nothing {}),
        Step::Reset => named("reset", &Nothing {}),
        Step::End(end) => ended(end),
    };
    match delivery.token() {
        Some(token) => event.id(token.as_str()),
        None => event,
    }
}

pub(crate) fn ended(end: &End) -> Event {
    named("end", &Ended::from(end))
}

/// `{}`.
#[derive(Serialize)]
struct Nothing {}

pub(crate) fn named(name: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    match serde_json::to_string(data) {
        Ok(json) => event.data(json),
        Err(error) => {
            // Our own types are JSON; nothing a client sends gets here.
            tracing::error!(%error, "an event could not be written");
            event.data("{}")
        }
    }
}
