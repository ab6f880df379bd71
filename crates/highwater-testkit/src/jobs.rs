//! The promises of jobs.

mod events;
mod faults;
mod life;
mod model;
mod reading;
mod subscribing;
mod watching;

pub use faults::live_a_life;

use crate::Promise;

/// All of them.
pub fn promises() -> impl Iterator<Item = Promise> {
    let groups = [
        model::PROMISES,
        reading::PROMISES,
        subscribing::PROMISES,
        watching::PROMISES,
        life::PROMISES,
        faults::PROMISES,
        events::PROMISES,
    ];
    groups.into_iter().flatten().copied()
}

/// The promise of this name, for those who want to see it broken.
pub fn promise(name: &str) -> Promise {
    promises().find(|promise| promise.name == name).unwrap()
}
