//! The probe leaves its caller as it was: no child, descriptor, mapping, group or signal.
//!
//! Alone in its file: the tests of one file share a process, whose children and descriptors are counted here.

#![allow(unsafe_code, reason = "installs a signal handler and waits for any child")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use regrow_sys::disable::FeatureSet;
use regrow_sys::probe::Kernel;

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, SeqCst);
}

/// Names in a directory, without that of the descriptor that lists it.
fn names(directory: &str) -> BTreeSet<String> {
    let entries: Vec<_> = std::fs::read_dir(directory).unwrap().map(Result::unwrap).collect();
    entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn open_files() -> BTreeSet<String> {
    let fd = |name: &String| std::fs::read_link(format!("/proc/self/fd/{name}")).ok();
    names("/proc/self/fd").iter().filter_map(|name| Some(format!("{name} {}", fd(name)?.display()))).collect()
}

/// The sets of signals of this thread. `SigQ` is left out: it counts what is queued for all processes of the user.
fn signal_sets() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let is_set = |line: &&str| line.starts_with("Sig") && !line.starts_with("SigQ");
    status.lines().filter(is_set).map(str::to_owned).collect()
}

/// Mappings that a probe could leave: its sheet is shared anonymous memory, which the kernel calls /dev/zero.
fn shared_anonymous() -> usize {
    let own = i32::try_from(std::process::id()).unwrap();
    let maps = regrow_sys::maps::read_maps(own).unwrap();
    maps.iter()
        .filter(|map| map.shared && map.name.path().is_some_and(|path| path.ends_with("dev/zero")))
        .count()
}

#[test]
fn nothing_is_left() {
    for signal in [libc::SIGCHLD, libc::SIGALRM, libc::SIGUSR1, libc::SIGUSR2, libc::SIGTRAP] {
        // SAFETY: the handler only counts.
        unsafe { libc::signal(signal, count as extern "C" fn(i32) as libc::sighandler_t) };
    }
    let (files, masks, shared) = (open_files(), signal_sets(), shared_anonymous());
    let kernel = Kernel::probe(&FeatureSet::EMPTY);
    let group = kernel.facts().cgroup.as_ref().map(|place| place.own.to_string_lossy().into_owned());
    for _ in 0..3 {
        assert_eq!(Kernel::probe(&FeatureSet::EMPTY), kernel);
    }
    assert_eq!(open_files(), files);
    assert_eq!(signal_sets(), masks);
    assert_eq!(shared_anonymous(), shared);
    assert_eq!(SIGNALS.load(SeqCst), 0);
    if let Some(group) = group {
        let left: Vec<_> =
            names(&group).into_iter().filter(|name| name.starts_with("regrow-probe")).collect();
        assert_eq!(left, Vec::<String>::new());
    }
    let mut status = 0;
    // SAFETY: `status` is live.
    let child = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    assert_eq!((child, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));

    // A caller that ignores SIGCHLD has its children reaped by the kernel; the probe's have no signal.
    // SAFETY: no pointer.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    assert_eq!(Kernel::probe(&FeatureSet::EMPTY), kernel);
}
