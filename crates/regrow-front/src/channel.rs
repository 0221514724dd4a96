//! How Regrow and a front end reach each other: one descriptor, and the variables that hold its number.
//!
//! No other file of the project writes the number or the names down: the engine takes them from here, and a front end
//! reads the number from its variable.

use std::ffi::CStr;

/// The descriptor that a front end writes its report to, and reads its order from.
pub const DESCRIPTOR: i32 = 63;

/// The variable that holds the descriptor's number for a front end that is to stop itself.
pub const WARM_VARIABLE: &str = "REGROW_WARM";

/// The variable that holds the descriptor's number for a front end that finds its order there from the start.
pub const ORDER_VARIABLE: &str = "REGROW_ORDER";

/// The entry of the environment that a front end is started with when it is to stop itself.
pub const WARM_ENTRY: &CStr = c"REGROW_WARM=63";

/// Whether an entry of an environment is one of the two variables. They belong to the front end, never to the program.
#[must_use]
pub fn is_own_entry(entry: &[u8]) -> bool {
    [WARM_VARIABLE, ORDER_VARIABLE]
        .iter()
        .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_holds_the_descriptors_number() {
        assert_eq!(WARM_ENTRY.to_bytes(), format!("{WARM_VARIABLE}={DESCRIPTOR}").as_bytes());
    }

    #[test]
    fn the_two_variables_are_known_by_their_whole_names() {
        for entry in [&b"REGROW_WARM=1"[..], b"REGROW_ORDER="] {
            assert!(is_own_entry(entry));
        }
        for entry in [&b"REGROW_WARM"[..], b"REGROW_WARMER=1", b"XREGROW_ORDER=1", b""] {
            assert!(!is_own_entry(entry));
        }
    }
}
