//! The numbered fault points: where the tests make Regrow fail, to see that every failure ends in exec or a clear error.
//!
//! A point that is set fails each time that it is reached. Points below [`FIRST_OF_ENGINE`] lie in the agent, which finds
//! the number in [`Control::fault`](crate::Control::fault); the engine has the others.

use core::fmt;

/// A fault point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultPoint(u32);

impl FaultPoint {
    /// The number in [`Control::fault`](crate::Control::fault).
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The name in reports and in the guide.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(point, _)| *point == self).map_or("none", |(_, name)| name)
    }

    /// Whether the agent is to fail, not the engine.
    #[must_use]
    pub const fn is_in_agent(self) -> bool {
        0 < self.0 && self.0 < FIRST_OF_ENGINE
    }
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No point fails.
pub const NONE: FaultPoint = FaultPoint(0);

/// The lowest number of a point in the engine.
pub const FIRST_OF_ENGINE: u32 = 10;

/// Defines each point once: its constant, and its row in [`ALL`].
macro_rules! fault_points {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: FaultPoint = FaultPoint($number);)*

        /// Every point with its name.
        pub const ALL: &[(FaultPoint, &str)] = &[$(($constant, $name)),*];
    };
}

fault_points! {
    /// The reset gives the body up.
    RESET_FAILS = 1, "reset_fails";
    /// The keeper dies in the middle of a reset.
    KEEPER_DIES_IN_RESET = 2, "keeper_dies_in_reset";
    /// The keeper cannot clone the next process.
    ARMING_FAILS = 3, "arming_fails";
    /// The armed process dies before it takes its order.
    ARMED_DIES = 4, "armed_dies";
    /// The armed process refuses its order.
    ORDER_REFUSED = 5, "order_refused";
    /// The engine cannot trace the program.
    TRACE_FAILS = 10, "trace_fails";
    /// The engine cannot make the agent's memfd.
    AGENT_MEMFD_FAILS = 11, "agent_memfd_fails";
    /// The seed cannot fork.
    FORK_FAILS = 12, "fork_fails";
    /// The engine cannot send the order (no descriptors).
    SEND_FAILS = 13, "send_fails";
    /// The keeper is killed just before the order is sent.
    KEEPER_KILLED_BEFORE_ORDER = 14, "keeper_killed_before_order";
    /// The keeper is killed just after the order is sent.
    KEEPER_KILLED_AFTER_ORDER = 15, "keeper_killed_after_order";
    /// The armed process is killed just before the order is sent.
    ARMED_KILLED_BEFORE_ORDER = 16, "armed_killed_before_order";
    /// The engine cannot watch files.
    WATCH_FAILS = 17, "watch_fails";
    /// The seed is killed before it forks a body.
    SEED_KILLED = 18, "seed_killed";
    /// There is no memory for the image's tables.
    NO_MEMORY = 19, "no_memory";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_a_number_and_a_name_of_its_own() {
        for (index, (point, name)) in ALL.iter().enumerate() {
            assert!(point.number() > 0);
            assert_eq!(point.name(), *name);
            for (other, other_name) in &ALL[index + 1..] {
                assert!(point < other && name != other_name, "{point} {other}");
            }
        }
    }

    #[test]
    fn the_numbers_tell_agent_from_engine() {
        assert!(!NONE.is_in_agent());
        assert_eq!(NONE.name(), "none");
        assert!(ORDER_REFUSED.is_in_agent() && RESET_FAILS.is_in_agent());
        assert!(!TRACE_FAILS.is_in_agent() && !NO_MEMORY.is_in_agent());
    }
}
