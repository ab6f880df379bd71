//! Where the state is: the one place that opens it.

use std::sync::Arc;

use clap::Args;
use highwater::{Result, jobs::JobStore};
use highwater_stores::{StoreOptions, StoreUrls};

/// A file in the folder where the command runs.
const DEFAULT: &str = "sqlite:highwater.db";

/// Which store to talk to.
#[derive(Debug, Args)]
pub(crate) struct StoreFlag {
    /// Talk straight to this store [default: sqlite:highwater.db]
    // No default of clap's: the demo must know whether a store was named.
    #[arg(long = "store", env = "HIGHWATER_STORE", global = true, value_name = "URL")]
    url: Option<String>,
}

impl StoreFlag {
    /// The jobs of the store that was named, or of the default one.
    pub(crate) async fn jobs(&self) -> Result<Arc<dyn JobStore>> {
        self.jobs_or(DEFAULT).await
    }

    /// The jobs of the store that was named, or of another default.
    pub(crate) async fn jobs_or(&self, default: &str) -> Result<Arc<dyn JobStore>> {
        let urls = StoreUrls::all(self.url.as_deref().unwrap_or(default));
        Ok(highwater_stores::open(&urls, StoreOptions::default()).await?.jobs)
    }
}
