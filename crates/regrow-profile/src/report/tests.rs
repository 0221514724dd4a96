//! What a report says of sites and nodes.

use super::*;
use regrow_sites::{Event, ProcessKey, Site, Usage};

fn key(pid: u32) -> ProcessKey {
    ProcessKey { pid, created_us: u64::from(pid) }
}

fn report(profile: &mut Profile, order: Order) -> Report {
    profile.finish();
    let basis = Basis { base_us: 600.0, from: "a test".to_owned(), smallest_start_us: None };
    Report::new(
        "a test",
        profile,
        &mut Symbols::default(),
        &Savings::new(basis, |_| Default::default()),
        order,
    )
}

fn created(pid: u32, parent: u32, site: Site) -> Event {
    Event::Created { time_us: pid.into(), process: key(pid), parent: key(parent), site }
}

fn site(offsets: &[(u64, u64)]) -> Site {
    let frame =
        |index: usize| offsets.get(index).map(|&(module, offset)| Frame { module: ImageId(module), offset });
    Site { image: ImageId(1), frames: [frame(0), frame(1), frame(2)], script: None, child: None }
}

#[test]
fn the_place_is_the_innermost_outside_the_c_library_and_a_script_comes_before() {
    let mut profile = Profile::new();
    for (image, path) in [(1, "/usr/bin/make"), (2, "/lib/libc.so.6"), (3, "/lib/libglib.so")] {
        profile.take(Event::Named { image: ImageId(image), path: path.to_owned() });
    }
    profile.name_script(77, "/src/a/build.sh".to_owned());
    profile.name_script(u64::MAX, "check".to_owned());
    let script = |line| Site { script: Some(Script { file: 77, line }), ..site(&[]) };
    let sites = [
        site(&[(2, 0x10), (2, 0x20), (1, 0x30)]),
        site(&[(3, 0x11)]),
        site(&[(2, 0x12)]),
        site(&[]),
        script(12),
        script(0),
        script(u64::MAX),
        Site { script: Some(Script { file: 5, line: 3 }), ..site(&[(1, 1)]) },
    ];
    for (pid, site) in (2..).zip(sites) {
        profile.take(created(pid, 1, site));
    }
    let report = report(&mut profile, Order::Count);
    let places: Vec<&str> = report.sites.iter().map(|site| site.place.as_str()).collect();
    assert_eq!(
        places,
        [
            "make+0x30",
            "libglib.so+0x11",
            "libc.so.6+0x12",
            "",
            "build.sh:12",
            "build.sh",
            "build.sh: check",
            "?:3"
        ]
    );
    assert!(report.sites.iter().all(|site| site.child == "(fork)" && site.parent == "/usr/bin/make"));
}

#[test]
fn places_that_read_alike_are_told_apart_by_their_callers() {
    let mut profile = Profile::new();
    profile.take(Event::Named { image: ImageId(1), path: "/bin/make".to_owned() });
    for (pid, offsets) in
        (2..).zip([&[(1, 0x10), (1, 0x20)][..], &[(1, 0x10), (1, 0x30)], &[(1, 0x40), (1, 0x50)]])
    {
        profile.take(created(pid, 1, site(offsets)));
    }
    let report = report(&mut profile, Order::Count);
    let places: Vec<&str> = report.sites.iter().map(|site| site.place.as_str()).collect();
    assert_eq!(places, ["make+0x10 ← make+0x20", "make+0x10 ← make+0x30", "make+0x40"]);
}

#[test]
fn sites_stand_in_the_order_that_is_asked_for() {
    let mut profile = Profile::new();
    // Many that are short, one that computes, one that sleeps.
    let kinds = [(0x10, 9, 10, 20), (0x20, 1, 500_000, 600_000), (0x30, 1, 7, 9_000_000)];
    let mut pid = 2;
    for (offset, count, cpu_us, life_us) in kinds {
        for _ in 0..count {
            profile.take(created(pid, 1, site(&[(1, offset)])));
            let usage = Usage { cpu_us, life_us, peak_kib: 0, startup_us: None };
            profile.take(Event::Executed {
                time_us: u64::from(pid) + 1,
                process: key(pid),
                image: ImageId(9),
            });
            profile.take(Event::Ended { time_us: 10_000, process: key(pid), usage });
            pid += 1;
        }
    }
    profile.finish();
    let mut first = |order| report(&mut profile, order).sites[0].place.clone();
    assert_eq!(
        [Order::Count, Order::Cpu, Order::Life, Order::Saved].map(&mut first),
        ["?+0x10", "?+0x20", "?+0x30", "?+0x20"]
    );
}

#[test]
fn nodes_that_lead_nowhere_are_left_out_and_the_others_keep_their_place() {
    let mut profile = Profile::new();
    // A fork that forks, and executes something afterwards.
    profile.take(created(2, 1, site(&[(1, 0x10)])));
    profile.take(created(3, 2, site(&[(1, 0x20)])));
    for (time_us, pid) in [(10, 3), (20, 2)] {
        profile.take(Event::Executed { time_us, process: key(pid), image: ImageId(9) });
    }
    let report = report(&mut profile, Order::Count);
    let nodes: Vec<(Option<usize>, &str, u64)> =
        report.nodes.iter().map(|node| (node.parent, node.name.as_str(), node.count)).collect();
    assert_eq!(nodes, [(None, "?", 1), (Some(0), "(fork)", 0), (Some(1), "?", 1), (Some(0), "?", 1)]);
}

#[test]
fn a_report_of_nothing_has_all_forms() {
    let report = report(&mut Profile::new(), Order::Count);
    assert!(report.sites.is_empty() && report.nodes.is_empty());
    let json: serde_json::Value = serde_json::from_slice(&report.to_json().unwrap()).unwrap();
    assert_eq!((&json["version"], &json["sites"]), (&1.into(), &serde_json::json!([])));
    assert_eq!(report.to_csv().unwrap().iter().filter(|&&byte| byte == b'\n').count(), 1);
    assert!(report.to_html().unwrap().contains("<title>Process creations: a test</title>"));
    assert!(report.to_pprof().unwrap().starts_with(&[0x1f, 0x8b]));
}
