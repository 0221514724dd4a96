//! `tests/whole.c`: each way in which a program has memory, with the library, and that it was served.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use crate::harness::{Counts, Place, compile};

/// Runs a part of the program, and gives what was counted.
fn part(name: &str, variables: &[(&str, &str)]) -> Counts {
    let place = Place::new();
    let program = compile(&place, "whole.c");
    let mut command = place.command(program.to_str().expect("plain text"), true);
    let output = command.arg(name).envs(variables.iter().copied()).output().expect("it starts");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"all of it holds\n");
    place.counts()
}

/// A program that preloads nothing is not served, and one that does is: the same program, so that the counts mean something.
#[test]
fn the_program_holds_without_the_library_too_and_nothing_is_counted_then() {
    let place = Place::new();
    let program = compile(&place, "whole.c");
    for name in ["heap", "maps", "fixed", "moves"] {
        let output = place.run(program.to_str().expect("plain text"), &[name], false);
        assert_eq!(output.stdout, b"all of it holds\n");
    }
    assert!(!place.path("statistics").exists());
}

#[test]
fn blocks_of_the_heap_are_as_asked() {
    let counts = part("heap", &[]);
    for (what, least) in [("malloc", 20), ("calloc", 20), ("realloc", 20), ("aligned", 40), ("free", 100)] {
        assert!(counts.of(what) >= least, "{what}: {counts:?}");
    }
}

#[test]
fn mappings_go_in_parts_and_come_back_as_new() {
    let counts = part("maps", &[]);
    assert!(counts.of("mmap") >= 28 && counts.of("munmap") >= 28 && counts.of("changed") >= 80, "{counts:?}");
    assert_eq!(counts.of("part"), 4, "{counts:?}");
}

#[test]
fn what_is_mapped_over_a_part_of_a_block_is_gone_with_the_block() {
    let counts = part("fixed", &[]);
    assert_eq!([counts.of("fixed"), counts.of("mmap"), counts.of("munmap")], [20, 10, 10], "{counts:?}");
}

#[test]
fn mappings_grow_and_move_with_what_is_in_them() {
    assert!(part("moves", &[]).of("mremap") >= 25);
}

#[test]
fn threads_free_what_others_have_asked_for() {
    let counts = part("threads", &[]);
    assert!(counts.of("malloc") > 50_000 && counts.of("calloc") > 20_000, "{counts:?}");
}

#[test]
fn a_copy_of_a_process_whose_threads_are_busy_has_memory() {
    let counts = part("forks", &[]);
    assert_eq!(counts.processes(), 101, "each copy ends as it should");
    assert!(counts.of("mmap") > 500 && counts.of("calloc") >= 600, "{counts:?}");
}

/// The keeper comes and goes all the time.
#[test]
fn programs_hold_while_what_they_free_is_given_back_at_once() {
    let often = [("REGROW_MEMORY_T1_MS", "1"), ("REGROW_MEMORY_T2_MS", "2")];
    assert!(part("threads", &often).of("malloc") > 50_000);
    assert_eq!(part("forks", &often).processes(), 101);
    assert!(part("moves", &often).of("mremap") >= 25);
}

#[test]
fn a_range_that_is_used_up_leaves_the_rest_to_others() {
    let counts = part("much", &[("REGROW_MEMORY_RANGE_MIB", "32")]);
    assert!(counts.of("passed") > 500 && counts.of("mmap") > 20 && counts.of("malloc") > 20, "{counts:?}");
}

#[test]
fn the_smallest_mapping_that_is_served_is_a_setting() {
    assert_eq!(part("fixed", &[("REGROW_MEMORY_MMAP_KIB", "1024")]).of("mmap"), 0);
}

#[test]
fn a_block_freed_twice_or_from_inside_ends_the_program_with_its_name() {
    let place = Place::new();
    let program = compile(&place, "whole.c");
    for (how, says) in [("twice", "was freed before"), ("inside", "no block begins at")] {
        let output =
            place.command(program.to_str().expect("plain text"), true).arg(how).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{how}: {said}");
        assert!(said.starts_with("regrow_memory: free: ") && said.contains(says), "{said}");
    }
}

#[test]
fn a_wrong_setting_is_said_and_nothing_is_served() {
    let place = Place::new();
    let output =
        place.command("true", true).env("REGROW_MEMORY_RANGE_MIB", "many").output().expect("it starts");
    let said = "regrow_memory: REGROW_MEMORY_RANGE_MIB=many: no number from 1 to 4294967295\n";
    assert!(output.status.success() && output.stderr == said.as_bytes(), "{output:?}");
    assert!(!place.path("statistics").exists());
}

/// A program that is linked with the library has its own C library's memory.
#[test]
fn a_program_that_is_linked_with_the_library_is_not_served() {
    let place = Place::new();
    let program = compile(&place, "whole.c");
    let linked = place.path("linked");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole.c");
    let folder = format!("-L{}", place.path("").display());
    let run_path = format!("-Wl,-rpath,{}", place.path("").display());
    let arguments =
        ["-std=gnu11", "-D_GNU_SOURCE", "-O1", source, "-o", linked.to_str().expect("plain text")];
    let library = [&folder, &run_path, "-Wl,--no-as-needed", "-lregrow_memory", "-lpthread"];
    place.run("cc", &[&arguments[..], &library].concat(), false);
    let loaded = Command::new("ldd").arg(&linked).output().expect("it starts");
    assert!(String::from_utf8_lossy(&loaded.stdout).contains("libregrow_memory.so =>"), "it is linked");
    let run = place.command(linked.to_str().expect("plain text"), false);
    let output = { run }
        .arg("heap")
        .env("REGROW_MEMORY_STATISTICS", place.path("statistics"))
        .output()
        .expect("it starts");
    assert_eq!(output.stdout, b"all of it holds\n", "{output:?}");
    assert!(program.exists() && !place.path("statistics").exists());
}
