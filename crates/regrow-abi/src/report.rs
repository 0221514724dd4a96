//! What the agent tells on a body's socket.
//!
//! The control area is memory that a run can write. The socket is not: an armed process closes it before the program's first
//! instruction, and a fork of the program has none. So what decides something comes this way, and the words of the control area only say
//! when it is worth reading.

use crate::state::Refused;

/// Words of a report on the socket, in the order of the machine's bytes.
pub const REPORT_WORDS: usize = 6;

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// This process waits for an order.
    Armed {
        /// The process.
        pid: i32,
        /// It can only execute another program.
        is_shell: bool,
    },
    /// The body is put back and waits to be compared (verify mode).
    Clean,
    /// This process has ended without an order; the body is given up.
    Gone {
        /// The process.
        pid: i32,
    },
    /// An order was not carried out. Its process ends before the program's first instruction.
    Refused {
        /// The [`Order::serial`](crate::Order::serial).
        serial: u64,
        /// The step that failed.
        step: Refused,
        /// Why.
        errno: i32,
    },
}

impl Report {
    /// The message.
    #[must_use]
    pub const fn to_words(self) -> [u32; REPORT_WORDS] {
        match self {
            Report::Armed { pid, is_shell } => [1, pid.cast_unsigned(), is_shell as u32, 0, 0, 0],
            Report::Clean => [2, 0, 0, 0, 0, 0],
            Report::Gone { pid } => [4, pid.cast_unsigned(), 0, 0, 0, 0],
            Report::Refused { serial, step, errno } => {
                [3, step as u32, errno.cast_unsigned(), 0, serial as u32, (serial >> 32) as u32]
            }
        }
    }

    /// What a message tells, if it is one.
    #[must_use]
    pub const fn from_words(words: [u32; REPORT_WORDS]) -> Option<Report> {
        Some(match words {
            [1, pid, shell, ..] => Report::Armed { pid: pid.cast_signed(), is_shell: shell != 0 },
            [2, ..] => Report::Clean,
            [3, step, errno, _, low, high] => {
                let Some(step) = Refused::from_raw(step) else { return None };
                let serial = low as u64 | (high as u64) << 32;
                Report::Refused { serial, step, errno: errno.cast_signed() }
            }
            [4, pid, ..] => Report::Gone { pid: pid.cast_signed() },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_back_from_its_words() {
        let refused = |serial| Report::Refused { serial, step: Refused::Limit, errno: 12 };
        let armed = |pid, is_shell| Report::Armed { pid, is_shell };
        for report in [
            armed(i32::MAX, true),
            armed(1, false),
            Report::Clean,
            Report::Gone { pid: 2 },
            refused(u64::MAX - 3),
        ] {
            assert_eq!(Report::from_words(report.to_words()), Some(report));
        }
    }

    #[test]
    fn other_words_are_no_report() {
        for words in [[0; 6], [5, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0], [3, 4711, 0, 0, 0, 0]] {
            assert_eq!(Report::from_words(words), None);
        }
    }
}
