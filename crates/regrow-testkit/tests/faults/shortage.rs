//! Short of descriptors, processes or memory: a run is right, or there is the error that exec gives; and when there is
//! enough again everything is as before.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use regrow::{Fallback, Pool, Stdio};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::scene::{As, STATUS, Scene, prepare_sh, run_right, scene, with_pool};

pub(crate) fn scenes() -> Vec<Scene> {
    vec![
        scene("out-of-descriptors", || with_pool(Pool::new(), |pool| descriptors(pool, true))),
        scene("out-of-descriptors-from-the-first-run", || {
            with_pool(Pool::new(), |pool| descriptors(pool, false));
        }),
        scene("out-of-processes", || with_pool(Pool::new(), |pool| processes(pool, true))).by(As::Nobody),
        scene("out-of-processes-from-the-first-run", || {
            with_pool(Pool::new(), |pool| processes(pool, false));
        })
        .by(As::Nobody),
        scene("out-of-address-space", || with_pool(Pool::new(), |pool| address_space(pool, true))),
        scene("out-of-address-space-from-the-first-run", || {
            with_pool(Pool::new(), |pool| address_space(pool, false));
        }),
        scene("out-of-address-space-in-threads", address_space_of_threads),
        scene("little-memory-for-the-run", || with_pool(Pool::new(), little_memory)),
        scene("no-budget", no_budget),
        scene("no-bodies", no_bodies),
    ]
}

/// Sets a soft limit while `act` runs.
fn limited(resource: Resource, soft: u64, act: impl FnOnce()) {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(soft), maximum: before.maximum })
        .expect("it is below the hard limit");
    act();
    setrlimit(resource, before).expect("it was so before");
}

/// A run without output of its own, or the error that its start gives.
fn try_run(pool: &Pool) -> io::Result<()> {
    let mut command = pool.command("sh");
    let status = command.args(["-c", "exit 7"]).stdin(Stdio::inherit()).stdout(Stdio::inherit()).status()?;
    assert_eq!(status.code(), Some(STATUS));
    Ok(())
}

/// That of a start which fails for want of something.
fn assert_short(error: &io::Error, known: &[i32]) {
    assert!(error.raw_os_error().is_some_and(|errno| known.contains(&errno)), "{error:?}");
}

fn descriptors(pool: &Pool, prepared: bool) {
    if prepared {
        prepare_sh(pool);
    }
    let open = std::fs::read_dir("/proc/self/fd").expect("/proc is there").count() as u64;
    let mut right = 0;
    // After a pool could not make an image it does not try again for a while, so each round has a pool of its own.
    for spare in (0..25).rev() {
        limited(Resource::Nofile, open.saturating_sub(4) + spare, || match try_run(pool) {
            Ok(()) => right += 1,
            Err(error) => assert_short(&error, &[libc::EMFILE, libc::ENFILE]),
        });
    }
    assert!(right > 0, "with 20 descriptors to spare a run starts");
    pool.refresh();
    for round in 0..5 {
        run_right(pool, &format!("after-{round}"));
    }
}

fn processes(pool: &Pool, prepared: bool) {
    if prepared {
        prepare_sh(pool);
    }
    for _ in 0..10 {
        limited(Resource::Nproc, 1, || match try_run(pool) {
            // The armed processes exist already: the engine sends them orders until they are used up.
            Ok(()) => {}
            Err(error) => assert_short(&error, &[libc::EAGAIN]),
        });
    }
    pool.refresh();
    for round in 0..5 {
        run_right(pool, &format!("after-{round}"));
    }
}

fn address_space(pool: &Pool, prepared: bool) {
    if prepared {
        prepare_sh(pool);
    }
    // Room for what the test itself asks for. The last block keeps the rest from being given back.
    let mut room: Vec<Vec<u8>> = (0..64).map(|_| Vec::with_capacity(32 << 10)).collect();
    room.drain(..63);
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is there");
    let pages: u64 = statm.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    for spare_kib in [0, 16, 64, 256, 300, 400, 600, 1024, 4096] {
        limited(Resource::As, pages * 4096 + spare_kib * 1024, || {
            pool.refresh();
            for _ in 0..3 {
                // The limit is the run's as well: its own start may fail for it, or the program is killed in it.
                let mut command = pool.command("sh");
                match command.args(["-c", "exit 7"]).stdout(Stdio::inherit()).stderr(Stdio::null()).status() {
                    Ok(status) => assert!(status.code() != Some(0), "{status}"),
                    Err(error) => assert_short(&error, &[libc::ENOMEM, libc::EAGAIN]),
                }
            }
        });
    }
    drop(room);
    pool.refresh();
    for round in 0..5 {
        run_right(pool, &format!("after-{round}"));
    }
}

/// Threads whose first runs find some address space left, and not enough to make an image: an allocation that fails would abort them all.
fn address_space_of_threads() {
    for spare_kib in [1500, 2048, 3000, 4096, 6000, 8192, 16384] {
        with_pool(Pool::new(), |pool| {
            let [started, begin, end] = std::array::from_fn(|_| Barrier::new(4));
            let failed = AtomicUsize::new(0);
            let run_some = || {
                // The C library gives a thread its heap at its first allocation, of address space that it must have.
                drop(std::hint::black_box(vec![0_u8; 1000]));
                started.wait();
                begin.wait();
                for _ in 0..5 {
                    let mut command = pool.command("/bin/true");
                    match command.stdout(Stdio::inherit()).stderr(Stdio::null()).status() {
                        // The limit is the run's as well.
                        Ok(_) => {}
                        Err(error) => {
                            assert_short(&error, &[libc::ENOMEM, libc::EAGAIN]);
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                end.wait();
            };
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let thread = std::thread::Builder::new().stack_size(256 << 10);
                    thread.spawn_scoped(scope, run_some).expect("there is no limit yet");
                }
                started.wait();
                let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is there");
                let pages: u64 =
                    statm.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
                let before = getrlimit(Resource::As);
                let limit =
                    Rlimit { current: Some(pages * 4096 + spare_kib * 1024), maximum: before.maximum };
                setrlimit(Resource::As, limit).expect("it is below the hard limit");
                begin.wait();
                end.wait();
                setrlimit(Resource::As, before).expect("it was so before");
            });
            assert_eq!(
                pool.stats().fallbacks.get("no_memory"),
                Some(&(15 - failed.into_inner() as u64)),
                "{spare_kib} KiB"
            );
            run_right(pool, &format!("after-{spare_kib}"));
        });
    }
}

/// A limit on the address space that leaves room for the program, but not for what it asks for.
fn little_memory(pool: &Pool) {
    let arguments = ["if=/dev/zero", "of=/dev/null", "bs=256M", "count=1"];
    let mut first = pool.command("dd");
    pool.prepare(first.args(arguments)).expect("dd can be kept");
    let run = |limit: Option<u64>| {
        let mut command = pool.command("dd");
        command.args(arguments).env("LC_ALL", "C");
        if let Some(bytes) = limit {
            command.limit(regrow::Resource::As, bytes, bytes);
        }
        let output = command.output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).contains("memory exhausted"))
    };
    for _ in 0..4 {
        assert_eq!(run(Some(128 << 20)), (Some(1), true));
        assert_eq!(run(None), (Some(0), false));
    }
}

/// A budget that not even one image fits in: it is the newest, and kept all the same; the next takes its place.
fn no_budget() {
    with_pool(Pool::builder().budget_bytes(1).build(), |pool| {
        for round in 0..4 {
            let creation = run_right(pool, &format!("round-{round}"));
            assert_eq!(creation.fallback(), Some(&Fallback::NotKept), "{creation}");
            pool.prepare(&pool.command("true")).expect_err("nothing can be kept");
            assert!(pool.command("true").status().expect("it starts").success());
        }
        assert!(pool.keepers().is_empty(), "{:?}", pool.keepers());
    });
}

fn no_bodies() {
    with_pool(Pool::builder().max_bodies_per_program(0).build(), |pool| {
        for round in 0..3 {
            let creation = run_right(pool, &format!("round-{round}"));
            assert_eq!(creation.how(), "exec", "{creation}");
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(pool.keepers().is_empty());
    });
}
