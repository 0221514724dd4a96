//! The counters of a gateway, in the format of Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// The content type of the metrics.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CreationLabels {
    /// The snapshot point of the image, or `exec`.
    how: &'static str,
    /// Why the engine executed the program.
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: u16,
}

/// The counters of a gateway.
pub(crate) struct WebMetrics {
    registry: Registry,
    runs: Family<CreationLabels, Counter>,
    replies: Family<StatusLabel, Counter>,
    under_way: Gauge,
    waiting: Gauge,
    connections: Gauge,
    seconds: Histogram,
    sent_bytes: Counter<u64, AtomicU64>,
}

impl WebMetrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("regrow_web"),
            runs: Family::default(),
            replies: Family::default(),
            under_way: Gauge::default(),
            waiting: Gauge::default(),
            connections: Gauge::default(),
            // 0.1 ms to 26 s.
            seconds: Histogram::new(exponential_buckets(1e-4, 2.0, 19)),
            sent_bytes: Counter::default(),
        };
        let Self { registry, runs, replies, under_way, waiting, connections, seconds, sent_bytes } =
            &mut metrics;
        registry.register("runs", "Processes, by how they were made", runs.clone());
        registry.register("replies", "Requests that were answered, by status", replies.clone());
        registry.register("under_way", "Requests that have a process", under_way.clone());
        registry.register("waiting", "Requests that wait for their turn", waiting.clone());
        registry.register("connections", "Connections that are open", connections.clone());
        registry.register_with_unit(
            "reply",
            "From a request's head to its reply's end",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register_with_unit("sent", "Bodies of replies", Unit::Bytes, sent_bytes.clone());
        metrics
    }

    /// Counts a process by how the engine made it.
    pub(crate) fn run(&self, (how, why): (&'static str, &'static str)) {
        self.runs.get_or_create(&CreationLabels { how, why }).inc();
    }

    /// Counts a reply: its status, its time, and the bytes of its body.
    pub(crate) fn reply(&self, status: u16, seconds: f64, bytes: u64) {
        self.replies.get_or_create(&StatusLabel { status }).inc();
        self.seconds.observe(seconds);
        self.sent_bytes.inc_by(bytes);
    }

    /// Sets how many requests wait for a process.
    pub(crate) fn waiting(&self, number: usize) {
        self.waiting.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Counts an open connection as long as the guard lives.
    pub(crate) fn connected(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    /// Counts a request that has a process as long as the guard lives.
    pub(crate) fn under_way(&self) -> GaugeGuard {
        GaugeGuard::new(&self.under_way)
    }

    /// All counters as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Adds one to a gauge as long as it lives.
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_counts_as_long_as_it_lives() {
        let metrics = WebMetrics::new();
        let connected = metrics.connected();
        metrics.run(("warm", ""));
        metrics.reply(404, 0.001, 14);
        let text = metrics.text();
        for line in [
            "regrow_web_connections 1\n",
            "regrow_web_runs_total{how=\"warm\",why=\"\"} 1\n",
            "regrow_web_replies_total{status=\"404\"} 1\n",
            "regrow_web_sent_bytes_total 14\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        drop(connected);
        assert!(metrics.text().contains("regrow_web_connections 0\n"));
    }
}
