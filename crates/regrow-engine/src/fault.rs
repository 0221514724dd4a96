//! The numbered fault points: where the tests make Regrow fail, to see that every failure ends in exec or a clear error.
//!
//! `Settings::fault` makes a point fail each time that it is reached. Points 1 to 9 lie in the agent, the rest in the
//! engine.

/// The reset gives the body up.
pub const RESET_FAILS: u32 = 1;
/// The keeper dies in the middle of a reset.
pub const KEEPER_DIES_IN_RESET: u32 = 2;
/// The keeper cannot clone the next process.
pub const ARMING_FAILS: u32 = 3;
/// The armed process dies before it takes its order.
pub const ARMED_DIES: u32 = 4;
/// The armed process refuses its order.
pub const ORDER_REFUSED: u32 = 5;
/// The engine cannot trace the program.
pub const TRACE_FAILS: u32 = 10;
/// The agent's memfd cannot be made.
pub const AGENT_MEMFD_FAILS: u32 = 11;
/// The seed cannot fork.
pub const FORK_FAILS: u32 = 12;
/// The order cannot be sent (no descriptors).
pub const SEND_FAILS: u32 = 13;
/// The keeper is killed just before the order is sent.
pub const KEEPER_KILLED_BEFORE_ORDER: u32 = 14;
/// The keeper is killed just after the order is sent.
pub const KEEPER_KILLED_AFTER_ORDER: u32 = 15;
/// The armed process is killed just before the order is sent.
pub const ARMED_KILLED_BEFORE_ORDER: u32 = 16;
/// Files cannot be watched.
pub const WATCH_FAILS: u32 = 17;
/// The seed is killed before a body is forked from it.
pub const SEED_KILLED: u32 = 18;
/// There is no memory for the image's tables.
pub const NO_MEMORY: u32 = 19;

/// Every point with its name.
pub const ALL: &[(u32, &str)] = &[
    (RESET_FAILS, "reset_fails"),
    (KEEPER_DIES_IN_RESET, "keeper_dies_in_reset"),
    (ARMING_FAILS, "arming_fails"),
    (ARMED_DIES, "armed_dies"),
    (ORDER_REFUSED, "order_refused"),
    (TRACE_FAILS, "trace_fails"),
    (AGENT_MEMFD_FAILS, "agent_memfd_fails"),
    (FORK_FAILS, "fork_fails"),
    (SEND_FAILS, "send_fails"),
    (KEEPER_KILLED_BEFORE_ORDER, "keeper_killed_before_order"),
    (KEEPER_KILLED_AFTER_ORDER, "keeper_killed_after_order"),
    (ARMED_KILLED_BEFORE_ORDER, "armed_killed_before_order"),
    (WATCH_FAILS, "watch_fails"),
    (SEED_KILLED, "seed_killed"),
    (NO_MEMORY, "no_memory"),
];
