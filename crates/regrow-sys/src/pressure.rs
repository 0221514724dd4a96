//! How much memory there may be, and whether it is short: what the pool gives back for.
//!
//! Where the kernel tells of stalls (`/proc/pressure/memory`, Linux 4.20), those decide; and everywhere the watermarks: what
//! is available on the machine, and what the control group of this process may still take.

mod trigger;

pub use trigger::triggers;

use std::fs;
use std::path::{Path, PathBuf};

/// Memory is short when tasks have waited for it for so many percent of the last ten seconds …
const STALLED_PERCENT: f64 = 10.0;
/// … or when less than so many percent of it are available.
const AVAILABLE_PERCENT: u64 = 5;

/// Most bytes that the control group of this process may take, if it has a limit.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    group().and_then(|group| number(&group.join(group_file(&group, "memory.max", "memory.limit_in_bytes"))))
}

/// Whether memory is short at this moment.
#[must_use]
pub fn is_memory_short() -> bool {
    stalls() || machine_is_short(&fs::read_to_string("/proc/meminfo").unwrap_or_default()) || group_is_short()
}

fn stalls() -> bool {
    fs::read_to_string("/proc/pressure/memory").is_ok_and(|text| stalled_percent(&text) >= STALLED_PERCENT)
}

/// `some avg10=0.00 avg60=…`
fn stalled_percent(text: &str) -> f64 {
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="));
    some.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

fn machine_is_short(meminfo: &str) -> bool {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (total, available) = (field("MemTotal:"), field("MemAvailable:"));
    total.zip(available).is_some_and(|(total, available)| available < total / 100 * AVAILABLE_PERCENT)
}

/// File pages that were not used lately are not counted: the kernel gives them back first.
fn group_is_short() -> bool {
    let Some(group) = group() else { return false };
    let Some(limit) = memory_limit() else { return false };
    let used =
        number(&group.join(group_file(&group, "memory.current", "memory.usage_in_bytes"))).unwrap_or(0);
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let of_files = ["total_inactive_file ", "inactive_file "]
        .into_iter()
        .find_map(|name| statistics.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()));
    let used = used.saturating_sub(of_files.unwrap_or(0));
    limit.saturating_sub(used) < limit / 100 * AVAILABLE_PERCENT
}

/// The folder of the control group that accounts this process's memory.
fn group() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(("memory", path))
    });
    let path = path.or_else(|| own.lines().find_map(|line| Some(("", line.strip_prefix("0::")?))));
    let (controller, path) = path?;
    let folder = Path::new("/sys/fs/cgroup").join(controller);
    // In a container the path may be that of the host, and the folder that of the group itself.
    [folder.join(path.trim_start_matches('/')), folder]
        .into_iter()
        .find(|folder| folder.join("memory.max").exists() || folder.join("memory.limit_in_bytes").exists())
}

fn group_file(group: &Path, second: &'static str, first: &'static str) -> &'static str {
    if group.join(second).exists() { second } else { first }
}

/// A file that holds a number; `max` is none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_from_the_first_line() {
        let text =
            "some avg10=12.34 avg60=1.00 avg300=0.10 total=1\nfull avg10=99.00 avg60=0 avg300=0 total=0\n";
        assert!((stalled_percent(text) - 12.34).abs() < 1e-9);
        assert!(stalled_percent("") < 1e-9);
    }

    #[test]
    fn a_machine_with_little_left_is_short() {
        let meminfo =
            |available: u64| format!("MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n");
        assert!(machine_is_short(&meminfo(49_000)));
        assert!(!machine_is_short(&meminfo(51_000)));
        assert!(!machine_is_short(""));
    }

    #[test]
    fn this_machine_can_be_asked() {
        let _ = is_memory_short();
        assert!(memory_limit().is_none_or(|limit| limit > 1 << 20));
    }
}
