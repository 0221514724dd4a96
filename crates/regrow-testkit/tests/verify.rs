//! The observer sees what a reset has left wrong: a byte that differs is found, and the body is not used again; in verify mode
//! after every run, by spot checks in production settings.
//!
//! The bodies of a new image stand ready to be compared; the test writes into them as a bad reset would.

use std::fs;
use std::os::unix::fs::FileExt;

use regrow::{Command, Pool, Reports};
use regrow_sys::maps::{MapName, Mapping, read_maps};

/// The run that all tests make.
fn run(pool: &Pool) -> Command {
    let mut command = pool.command("sh");
    command.args(["-c", "exit 7"]);
    command
}

/// Waits until there is a body beside the image's seed: others are made ahead.
fn wait_for_bodies(pool: &Pool) {
    for _ in 0..10_000 {
        if pool.keepers().len() > 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Writes a byte into every kept address space that has the mapping that is looked for: a shell has none.
fn tamper(pool: &Pool, wanted: impl Fn(&Mapping) -> bool) {
    wait_for_bodies(pool);
    let keepers = pool.keepers();
    let mut written = 0;
    for keeper in keepers {
        let maps = read_maps(keeper).expect("it is a child");
        let Some(mapping) = maps.iter().find(|mapping| wanted(mapping)) else { continue };
        let memory = fs::File::options().read(true).write(true).open(format!("/proc/{keeper}/mem"));
        let memory = memory.expect("it is a child");
        let mut byte = [0];
        memory.read_exact_at(&mut byte, mapping.start + 5).expect("it is mapped");
        memory.write_all_at(&[byte[0] ^ 0x40], mapping.start + 5).expect("it can be written to");
        written += 1;
    }
    assert!(written > 1, "there is a body beside the image's seed");
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

/// A pool in production settings, with a body that has had a run and waits for the next.
fn pool_with_a_used_body(one_in: u32) -> Pool {
    let pool = Pool::builder().spot_checks(one_in).max_bodies_per_program(1).build();
    pool.prepare(&run(&pool)).expect("sh can be kept");
    recycled(&pool);
    pool
}

/// Runs until a run was recycled.
fn recycled(pool: &Pool) {
    for _ in 0..10_000 {
        let completed = run(pool).complete().expect("it starts");
        assert_eq!(completed.status.code(), Some(7), "{}", completed.creation);
        if completed.creation.is_recycled() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("no run was recycled");
}

/// Checks all bodies, until one was checked.
fn check(pool: &Pool) -> Reports {
    for _ in 0..10_000 {
        pool.spot_check();
        let reports = pool.reports();
        if reports.spot_checked > 0 {
            return reports;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("no body was checked: {:?}", pool.reports());
}

#[test]
fn a_spot_check_finds_what_somebody_wrote_and_the_body_is_dropped() {
    let places: [fn(&Mapping) -> bool; 3] = [
        |mapping| mapping.write && mapping.inode != 0 && !mapping.shared,
        |mapping| mapping.name == MapName::Stack,
        |mapping| mapping.exec && mapping.inode != 0 && !mapping.shared && !mapping.name.is_memfd(),
    ];
    for place in places {
        let pool = pool_with_a_used_body(0);
        let before = check(&pool);
        assert_eq!((before.spot_differences, before.differences.len()), (0, 0), "{before:?}");
        tamper(&pool, place);
        pool.spot_check();
        let reports = pool.reports();
        assert_eq!(reports.spot_differences, 1, "{reports:?}");
        assert!(reports.differences[0].contains("differs from the image first at byte"), "{reports:?}");
        // Another body takes its place.
        recycled(&pool);
    }
}

#[test]
fn a_spot_check_finds_an_area_of_the_agent_that_was_written() {
    let pool = pool_with_a_used_body(0);
    tamper(&pool, |mapping| {
        mapping.exec && mapping.name.path().is_some_and(|path| path.ends_with("memfd:regrow-agent"))
    });
    let reports = check(&pool);
    assert_eq!(reports.spot_differences, 1, "{reports:?}");
    assert!(reports.differences[0].contains("agent's area"), "{reports:?}");
}

#[test]
fn spot_checks_are_made_while_runs_go_on_and_find_what_somebody_wrote() {
    let pool = pool_with_a_used_body(2);
    for _ in 0..10_000 {
        recycled(&pool);
        if pool.reports().spot_checked > 0 {
            break;
        }
    }
    let reports = pool.reports();
    assert!(reports.spot_checked > 0 && reports.spot_differences == 0, "{reports:?}");
    tamper(&pool, |mapping| mapping.name == MapName::Stack);
    for _ in 0..10_000 {
        recycled(&pool);
        if pool.reports().spot_differences > 0 {
            return;
        }
        tamper(&pool, |mapping| mapping.name == MapName::Stack);
    }
    panic!("nothing was found: {:?}", pool.reports());
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
