//! Servers that are told their port, and asked whether they are ready.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use tokio::time::interval;

use super::Server;
use crate::Result;

/// How long a server may take until it answers.
const READY_MAX: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(1);

impl Server {
    /// Asks every millisecond until there is an answer.
    pub(crate) async fn until_ready<T, F>(&mut self, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Option<T>>,
    {
        let mut ticks = interval(READY_POLL);
        loop {
            ticks.tick().await;
            if let Some(answer) = ask().await {
                self.ready_after = self.begun.elapsed();
                return Ok(answer);
            }
            if self.child.try_wait()?.is_some() || self.begun.elapsed() > READY_MAX {
                return Err(self.failure());
            }
        }
    }
}

/// A loopback address that nobody listens on at this moment.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
