//! Highwater over HTTP: JSON, server-sent events, metrics and health on one port.
//!
//! The caller owns the socket and the signal, so a test can own them too. Handlers parse, call one
//! method, and convert the answer; what they know of errors is one table, `http/problem.rs`.

mod accept;
mod http;
mod metered;
mod metrics;

use std::{future::Future, sync::Arc, time::Duration};

use highwater::{
    Result,
    clock::{Clock, SystemClock},
    limits::Limits,
};
use highwater_stores::Slots;
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

/// What a server can be told.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// What a state may hold.
    pub limits: Limits,
    /// Most connections at a time; more wait.
    pub connections_max: usize,
    /// Most event streams at a time; more are refused with 429.
    pub streams_max: usize,
    /// How long a client may take to send the head of a request, and how long a connection may idle.
    pub header_timeout: Duration,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// How long requests may go on after the server was told to stop.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            limits: Limits::default(),
            connections_max: 20_000,
            streams_max: 15_000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(5),
        }
    }
}

/// What every handler can reach.
#[derive(Debug)]
struct App {
    slots: Slots,
    options: ServerOptions,
    clock: Arc<dyn Clock>,
    streams: Arc<Semaphore>,
    /// Cancelled when the server is told to stop: streams say goodbye.
    stopping: CancellationToken,
}

/// Serves until `shutdown`, then drains: no new requests, those under way end, streams say goodbye.
pub async fn serve(
    listener: TcpListener,
    slots: Slots,
    options: ServerOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    metrics::install();
    let stopping = CancellationToken::new();
    let jobs = Arc::new(metered::MeteredJobs::new(Arc::clone(&slots.jobs), slots.jobs_engine));
    let app = App {
        slots: Slots { jobs, ..slots },
        streams: Arc::new(Semaphore::new(options.streams_max)),
        options: options.clone(),
        clock: Arc::new(SystemClock),
        stopping: stopping.clone(),
    };
    let router = http::router(Arc::new(app));
    let accepting = accept::run(listener, router, &options, stopping, shutdown);
    tokio::select! {
        () = accepting => {}
        () = async { metrics::keep_tidy().await; std::future::pending().await } => {}
    }
    Ok(())
}
