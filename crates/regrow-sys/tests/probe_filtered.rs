//! The probe under filters of system calls, as a container or a sandbox has them.
//!
//! A filter is put on one thread, from which the children of the probe inherit it. It needs no privilege.

#![allow(unsafe_code, reason = "installs filters of system calls")]

use regrow_sys::disable::FeatureSet;
use regrow_sys::probe::{Feature, FeatureState, Kernel, NotTried};

/// `offsetof(struct seccomp_data, nr)`.
const CALL_NUMBER: u32 = 0;

fn instruction(code: u32, if_true: u8, if_false: u8, operand: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap(), jt: if_true, jf: if_false, k: operand }
}

/// Probes in a thread for which these system calls end in `action`.
fn probe_with(action: u32, calls: &[i64]) -> Kernel {
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, CALL_NUMBER)];
    for call in calls {
        let number = u32::try_from(*call).unwrap();
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number));
        program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let probe = move || {
        let filter =
            libc::sock_fprog { len: u16::try_from(program.len()).unwrap(), filter: program.as_mut_ptr() };
        // SAFETY: the program lives until the call returns, which copies it; both calls concern this thread.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter);
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        }
        Kernel::probe(&FeatureSet::EMPTY)
    };
    std::thread::spawn(probe).join().unwrap()
}

/// The states without a filter.
fn unfiltered() -> Kernel {
    Kernel::probe(&FeatureSet::EMPTY)
}

#[test]
fn a_refused_call_is_a_missing_feature() {
    let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap();
    let kernel = probe_with(refuse, &[libc::SYS_userfaultfd, libc::SYS_kcmp]);
    let (missing, whole) = (FeatureState::Missing { errno: libc::EPERM }, unfiltered());
    for feature in Feature::all() {
        let expected = match feature {
            Feature::UffdWpAsync | Feature::UffdMove | Feature::Kcmp => missing,
            other => whole.state(other),
        };
        assert_eq!(kernel.state(feature), expected, "{feature}");
    }
}

#[test]
fn a_call_that_ends_its_process_is_survived() {
    let calls = [libc::SYS_kcmp, libc::SYS_io_setup];
    let kernel = probe_with(libc::SECCOMP_RET_KILL_PROCESS, &calls);
    let ended = FeatureState::NotTried { why: NotTried::Ended { signal: Some(libc::SIGSYS) } };
    let whole = unfiltered();
    for feature in Feature::all() {
        let expected = match feature {
            Feature::Kcmp | Feature::Aio => ended,
            other => whole.state(other),
        };
        assert_eq!(kernel.state(feature), expected, "{feature}");
    }
}

#[test]
fn the_probe_gives_up_when_too_much_ends_its_children() {
    let calls =
        [libc::SYS_kcmp, libc::SYS_io_setup, libc::SYS_unshare, libc::SYS_membarrier, libc::SYS_pkey_alloc];
    let kernel = probe_with(libc::SECCOMP_RET_KILL_PROCESS, &calls);
    let states: Vec<FeatureState> = Feature::all().map(|feature| kernel.state(feature)).collect();
    let ended = FeatureState::NotTried { why: NotTried::Ended { signal: Some(libc::SIGSYS) } };
    assert_eq!(states.iter().filter(|state| **state == ended).count(), 4);
    assert!(states.contains(&FeatureState::NotTried { why: NotTried::GaveUp }));
    // Those before the first that ended are known all the same.
    assert_eq!(kernel.state(Feature::Clone3), unfiltered().state(Feature::Clone3));
}

#[test]
fn without_children_nothing_is_known_and_nothing_breaks() {
    let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EAGAIN).unwrap();
    let kernel = probe_with(refuse, &[libc::SYS_clone]);
    let why = NotTried::NoChild { errno: libc::EAGAIN };
    assert_eq!(kernel.state(Feature::Ptrace), FeatureState::NotTried { why });
    assert!(!kernel.can_recycle());
    assert_eq!(kernel.facts().page_bytes, unfiltered().facts().page_bytes);
}
