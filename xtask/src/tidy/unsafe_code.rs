//! Unsafe code stands in a few crates, and in files that are listed here with their reason.

use super::finding::Finding;
use crate::source::modules::Sources;

/// The folders whose code may be unsafe.
const FOLDERS: &[&str] = &[
    "agent/",
    "client/",
    "crates/regrow-body/",
    "crates/regrow-fiber/src/arch/",
    "crates/regrow-memory-c/",
    "crates/regrow-memory-preload/",
    "crates/regrow-sys/",
];

/// The other files that may be unsafe, and why they must.
const FILES: &[(&str, &str)] = &[
    (
        "crates/regrow-bench/src/ladder/native.rs",
        "contexts and streams of the C library, and stacks by their address",
    ),
    (
        "crates/regrow-bench/src/memory/allocators.rs",
        "C allocators are asked for memory, and their memory is touched",
    ),
    ("crates/regrow-bench/src/memory/programs/bzip2.rs", "libbz2 has a C interface"),
    ("crates/regrow-bench/src/system/memory.rs", "a benchmark maps and unmaps memory as plain programs do"),
    ("crates/regrow-bench/src/system/native.rs", "a baseline forks and executes as plain programs do"),
    ("crates/regrow-cli/src/detach.rs", "the command forks, and becomes a daemon or the program"),
    ("crates/regrow-cli/src/main.rs", "the entry point is the C library's"),
    ("crates/regrow-cli/src/own_file.rs", "the mark of the command stands in a section with a name"),
    ("crates/regrow-cli/src/run/caller.rs", "the command installs a signal handler"),
    ("crates/regrow-daemon/src/caller.rs", "the caller's descriptors are known by number only"),
    ("crates/regrow-fiber/src/channel.rs", "a value is put where a task that waits has a place for it"),
    ("crates/regrow-fiber/src/control.rs", "the control block stands at an address of the stack"),
    ("crates/regrow-fiber/src/fiber.rs", "values go from stack to stack by address"),
    ("crates/regrow-fiber/src/fresh.rs", "what may go to other threads is not said by the type that goes"),
    ("crates/regrow-fiber/src/hand.rs", "a value is put on another stack"),
    ("crates/regrow-fiber/src/join.rs", "what tasks borrow is promised to outlive them, not by its type"),
    ("crates/regrow-fiber/src/mutex.rs", "what a lock keeps is reached through it"),
    (
        "crates/regrow-fiber/src/reactor.rs",
        "a poller wants a promise that descriptors are taken out before they are closed",
    ),
    ("crates/regrow-fiber/src/scope.rs", "what tasks borrow is promised to outlive them, not by its type"),
    ("crates/regrow-fiber/src/stack/label.rs", "a label stands at an address of the stack"),
    ("crates/regrow-fiber/src/stack/class.rs", "memory is given back by its address"),
    ("crates/regrow-fiber/src/stack/region.rs", "memory is mapped, and looked at by address"),
    ("crates/regrow-fiber/src/worker.rs", "stacks are left for others, and tasks are known by their address"),
    ("crates/regrow-image/src/seed.rs", "the seed's state word stands in a shared page"),
    ("crates/regrow-image/src/store.rs", "plain types are written as the bytes that they are"),
    ("crates/regrow-memory/src/block.rs", "the memory of a block is looked at by its address"),
    ("crates/regrow-memory/src/range.rs", "memory is mapped, zeroed and given back"),
    ("crates/regrow-memory/src/range/heap.rs", "the heap's memory is had by address, for Miri"),
    ("crates/regrow-memory/src/range/kernel.rs", "memory is mapped and given back"),
    ("crates/regrow-memory/src/range/poison.rs", "the address sanitizer is told of memory by its address"),
    (
        "crates/regrow-memory/src/remote/memory.rs",
        "what processes share is mapped, and looked at by its address",
    ),
    ("crates/regrow-memory/tests/sanitized.rs", "bugs that a sanitizer is to find"),
    ("crates/regrow-memory/tests/attacks.rs", "a test forks"),
    ("crates/regrow-memory/tests/raw.rs", "a test writes to memory by its address"),
    ("crates/regrow-sync/src/biased.rs", "what a lock keeps is reached through it"),
    ("crates/regrow-sync/src/handed.rs", "a value is looked at by those who know that it is there"),
    ("crates/regrow-sync/src/owned.rs", "what a lock keeps is reached through it"),
    ("crates/regrow-sync/src/model.rs", "a cell of loom's is given to threads"),
    ("crates/regrow-sync/src/model/threads.rs", "threads of loom's borrow, and end before what they borrow"),
    ("crates/regrow-sites/tests/memory.rs", "a test counts what the allocator is asked for"),
    ("crates/regrow/src/os/unix/process.rs", "the standard library has a method that is unsafe"),
    ("crates/regrow/tests/like_std.rs", "a test calls a method that is unsafe in the standard library"),
    (
        "crates/regrow/tests/std_suite/attributes.rs",
        "a test blocks signals, and calls a method that is unsafe in the standard library",
    ),
    (
        "crates/regrow/tests/std_suite/own.rs",
        "a test closes its standard descriptors, and executes with an environment of odd entries",
    ),
    ("crates/regrow/tests/std_suite/streams.rs", "a test has a descriptor by its number"),
    ("crates/regrow/tests/std_suite/told.rs", "a test changes the environment"),
    ("crates/regrow/tests/work/ends.rs", "a work is to crash"),
    ("crates/regrow/tests/work/isolation.rs", "a work writes to memory wildly"),
    ("crates/regrow/tests/with_tokio.rs", "a descriptor is registered with tokio's poller"),
    ("crates/regrow-testkit/src/corpus/descriptors.rs", "a test's descriptors are known by number only"),
    ("crates/regrow-testkit/src/victims/caller.rs", "a caller of the tests changes what it is"),
    ("crates/regrow-testkit/tests/any_child.rs", "a test has a signal handler, and waits for any child"),
    ("crates/regrow-testkit/tests/faults/caller.rs", "a caller of the tests changes what it is"),
    ("crates/regrow-testkit/tests/faults/mounts.rs", "a test mounts"),
    ("crates/regrow-testkit/tests/faults/processes.rs", "a test forks"),
    ("crates/regrow-testkit/tests/faults/trace.rs", "a test traces a child"),
    ("python/src/descriptors.rs", "Python knows descriptors by number"),
    ("python/src/exchange.rs", "a run is told by address what it shares with its caller"),
    ("python/src/files.rs", "the answer of a call is mapped over memory of Python's"),
    ("python/src/immortal.rs", "the count of an object tells whether it is immortal"),
    ("python/src/left.rs", "how a type frees its objects tells whether it is a class in Python"),
];

/// Checks every Rust file.
pub(crate) fn check(sources: &Sources<'_>) -> Vec<Finding> {
    check_against(sources, FILES)
}

fn check_against(sources: &Sources<'_>, listed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (&path, source) in sources {
        let may = FOLDERS.iter().any(|folder| path.starts_with(folder))
            || listed.iter().any(|(file, _)| *file == path);
        if let (false, Some(&line)) = (may, source.unsafe_lines.first()) {
            let message =
                "unsafe code outside of the crates and files that may have it: xtask/src/tidy/unsafe_code.rs";
            findings.push(Finding::new(path, line, message));
        }
    }
    let idle = listed
        .iter()
        .filter(|(path, _)| sources.get(path).is_none_or(|source| source.unsafe_lines.is_empty()));
    findings.extend(idle.map(|(path, _)| {
        Finding::new(path, 1, "is listed as a file with unsafe code, and has none: strike it from the list")
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::rust::RustSource;

    fn found(path: &str, text: &str, listed: &[(&str, &str)]) -> usize {
        let sources = Sources::from([(path, RustSource::parse(text).unwrap())]);
        check_against(&sources, listed).len()
    }

    #[test]
    fn unsafe_code_stands_only_where_it_may() {
        for text in [
            "fn f() { unsafe { g() } }\n",
            "unsafe fn f() {}\n",
            "unsafe extern \"C\" {}\n",
            "#[unsafe(no_mangle)]\nfn f() {}\n",
            "fn f() { m!(unsafe { g() }); }\n",
        ] {
            assert_eq!(found("crates/regrow-engine/src/a.rs", text, &[]), 1, "{text}");
            assert_eq!(found("crates/regrow-sys/src/a.rs", text, &[]), 0, "{text}");
            assert_eq!(found("agent/src/a.rs", text, &[]), 0, "{text}");
            assert_eq!(
                found("crates/regrow/src/a.rs", text, &[("crates/regrow/src/a.rs", "why")]),
                0,
                "{text}"
            );
        }
    }

    #[test]
    fn a_listed_file_without_unsafe_code_is_found() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";\n";
        assert_eq!(found("crates/regrow/src/a.rs", text, &[]), 0);
        assert_eq!(found("crates/regrow/src/a.rs", text, &[("crates/regrow/src/a.rs", "why")]), 1);
        assert_eq!(found("crates/regrow/src/a.rs", text, &[("crates/regrow/src/gone.rs", "why")]), 1);
    }
}
