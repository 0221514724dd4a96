//! Many creations, more than one collector, and collectors of a part of the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use regrow_machine::{Machine, MachineOptions, Scope};
use regrow_sites::{Event, ProcessKey};

use crate::case::{Case, nothing};
use crate::program::{Workshop, output, run};
use crate::seen::{Seen, look, look_at_all};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "each_of_a_burst_is_told_or_counted",
        looks: true,
        needs: nothing,
        run: each_of_a_burst_is_told_or_counted,
    },
    Case {
        name: "collectors_do_not_disturb_one_another",
        looks: true,
        needs: nothing,
        run: collectors_do_not_disturb_one_another,
    },
    Case { name: "a_part_of_the_machine", looks: true, needs: nothing, run: a_part_of_the_machine },
    Case {
        name: "those_that_are_there_are_followed",
        looks: true,
        needs: nothing,
        run: those_that_are_there_are_followed,
    },
    Case {
        name: "files_wait_for_a_collector_that_is_late",
        looks: true,
        needs: nothing,
        run: files_wait_for_a_collector_that_is_late,
    },
];

/// A shell whose first argument is a program, and which reads from a pipe.
fn shell(script: &str, program: &Path) -> Child {
    Command::new("sh").args(["-c", script]).arg(program).stdin(Stdio::piped()).spawn().expect("a shell")
}

/// So many creations.
const BURST: usize = 10_000;

/// With room for all of them none is lost; with room for a few, those that are lost are counted.
fn each_of_a_burst_is_told_or_counted() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let burst = |ring_bytes: u32, gather: Duration| {
        // What it creates is told alone: it is started by a shell that is followed.
        let mut shell = shell(&format!("read -r _; exec \"$0\" vfork {BURST}"), &program);
        let options = MachineOptions {
            scope: Scope::Below(shell.id()),
            ring_bytes,
            gather,
            ..MachineOptions::default()
        };
        let (seen, ()) = look(options, || {
            drop(shell.stdin.take());
            assert!(shell.wait().expect("it ends").success());
        });
        (seen.created().count(), seen)
    };
    let (told, seen) = burst(64 << 20, Duration::from_millis(20));
    assert_eq!((told, seen.losses.created), (BURST, 0));
    assert_eq!(seen.sites(seen.image(&program)).into_values().collect::<Vec<_>>(), [BURST]);
    let (told, seen) = burst(64 << 10, Duration::from_millis(200));
    assert!(seen.losses.created > 0, "a small ring overflows");
    assert_eq!(told as u64 + seen.losses.created, BURST as u64);
    let ended = seen.events.iter().filter_map(|event| match event {
        Event::Ended { process, .. } => Some(*process),
        _ => None,
    });
    let all: Vec<ProcessKey> = ended.collect();
    let different: BTreeSet<ProcessKey> = all.iter().copied().collect();
    assert_eq!(all.len(), different.len(), "each ends once");
    // The program itself ends as well.
    let (told, least) = (all.len() as u64, (BURST as u64 + 1).saturating_sub(seen.losses.ended));
    assert!((least..=BURST as u64 + 1).contains(&told), "{told}: {:?}", seen.losses);
}

fn collectors_do_not_disturb_one_another() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let run = || output(Command::new(&program).args(["all", "5"]));
    let (first, (second, _)) = look_at_all(|| look_at_all(run));
    let sites = |seen: &Seen| seen.sites(seen.image(&program));
    assert_eq!(sites(&first), sites(&second));
    assert_eq!(sites(&first).values().copied().collect::<Vec<_>>(), [5; 6]);
}

/// Of a process and all below it: what others do is not told.
fn a_part_of_the_machine() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let mut shell = shell("read -r _; \"$0\" all 3; \"$0\" all 3; :", &program);
    let options = MachineOptions { scope: Scope::Below(shell.id()), ..MachineOptions::default() };
    let (seen, ()) = look(options, || {
        output(Command::new(&program).args(["all", "50"]));
        drop(shell.stdin.take());
        assert!(shell.wait().expect("it ends").success());
    });
    assert_eq!(seen.sites(seen.image(&program)).into_values().collect::<Vec<_>>(), [6; 6]);
    let parents: Vec<u32> = seen
        .created()
        .filter(|(_, parent, _)| parent.pid == shell.id())
        .map(|(child, ..)| child.pid)
        .collect();
    assert_eq!(parents.len(), 2);
    let root = seen.usage(shell.id());
    assert_eq!(root.len(), 1, "the process itself is followed to its end");
}

/// A descendant that was there before is followed, and what it creates.
fn those_that_are_there_are_followed() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let mut shell = shell("(\"$0\" hold 4; :); :", &program);
    let is_below =
        || output(Command::new("sh").args(["-c", "cat /proc/*/comm 2>/dev/null || :"])).contains("creator\n");
    while !is_below() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let options = MachineOptions { scope: Scope::Below(shell.id()), ..MachineOptions::default() };
    let (seen, ()) = look(options, || {
        let mut input = shell.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut input, b"go\n").expect("it reads");
        drop(input);
        assert!(shell.wait().expect("it ends").success());
    });
    assert_eq!(seen.sites(seen.image(&program)).into_values().collect::<Vec<_>>(), [4; 6]);
}

/// So many programs, each of which is another file.
const PROGRAMS: usize = 400;

/// Programs that have run and are gone when the collector gets a processor again: their places are found by their paths.
fn files_wait_for_a_collector_that_is_late() {
    let workshop = Workshop::new();
    let first = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let programs: Vec<PathBuf> =
        (0..PROGRAMS).map(|number| workshop.path(&format!("creator-{number}"))).collect();
    for program in &programs {
        std::fs::copy(&first, program).expect("a copy");
    }
    let options = MachineOptions { scope: Scope::Below(std::process::id()), ..MachineOptions::default() };
    let mut machine = Machine::start(&options).expect("the machine may be looked at");
    let pids: Vec<u32> =
        programs.iter().map(|program| run(Command::new(program).args(["fork", "1"]))).collect();
    let mut events = Vec::new();
    let losses = machine.collect(Duration::ZERO, &mut |event| events.push(event)).map(|()| machine);
    let losses = losses.expect("events").finish(&mut |event| events.push(event));
    let seen = Seen { events, losses: losses.expect("what was lost is known") };
    assert_eq!((seen.losses.files, seen.losses.places), (0, 0), "{:?}", seen.losses);
    for (pid, program) in pids.into_iter().zip(&programs) {
        let sites = seen.sites_of(pid);
        assert_eq!(sites.values().copied().collect::<Vec<_>>(), [1], "{}", program.display());
        assert_eq!(sites.keys().map(Vec::len).collect::<Vec<_>>(), [3], "{}", program.display());
    }
}
