//! The table of what each weight isolates ([`Weight::isolation`]): each entry is tried, the ones that say no as well.

#![allow(unsafe_code, reason = "a work writes to memory wildly")]

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use regrow::Command;
use regrow::work::{Builder, Died, Weight, run, spawn};

use crate::Tests;
use crate::ends::{End, end, shell};

/// What a work writes to.
static WORD: AtomicU64 = AtomicU64::new(1);

/// The weights that run a function of this program.
const OF_THIS_PROGRAM: [Weight; 5] =
    [Weight::Step, Weight::Fiber, Weight::Thread, Weight::Fork, Weight::Fresh];

/// Does something in a copy of this process, where it may do harm: how that ended.
fn in_a_copy<T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static>(
    harm: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Died> {
    Builder::new(Weight::Fork).deadline(Duration::from_secs(60)).run(harm)
}

/// Whether something of a work does not reach its caller, as the table says.
fn check(entry: &str, weight: Weight, is_isolated: bool) {
    let said = weight.isolation().entries().into_iter().find(|(name, _)| *name == entry);
    assert_eq!(said, Some((entry, is_isolated)), "{entry} of a {weight}");
}

/// Writes to an address of its own memory, wildly.
#[regrow::fresh]
fn write_to(address: usize) -> u64 {
    // SAFETY: none: in a fresh process who knows what stands there; in others it is the word of this test.
    unsafe { std::ptr::with_exposed_provenance_mut::<u64>(address).write_volatile(77) };
    77
}

fn memory() {
    let address = (&raw const WORD).expose_provenance();
    for weight in OF_THIS_PROGRAM {
        let after = in_a_copy(move || {
            // A fresh process may have nothing there, and crash: that does not reach the caller either.
            let _ = run(weight, write_to::call(address));
            WORD.load(Ordering::Relaxed)
        });
        check("memory", weight, after.expect("the word") == 1);
    }
    // Another program writes all over its own memory.
    let script =
        "exec 3<>/proc/self/mem; dd if=/dev/zero of=/proc/self/mem bs=4096 count=1 2>/dev/null; exit 0";
    let _ = run(Weight::Program, shell(script));
    check("memory", Weight::Program, WORD.load(Ordering::Relaxed) == 1);
}

#[regrow::fresh]
fn read_word() -> u64 {
    WORD.load(Ordering::Relaxed)
}

fn secrets() {
    for weight in OF_THIS_PROGRAM {
        let seen = in_a_copy(move || {
            WORD.store(0x5ec2e7, Ordering::Relaxed);
            if weight == Weight::Fresh {
                // A copy of this process gets its processes from a pool of its own.
                run(weight, read_word::call()).expect("a result")
            } else {
                run(weight, || WORD.load(Ordering::Relaxed)).expect("a result")
            }
        });
        check("secrets", weight, seen.expect("a word") != 0x5ec2e7);
    }
    let secret = format!("secret{}", std::process::id());
    let output = run(Weight::Program, shell("cat /proc/self/maps /proc/self/environ /proc/self/cmdline"));
    let output = output.expect("its output").stdout;
    check(
        "secrets",
        Weight::Program,
        !output.windows(secret.len()).any(|window| window == secret.as_bytes()),
    );
}

fn crash() {
    for weight in OF_THIS_PROGRAM {
        for how in [End::Abort, End::WildAddress, End::Exit(7)] {
            let caller =
                in_a_copy(move || run(weight, end::call(how)).map_err(|died| died.to_string()).is_err());
            check("crash", weight, matches!(caller, Ok(true)));
        }
    }
    let died = run(Weight::Program, shell("kill -SEGV $$"));
    check("crash", Weight::Program, matches!(died, Err(Died::Signal { signal: 11 })));
}

fn time() {
    for weight in OF_THIS_PROGRAM {
        let was_ended = in_a_copy(move || {
            let work = spawn(weight, end::call(End::Endless));
            std::thread::sleep(Duration::from_millis(10));
            work.cancel();
            // What can be ended is, however busy the machine is; the others go on for ever.
            let patience = if weight >= Weight::Fork { 60_000 } else { 300 };
            matches!(work.join_within(Duration::from_millis(patience)), Ok(Err(Died::Cancelled)))
        });
        check("time", weight, was_ended.expect("an answer"));
    }
    let work = spawn(Weight::Program, shell("while :; do :; done"));
    work.cancel();
    check("time", Weight::Program, matches!(work.join(), Err(Died::Cancelled)));
}

/// Changes what a process has of files.
#[regrow::fresh]
fn change_files(descriptor: i32) -> u32 {
    rustix::process::chdir("/usr/share").expect("a folder");
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o22));
    regrow_sys::copy::close_by_number(descriptor);
    before.as_raw_mode()
}

fn files() {
    for weight in OF_THIS_PROGRAM {
        let is_isolated = in_a_copy(move || {
            let file = regrow_sys::raw::memfd("test", 0).expect("a file");
            rustix::process::chdir("/usr").expect("a folder");
            let _ = run(weight, change_files::call(file.as_raw_fd())).expect("a result");
            let is_open = rustix::io::fcntl_getfd(&file).is_ok();
            let directory = std::env::current_dir().expect("a folder");
            std::mem::forget(file);
            is_open && directory == std::path::Path::new("/usr")
        });
        check("files", weight, is_isolated.expect("an answer"));
    }
    let before = std::env::current_dir().expect("a folder");
    run(Weight::Program, shell("cd /; umask 0; exec 0<&- 2>&-")).expect("its end");
    check("files", Weight::Program, std::env::current_dir().expect("a folder") == before);
}

/// The inode of a descriptor, if there is one of this number.
#[regrow::fresh]
fn inode_of(descriptor: i32) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(format!("/proc/self/fd/{descriptor}")).ok().map(|facts| facts.ino())
}

fn descriptors() {
    let file = regrow_sys::raw::memfd("test", 0).expect("a file");
    let (descriptor, own) = (file.as_raw_fd(), rustix::fs::fstat(file.as_fd()).expect("its facts").st_ino);
    for weight in OF_THIS_PROGRAM {
        let seen = run(weight, inode_of::call(descriptor)).expect("a result");
        check("descriptors", weight, seen != Some(own));
    }
    let output = run(Weight::Program, shell(&format!("stat -Lc %i /proc/self/fd/{descriptor} 2>/dev/null")));
    let seen = String::from_utf8(output.expect("its output").stdout).expect("a number");
    check("descriptors", Weight::Program, seen.trim() != own.to_string());
}

#[regrow::fresh]
fn user() -> (u32, bool) {
    (rustix::process::geteuid().as_raw(), std::fs::read("/proc/self/environ").is_ok())
}

fn rights() {
    let own = user();
    for weight in OF_THIS_PROGRAM {
        check("rights", weight, run(weight, user::call()).expect("a result") != own);
    }
    let mut command = Command::new("id");
    command.arg("-u");
    let output = run(Weight::Program, command).expect("its output").stdout;
    check("rights", Weight::Program, output != format!("{}\n", own.0).into_bytes());
}

/// The table of the guide is this one.
fn the_guide_has_the_table() {
    let guide = include_str!("../../../../docs/guide/src/work.md");
    let words: Vec<&str> = Weight::Step.isolation().entries().map(|(name, _)| name).into();
    let mut lines =
        vec![format!("| weight | {} |", words.join(" | ")), format!("|---|{}", "---|".repeat(words.len()))];
    for weight in Weight::ALL {
        let cells = weight.isolation().entries().map(|(_, is)| if is { "yes" } else { "no" });
        lines.push(format!("| `{weight}` | {} |", cells.join(" | ")));
    }
    assert!(guide.contains(&lines.join("\n")), "the guide is to have:\n{}", lines.join("\n"));
}

pub(crate) fn tests() -> Tests {
    vec![
        ("isolation_of_memory", memory),
        ("isolation_of_secrets", secrets),
        ("isolation_of_crashes", crash),
        ("isolation_of_time", time),
        ("isolation_of_files", files),
        ("isolation_of_descriptors", descriptors),
        ("isolation_of_rights", rights),
        ("isolation_the_guide_has_the_table", the_guide_has_the_table),
    ]
}
