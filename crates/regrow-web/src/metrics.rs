//! What a gateway counts, in the format of Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What the answer is labelled as.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct How {
    /// The point of the image, or `exec`.
    how: &'static str,
    /// Why it was executed.
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    status: u16,
}

/// The counters.
pub(crate) struct Metrics {
    registry: Registry,
    runs: Family<How, Counter>,
    replies: Family<Status, Counter>,
    under_way: Gauge,
    waiting: Gauge,
    connections: Gauge,
    seconds: Histogram,
    sent_bytes: Counter<u64, AtomicU64>,
}

impl Metrics {
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

    pub(crate) fn run(&self, (how, why): (&'static str, &'static str)) {
        self.runs.get_or_create(&How { how, why }).inc();
    }

    pub(crate) fn reply(&self, status: u16, seconds: f64, bytes: u64) {
        self.replies.get_or_create(&Status { status }).inc();
        self.seconds.observe(seconds);
        self.sent_bytes.inc_by(bytes);
    }

    pub(crate) fn waiting(&self, number: usize) {
        self.waiting.set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(crate) fn connected(&self) -> Count {
        Count::new(&self.connections)
    }

    pub(crate) fn under_way(&self) -> Count {
        Count::new(&self.under_way)
    }

    /// All of it, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// One more of something, as long as it is there.
pub(crate) struct Count(Gauge);

impl Count {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.dec();
    }
}
