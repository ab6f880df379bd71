//! Connections: how many, for how long, and how they end.
//!
//! By hand over hyper-util, because `axum::serve` has neither a time-out for headers nor a limit on
//! connections.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use highwater::clock::{Clock as _, SystemClock};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::ServerOptions;

/// Largest head of a request: a long path and a resume token fit many times over.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long to wait after a failed accept: too many open files take time to close.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a client may be silent on HTTP/2 before it is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_mins(1);

pub(crate) async fn run(
    listener: TcpListener,
    router: Router,
    options: &ServerOptions,
    stopping: CancellationToken,
    shutdown: impl Future<Output = ()> + Send,
) {
    let places = Arc::new(Semaphore::new(options.connections_max));
    let graceful = GracefulShutdown::new();
    let server = server(options);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let next = async {
            // A place first: those who find none wait in the kernel's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection =
                    serve(stream, &server, router.clone(), options.header_timeout, &graceful);
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                SystemClock.sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    tracing::info!("stopping: no new requests");
    stopping.cancel();
    tokio::select! {
        () = graceful.shutdown() => tracing::info!("stopped: all requests have ended"),
        () = SystemClock.sleep(options.drain_timeout) => {
            tracing::warn!("stopped: some requests did not end in time");
        }
    }
}

fn server(options: &ServerOptions) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
    server
}

/// Serves one connection to its end. One that does not make a first request in time is closed: the
/// protocol is not known before, so hyper's own time-out does not run yet.
fn serve(
    stream: TcpStream,
    server: &auto::Builder<TokioExecutor>,
    router: Router,
    header_timeout: Duration,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + use<> {
    let has_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&has_asked);
    let router = router.map_request(move |request: http::Request<hyper::body::Incoming>| {
        asked.store(true, Ordering::Relaxed);
        request
    });
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "answers may be delayed");
    }
    let service = TowerToHyperService::new(router);
    let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = graceful.watch(connection);
    async move {
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = silence(&has_asked, header_timeout) => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

/// Ready when the client has asked for nothing in all this time; never, once it has.
async fn silence(has_asked: &AtomicBool, limit: Duration) {
    SystemClock.sleep(limit).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
