//! Letting go of what need not be kept, every minute, for as long as the store lives.

use std::{sync::Arc, time::Duration};

use highwater::{
    clock::Clock,
    retention::{Retention, Swept, Upkeep},
};

/// How often a store is swept.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Sweeps until `store` gives none: it must not keep the store alive by itself.
pub(crate) async fn forever<U: Upkeep>(
    store: impl Fn() -> Option<U>,
    clock: Arc<dyn Clock>,
    retention: Retention,
) {
    loop {
        clock.sleep(SWEEP_INTERVAL).await;
        let Some(store) = store() else { return };
        match store.sweep(&retention).await {
            Ok(Swept { events: 0, jobs: 0 }) => {}
            Ok(Swept { events, jobs }) => tracing::info!(events, jobs, "swept"),
            Err(error) => tracing::warn!(%error, "could not sweep; trying again in a minute"),
        }
    }
}
