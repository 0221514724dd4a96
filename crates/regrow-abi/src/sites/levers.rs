//! How a child is scheduled, by what is predicted about it.

use super::predictions::Class;
use crate::SchedAttr;

/// What is done to children of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lever {
    /// The slice in nanoseconds; 0: the usual one.
    pub slice_ns: u64,
    /// How much nicer than usual they are; less than 0 needs privilege.
    pub nicer: i8,
    /// They have the policy of work that nobody waits for.
    pub is_batch: bool,
}

/// What is done to children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levers {
    /// The niceness of the command.
    pub usual_nice: i8,
    /// The slice of the command.
    pub usual_slice_ns: u64,
    /// To children that will use little processor time.
    pub short: Lever,
    /// To children that will use much.
    pub long: Lever,
}

impl Levers {
    /// How a process that is scheduled in a way is to be scheduled by its class; `None` where nothing is to be changed.
    ///
    /// What a program has chosen for itself stays: another policy, a slice or a niceness that is neither the usual one nor a lever's.
    #[must_use]
    pub fn change(&self, class: Class, now: &SchedAttr) -> Option<SchedAttr> {
        let lever = match class {
            Class::Unknown => Lever::default(),
            Class::Short => self.short,
            Class::Long => self.long,
        };
        let slice = |lever: &Lever| if lever.slice_ns == 0 { self.usual_slice_ns } else { lever.slice_ns };
        let is_ours = [self.usual_slice_ns, slice(&self.short), slice(&self.long)].contains(&now.runtime);
        if (now.policy != SchedAttr::OTHER && now.policy != SchedAttr::BATCH) || !is_ours {
            return None;
        }
        let usual = i32::from(self.usual_nice);
        let nice = |lever: &Lever| (usual + i32::from(lever.nicer)).clamp(-20, 19);
        let mut wanted = *now;
        wanted.runtime = slice(&lever);
        if [usual, nice(&self.short), nice(&self.long)].contains(&now.nice) {
            wanted.nice = nice(&lever);
        }
        if self.short.is_batch || self.long.is_batch {
            wanted.policy = if lever.is_batch { SchedAttr::BATCH } else { SchedAttr::OTHER };
        }
        if wanted == *now {
            return None;
        }
        if slice(&lever) == self.usual_slice_ns {
            // The kernel's own choice again.
            wanted.runtime = 0;
        }
        Some(wanted)
    }

    pub(super) fn to_words(self) -> [u64; 4] {
        let lever = |lever: Lever| u64::from(lever.nicer.cast_unsigned()) | u64::from(lever.is_batch) << 8;
        let rest =
            u64::from(self.usual_nice.cast_unsigned()) | lever(self.short) << 16 | lever(self.long) << 32;
        [self.usual_slice_ns, self.short.slice_ns, self.long.slice_ns, rest]
    }

    pub(super) fn from_words([usual_slice_ns, short, long, rest]: [u64; 4]) -> Levers {
        let byte = |shift: u32| ((rest >> shift) as u8).cast_signed();
        let lever = |slice_ns, shift: u32| Lever {
            slice_ns,
            nicer: byte(shift),
            is_batch: rest >> (shift + 8) & 1 != 0,
        };
        Levers { usual_nice: byte(0), usual_slice_ns, short: lever(short, 16), long: lever(long, 32) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVERS: Levers = Levers {
        usual_nice: 0,
        usual_slice_ns: 3,
        short: Lever { slice_ns: 0, nicer: -5, is_batch: false },
        long: Lever { slice_ns: 20, nicer: 0, is_batch: true },
    };

    fn now(policy: u32, nice: i32, runtime: u64) -> SchedAttr {
        SchedAttr { size: 48, policy, nice, runtime, ..SchedAttr::default() }
    }

    #[test]
    fn a_child_gets_what_its_class_has_and_gives_back_what_it_inherits() {
        let change =
            |class, from: SchedAttr| LEVERS.change(class, &from).map(|to| (to.policy, to.nice, to.runtime));
        assert_eq!(change(Class::Unknown, now(0, 0, 3)), None);
        assert_eq!(change(Class::Short, now(0, 0, 3)), Some((0, -5, 0)));
        assert_eq!(change(Class::Long, now(0, 0, 3)), Some((3, 0, 20)));
        assert_eq!(change(Class::Long, now(3, 0, 20)), None, "inherited");
        assert_eq!(change(Class::Unknown, now(3, 0, 20)), Some((0, 0, 0)));
        assert_eq!(change(Class::Unknown, now(0, -5, 3)), Some((0, 0, 0)));
    }

    #[test]
    fn what_a_program_has_chosen_stays() {
        for class in [Class::Unknown, Class::Short, Class::Long] {
            assert_eq!(LEVERS.change(class, &now(1, 0, 0)), None, "a real-time policy");
            assert_eq!(LEVERS.change(class, &now(5, 0, 3)), None, "idle");
            assert_eq!(LEVERS.change(class, &now(0, 0, 77)), None, "its own slice");
        }
        let long = LEVERS.change(Class::Long, &now(0, 10, 3)).expect("a slice");
        assert_eq!((long.nice, long.runtime), (10, 20), "its own niceness");
    }
}
