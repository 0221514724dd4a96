//! The floors of the machine: what nothing that starts a process, or wakes one, can be faster than.
//!
//! ```text
//!   floor   clone(CLONE_VM) ─▶ exit ─▶ wait          a process that shares the memory and does nothing
//!   wake    bell ─▶ another process runs             the clock is read before the bell and by the one woken
//! ```
//!
//! The bell is a futex in shared memory, the cheapest that there is. A socket, over which descriptors can be sent, is
//! measured beside it, and both with the two processes held on one processor and on two.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use std::{io, thread};

use regrow_sys::raw::{futex_wait, futex_wake};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions, getpid, getppid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::native::{CloneStack, SharedSheet, WakeSheet, fork};
use super::samples::{Percentiles, Samples, now_ns};

/// How often the partner looks whether its maker is still there, when nobody wakes it.
const PARTNER_LOOKS: Duration = Duration::from_millis(500);
/// What `asked` is when the partner is to end.
const QUIT: u32 = u32::MAX;
/// The most processors that are looked at.
const CPU_MAX: usize = CpuSet::MAX_CPU;

/// What wakes a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bell {
    Futex,
    Socket,
}

/// Another process, which sleeps until it is woken.
struct Partner {
    pid: Pid,
    shared: SharedSheet,
    /// Our end, where the bell is a socket.
    socket: Option<OwnedFd>,
    asked: u32,
}

impl Partner {
    fn start(bell: Bell) -> io::Result<Self> {
        let shared = SharedSheet::new()?;
        let maker = getpid();
        let (pid, socket) = match bell {
            Bell::Futex => {
                let sleep = |seen| futex_wait(&shared.sheet().asked, seen, PARTNER_LOOKS);
                (fork(|| answer(shared.sheet(), maker, sleep))?, None)
            }
            Bell::Socket => {
                let (ours, theirs) =
                    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
                set_socket_timeout(&theirs, Timeout::Recv, Some(PARTNER_LOOKS))?;
                let sleep = |_| {
                    // Whether the bell rang or the time is up shows in the sheet.
                    let _ = rustix::io::read(&theirs, &mut [0_u8; 1]);
                };
                (fork(|| answer(shared.sheet(), maker, sleep))?, Some(ours))
            }
        };
        Ok(Self { pid, shared, socket, asked: 0 })
    }

    /// Wakes the partner, waits for its answer, and tells how long it took until it ran.
    fn wake(&mut self) -> io::Result<u64> {
        let sheet = self.shared.sheet();
        self.asked += 1;
        let before_ns = now_ns();
        ring(sheet, self.socket.as_ref(), self.asked)?;
        loop {
            let answered = sheet.answered.load(SeqCst);
            if answered == self.asked {
                return Ok(sheet.woke_ns.load(SeqCst).saturating_sub(before_ns));
            }
            futex_wait(&sheet.answered, answered, PARTNER_LOOKS);
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // A partner that cannot be told to end sees that this process is gone.
        let _ = ring(self.shared.sheet(), self.socket.as_ref(), QUIT);
        let _ = rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
    }
}

fn ring(sheet: &WakeSheet, socket: Option<&OwnedFd>, asked: u32) -> io::Result<()> {
    sheet.asked.store(asked, SeqCst);
    match socket {
        None => futex_wake(&sheet.asked),
        Some(socket) => {
            rustix::io::write(socket, b".")?;
        }
    }
    Ok(())
}

/// The partner's life: `sleep` returns when the bell rings, and now and then without. Allocates nothing.
fn answer(sheet: &WakeSheet, maker: Pid, sleep: impl Fn(u32)) {
    let mut seen = 0;
    loop {
        let mut woke_ns = now_ns();
        while sheet.asked.load(SeqCst) == seen {
            sleep(seen);
            woke_ns = now_ns();
            if getppid() != Some(maker) {
                return;
            }
        }
        seen = sheet.asked.load(SeqCst);
        if seen == QUIT {
            return;
        }
        sheet.woke_ns.store(woke_ns, SeqCst);
        sheet.answered.store(seen, SeqCst);
        futex_wake(&sheet.answered);
    }
}

/// The floors, ready to be measured once or many times.
pub(super) struct Floors {
    stack: CloneStack,
    partner: Partner,
}

impl Floors {
    /// Makes the process that is woken.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { stack: CloneStack::new(), partner: Partner::start(Bell::Futex)? })
    }

    /// `clone(CLONE_VM)`, exit and wait: nanoseconds.
    pub(super) fn clone_once(&mut self) -> io::Result<u64> {
        let before_ns = now_ns();
        self.stack.clone_and_wait()?;
        Ok(now_ns() - before_ns)
    }

    /// From a futex's wake to the other process running, the scheduler free: nanoseconds.
    pub(super) fn wake_once(&mut self) -> io::Result<u64> {
        self.partner.wake()
    }
}

/// One row of the table of floors.
pub(super) type FloorRow = (&'static str, Option<Percentiles>);

/// Measures all floors, each so many times and with a pause before each.
pub(super) fn survey(times: u32, pause: Duration) -> io::Result<Vec<FloorRow>> {
    let mut floors = Floors::new()?;
    let mut rows = vec![
        ("clone(CLONE_VM) + exit + wait", repeat(times, pause, || floors.clone_once())?),
        ("wake another process by futex", repeat(times, pause, || floors.wake_once())?),
    ];
    let mut by_socket = Partner::start(Bell::Socket)?;
    rows.push(("wake another process by socket", repeat(times, pause, || by_socket.wake())?));
    let whole = sched_getaffinity(None)?;
    let mut cpus = (0..CPU_MAX).filter(|cpu| whole.is_set(*cpu));
    if let (Some(one), Some(other)) = (cpus.next(), cpus.next()) {
        let mut held = |name, our_cpu, their_cpu| -> io::Result<()> {
            let _held = Held::on(our_cpu, whole)?;
            sched_setaffinity(Some(floors.partner.pid), &only(their_cpu))?;
            rows.push((name, repeat(times, pause, || floors.wake_once())?));
            Ok(())
        };
        held("  the same, both on one core", one, one)?;
        held("  the same, on two cores", one, other)?;
    }
    Ok(rows)
}

fn repeat(
    times: u32,
    pause: Duration,
    mut measure: impl FnMut() -> io::Result<u64>,
) -> io::Result<Option<Percentiles>> {
    let mut samples = Samples::default();
    for _ in 0..times {
        thread::sleep(pause);
        samples.push(measure()?);
    }
    Ok(samples.percentiles())
}

/// This thread is held on one processor until the value is dropped.
struct Held {
    before: CpuSet,
}

impl Held {
    fn on(cpu: usize, before: CpuSet) -> io::Result<Self> {
        sched_setaffinity(None, &only(cpu))?;
        Ok(Self { before })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The set was in force before, so it can be again.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn only(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_answers_every_wake_and_ends() {
        for bell in [Bell::Futex, Bell::Socket] {
            let mut partner = Partner::start(bell).unwrap();
            let before = now_ns();
            for _ in 0..20 {
                partner.wake().unwrap();
            }
            let woke = partner.shared.sheet().woke_ns.load(SeqCst);
            assert!(woke >= before && woke <= now_ns(), "{bell:?}");
            let pid = partner.pid;
            drop(partner);
            assert!(rustix::process::test_kill_process(pid).is_err(), "{bell:?}: the partner is still there");
        }
    }

    #[test]
    fn the_survey_leaves_the_processors_as_they_were() {
        let before = sched_getaffinity(None).unwrap();
        let rows = survey(3, Duration::ZERO).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert!(rows.len() >= 3);
        assert!(rows.iter().all(|(_, times)| times.is_some_and(|times| times.p50 > 0.0)), "{rows:?}");
    }
}
