//! How much more memory this process may map, where its limits say so.

use rustix::process::{Resource, getrlimit};

/// Whether the limits of this process leave room for so many bytes more. Where nobody can tell, they do.
#[must_use]
pub fn is_left(bytes: u64) -> bool {
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    if limits == [None, None] {
        return true;
    }
    let Ok(text) = std::fs::read_to_string("/proc/self/statm") else { return true };
    leaves(limits, &text, rustix::param::page_size() as u64, bytes)
}

/// The same for limits of address space and data, and the text of a `statm`.
fn leaves(limits: [Option<u64>; 2], statm: &str, page: u64, bytes: u64) -> bool {
    let fields: Vec<u64> = statm.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let used = [fields.first(), fields.get(5)].map(|pages| pages.map_or(0, |pages| pages * page));
    limits.iter().zip(used).all(|(limit, used)| limit.is_none_or(|limit| limit.saturating_sub(used) >= bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_decides() {
        // 1,000 pages in all, of them 300 of data and stack.
        let leaves = |limits, bytes| leaves(limits, "1000 200 100 10 0 300 0\n", 4096, bytes);
        assert!(leaves([Some(1100 * 4096), None], 100 * 4096));
        assert!(!leaves([Some(1100 * 4096), None], 100 * 4096 + 1));
        assert!(leaves([None, Some(400 * 4096)], 100 * 4096));
        assert!(!leaves([Some(u64::MAX), Some(400 * 4096)], 100 * 4096 + 1));
        assert!(!leaves([Some(4096), None], 1), "a limit below what is there already");
        assert!(leaves([None, None], u64::MAX));
    }

    #[test]
    fn this_process_has_room_for_a_page() {
        assert!(is_left(4096));
    }
}
