//! The real binary as a server: its whole surface over HTTP, bad input, and kill −9 under load.

#![expect(clippy::unwrap_used, reason = "a test reports by panicking, its helpers included")]

mod bad_input;
mod client;
mod crash;
mod names;
mod network;
mod server;
mod surface;
mod transport;

use std::time::Duration;

/// Nothing here takes this long, unless it hangs.
const HANGS: Duration = Duration::from_mins(1);

/// What `future` gives, or a failure instead of a test that hangs.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANGS, future).await.expect("it hangs")
}
