//! Whether it lives, whether it is ready, and its figures.

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State, response::IntoResponse};
use highwater::jobs::ListJobs;
use http::{StatusCode, header::CONTENT_TYPE};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::problem::Refusal;
use crate::{App, metered::seconds_since, metrics};

/// How long a store may take to answer before it counts as away.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(figures))
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", responses((status = OK, description = "alive")))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// The stores answer.
#[derive(Serialize, ToSchema)]
struct Ready {
    /// Which engine keeps jobs.
    jobs: &'static str,
}

/// The stores answer.
#[utoipa::path(get, path = "/readyz", responses((status = OK, body = Ready), (status = SERVICE_UNAVAILABLE, description = "names the store that is away")))]
async fn readyz(State(app): State<Arc<App>>) -> Result<Json<Ready>, Refusal> {
    let query = ListJobs { limit: 1, ..ListJobs::default() };
    let engine = app.slots.jobs_engine;
    let away = |why: &str| {
        let detail = format!("the store of jobs ({engine}) is away: {why}");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    };
    tokio::select! {
        answer = app.slots.jobs.list(&query) => {
            answer.map(|_| Json(Ready { jobs: engine })).map_err(|error| away(&error.to_string()))
        }
        () = app.clock.sleep(READY_TIMEOUT) => Err(away("it does not answer")),
    }
}

/// Prometheus metrics.
#[utoipa::path(get, path = "/metrics", responses((status = OK, content_type = "text/plain")))]
async fn figures(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Refusal> {
    for upkeep in &app.slots.upkeep {
        let age = match upkeep.oldest_event().await {
            Ok(oldest) => oldest.map_or(0.0, |oldest| seconds_since(oldest, app.clock.now())),
            Err(_) => continue,
        };
        ::metrics::gauge!("highwater_feed_age_seconds").set(age);
    }
    let text = metrics::render();
    let nobody = || {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "no_metrics",
            "this process keeps its metrics elsewhere",
        )
    };
    text.map(|text| ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text)).ok_or_else(nobody)
}
