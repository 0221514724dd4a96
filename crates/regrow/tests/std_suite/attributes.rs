//! What else a process has: signal mask, group, session, descriptors by number, a descriptor of its own.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;

use regrow::Resource;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};

use crate::facts::{raw, until};
use crate::recycled;

fn pid_of(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).expect("a process has a number")
}

/// Blocks a signal of this thread while something is done.
fn with_interrupts_blocked<T>(what: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised by the calls, and outlive them.
    unsafe {
        let (mut blocked, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut blocked);
        libc::sigaddset(&raw mut blocked, libc::SIGINT);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before), 0);
        let result = what();
        assert_eq!(libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()), 0);
        result
    }
}

/// A `cat` that has begun, told so by a byte that went through it; then signalled, and asked again.
macro_rules! cat_that_is_signalled {
    ($command:expr, $target:expr) => {{
        let mut command = $command;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let (mut to, mut from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut byte = [0];
        to.write_all(b"1").expect("it reads");
        from.read_exact(&mut byte).expect("it answers");
        let is_leader =
            rustix::process::getpgid(Some(pid_of(child.id()))).expect("its group") == pid_of(child.id());
        $target(child.id());
        let goes_on = to.write_all(b"2").is_ok() && from.read(&mut byte).is_ok_and(|read| read == 1);
        drop(to);
        (is_leader, goes_on, raw(child.wait()))
    }};
}

fn interrupt(id: u32) {
    rustix::process::kill_process(pid_of(id), Signal::INT).expect("it is there");
}

fn interrupt_group(id: u32) {
    rustix::process::kill_process_group(pid_of(id), Signal::INT).expect("there is such a group");
}

#[test]
fn a_blocked_signal_is_blocked_in_the_program() {
    let seen = same!(1, {
        let plain = with_interrupts_blocked(|| cat_that_is_signalled!(Command::new("cat"), interrupt));
        let mut command = Command::new("cat");
        // SAFETY: makes no call.
        unsafe { command.pre_exec(|| Ok(())) };
        (plain, with_interrupts_blocked(|| cat_that_is_signalled!(command, interrupt)))
    });
    assert_eq!(seen, ((false, true, 0), (false, true, 0)));
    // And without: it is the mask that keeps it.
    let seen = same!(1, { cat_that_is_signalled!(Command::new("cat"), interrupt) });
    assert_eq!(seen, (false, false, libc::SIGINT));
}

#[test]
fn a_group_of_its_own_is_signalled_as_a_group() {
    let seen = same!(1, {
        let mut command = Command::new("cat");
        command.process_group(0);
        let plain = cat_that_is_signalled!(command, interrupt_group);
        let mut command = Command::new("cat");
        // SAFETY: makes no call.
        unsafe { command.process_group(0).pre_exec(|| Ok(())) };
        (plain, cat_that_is_signalled!(command, interrupt_group))
    });
    assert_eq!(seen, ((true, false, libc::SIGINT), (true, false, libc::SIGINT)));
}

/// The standard library has `setsid` in its unstable interface only.
#[test]
fn a_session_of_its_own_is_a_group_of_its_own() {
    use recycled::Command;
    use regrow::Stdio;
    use regrow::os::unix::process::CommandExt;
    let (seen, counts) = recycled::counted(|| {
        let mut command = Command::new("cat");
        command.setsid(true);
        let plain = cat_that_is_signalled!(command, interrupt_group);
        let mut command = Command::new("cat");
        // SAFETY: makes no call.
        unsafe { command.setsid(true).pre_exec(|| Ok(())) };
        (plain, cat_that_is_signalled!(command, interrupt_group))
    });
    assert_eq!((seen, counts.in_bodies()), (((true, false, libc::SIGINT), (true, false, libc::SIGINT)), 1));
}

/// The standard library has `fd` in its unstable interface only.
#[test]
fn a_descriptor_is_given_by_its_number() {
    use recycled::Command;
    use regrow::Stdio;
    use regrow::os::unix::process::CommandExt;
    for hooked in [false, true] {
        let (seen, counts) = recycled::counted(|| {
            // As the standard input, in the place of one that was named otherwise.
            let (reader, mut writer) = io::pipe().expect("a pipe");
            let mut command = Command::new("cat");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).fd(reader, 0);
            if hooked {
                // SAFETY: makes no call.
                unsafe { command.pre_exec(|| Ok(())) };
            }
            let child = command.spawn().expect("it starts");
            writer.write_all(b"by number").expect("it reads");
            drop(writer);
            let as_input = child.wait_with_output().expect("its end").stdout;

            // Two that each have the number of the other here.
            let ends = [io::pipe().expect("a pipe"), io::pipe().expect("a pipe")];
            let [(first, mut to_first), (second, mut to_second)] = ends;
            let (one, two) = (first.as_raw_fd(), second.as_raw_fd());
            to_first.write_all(b"first").expect("room in it");
            to_second.write_all(b"second").expect("room in it");
            drop((to_first, to_second));
            let mut command = Command::new("cat");
            command.args([one, two].map(|number| format!("/dev/fd/{number}")));
            command.fd(first, two).fd(second, one);
            if hooked {
                // SAFETY: makes no call.
                unsafe { command.pre_exec(|| Ok(())) };
            }
            (as_input, command.output().expect("it starts").stdout)
        });
        assert_eq!(seen, (b"by number".to_vec(), b"secondfirst".to_vec()), "hooked: {hooked}");
        assert_eq!(counts.in_bodies(), if hooked { 0 } else { 2 });
    }
}

#[test]
fn a_given_descriptor_is_open_here_until_the_command_goes() {
    let ((), counts) = recycled::counted(|| {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut command = recycled::Command::new("true");
        command.fd(writer, 123);
        assert!(command.status().expect("it starts").success());
        rustix::io::ioctl_fionbio(&reader, true).expect("it can be set");
        let still = reader.read(&mut [0]).expect_err("somebody may write");
        assert_eq!(still.kind(), io::ErrorKind::WouldBlock);
        drop(command);
        // A child that another test is forking may have it until its exec.
        until("nobody is left who may write", || reader.read(&mut [0]).is_ok_and(|read| read == 0));
    });
    assert_eq!(counts.in_bodies(), 1);
}

#[test]
fn a_program_may_have_no_room_for_descriptors() {
    // Nothing is opened after its start: `echo` is built into the shell, and what it needs is loaded.
    let (output, counts) = recycled::counted(|| {
        let mut command = recycled::Command::new("sh");
        command.args(["-c", "echo fine"]).limit(Resource::Nofile, 0, 0).output().expect("it starts")
    });
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"fine\n".as_slice()));
    assert_eq!(counts.in_bodies(), 1);
}

/// What the standard library's unstable `ChildExt` has.
#[test]
fn a_process_as_a_descriptor() {
    use regrow::os::unix::process::CommandExt;
    let ((), counts) = recycled::counted(|| {
        let hook: fn(&mut regrow::Command) = |command| {
            // SAFETY: makes no call.
            unsafe { command.pre_exec(|| Ok(())) };
        };
        let plain: fn(&mut regrow::Command) = |_| {};
        for (opens, prepare) in [(true, plain), (false, plain), (true, hook)] {
            let mut command = recycled::Command::new("sleep");
            prepare(command.arg("1000").create_pidfd(opens));
            let mut child = command.spawn().expect("it starts");
            let id = child.id();
            let pidfd = child.pidfd().expect("it is open").try_clone_to_owned().expect("a copy");
            let flags = rustix::io::fcntl_getfd(child.pidfd().expect("it is open")).expect("its flags");
            assert!(flags.contains(FdFlags::CLOEXEC));
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()));
            assert!(info.expect("the kernel tells").contains(&format!("Pid:\t{id}\n")));
            assert!(child.try_wait().expect("it can be asked").is_none());
            for _ in 0..2 {
                rustix::process::pidfd_send_signal(pidfd.as_fd(), Signal::KILL).expect("it is there");
            }
            assert_eq!(child.wait().expect("its end").signal(), Some(libc::SIGKILL));
            let gone = rustix::process::pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
            assert_eq!(gone, Err(rustix::io::Errno::SRCH));
        }
    });
    assert_eq!(counts.in_bodies(), 2);
}
