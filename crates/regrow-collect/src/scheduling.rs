//! How processes are scheduled by their class: what is done to short and to long ones, and that it is done to the right process.

use std::io;
use std::time::Duration;

use regrow_abi::SchedAttr;
use regrow_abi::sites::{Class, Lever, Levers};
use regrow_sites::{Event, ProcessKey};
use regrow_sys::scheduling;
use rustix::time::{ClockId, clock_gettime};

/// Two times of the kernel's and ours may differ by this where they are of one moment.
const APART_US: u64 = 100_000;

/// Why children cannot be scheduled.
#[derive(Debug, thiserror::Error)]
pub enum SchedulingError {
    /// The kernel does not say how this process is scheduled.
    #[error("sched_getattr: how this process is scheduled cannot be read")]
    Read(#[source] io::Error),
    /// Slices and niceness are of the ordinary policies.
    #[error(
        "this process has the scheduling policy {policy}: only ordinary processes can be scheduled by prediction"
    )]
    Policy {
        /// Its number.
        policy: u32,
    },
    /// A slice that the kernel would change.
    #[error("a slice of {slice_us} µs: the kernel allows from 100 to 100,000 µs")]
    Slice {
        /// The slice.
        slice_us: u64,
    },
}

/// How children are scheduled.
#[derive(Debug, Clone, Copy)]
pub struct Scheduling {
    levers: Levers,
    limit_ns: u64,
}

impl Scheduling {
    /// What is done to short and to long children, beside what the calling process is. A process of any class is a long one when it has used the
    /// limit.
    ///
    /// # Errors
    /// [`SchedulingError`].
    pub fn new(short: Lever, long: Lever, limit: Duration) -> Result<Scheduling, SchedulingError> {
        let now = scheduling::read().map_err(SchedulingError::Read)?;
        if now.policy != SchedAttr::OTHER && now.policy != SchedAttr::BATCH {
            return Err(SchedulingError::Policy { policy: now.policy });
        }
        for lever in [short, long] {
            if lever.slice_ns != 0 && !(100_000..=100_000_000).contains(&lever.slice_ns) {
                return Err(SchedulingError::Slice { slice_us: lever.slice_ns / 1000 });
            }
        }
        let usual_nice = i8::try_from(now.nice).unwrap_or(0);
        let levers = Levers { usual_nice, usual_slice_ns: now.runtime, short, long };
        Ok(Scheduling { levers, limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX) })
    }

    pub(crate) fn levers(&self) -> &Levers {
        &self.levers
    }

    /// Has each thread of a process be scheduled by its class. Whether anything was changed: it may be another user's, or have ended, or have
    /// chosen for itself.
    pub(crate) fn apply(&self, pid: i32, class: Class) -> bool {
        scheduling::threads(pid)
            .into_iter()
            .fold(false, |is_changed, thread| is_changed | self.apply_to(thread, class))
    }

    /// The same of one thread.
    pub(crate) fn apply_to(&self, thread: i32, class: Class) -> bool {
        let change = scheduling::read_of(thread).ok().and_then(|now| self.levers.change(class, &now));
        change.is_some_and(|wanted| scheduling::set_of(thread, &wanted).is_ok())
    }

    /// Whether a process that has used so much has outlived the limit, and is the one that it is taken for.
    pub(crate) fn has_outlived(&self, key: &ProcessKey, used_ns: u64) -> bool {
        used_ns >= self.limit_ns && i32::try_from(key.pid).is_ok_and(|pid| is_the_same(key, pid))
    }
}

/// A process that has used so much has outlived the limit at this time.
pub(crate) fn outlived_now(process: ProcessKey, used_ns: u64) -> Event {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    let time_us = part(time.tv_sec) * 1_000_000 + part(time.tv_nsec) / 1000;
    Event::Outlived { time_us, process, cpu_us: used_ns / 1000 }
}

/// Whether the process of this number is the one that was created then: a process of another namespace may have said the number.
pub(crate) fn is_the_same(key: &ProcessKey, pid: i32) -> bool {
    created_us(pid).is_some_and(|created| created.abs_diff(key.created_us) < APART_US)
}

/// When a process was created, by the clock of the events.
pub(crate) fn created_us(pid: i32) -> Option<u64> {
    /// The field behind the name and its bracket, from 0.
    const START: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: u64 = stat.get(stat.rfind(')')? + 2..)?.split(' ').nth(START)?.parse().ok()?;
    let us = |clock| {
        let time = clock_gettime(clock);
        Some(u64::try_from(time.tv_sec).ok()? * 1_000_000 + u64::try_from(time.tv_nsec / 1000).ok()?)
    };
    let asleep = us(ClockId::Boottime)?.saturating_sub(us(ClockId::Monotonic)?);
    let since_boot = ticks * 1_000_000 / rustix::param::clock_ticks_per_second();
    Some(since_boot.saturating_sub(asleep))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_the_kernel_does_not_allow_is_named() {
        let lever = |slice_us: u64| Lever { slice_ns: slice_us * 1000, ..Lever::default() };
        let make =
            |slice_us: u64| Scheduling::new(Lever::default(), lever(slice_us), Duration::from_millis(20));
        assert!(make(20_000).is_ok() && make(0).is_ok());
        for wrong in [99, 100_001] {
            let said = make(wrong).expect_err("not allowed").to_string();
            assert_eq!(said, format!("a slice of {wrong} µs: the kernel allows from 100 to 100,000 µs"));
        }
    }

    #[test]
    fn a_process_is_known_by_when_it_was_created() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = i32::try_from(child.id()).expect("a number");
        let created = created_us(pid).expect("it is there");
        let key = |created_us| ProcessKey { pid: child.id(), created_us };
        assert!(is_the_same(&key(created), pid));
        assert!(!is_the_same(&key(created + 1_000_000), pid) && !is_the_same(&key(created - 1_000_000), pid));
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        assert!(!is_the_same(&ProcessKey { pid: child.id(), created_us: created }, pid));
    }
}
