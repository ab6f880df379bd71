//! Prometheus metrics. Labels have few values; ids are never labels.

use std::{sync::OnceLock, time::Duration};

use highwater::clock::{Clock as _, SystemClock};
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// From 50 µs, a write to a quiet SSD, to 10 s, which is a fault.
const SECONDS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 10.0,
];

/// How often samples are folded into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Begins to count. One recorder per process, however many servers it runs.
pub(crate) fn install() {
    HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS);
        match builder.map(PrometheusBuilder::install_recorder) {
            Ok(Ok(handle)) => {
                describe();
                Some(handle)
            }
            // Whoever embeds the server may have a recorder of their own, and reads it themselves.
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(%error, "metrics are not served here");
                None
            }
        }
    });
}

fn describe() {
    describe_histogram!(
        "highwater_jobs_write_seconds",
        Unit::Seconds,
        "How long writes of states took, by outcome"
    );
    describe_counter!("highwater_jobs_errors_total", "Calls that failed, by kind of error");
    describe_histogram!(
        "highwater_jobs_replay_seconds",
        Unit::Seconds,
        "From subscribing to the end of the snapshot"
    );
    describe_histogram!(
        "highwater_jobs_delivery_seconds",
        Unit::Seconds,
        "From the commit of a change to its delivery"
    );
    describe_counter!(
        "highwater_jobs_reconnects_total",
        "How often a subscription lost its store and found it again"
    );
    describe_gauge!("highwater_jobs_subscribers", "Subscriptions that are open");
    describe_gauge!(
        "highwater_feed_age_seconds",
        Unit::Seconds,
        "Age of the oldest event in the feed"
    );
    describe_histogram!(
        "highwater_http_request_seconds",
        Unit::Seconds,
        "How long requests took, streams aside"
    );
}

/// Keeps the samples of histograms from piling up while nobody asks for them. Never ends.
pub(crate) async fn keep_tidy() {
    let Some(handle) = HANDLE.get().and_then(Option::as_ref) else { return };
    loop {
        SystemClock.sleep(UPKEEP_INTERVAL).await;
        handle.run_upkeep();
    }
}

/// All metrics as text; `None` if somebody else keeps them.
pub(crate) fn render() -> Option<String> {
    HANDLE.get().and_then(Option::as_ref).map(PrometheusHandle::render)
}
