//! Verify mode sees what a reset has left wrong: a byte that differs is found, and the body is not used again.
//!
//! The bodies of a new image stand ready to be compared; the test writes into them as a bad reset would.

use std::fs;
use std::os::unix::fs::FileExt;

use regrow::{Command, Pool};
use regrow_sys::maps::{MapName, Mapping, read_maps};

/// The run that all tests make.
fn run(pool: &Pool) -> Command {
    let mut command = pool.command("sh");
    command.args(["-c", "exit 7"]);
    command
}

/// Writes a byte into every kept address space, to the mapping that is looked for.
fn tamper(pool: &Pool, wanted: impl Fn(&Mapping) -> bool) {
    let keepers = pool.keepers();
    assert!(keepers.len() > 1, "there are bodies");
    for keeper in keepers {
        let maps = read_maps(keeper).expect("it is a child");
        let mapping = maps.iter().find(|mapping| wanted(mapping)).expect("every process has one");
        let memory = fs::File::options().read(true).write(true).open(format!("/proc/{keeper}/mem"));
        let memory = memory.expect("it is a child");
        let mut byte = [0];
        memory.read_exact_at(&mut byte, mapping.start + 5).expect("it is mapped");
        memory.write_all_at(&[byte[0] ^ 0x40], mapping.start + 5).expect("it can be written to");
    }
}

/// What is written is found, and the next runs are right.
fn is_found(wanted: impl Fn(&Mapping) -> bool, message: &str) {
    let pool = Pool::builder().verify(true).build();
    pool.prepare(&run(&pool)).expect("sh can be kept");
    tamper(&pool, wanted);
    for _ in 0..3 {
        assert_eq!(run(&pool).status().expect("it starts").code(), Some(7));
    }
    let reports = pool.reports();
    assert!(!reports.differences.is_empty(), "nothing was found: {reports:?}");
    for difference in &reports.differences {
        assert!(difference.contains(message), "{difference}");
    }
}

#[test]
fn a_byte_that_differs_is_found() {
    is_found(
        |mapping| mapping.write && mapping.inode != 0 && !mapping.shared,
        "differs from the image first at byte 5",
    );
}

#[test]
fn a_byte_in_a_page_that_nobody_wrote_to_is_found() {
    is_found(|mapping| mapping.name == MapName::Stack, "differs from the image first at byte 5");
}

#[test]
fn a_byte_of_the_code_that_differs_is_found() {
    is_found(|mapping| mapping.exec && mapping.inode != 0 && !mapping.shared, "differs from the image");
}

#[test]
fn without_any_difference_bodies_are_used_again() {
    let pool = Pool::builder().verify(true).build();
    pool.prepare(&run(&pool)).expect("sh can be kept");
    for _ in 0..5 {
        let mut child = run(&pool).spawn().expect("it starts");
        assert_eq!(child.wait().expect("its end").code(), Some(7));
        assert!(child.creation().is_recycled(), "{}", child.creation());
    }
    let reports = pool.reports();
    assert!(reports.differences.is_empty() && reports.compared >= 5, "{reports:?}");
}
