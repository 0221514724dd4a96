//! A fiber that runs out of stack is named before the process dies of it; other bad accesses end as they did.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use regrow_fiber::{Builder, Runtime};

/// What a child of this test does.
const ROLE: &str = "REGROW_FIBER_OVERFLOW";

/// Runs a test of this file in a process of its own, in a role.
fn in_role(test: &str, role: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["--exact", test, "--nocapture"]).env(ROLE, role).output().unwrap()
}

#[inline(never)]
fn deep(levels: u64) -> u64 {
    let room = std::hint::black_box([levels; 32]);
    if levels == 0 { room[0] } else { deep(levels - 1) + room[31] }
}

fn plays() -> Option<String> {
    std::env::var(ROLE).ok()
}

#[test]
fn a_fiber_that_uses_up_its_stack_is_named() {
    match plays().as_deref() {
        Some("fiber") => {
            let mut fiber =
                Builder::new().name("deep").build::<u64, (), u64>(|_, levels| deep(levels)).unwrap();
            let state = fiber.resume(u64::MAX);
            unreachable!("{state:?}");
        }
        Some("nameless") => {
            let fiber = Builder::new().stack_bytes(1 << 20).build::<u64, (), u64>(|_, levels| deep(levels));
            let state = fiber.unwrap().resume(u64::MAX);
            unreachable!("{state:?}");
        }
        Some("task") => {
            let ended = Runtime::with_workers(2).run(|| {
                // On each worker's thread there may be one.
                let tasks = [1, 2, 3]
                    .map(|_| Builder::new().name("task").stack_bytes(16 << 10).spawn(|| deep(u64::MAX)));
                tasks.into_iter().map(|task| task.join().unwrap()).sum::<u64>()
            });
            unreachable!("{ended:?}");
        }
        Some(other) => panic!("{other}"),
        None => {
            for (role, expected) in [
                ("fiber", "fiber \"deep\" has used up its stack of 65536 bytes"),
                ("nameless", "fiber without a name has used up its stack of 1048576 bytes"),
                ("task", "fiber \"task\" has used up its stack of 16384 bytes"),
            ] {
                let output = in_role("a_fiber_that_uses_up_its_stack_is_named", role);
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(said.contains(expected), "{role}: {said}");
                assert_eq!(output.status.signal(), Some(11), "{role}: {said}");
            }
        }
    }
}

#[test]
fn the_end_of_a_threads_stack_and_other_accesses_end_as_before() {
    match plays().as_deref() {
        Some("thread") => {
            let mut fiber = Builder::new().build::<(), (), ()>(|_, ()| ()).unwrap();
            fiber.resume(());
            std::thread::Builder::new()
                .name("plain".to_owned())
                .spawn(|| deep(u64::MAX))
                .unwrap()
                .join()
                .unwrap();
            unreachable!();
        }
        Some(other) => panic!("{other}"),
        None => {
            let test = "the_end_of_a_threads_stack_and_other_accesses_end_as_before";
            let output = in_role(test, "thread");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("thread 'plain'") && said.contains("has overflowed its stack"), "{said}");
            assert!(!said.contains("has used up"), "{said}");
            assert_eq!(output.status.signal(), Some(6), "{said}");
        }
    }
}
