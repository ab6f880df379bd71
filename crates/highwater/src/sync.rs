//! The lock of everything that threads share here.
//!
//! Under `--cfg shuttle` it is shuttle's, so that the interleaving tests see (and reorder) every
//! acquisition. The code above it is the same either way.

#[cfg(shuttle)]
use shuttle::sync as imp;
#[cfg(not(shuttle))]
use std::sync as imp;

pub(crate) use imp::MutexGuard;

/// A mutex without poison: a panic under one of our locks is a bug that the panic itself reports,
/// and no critical section leaves its data half changed.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
