//! The table at several widths.

use super::*;
use regrow_profile::report::Order;
use regrow_profile::savings::{Basis, Savings, Verdict};
use regrow_profile::{Profile, Symbols};
use regrow_sites::{Event, Frame, ImageId, ProcessKey, Script, Site, Usage};

fn key(pid: u32) -> ProcessKey {
    ProcessKey { pid, created_us: u64::from(pid) }
}

fn report(events: Vec<Event>) -> Report {
    let mut profile = Profile::new();
    let names =
        ["/usr/bin/make", "/usr/bin/a-linux-compiler-gcc-12", "/bin/dash", "/usr/bin/sudo", "/lib/libc.so.6"];
    for (image, path) in (1..).zip(names) {
        profile.take(Event::Named { image: ImageId(image), path: path.to_owned() });
    }
    profile.name_script(
        9,
        "/src/a script with\na long name that goes on and on and on until it ends.sh".to_owned(),
    );
    events.into_iter().for_each(|event| profile.take(event));
    profile.finish();
    let basis = Basis { base_us: 650.0, from: "measured by a test".to_owned(), smallest_start_us: None };
    let judge = |path: &str| Verdict {
        refused: path.ends_with("sudo").then(|| "the file has the set-user-ID bit".to_owned()),
        start_us: None,
    };
    Report::new("make", &profile, &mut Symbols::default(), &Savings::new(basis, judge), Order::Count)
}

fn events() -> Vec<Event> {
    let frame = |module, offset| Some(Frame { module: ImageId(module), offset });
    let in_make = Site {
        image: ImageId(1),
        frames: [frame(5, 0x99), frame(1, 0x1a40), None],
        script: None,
        child: None,
    };
    let in_script = Site {
        image: ImageId(3),
        frames: [None; 3],
        script: Some(Script { file: 9, line: 120 }),
        child: None,
    };
    let mut events = vec![Event::Executed { time_us: 1, process: key(1), image: ImageId(1) }];
    let mut add = |pid: u32, site: Site, image: Option<u64>, end: bool| {
        events.push(Event::Created { time_us: pid.into(), process: key(pid), parent: key(1), site });
        if let Some(image) = image {
            events.push(Event::Executed { time_us: 1000, process: key(pid), image: ImageId(image) });
        }
        let usage = Usage { cpu_us: 2_345, life_us: 12_345, peak_kib: 1, startup_us: image.map(|_| 1200) };
        if end {
            events.push(Event::Ended { time_us: 20_000, process: key(pid), usage });
        }
    };
    for pid in 2..14 {
        add(pid, in_make, Some(2), true);
    }
    for pid in 14..19 {
        add(pid, in_script, None, true);
    }
    add(19, in_script, Some(4), true);
    add(20, in_make, Some(3), false);
    events
}

#[test]
fn the_table_has_a_row_for_each_site_and_says_what_is_missing() {
    let text = table(&report(events()), 10, 160);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let row = [
        "make+0x1a40",
        "make",
        "a-linux-compiler-gcc-12",
        "12",
        "2.35 ms",
        "2.35 ms",
        "12.3 ms",
        "12.3 ms",
        "10 %",
        "7.80 ms",
    ];
    assert!(rows.iter().any(|cells| *cells == row), "{text}");
    assert!(
        rows.iter().any(|cells| cells[..]
            .ends_with(&["(fork)", "5", "2.35 ms", "2.35 ms", "12.3 ms", "12.3 ms", "-", "-"])),
        "{text}"
    );
    assert!(
        rows.iter().any(|cells| cells[..].ends_with(&["dash", "1", "-", "-", "-", "-", "-", "650 µs"])),
        "{text}"
    );
    for part in [
        "19 processes at 4 sites in 20.0 ms; 42.2 ms of processor time; recycled starts would have saved about 8.45 ms\n",
        "a script with\\na long …",
        "A recycled start is quicker by 650 µs (measured by a test)",
        "not recycled: sudo: the file has the set-user-ID bit\n",
        "not complete: 2 processes still live; their time is not counted\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("executes no program"), "that is told by its name: {text}");
}

#[test]
fn it_fits_the_terminal_from_eighty_columns_on() {
    for width in 80..200 {
        let text = table(&report(events()), 10, width);
        let of_table =
            text.lines().skip_while(|line| !line.starts_with('-')).take_while(|line| !line.is_empty());
        let widest = of_table.map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width}:\n{text}");
    }
    let narrow = table(&report(events()), 10, 80);
    assert!(!narrow.contains("p99") && narrow.contains("…") && narrow.contains("ends.sh:120"), "{narrow}");
}

#[test]
fn a_limit_is_told_and_nothing_is_a_line() {
    let text = table(&report(events()), 1, 160);
    assert!(text.contains("… and 3 sites with 7 processes (--limit)\n"), "{text}");
    let nothing = table(&report(Vec::new()), 10, 80);
    assert_eq!(
        nothing,
        "\n0 processes at 0 sites in 0; 0 of processor time; recycled starts would have saved about 0\n"
    );
}
