//! Scheduling from outside: who lives below a command, as a collector tells it, and what is done to each. The processes do nothing for it.
//!
//! ```text
//!   Created ──> a site ──class──> scheduled        Executed ──> the site with the program ──class──> scheduled anew
//!   look: has one outlived the limit? ──> scheduled as a long one        Ended ──> forgotten
//! ```

use std::collections::HashMap;

use regrow_abi::sites::Class;
use regrow_sites::{Arguments, Event, ProcessKey, Site};
use regrow_sys::scheduling::processor_time_ns;

use crate::below::Counts;
use crate::scheduling::{Scheduling, is_the_same, outlived_now};

/// A process that lives.
#[derive(Debug)]
struct Living {
    key: ProcessKey,
    site: Site,
    class: Class,
    is_taken_back: bool,
}

impl Living {
    /// How it is scheduled.
    fn class(&self) -> Class {
        if self.is_taken_back { Class::Long } else { self.class }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Outside {
    scheduling: Scheduling,
    living: HashMap<u32, Living>,
    counts: Counts,
    taken_back: u64,
}

impl Outside {
    /// Nobody lives as yet.
    #[must_use]
    pub fn new(scheduling: Scheduling) -> Outside {
        Outside { scheduling, living: HashMap::new(), counts: Counts::default(), taken_back: 0 }
    }

    /// Takes what has happened, before the model learns of it: `class_of` says what is predicted of a process at its site, and of the arguments of what it executes.
    pub fn take(&mut self, event: &Event, class_of: impl Fn(ProcessKey, &Site, Option<Arguments>) -> Class) {
        match event {
            Event::Created { process, parent, site, .. } => {
                self.counts.created += 1;
                // It begins as its parent is.
                let class = self.living.get(&parent.pid).map_or(Class::Unknown, Living::class);
                let living = Living { key: *process, site: *site, class, is_taken_back: false };
                self.living.insert(process.pid, living);
                self.schedule(*process, class_of(*process, site, None));
            }
            Event::Executed { process, image, .. } => {
                self.counts.executed += 1;
                let living = self.living.get_mut(&process.pid).filter(|living| living.key == *process);
                let Some(living) = living else { return };
                living.site.child = Some(*image);
                let class = class_of(*process, &living.site, None);
                self.schedule(*process, class);
            }
            Event::Arguments { process, arguments, .. } => {
                let living = self.living.get(&process.pid).filter(|living| living.key == *process);
                let Some(living) = living else { return };
                let class = class_of(*process, &living.site, Some(*arguments));
                self.schedule(*process, class);
            }
            Event::Ended { process, .. }
                if self.living.get(&process.pid).is_some_and(|living| living.key == *process) =>
            {
                self.living.remove(&process.pid);
            }
            _ => {}
        }
    }

    /// Schedules a process by a class, unless it has outlived one.
    fn schedule(&mut self, key: ProcessKey, class: Class) {
        let (scheduling, counts) = (self.scheduling, &mut self.counts);
        let living = self.living.get_mut(&key.pid).filter(|living| !living.is_taken_back);
        let (Some(living), Ok(pid)) = (living, i32::try_from(key.pid)) else { return };
        if class == living.class || !is_the_same(&key, pid) {
            return;
        }
        living.class = class;
        // There is one thread at this time.
        scheduling.apply_to(pid, class);
        counts.short += u64::from(class == Class::Short);
        counts.long += u64::from(class == Class::Long);
    }

    /// Schedules those as long ones that have outlived the limit, and tells of them. It is to be called some times in that time.
    pub fn look(&mut self) -> Vec<Event> {
        let scheduling = self.scheduling;
        let mut outlived = Vec::new();
        for (&pid, living) in &mut self.living {
            if living.is_taken_back {
                continue;
            }
            let Ok(pid) = i32::try_from(pid) else { continue };
            let Ok(used_ns) = processor_time_ns(pid) else { continue };
            if scheduling.has_outlived(&living.key, used_ns) {
                living.is_taken_back = true;
                outlived.push(outlived_now(living.key, used_ns));
                // One that was a long one from the beginning may have been given back its niceness since, by its parent or by itself.
                let is_changed = scheduling.apply(pid, Class::Long);
                self.taken_back += u64::from(is_changed && living.class != Class::Long);
            }
        }
        outlived
    }

    /// Nobody watches any more: those that live on are as if nothing were known of them.
    pub fn release(&mut self) {
        for living in std::mem::take(&mut self.living).into_values() {
            if let Ok(pid) = i32::try_from(living.key.pid)
                && living.class() != Class::Unknown
                && is_the_same(&living.key, pid)
            {
                self.scheduling.apply(pid, Class::Unknown);
            }
        }
    }

    /// How many were created, and how they were scheduled; and how many anew as they went on.
    #[must_use]
    pub fn counts(&self) -> (Counts, u64) {
        (self.counts, self.taken_back)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use regrow_abi::sites::Lever;
    use regrow_sites::{ImageId, Usage};
    use regrow_sys::scheduling::{read_of, set_of};

    use super::*;
    use crate::scheduling::created_us;

    fn outside(limit: Duration) -> Outside {
        let long = Lever { nicer: 7, ..Lever::default() };
        Outside::new(Scheduling::new(Lever::default(), long, limit).expect("an ordinary process"))
    }

    /// A process that waits for the end of its input, its event, and how nice it is.
    struct Waiting(Child);

    impl Waiting {
        fn start() -> Waiting {
            Waiting(Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts"))
        }

        fn key(&self) -> ProcessKey {
            let pid = self.0.id();
            ProcessKey { pid, created_us: created_us(pid.cast_signed()).expect("it is there") }
        }

        fn nice(&self) -> i32 {
            read_of(self.0.id().cast_signed()).expect("it is there").nice
        }
    }

    impl Drop for Waiting {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    fn created(process: ProcessKey) -> Event {
        let parent = ProcessKey { pid: 1, created_us: 0 };
        let site = Site { image: ImageId(5), frames: [None; 3], script: None, child: None };
        Event::Created { time_us: process.created_us, process, parent, site }
    }

    #[test]
    fn a_process_is_scheduled_when_it_is_created_and_anew_when_it_executes() {
        let usual = read_of(0).expect("this thread").nice;
        let (waiting, mut outside) = (Waiting::start(), outside(Duration::from_hours(1)));
        let key = waiting.key();
        outside.take(&created(key), |_, _, _| Class::Long);
        assert_eq!(waiting.nice(), usual + 7);
        let executed = Event::Executed { time_us: 0, process: key, image: ImageId(9) };
        outside.take(
            &executed,
            |_, site, _| if site.child == Some(ImageId(9)) { Class::Short } else { Class::Long },
        );
        assert_eq!(waiting.nice(), usual);
        let (counts, taken_back) = outside.counts();
        assert_eq!((counts.created, counts.executed, counts.short, counts.long, taken_back), (1, 1, 1, 1, 0));
    }

    #[test]
    fn one_that_outlives_the_limit_is_a_long_one_until_nobody_watches() {
        let usual = read_of(0).expect("this thread").nice;
        let (waiting, mut outside) = (Waiting::start(), outside(Duration::ZERO));
        outside.take(&created(waiting.key()), |_, _, _| Class::Short);
        let told = outside.look();
        assert!(
            matches!(told[..], [Event::Outlived { process, .. }] if process == waiting.key()),
            "{told:?}"
        );
        assert_eq!((waiting.nice(), outside.counts().1), (usual + 7, 1));
        assert!(outside.look().is_empty(), "it is told once");
        outside.release();
        assert_eq!(waiting.nice(), usual);
    }

    #[test]
    fn a_long_one_whose_niceness_was_given_back_is_scheduled_again_when_it_outlives_the_limit() {
        let usual = read_of(0).expect("this thread").nice;
        let (waiting, mut outside) = (Waiting::start(), outside(Duration::ZERO));
        outside.take(&created(waiting.key()), |_, _, _| Class::Long);
        let own = read_of(0).expect("this thread");
        set_of(waiting.0.id().cast_signed(), &own).expect("its own user may");
        assert_eq!(waiting.nice(), usual);
        outside.look();
        assert_eq!((waiting.nice(), outside.counts().1), (usual + 7, 0), "it was one before");
    }

    #[test]
    fn another_process_of_the_same_number_is_left_alone() {
        let usual = read_of(0).expect("this thread").nice;
        let (waiting, mut outside) = (Waiting::start(), outside(Duration::ZERO));
        let other = ProcessKey { created_us: waiting.key().created_us + 10_000_000, ..waiting.key() };
        outside.take(&created(other), |_, _, _| Class::Long);
        assert_eq!(waiting.nice(), usual, "it is not the one that was created then");
        let ended = Event::Ended { time_us: 0, process: waiting.key(), usage: Usage::default() };
        outside.take(&ended, |_, _, _| Class::Unknown);
        outside.look();
        outside.release();
        assert_eq!((waiting.nice(), outside.counts().1), (usual, 0));
    }
}
