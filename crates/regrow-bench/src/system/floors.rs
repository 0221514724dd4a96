//! The floors of the machine: nothing can start a process, or wake one, in less time.
//!
//! ```text
//!   floor   clone(CLONE_VM) ─▶ exit ─▶ wait          a process that shares the memory and does nothing
//!   wake    bell ─▶ another process runs             both read the clock: the waker before, the woken process after
//! ```
//!
//! The bell is a futex in shared memory, the cheapest that there is. Beside it stands a socket, which can carry descriptors,
//! and the futex with the two processes pinned to one processor and to two.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use std::{io, thread};

use regrow_sys::raw::{futex_wait, futex_wake};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions, getpid, getppid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::native::{CloneStack, SharedSheet, WakeCounters, fork};
use crate::samples::{Percentiles, Samples, now_ns};

/// How often the partner checks, when nobody wakes it, that its maker is still there.
const PARTNER_LOOKS: Duration = Duration::from_millis(500);
/// The value of `asked` that tells the partner to end.
const QUIT: u32 = u32::MAX;
/// How many processors there can be.
const CPU_MAX: usize = CpuSet::MAX_CPU;

/// What wakes a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeMethod {
    Futex,
    Socket,
}

/// Another process, which sleeps until it is woken.
struct WakePartner {
    pid: Pid,
    shared: SharedSheet<WakeCounters>,
    /// Our end, where the bell is a socket.
    socket: Option<OwnedFd>,
    asked: u32,
}

impl WakePartner {
    fn start(bell: WakeMethod) -> io::Result<Self> {
        let shared = SharedSheet::<WakeCounters>::new()?;
        let maker = getpid();
        let (pid, socket) = match bell {
            WakeMethod::Futex => {
                let sleep = |seen| futex_wait(&shared.sheet().asked, seen, PARTNER_LOOKS);
                (fork(|| answer(shared.sheet(), maker, sleep))?, None)
            }
            WakeMethod::Socket => {
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

impl Drop for WakePartner {
    fn drop(&mut self) {
        // A partner that cannot be told to end sees that this process is gone.
        let _ = ring(self.shared.sheet(), self.socket.as_ref(), QUIT);
        let _ = rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
    }
}

fn ring(sheet: &WakeCounters, socket: Option<&OwnedFd>, asked: u32) -> io::Result<()> {
    sheet.asked.store(asked, SeqCst);
    match socket {
        None => futex_wake(&sheet.asked),
        Some(socket) => {
            rustix::io::write(socket, b".")?;
        }
    }
    Ok(())
}

/// What the partner does. `sleep` returns when the bell rings, and now and then without a bell. Allocates nothing.
fn answer(sheet: &WakeCounters, maker: Pid, sleep: impl Fn(u32)) {
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

/// Measures the floors, one time or many.
pub(crate) struct Floors {
    stack: CloneStack,
    partner: WakePartner,
}

impl Floors {
    /// Starts the partner.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { stack: CloneStack::new(), partner: WakePartner::start(WakeMethod::Futex)? })
    }

    /// `clone(CLONE_VM)`, exit and wait: nanoseconds.
    pub(crate) fn clone_once(&mut self) -> io::Result<u64> {
        let before_ns = now_ns();
        self.stack.clone_and_wait()?;
        Ok(now_ns() - before_ns)
    }

    /// From a futex's wake to the other process running, the scheduler free: nanoseconds.
    pub(crate) fn wake_once(&mut self) -> io::Result<u64> {
        self.partner.wake()
    }
}

/// One row of the table of floors.
pub(crate) type FloorRow = (&'static str, Option<Percentiles>);

/// Measures all floors, each so many times and with a pause before each.
pub(crate) fn survey(times: u32, pause: Duration) -> io::Result<Vec<FloorRow>> {
    let mut floors = Floors::new()?;
    let mut rows = vec![
        ("clone(CLONE_VM) + exit + wait", repeat(times, pause, || floors.clone_once())?),
        ("wake another process by futex", repeat(times, pause, || floors.wake_once())?),
    ];
    let mut by_socket = WakePartner::start(WakeMethod::Socket)?;
    rows.push(("wake another process by socket", repeat(times, pause, || by_socket.wake())?));
    let whole = sched_getaffinity(None)?;
    let mut cpus = (0..CPU_MAX).filter(|cpu| whole.is_set(*cpu));
    if let (Some(one), Some(other)) = (cpus.next(), cpus.next()) {
        let mut held = |name, our_cpu, their_cpu| -> io::Result<()> {
            let _held = PinnedThread::on(our_cpu, whole)?;
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

/// Keeps this thread on one processor until the value is dropped.
struct PinnedThread {
    before: CpuSet,
}

impl PinnedThread {
    fn on(cpu: usize, before: CpuSet) -> io::Result<Self> {
        sched_setaffinity(None, &only(cpu))?;
        Ok(Self { before })
    }
}

impl Drop for PinnedThread {
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
        for bell in [WakeMethod::Futex, WakeMethod::Socket] {
            let mut partner = WakePartner::start(bell).unwrap();
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
