//! Programs that are not where their path says: deleted, in a mount namespace of their own, gone before they are looked at.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use regrow_machine::{Machine, MachineOptions, MappingSource};
use regrow_sites::{Event, ImageId};

use crate::case::{Case, nothing, programs};
use crate::places::expected;
use crate::program::{Workshop, behind_call, output};
use crate::seen::{Seen, look_at_all};

pub(crate) const CASES: &[Case] = &[
    Case { name: "parents_that_end_at_once", looks: true, needs: nothing, run: parents_that_end_at_once },
    Case { name: "a_program_that_was_deleted", looks: true, needs: nothing, run: a_program_that_was_deleted },
    Case {
        name: "a_program_in_another_world",
        looks: true,
        needs: || programs(&["unshare"]),
        run: a_program_in_another_world,
    },
    Case {
        name: "mappings_that_the_kernel_does_not_tell",
        looks: true,
        needs: nothing,
        run: mappings_that_the_kernel_does_not_tell,
    },
    Case {
        name: "a_program_without_a_build_id",
        looks: true,
        needs: nothing,
        run: a_program_without_a_build_id,
    },
];

/// A parent that is gone when its record is read: what it had mapped was told before.
fn parents_that_end_at_once() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let (seen, _) = look_at_all(|| output(Command::new(&program).args(["chain", "200"])));
    let places: Vec<_> = ["site_chain", "middle_chain", "outer_chain"]
        .map(|function| ("creator".to_owned(), behind_call(&program, function)))
        .into();
    let sites = seen.sites(seen.image(&program));
    assert_eq!(sites.into_iter().collect::<Vec<_>>(), [(places, 400)]);
}

fn a_program_that_was_deleted() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let sites = expected(&program, &program);
    let copy = workshop.path("deleted");
    std::fs::copy(&program, &copy).expect("a copy");
    let seen =
        hold(Command::new(&copy).args(["hold", "7"]), || std::fs::remove_file(&copy).expect("it is there"));
    assert_same_offsets(&seen, seen.image(&copy), &sites);
}

/// In a file system that only the program sees, which is gone with it.
fn a_program_in_another_world() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2", "-static"]);
    let sites = expected(&program, &program);
    let script = "mount -t tmpfs none /mnt && cp \"$0\" /mnt/hidden && exec /mnt/hidden hold 7";
    let mut command = Command::new("unshare");
    let command = command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&program);
    let seen = hold(command, || assert!(!Path::new("/mnt/hidden").exists()));
    assert_same_offsets(&seen, seen.image(Path::new("/mnt/hidden")), &sites);
}

/// It is known by what it is in the file system.
fn a_program_without_a_build_id() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2", "-Wl,--build-id=none"]);
    let copy = workshop.path("copy");
    std::fs::copy(&program, &copy).expect("a copy");
    let sites = expected(&program, &program);
    let (seen, _) = look_at_all(|| {
        output(Command::new(&program).args(["all", "7"]));
        output(Command::new(&copy).args(["all", "7"]));
    });
    let (first, second) = (seen.image(&program), seen.image(&copy));
    assert_ne!(first, second, "another file is another image");
    assert_eq!(seen.sites(first), sites);
    assert_same_offsets(&seen, second, &sites);
}

fn assert_same_offsets(
    seen: &Seen,
    image: ImageId,
    sites: &std::collections::BTreeMap<crate::seen::Places, usize>,
) {
    let offsets = |sites: &std::collections::BTreeMap<crate::seen::Places, usize>| {
        let mut all: Vec<(Vec<u64>, usize)> = sites
            .iter()
            .map(|(places, count)| (places.iter().map(|(_, offset)| *offset).collect(), *count))
            .collect();
        all.sort();
        all
    };
    assert_eq!(offsets(&seen.sites(image)), offsets(sites));
}

/// As on kernels before 6.7: they are read from `/proc`, of processes that are there.
fn mappings_that_the_kernel_does_not_tell() {
    let workshop = Workshop::new();
    let program = workshop.build("creator", "gcc", "creator.c", &["-O2"]);
    let sites = expected(&program, &program);
    let options = MachineOptions { mappings: MappingSource::Proc, ..MachineOptions::default() };
    let seen = hold_with(&options, Command::new(&program).args(["hold", "7"]), || ());
    assert_same_offsets(&seen, seen.image(&program), &sites);
}

/// Looks at a program that creates and then stays until all of it was told.
fn hold(command: &mut Command, before: impl FnOnce()) -> Seen {
    hold_with(&MachineOptions::default(), command, before)
}

fn hold_with(options: &MachineOptions, command: &mut Command, before: impl FnOnce()) -> Seen {
    let mut machine = Machine::start(options).expect("the machine may be looked at");
    let mut events = Vec::new();
    let mut child: Child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let exe = format!("/proc/{}/cmdline", child.id());
    while !std::fs::read(&exe).expect("it is there").windows(6).any(|word| word == b"\0hold\0") {
        std::thread::sleep(Duration::from_millis(1));
    }
    before();
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"go\n").expect("it reads");
    let created = |events: &[Event]| {
        let own = |event: &&Event| matches!(event, Event::Created { parent, .. } if parent.pid == child.id());
        events.iter().filter(own).count()
    };
    while created(&events) < 6 * 7 {
        machine.collect(Duration::from_millis(20), &mut |event| events.push(event)).expect("events");
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
    let losses = machine.finish(&mut |event| events.push(event)).expect("what was lost is known");
    Seen { events, losses }
}
