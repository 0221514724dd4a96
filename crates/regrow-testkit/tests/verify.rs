//! The observer sees what a reset has left wrong: a byte that differs is found, and the body is not used again; in verify mode
//! after every run, by spot checks in production settings.
//!
//! The bodies of a new image stand ready to be compared; the test writes into them as a bad reset would.

use std::fs;
use std::os::unix::fs::FileExt;

use regrow::{Command, Pool, Reports};
use regrow_sys::maps::{MapName, Mapping, read_maps};

/// A byte that the programs have nowhere that the tests write to.
const STRANGE: u8 = 0xa5;

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
    assert!(tamper_with(pool, wanted) > 1, "there is a body beside the image's seed");
}

/// The same with what is there. Gives how many there were; a check may drop one at any time.
fn tamper_with(pool: &Pool, wanted: impl Fn(&Mapping) -> bool) -> usize {
    let mut written = 0;
    for keeper in pool.keepers() {
        let Ok(maps) = read_maps(keeper) else { continue };
        let Some(mapping) = maps.iter().find(|mapping| wanted(mapping)) else { continue };
        let memory = fs::File::options().read(true).write(true).open(format!("/proc/{keeper}/mem"));
        let Ok(memory) = memory else { continue };
        // One who has ended has no memory.
        written += usize::from(memory.write_all_at(&[STRANGE], mapping.start + 5).is_ok());
    }
    written
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
fn nobody_writes_to_the_code_of_the_agent_unseen() {
    let pool = pool_with_a_used_body(0);
    let is_code = |mapping: &Mapping| {
        mapping.exec && mapping.name.path().is_some_and(|path| path.ends_with("memfd:regrow-agent"))
    };
    let mut refused = 0;
    for keeper in pool.keepers() {
        let maps = read_maps(keeper).expect("it is a child");
        let Some(code) = maps.iter().find(|mapping| is_code(mapping)) else { continue };
        let memory =
            fs::File::options().write(true).open(format!("/proc/{keeper}/mem")).expect("it is a child");
        refused += usize::from(memory.write_all_at(&[0x40], code.start + 5).is_err());
    }
    if refused == 0 {
        // Not every kernel maps a sealed file so that no write of any kind reaches it.
        let reports = check(&pool);
        assert_eq!(reports.spot_differences, 1, "{reports:?}");
        assert!(reports.differences[0].contains("agent's area"), "{reports:?}");
        return;
    }
    assert!(refused > 1, "there is a body beside the image's seed");
    assert_eq!(check(&pool).spot_differences, 0);
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
    for _ in 0..1_000 {
        // The next reset takes back what is written here: a check must come before.
        tamper_with(&pool, |mapping| mapping.name == MapName::Stack);
        for _ in 0..50 {
            if pool.reports().spot_differences > 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        recycled(&pool);
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
