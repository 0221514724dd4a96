//! Children of this process by their numbers: ended and waited for, also without a free descriptor for a pidfd.
//!
//! A number is looked at, with a `wait` that takes nothing, before it is acted on: what it names is a child of this
//! process or the step has no effect. The number of a child stays its own until somebody waits for it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::raw::{detached_thread, ends_within, pidfd_kill, pidfd_open, process_group, wait_pid};

/// The kernel's mark of a task that ends.
const PF_EXITING: u64 = 4;

/// How often a child is looked at that cannot be waited for as a descriptor.
const LOOK_AFTER: Duration = Duration::from_millis(1);

/// How long a thread sleeps that waits for a child and for nothing else.
const LONG: Duration = Duration::from_secs(3600);

/// Whether a process is a child of this one, ended or not.
#[must_use]
pub fn is_child(pid: i32) -> bool {
    look(pid).is_some()
}

/// Whether a process is a child of this one and has not ended.
#[must_use]
pub fn is_living_child(pid: i32) -> bool {
    look(pid) == Some(true)
}

/// The children of this process, of all its threads, as far as the kernel lists them.
#[must_use]
pub fn all() -> Vec<i32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// Whether a process is a child of this one, not ended, that leads a process group.
#[must_use]
pub fn leads_group(pid: i32) -> bool {
    is_living_child(pid) && is_of_own_group(pid)
}

/// Whether a process is a child of this one that has ended, was not waited for, and has led a process group.
#[must_use]
pub fn led_group(pid: i32) -> bool {
    look(pid) == Some(false) && is_of_own_group(pid)
}

fn is_of_own_group(pid: i32) -> bool {
    pid > 0 && process_group(pid) == Some(pid)
}

/// Whether a process has ended or has begun to: the kernel may have taken its memory from it already, before its end can be waited for.
#[must_use]
pub fn is_ending(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name may hold anything, also a closing bracket.
    let mut fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace()).into_iter().flatten();
    let (state, flags) = (fields.next(), fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()));
    matches!(state, None | Some("Z" | "X")) || flags.is_none_or(|flags| flags & PF_EXITING != 0)
}

/// Whether a child lives; `None` for what is no child.
fn look(pid: i32) -> Option<bool> {
    let every_kind = WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | every_kind;
    let pid = Pid::from_raw(pid.max(0))?;
    waitid(WaitId::Pid(pid), options).ok().map(|ended| ended.is_none())
}

/// Kills a child; anything else is left alone.
pub fn kill(pid: i32) {
    match pidfd_open(pid) {
        // Asked with the descriptor at hand: it is of the process that is asked about.
        Ok(pidfd) if is_child(pid) => {
            let _ = pidfd_kill(pidfd.as_fd(), libc::SIGKILL);
        }
        Err(_) if is_living_child(pid) => {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        _ => {}
    }
}

/// Waits for a child that is about to end and takes its status. For one that does not end in time, on a machine that is too busy, a
/// thread of its own waits on. What is no child has no effect.
pub fn reap(pid: i32, limit: Duration) {
    if !is_child(pid) {
        return;
    }
    if let Ok(pidfd) = pidfd_open(pid) {
        reap_by(pidfd.as_fd(), limit);
        return;
    }
    let started = Instant::now();
    while matches!(wait_pid(pid, true), Ok(None)) && started.elapsed() < limit {
        std::thread::sleep(LOOK_AFTER);
    }
}

/// The same with the child's descriptor.
pub fn reap_by(pidfd: BorrowedFd<'_>, limit: Duration) {
    if ends_within(pidfd, limit) {
        take_status(pidfd);
        return;
    }
    // Without a descriptor or a thread it stays until this process ends.
    let Ok(own) = pidfd.try_clone_to_owned() else { return };
    let _ = detached_thread(move || {
        while !ends_within(own.as_fd(), LONG) {}
        take_status(own.as_fd());
    });
}

/// Takes the status of a child that has ended, unless somebody else has.
fn take_status(pidfd: BorrowedFd<'_>) {
    let every_kind = WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | every_kind;
    let _ = waitid(WaitId::PidFd(pidfd), options);
}

/// Kills a child and waits for its end.
pub fn end(pid: i32, limit: Duration) {
    kill(pid);
    reap(pid, limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn sleeper() -> i32 {
        Command::new("sleep").arg("60").spawn().expect("it starts").id().cast_signed()
    }

    #[test]
    fn a_child_is_ended_and_forgotten() {
        let pid = sleeper();
        assert!(is_living_child(pid));
        end(pid, Duration::from_secs(10));
        assert!(!is_child(pid), "it was waited for");
    }

    /// The first process of a container often has a group whose leader is outside: its number is 0.
    #[test]
    fn what_is_no_child_leads_no_group() {
        for pid in [1, std::process::id().cast_signed(), 0, -1, i32::MIN, i32::MAX] {
            assert!(!leads_group(pid) && !led_group(pid), "{pid}");
        }
        assert_eq!(process_group(i32::MAX), None);
    }

    #[test]
    fn processes_that_have_ended_share_no_memory() {
        let ended = [sleeper(), sleeper()];
        assert_eq!(crate::raw::share_memory(ended[0], ended[0]), Some(true));
        for pid in ended {
            let pidfd = pidfd_open(pid).expect("a child");
            kill(pid);
            assert!(ends_within(pidfd.as_fd(), Duration::from_secs(10)));
        }
        assert_eq!(crate::raw::share_memory(ended[0], ended[1]), Some(false));
        for pid in ended {
            reap(pid, Duration::from_secs(10));
        }
    }

    #[test]
    fn what_is_no_child_is_left_alone() {
        let parent = std::os::unix::process::parent_id().cast_signed();
        for pid in [parent, 1, 0, -1, i32::MIN] {
            assert!(!is_child(pid), "{pid}");
            end(pid, Duration::ZERO);
        }
        let pid = sleeper();
        end(-pid, Duration::ZERO);
        assert!(is_living_child(pid), "no group is meant");
        end(pid, Duration::from_secs(10));
    }

    #[test]
    fn a_child_that_stays_is_not_waited_for_longer_than_told_and_taken_when_it_ends() {
        let pid = sleeper();
        reap(pid, Duration::from_millis(5));
        assert!(is_living_child(pid));
        kill(pid);
        let killed = Instant::now();
        while is_child(pid) {
            assert!(killed.elapsed() < Duration::from_secs(60), "nobody has waited for it");
            std::thread::sleep(LOOK_AFTER);
        }
    }
}
