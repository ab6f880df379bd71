//! Highwater keeps the shared state of distributed work and tells everybody the moment it changes.
//!
//! This crate is the library without engines: it names no database and opens no socket. Pick an
//! engine with `highwater_stores::open`, or [`memory`] for tests, and hold a
//! [`jobs::Manager`] in every worker.
//!
//! **One idea carries it:** a change is one transaction in which a record moves from version n to
//! n + 1 and one event is appended to the [`feed`]. A subscription is a snapshot at some point of
//! the feed plus the feed from there on, so it has no gap and no duplicate, can be resumed, and
//! costs nothing while nobody reads it.
//!
//! | domain | the question it answers |
//! |---|---|
//! | [`jobs`] | where does every task of this job stand? |

pub mod clock;
pub mod error;
pub mod feed;
pub mod jobs;
pub mod limits;
pub mod memory;
pub mod retention;
pub mod retry;
mod sync;

pub use error::{Error, ErrorKind, Outcome, Result};
