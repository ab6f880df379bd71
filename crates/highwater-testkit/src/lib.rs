//! What every engine of Highwater must keep, and how it is put under stress.
//!
//! - The promises of a domain ([`jobs`]) are run over every engine by one binary,
//!   `highwater-stores/tests/conformance.rs`.
//! - [`differential`] drives an engine and the memory store alike, from a printed seed.
//! - [`faulty`] loses requests and, what finds the bugs, replies.
//! - [`history`] checks what subscribers were told; [`broken`] keeps the stores that prove that the
//!   checks can fail.
//! - [`proxy`] is a bad network, on loopback.
//! - [`clock`] is told the time.
//!
//! The testkit reports by panicking: it is only ever linked into tests.

#![expect(clippy::unwrap_used, reason = "the testkit reports by panicking")]

pub mod broken;
pub mod clock;
pub mod differential;
pub mod faulty;
pub mod history;
pub mod jobs;
pub mod prng;
mod promise;
pub mod proxy;

pub use promise::{Bed, Promise};
