//! `regrow memory`: serves blocks of memory to programs of this user, and shows what such a service holds.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use regrow_bench::table::{Alignment, TextTable, output_width};
use regrow_memory::{Backing, Cell, Domain, DomainStatus, PAGE_BYTES, Service, ServiceOptions};
use regrow_sys::raw;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use crate::cli::memory::{MemoryAction, MemoryArgs, MemoryServeArgs, MemoryStatusArgs};
use crate::error::CliError;
use crate::output::print;

const MIB: f64 = 1024.0 * 1024.0;
/// MiB of a chunk.
const CHUNK_MIB: u32 = 2;
/// How full a part of the range is, from nothing on; a part of another zone, or of none, comes first.
const SIGNS: [char; 6] = ['·', '_', '░', '▒', '▓', '█'];

/// Does what is asked for.
pub(crate) fn memory(args: &MemoryArgs) -> Result<u8, CliError> {
    match &args.action {
        MemoryAction::Serve(args) => serve(args),
        MemoryAction::Status(args) => status(args),
    }
}

fn serve(args: &MemoryServeArgs) -> Result<u8, CliError> {
    // Before there are threads, so that none of them takes a signal.
    let bit = |signal: i32| 1u64 << (signal - 1);
    let (signals, _) = raw::signals_as_descriptor(bit(libc::SIGTERM) | bit(libc::SIGINT))
        .map_err(CliError::system("signals cannot be waited for"))?;
    let mut options = ServiceOptions {
        chunks: args.mib.div_ceil(CHUNK_MIB),
        backing: Backing::Memfd,
        ..ServiceOptions::default()
    };
    if let Some(zones) = args.zones {
        options.zones = zones as usize;
    }
    options.zones = options.zones.min(options.chunks as usize);
    let service = Service::new(&options)?;
    let domain = Domain::open(&service, &args.socket)?;
    print(&format!("{}: {} MiB in {} zones\n", domain.path().display(), args.mib, options.zones))?;
    let mut fds = [PollFd::new(&signals, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            other => {
                break other
                    .map(|_| 0)
                    .map_err(|errno| CliError::system("waiting for signals")(errno.into()));
            }
        }
    }
}

fn status(args: &MemoryStatusArgs) -> Result<u8, CliError> {
    let status = DomainStatus::ask(&args.socket)?;
    let text = if args.json {
        format!("{:#}\n", as_json(&status))
    } else if args.metrics {
        as_metrics(&status)
    } else {
        describe(&args.socket, &status, output_width())
    };
    print(&text).map(|()| 0)
}

#[allow(clippy::cast_precision_loss, reason = "there are fewer pages than 2^52")]
fn mib(pages: u64) -> f64 {
    pages as f64 * PAGE_BYTES as f64 / MIB
}

fn as_json(status: &DomainStatus) -> Value {
    let zones: Vec<Value> = status
        .zones
        .iter()
        .map(|zone| {
            json!({
                "own_pages": zone.own_pages, "free_pages": zone.free_pages, "fragmentation": zone.fragmentation,
                "queue_length": zone.queue_length, "has_slave": zone.has_slave,
            })
        })
        .collect();
    let cells: Vec<Value> =
        status.cells.iter().map(|cell| json!({ "zone": cell.zone, "used": cell.used })).collect();
    json!({
        "clients": status.clients, "lent_pages": status.lent_pages, "collected_blocks": status.collected,
        "clients_cut_off": status.cut_off, "given_back_pages": status.given_back_pages, "page_bytes": PAGE_BYTES,
        "cell_chunks": status.cell_chunks, "zones": zones, "cells": cells,
    })
}

/// What a zone's metrics are labelled with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfZone {
    zone: u64,
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn as_metrics(status: &DomainStatus) -> String {
    let mut registry = Registry::with_prefix("regrow_memory");
    for (name, help, value) in [
        ("clients", "Clients in other processes", status.clients),
        ("lent_pages", "Pages of the blocks that they have", status.lent_pages),
        ("collected_blocks", "Blocks that came back because their client had ended", status.collected),
        ("clients_cut_off", "Clients that said what is no message", status.cut_off),
        ("given_back_pages", "Pages that went back to the kernel", status.given_back_pages),
    ] {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value as f64);
        registry.register(name, help, gauge);
    }
    type OfStatus = fn(&regrow_memory::ZoneStatus) -> f64;
    let of_zones: [(&str, &str, OfStatus); 5] = [
        ("zone_own_pages", "Pages of a zone's chunks", |zone| zone.own_pages as f64),
        ("zone_free_pages", "Those that no client has", |zone| zone.free_pages as f64),
        ("zone_fragmentation", "The share of them that cannot be given in blocks of 2 MiB", |zone| {
            zone.fragmentation
        }),
        ("zone_queue_length", "Clients that waited, on the mean", |zone| zone.queue_length),
        ("zone_has_slave", "Whether a thread serves the zone", |zone| f64::from(u8::from(zone.has_slave))),
    ];
    for (name, help, value) in of_zones {
        let family = Family::<OfZone, Gauge<f64, AtomicU64>>::default();
        for (number, zone) in (0u64..).zip(&status.zones) {
            family.get_or_create(&OfZone { zone: number }).set(value(zone));
        }
        registry.register(name, help, family);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

fn describe(socket: &Path, status: &DomainStatus, width: usize) -> String {
    let sum = |of: fn(&regrow_memory::ZoneStatus) -> u64| status.zones.iter().map(of).sum::<u64>();
    let (own, free) = (sum(|zone| zone.own_pages), sum(|zone| zone.free_pages));
    let mut text = format!(
        "{}: clients in other processes: {}, with {:.1} MiB; {:.1} of {:.1} MiB are free\n",
        socket.display(),
        status.clients,
        mib(status.lent_pages),
        mib(free),
        mib(own)
    );
    text += &format!(
        "blocks that came back from processes that ended: {}; clients cut off: {}; given back to the kernel: {:.1} MiB\n\n",
        status.collected,
        status.cut_off,
        mib(status.given_back_pages)
    );
    let mut table = TextTable::new(&[
        ("zone", Alignment::Right),
        ("MiB", Alignment::Right),
        ("free", Alignment::Right),
        ("load", Alignment::Right),
        ("fragmented", Alignment::Right),
        ("waiting", Alignment::Right),
        ("served by", Alignment::Left),
    ]);
    for (number, zone) in status.zones.iter().enumerate() {
        let used = mib(zone.own_pages - zone.free_pages.min(zone.own_pages));
        let load = if zone.own_pages == 0 { 0.0 } else { 100.0 * used / mib(zone.own_pages) };
        table.row([
            number.to_string(),
            format!("{:.1}", mib(zone.own_pages)),
            format!("{:.1}", mib(zone.free_pages)),
            format!("{load:.0} %"),
            format!("{:.0} %", 100.0 * zone.fragmentation),
            format!("{:.2}", zone.queue_length),
            if zone.has_slave { "a slave" } else { "its clients" }.to_owned(),
        ]);
    }
    text += &table.render(width);
    text.push('\n');
    text + &picture(status, width)
}

/// The range, a line for each zone: a sign for each part of it.
fn picture(status: &DomainStatus, width: usize) -> String {
    let columns = width.saturating_sub("zone 1000  ".len()).max(16);
    let group = status.cells.len().div_ceil(columns).max(1);
    let mut text = String::new();
    for zone in 0..status.zones.len() {
        let line: String = status.cells.chunks(group).map(|cells| sign(cells, zone)).collect();
        text += &format!("zone {zone:<4}  {line}\n");
    }
    let mib = status.cell_chunks * u64::from(CHUNK_MIB) * group as u64;
    let [other, free, some, half, much, all] = SIGNS;
    text + &format!(
        "\neach sign is {mib} MiB: {free} free, {some} up to a third in use, {half} up to two thirds, {much} more, {all} all of it; {other} not this zone's\n"
    )
}

fn sign(cells: &[Cell], zone: usize) -> char {
    let of_zone: Vec<f64> =
        cells.iter().filter(|cell| cell.zone == Some(zone)).map(|cell| cell.used).collect();
    let [other, free, some, half, much, all] = SIGNS;
    let Some(count) = u32::try_from(of_zone.len()).ok().filter(|&count| count > 0) else { return other };
    match of_zone.iter().sum::<f64>() / f64::from(count) {
        0.0 => free,
        used if used <= 1.0 / 3.0 => some,
        used if used <= 2.0 / 3.0 => half,
        used if used < 1.0 => much,
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_memory::ZoneStatus;

    fn status_of_two_zones() -> DomainStatus {
        let zone = |own_pages, free_pages| ZoneStatus {
            own_pages,
            free_pages,
            fragmentation: 0.25,
            queue_length: 1.5,
            has_slave: false,
        };
        let cell = |zone, used| Cell { zone, used };
        DomainStatus {
            clients: 2,
            lent_pages: 256,
            collected: 3,
            cut_off: 0,
            given_back_pages: 0,
            cell_chunks: 1,
            zones: vec![zone(1024, 512), zone(512, 512)],
            cells: vec![cell(Some(0), 1.0), cell(None, 0.0), cell(Some(0), 0.1), cell(Some(1), 0.0)],
        }
    }

    #[test]
    fn the_picture_has_a_line_for_each_zone_and_a_sign_for_each_part() {
        let text = describe(Path::new("/run/m.sock"), &status_of_two_zones(), 100);
        assert!(text.starts_with(
            "/run/m.sock: clients in other processes: 2, with 1.0 MiB; 4.0 of 6.0 MiB are free\n"
        ));
        assert!(text.contains("zone 0     █·░·\n") && text.contains("zone 1     ···_\n"), "{text}");
        assert!(text.contains("each sign is 2 MiB"), "{text}");
        let narrow = picture(
            &DomainStatus { cells: vec![Cell { zone: Some(0), used: 0.5 }; 100], ..status_of_two_zones() },
            20,
        );
        assert!(
            narrow.contains("zone 0     ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒\n") && narrow.contains("each sign is 14 MiB"),
            "{narrow}"
        );
    }

    #[test]
    fn metrics_and_json_say_the_same() {
        let status = status_of_two_zones();
        let metrics = as_metrics(&status);
        assert!(metrics.contains("regrow_memory_zone_free_pages{zone=\"1\"} 512"), "{metrics}");
        assert!(metrics.contains("regrow_memory_clients 2"), "{metrics}");
        let json = as_json(&status);
        assert_eq!((json["zones"][1]["free_pages"].as_u64(), json["clients"].as_u64()), (Some(512), Some(2)));
        assert_eq!(json["cells"][1]["zone"], Value::Null);
    }
}
