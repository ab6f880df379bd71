//! The routes.

mod events;
mod health;
mod input;
mod jobs;
pub(crate) mod problem;
mod stream;

use std::{any::Any, sync::Arc, time::Instant};

use axum::{
    Json, Router,
    extract::{MatchedPath, Request},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use http::{Method, StatusCode};
use tower_http::{catch_panic::CatchPanicLayer, csrf::CsrfLayer};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use self::problem::Refusal;
use crate::App;

/// Shared state of distributed work, and word of every change.
#[derive(OpenApi)]
#[openapi(info(title = "Highwater"))]
struct Description;

pub(crate) fn router(app: Arc<App>) -> Router {
    let described = OpenApiRouter::with_openapi(Description::openapi())
        .nest("/v1", jobs::routes().merge(events::routes()))
        .merge(health::routes());
    let (router, description) = described.split_for_parts();
    router
        .route(
            "/openapi.json",
            axum::routing::get(move || std::future::ready(Json(description.clone()))),
        )
        .fallback(|request: Request| {
            let refusal = Refusal::new(
                StatusCode::NOT_FOUND,
                "no_such_route",
                format!("there is no `{}`", request.uri().path()),
            );
            std::future::ready(refusal)
        })
        .method_not_allowed_fallback(|request: Request| {
            let detail = format!("`{}` does not take {}", request.uri().path(), request.method());
            std::future::ready(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                detail,
            ))
        })
        .layer(CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| panicked(&*panic)))
        // A page in somebody's browser must not write to a server on their machine.
        .layer(CsrfLayer::new().with_rejection_response(|_| {
            let detail = "a page of another site may not write here";
            Refusal::new(StatusCode::FORBIDDEN, "cross_site", detail).into_response()
        }))
        .layer(middleware::from_fn(measured))
        .with_state(app)
}

/// A bug is one request's misfortune, and not the server's.
fn panicked(panic: &(dyn Any + Send)) -> Response {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = words.unwrap_or("?"), "a request panicked");
    // What it did before it panicked is not known.
    let refusal = Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "panic",
        "the server has a bug here: see its log",
    );
    refusal.of_unknown_outcome().into_response()
}

async fn measured(request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = known(request.method());
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let response = next.run(request).await;
    let labels = [
        ("method", method.to_owned()),
        ("route", route),
        ("status", response.status().as_str().to_owned()),
    ];
    metrics::histogram!("highwater_http_request_seconds", &labels).record(start.elapsed());
    response
}

/// The name of a method that some route takes; clients may invent others, and labels must be few.
fn known(method: &Method) -> &'static str {
    let methods = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE];
    let names = ["GET", "HEAD", "PUT", "POST", "DELETE"];
    methods
        .iter()
        .zip(names)
        .find_map(|(known, name)| (known == method).then_some(name))
        .unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_every_route_of_the_surface() {
        let described = OpenApiRouter::with_openapi(Description::openapi())
            .nest("/v1", jobs::routes().merge(events::routes()))
            .merge(health::routes());
        let (_, description): (Router<Arc<App>>, _) = described.split_for_parts();
        let paths: Vec<_> = description.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "/healthz",
                "/metrics",
                "/readyz",
                "/v1/events",
                "/v1/jobs",
                "/v1/jobs/{job}",
                "/v1/jobs/{job}/events",
                "/v1/jobs/{job}/state",
                "/v1/jobs/{job}/states",
                "/v1/jobs/{job}/summary",
                "/v1/jobs/{job}/tasks/{task}/open",
                "/v1/jobs/{job}/tasks/{task}/tags/{tag}",
                "/v1/jobs/{job}/wait",
            ]
        );
    }

    #[tokio::test]
    async fn a_panic_is_one_requests_misfortune() {
        use tower::ServiceExt as _;
        async fn bug() -> &'static str {
            panic!("a bug")
        }
        let layer = CatchPanicLayer::custom(|panic: Box<dyn Any + Send>| panicked(&*panic));
        let router: Router = Router::new().route("/", axum::routing::get(bug)).layer(layer);
        let request = Request::new(axum::body::Body::empty());
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}
