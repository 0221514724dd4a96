//! Metrics for Prometheus over HTTP: a thread asks the daemon for its status, as any client does, and answers in the text
//! format.

mod page;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use regrow_daemon::wire::Question;
use serde_json::Value;

use self::page::Page;
use crate::error::CliError;
use crate::status::ask;

/// The content type of the answer.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves the metrics of the user's daemon at an address, on threads of its own, as long as the process lives. So many clients are
/// served at a time; those beyond wait.
pub(crate) fn serve(address: SocketAddr, most: usize) -> Result<(), CliError> {
    let cannot = |what: &'static str| CliError::system(what);
    let listener =
        TcpListener::bind(address).map_err(cannot("the address of --metrics cannot be listened at"))?;
    // The port is not known where it was left to the kernel.
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "metrics are served");
    std::thread::Builder::new()
        .name("regrow-metrics".to_owned())
        .spawn(move || page::serve(&listener, most, page_of))
        .map_err(cannot("there is no thread for the metrics"))?;
    Ok(())
}

fn page_of(target: &str) -> Page {
    if target != "/metrics" {
        return Page::line("404 Not Found", "only /metrics is here");
    }
    match ask(Question::Status) {
        Ok(status) => Page { status: "200 OK", kind: CONTENT_TYPE, text: text(&status) },
        Err(error) => Page::line("503 Service Unavailable", &error.to_string()),
    }
}

/// One label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    kind: String,
}

/// A status in the text format.
fn text(status: &Value) -> String {
    let pool = &status["pool"];
    let mut registry = Registry::with_prefix("regrow");
    let gauge = |registry: &mut Registry, name: &str, help: &str, value: &Value| {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value.as_f64().unwrap_or(0.0));
        registry.register(name, help, gauge);
    };
    gauge(&mut registry, "clients", "Clients that are connected", &status["daemon"]["clients"]);
    gauge(&mut registry, "runs", "Runs that are under way", &status["daemon"]["runs"]);
    gauge(&mut registry, "images", "Images that are kept", &pool["images"]);
    gauge(
        &mut registry,
        "kept_bytes",
        "Bytes that images and bodies are reckoned to hold",
        &pool["kept_bytes"],
    );
    gauge(&mut registry, "budget_bytes", "Bytes that they may hold", &pool["budget_bytes"]);
    gauge(&mut registry, "uptime_seconds", "How long the daemon has been there", &pool["uptime_s"]);
    for (name, field) in [("to_main_p50_seconds", "p50"), ("to_main_p99_seconds", "p99")] {
        let micros = pool["to_main_us"][field].as_f64().unwrap_or(0.0);
        gauge(
            &mut registry,
            name,
            "From the order to the first instruction of recycled runs",
            &(micros / 1e6).into(),
        );
    }
    let bodies = Family::<Label, Gauge>::default();
    for (kind, count) in pool["bodies"].as_object().into_iter().flatten() {
        bodies.get_or_create(&Label { kind: kind.clone() }).set(count.as_i64().unwrap_or(0));
    }
    registry.register("bodies", "Bodies by state", bodies);
    let creations = &pool["creations"];
    let kinds = [
        ("recycled", crate::values::sum(&creations["recycled"])),
        ("forked_body", crate::values::sum(&creations["forked_body"])),
        ("exec", creations["exec"].as_u64().unwrap_or(0)),
    ];
    let counted = kinds.map(|(kind, count)| (kind.to_owned(), count));
    registry.register("creations", "Processes by how they were created", family(counted));
    for (name, help, counts) in [
        ("fallbacks", "Processes that were executed, by reason", &creations["fallbacks"]),
        ("given_up", "Bodies that their keepers gave up, by reason", &pool["given_up"]),
        ("spot_checks", "Bodies that were compared with their image, and differences", &pool["spot_checks"]),
    ] {
        let counts = counts.as_object().into_iter().flatten();
        registry.register(
            name,
            help,
            family(counts.map(|(kind, count)| (kind.clone(), count.as_u64().unwrap_or(0)))),
        );
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn family(counts: impl IntoIterator<Item = (String, u64)>) -> Family<Label, Counter> {
    let family = Family::<Label, Counter>::default();
    for (kind, count) in counts {
        family.get_or_create(&Label { kind }).inc_by(count);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_becomes_metrics() {
        let status = json!({
            "daemon": {"clients": 2, "runs": 1},
            "pool": {
                "images": 3, "kept_bytes": 4096, "budget_bytes": 8192, "uptime_s": 5,
                "bodies": {"armed": 6},
                "creations": {
                    "recycled": {"main": 7, "entry": 1}, "forked_body": {}, "exec": 2,
                    "fallbacks": {"first_run": 2},
                },
                "given_up": {"clone": 1}, "spot_checks": {"checked": 5, "differences": 0}, "to_main_us": {"p50": 40.0, "p99": 90.0, "count": 8},
            },
        });
        let text = text(&status);
        for line in [
            "regrow_clients 2.0",
            "regrow_kept_bytes 4096.0",
            "regrow_bodies{kind=\"armed\"} 6",
            "regrow_creations_total{kind=\"recycled\"} 8",
            "regrow_fallbacks_total{kind=\"first_run\"} 2",
            "regrow_given_up_total{kind=\"clone\"} 1",
            "regrow_spot_checks_total{kind=\"checked\"} 5",
            "regrow_spot_checks_total{kind=\"differences\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
    }
}
