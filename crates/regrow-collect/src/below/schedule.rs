//! Has children be scheduled by what is predicted about them: classes go to the channel, where the library of each process finds them; and a
//! process that outlives its class is scheduled anew from here.
//!
//! A timer in the process would do as well, and the process would see it: its signal, or one timer less. From here nothing is seen but the
//! way it is scheduled.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use regrow_abi::SchedAttr;
use regrow_abi::sites::{Channel, Class, Lever, Levers, Place};
use regrow_sites::{ImageId, ProcessKey, Site};
use regrow_sys::scheduling;
use rustix::time::{ClockId, clock_gettime};

use super::processes::{Processes, Touched, site_of};

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

    pub(super) fn levers(&self) -> &Levers {
        &self.levers
    }
}

/// Publishes the classes of all sites of which something was learned since this was called last, where there is a channel that is scheduled by.
pub(super) fn publish(
    processes: &mut Processes,
    channel: Option<Channel<'_>>,
    class_of: &mut dyn FnMut(&Site) -> Class,
) {
    let touched: HashSet<_> = processes.touched.drain(..).collect();
    let Some(channel) = channel else { return };
    let predictions = channel.predictions();
    for Touched { place, executed } in touched {
        for (key, site) in sites_of(&place, executed) {
            predictions.put(key, class_of(&site));
        }
    }
}

/// Schedules those anew that have outlived what was predicted. Gives how many they were.
pub(super) fn take_back(processes: &mut Processes, scheduling: Scheduling) -> u64 {
    let (levers, limit_ns) = (scheduling.levers, scheduling.limit_ns);
    let mut taken_back = 0;
    for (&pid, process) in &mut processes.all {
        if process.is_taken_back || process.class == Class::Long {
            continue;
        }
        let Ok(pid) = i32::try_from(pid) else { continue };
        let Ok(clock_ns) = scheduling::processor_time_ns(pid) else { continue };
        process.clock_ns = process.clock_ns.max(clock_ns);
        if clock_ns < limit_ns || !is_the_same(&process.key(), pid) {
            continue;
        }
        process.is_taken_back = true;
        let mut is_changed = false;
        for thread in scheduling::threads(pid) {
            let change = scheduling::read_of(thread).ok().and_then(|now| levers.change(Class::Long, &now));
            // It may be another user's, or have ended.
            is_changed |= change.is_some_and(|wanted| scheduling::set_of(thread, &wanted).is_ok());
        }
        taken_back += u64::from(is_changed);
    }
    taken_back
}

/// The sites that predictions stand under, each with its key: see [`Place::keys`].
fn sites_of(place: &Place, executed: Option<(u64, ImageId)>) -> Vec<(u64, Site)> {
    let [all, script, call] = place.keys();
    let whole = site_of(place, None);
    let [first, ..] = whole.frames;
    let in_script = Site { frames: [first, None, None], ..whole };
    let at_call = Site { script: None, ..in_script };
    let mut sites = vec![(all, whole), (script, in_script), (call, at_call)];
    if let Some((path, image)) = executed.filter(|&(path, _)| path != 0) {
        let child = Some(image);
        let alone = Site { image: ImageId::UNKNOWN, frames: [None; 3], script: None, child };
        sites.extend([
            (Place::key_with_path(all, path), Site { child, ..whole }),
            (Place::key_with_path(call, path), Site { child, ..at_call }),
            (Place::key_of_path(path), alone),
        ]);
    }
    sites
}

/// Whether the process of this number is the one that was created then: a process of another namespace may have said the number.
fn is_the_same(key: &ProcessKey, pid: i32) -> bool {
    created_us(pid).is_some_and(|created| created.abs_diff(key.created_us) < APART_US)
}

/// When a process was created, by the clock of the events.
fn created_us(pid: i32) -> Option<u64> {
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
        let before = super::super::processes::now_ns() / 1000;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = i32::try_from(child.id()).expect("a number");
        let key = |created_us| ProcessKey { pid: child.id(), created_us };
        assert!(is_the_same(&key(before), pid));
        assert!(!is_the_same(&key(before + 1_000_000), pid) && !is_the_same(&key(before - 1_000_000), pid));
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        assert!(!is_the_same(&ProcessKey { pid: child.id(), created_us: before }, pid));
    }

    #[test]
    fn a_path_has_predictions_of_its_own() {
        let place = Place { image: 1, frames: [(2, 3), (4, 5), (0, 0)], script: (6, 7) };
        let image = ImageId(9);
        let with = sites_of(&place, Some((8, image)));
        assert_eq!(with.len(), 6);
        assert!(with.iter().skip(3).all(|(_, site)| site.child == Some(image)));
        assert_eq!(sites_of(&place, None), with[..3]);
        assert_eq!(sites_of(&place, Some((0, image))), with[..3], "no path was told");
    }
}
