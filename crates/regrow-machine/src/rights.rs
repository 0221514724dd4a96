//! What collecting needs of the calling process: capabilities, and its PID namespace.

use std::fs;

use crate::error::{Missing, StartError};

/// Where a process's own capabilities are.
const STATUS: &str = "/proc/self/status";
/// A process's own PID namespace, and what the first one is called (`PROC_PID_INIT_INO` of the kernel).
const NAMESPACE: &str = "/proc/self/ns/pid";
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A capability.
struct Need {
    bit: u32,
    name: &'static str,
    /// The bit and the name of one that includes it.
    wider: Option<(u32, &'static str)>,
    purpose: &'static str,
}

/// What `CAP_SYS_ADMIN` includes is what it was before it was divided (Linux 5.8).
const ADMIN: Option<(u32, &str)> = Some((21, "CAP_SYS_ADMIN"));

/// `linux/capability.h` has the bits.
const NEEDS: [Need; 3] = [
    Need { bit: 39, name: "CAP_BPF", wider: ADMIN, purpose: "load BPF programs" },
    Need {
        bit: 38,
        name: "CAP_PERFMON",
        wider: ADMIN,
        purpose: "attach them to tracepoints, and read the stacks of processes",
    },
    Need {
        bit: 19,
        name: "CAP_SYS_PTRACE",
        wider: None,
        purpose: "read the executables of other users' processes",
    },
];

/// What the calling process lacks.
pub(crate) fn missing() -> Result<Vec<Missing>, StartError> {
    let failed = |path| move |source| StartError::File { path, source };
    let status = fs::read_to_string(STATUS).map_err(failed(STATUS))?;
    let namespace = fs::read_link(NAMESPACE).map_err(failed(NAMESPACE))?;
    let mut missing = missing_in(effective(&status));
    if namespace.as_os_str() != FIRST_NAMESPACE {
        missing.push(Missing::FirstNamespace);
    }
    Ok(missing)
}

/// The set of effective capabilities; empty where the kernel tells none.
fn effective(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn missing_in(effective: u64) -> Vec<Missing> {
    let has = |bit: u32| effective & (1 << bit) != 0;
    let lacked = NEEDS.iter().filter(|need| !has(need.bit) && !need.wider.is_some_and(|(bit, _)| has(bit)));
    let missing = |need: &Need| Missing::Capability {
        name: need.name,
        or: need.wider.map(|(_, name)| name),
        purpose: need.purpose,
    };
    lacked.map(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(effective: u64) -> Vec<&'static str> {
        let name = |missing: Missing| match missing {
            Missing::Capability { name, .. } => name,
            other => panic!("{other}"),
        };
        missing_in(effective).into_iter().map(name).collect()
    }

    #[test]
    fn each_capability_that_is_missing_is_named() {
        assert_eq!(names(0), ["CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE"]);
        assert_eq!(names(1 << 39 | 1 << 38 | 1 << 19), [""; 0]);
        assert_eq!(names(1 << 21), ["CAP_SYS_PTRACE"], "CAP_SYS_ADMIN includes the others");
        assert_eq!(names(1 << 38 | 1 << 19), ["CAP_BPF"]);
    }

    #[test]
    fn the_effective_set_is_read() {
        assert_eq!(
            effective("Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000001ffffffffff\n"),
            0x1ff_ffff_ffff
        );
        assert_eq!(effective("Name:\tx\n"), 0);
    }
}
