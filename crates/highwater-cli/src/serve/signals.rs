//! How an operator says stop.

use highwater::{Error, ErrorKind, Result};

/// SIGTERM and SIGINT, from the moment of [`listen`](Signals::listen) on: none is lost.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn listen() -> Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(deaf);
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one, and names it.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Ctrl-C.
#[cfg(windows)]
#[derive(Debug)]
pub(super) struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    pub(super) fn listen() -> Result<Signals> {
        tokio::signal::windows::ctrl_c().map(Signals).map_err(deaf)
    }

    /// Waits for the next one, and names it.
    pub(super) async fn next(&mut self) -> &'static str {
        self.0.recv().await;
        "Ctrl-C"
    }
}

fn deaf(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot listen for signals").with_source(error)
}
