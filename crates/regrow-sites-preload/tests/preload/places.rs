//! Each way to create a child, at a place with a name: the place, its callers and their number are found.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Functions, Place, Seen, Told};

/// How often a program creates.
const COUNT: usize = 5;

/// How a program is linked.
const KINDS: [(&str, &[&str]); 3] = [
    ("position independent", &["-pie"]),
    ("not", &["-no-pie", "-fno-pie"]),
    ("stripped", &["-pie", "-Wl,-s"]),
];

fn run(place: &Place, program: &Path, way: &str) -> Told {
    let told = place.watch(Command::new(program).args([way, &COUNT.to_string()])).whole();
    assert_eq!(told.output, "done\n", "{way}");
    told
}

/// The names of a site's frames in the program.
fn names<'a>(functions: &'a Functions, seen: &Seen) -> [&'a str; 3] {
    seen.site.frames.map(|frame| functions.of(frame))
}

/// Programs that differ in how they are linked, each with the file that has its symbols.
fn programs(place: &Place) -> Vec<(&'static str, PathBuf, Functions)> {
    let made = KINDS.map(|(kind, flags)| {
        let flags = [flags, &["-pthread"]].concat();
        let program = place.compile("cc", "creates.c", &flags);
        (kind, flags, program)
    });
    let functions = |(kind, flags, program): (&'static str, Vec<&str>, PathBuf)| {
        let whole: Vec<&str> = flags.into_iter().filter(|&flag| flag != "-Wl,-s").collect();
        let functions = Functions::read(&place.compile("cc", "creates.c", &whole));
        (kind, program, functions)
    };
    made.into_iter().map(functions).collect()
}

#[test]
fn each_place_is_found_with_its_callers_and_its_count() {
    let place = Place::new();
    for (kind, program, functions) in programs(&place) {
        for way in ["fork", "vfork", "vfork_deep", "clone", "spawn", "spawnp", "thread", "handler"] {
            let told = run(&place, &program, way);
            let processes = told.processes();
            assert_eq!(processes.len(), COUNT, "{kind}, {way}: {processes:#?}");
            for seen in &processes {
                let found = names(&functions, seen);
                let wanted: &[&str] = match way {
                    "thread" => &["by_fork", "in_thread"],
                    "handler" => &["by_fork", "in_handler"],
                    _ => &[&format!("by_{way}"), "middle", "outer"],
                };
                assert!(found.starts_with(wanted), "{kind}, {way}: {found:?}");
                let first = seen.site.frames[0].expect("it is known");
                assert_eq!(
                    (told.path(first.module), first.module),
                    (program.to_str().expect("text"), seen.site.image)
                );
                let executes: &[&str] =
                    if ["vfork", "spawn", "spawnp"].contains(&way) { &["true"] } else { &[] };
                assert_eq!(seen.executed, executes, "{kind}, {way}");
                let usage = seen.usage.expect("it has ended");
                assert!(usage.life_us > 0 && usage.life_us < 60_000_000, "{kind}, {way}: {usage:?}");
                assert_eq!(usage.startup_us.is_some(), !executes.is_empty(), "{kind}, {way}");
            }
            let sites: std::collections::HashSet<_> = processes.iter().map(|seen| seen.site).collect();
            assert_eq!(sites.len(), 1, "{kind}, {way}: one place is one site");
            assert_eq!(told.summary.counts.inexact, 0, "{kind}, {way}");
        }
    }
}

#[test]
fn a_child_that_the_c_library_creates_is_of_the_functions_caller() {
    let place = Place::new();
    let (_, program, functions) = programs(&place).swap_remove(0);
    for way in ["system", "popen"] {
        let told = run(&place, &program, way);
        let processes = told.processes();
        assert_eq!(processes.len(), COUNT, "{way}: {processes:#?}");
        for seen in processes {
            let [inner, caller, outer] = seen.site.frames;
            let library = told.path(inner.expect("it is known").module).to_owned();
            assert_eq!(
                Functions::read(Path::new(&library)).of(inner).trim_start_matches("__libc_"),
                way,
                "{library}"
            );
            assert_eq!([functions.of(caller), functions.of(outer)], [&format!("by_{way}"), "middle"]);
            assert_eq!(seen.executed.len(), 1, "a shell: {seen:?}");
            assert!(seen.usage.is_some_and(|usage| usage.cpu_us > 0), "{seen:?}");
        }
    }
    let told = run(&place, &program, "forkpty");
    let caller = |seen: &Seen| functions.of(seen.site.frames[1]).to_owned();
    assert_eq!(told.processes().iter().map(caller).collect::<Vec<_>>(), ["by_forkpty"; COUNT]);
}

#[test]
fn a_program_waits_fails_and_is_cancelled_as_without() {
    let place = Place::new();
    for (kind, program, _) in programs(&place) {
        // glibc starts a shell to see whether there is one.
        for (way, children) in [("waits", 5 * COUNT), ("failing", COUNT), ("cancelled", COUNT)] {
            let told = run(&place, &program, way);
            assert_eq!(told.processes().len(), children, "{kind}, {way}");
            assert!(told.processes().iter().all(|seen| seen.usage.is_some()), "{kind}, {way}");
        }
    }
}

#[test]
fn a_program_of_another_c_library_is_seen() {
    let place = Place::new();
    let program = place.compile("musl-gcc", "creates.c", &["-pie"]);
    let functions = Functions::read(&program);
    for way in ["fork", "vfork", "vfork_deep", "spawn", "clone", "waits"] {
        let told = run(&place, &program, way);
        let processes = told.processes();
        assert_eq!(processes.len(), if way == "waits" { 5 * COUNT } else { COUNT }, "{way}");
        for seen in processes {
            assert_eq!(names(&functions, &seen)[0], format!("by_{way}"), "{way}");
        }
    }
    // musl's own functions call one another inside of it.
    for way in ["system", "popen", "handler"] {
        run(&place, &program, way);
    }
}

#[test]
fn processes_three_levels_deep_have_their_parents() {
    let place = Place::new();
    let told = place.watch_shell("/bin/sh", "sh -c 'sh -c \"/bin/true; exit 4\"; exit 5'\nexit 0\n").whole();
    let processes = told.processes();
    let programs: Vec<&[String]> = processes.iter().map(|seen| seen.executed.as_slice()).collect();
    assert_eq!(programs.len(), 3, "{processes:#?}");
    assert_eq!(programs[2], ["true"]);
    for (child, parent) in [(1, 0), (2, 1)] {
        assert_eq!(processes[child].parent, processes[parent].key);
    }
}
