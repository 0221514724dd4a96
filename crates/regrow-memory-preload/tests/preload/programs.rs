//! Programs that people have: the same results with the library and without.

use std::fs;

use crate::harness::Place;

/// Text of many lines in no order, the same each time.
fn text(bytes: usize) -> String {
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(bytes + 40);
    while text.len() < bytes {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        text.push_str(&format!("{:016x} {}\n", dice, dice % 1000));
    }
    text
}

#[test]
fn bzip2_makes_the_same_file_and_makes_the_first_one_of_it() {
    let place = Place::new();
    fs::write(place.path("text"), text(3 << 20)).expect("it is written");
    let plain = place.run("bzip2", &["-9ck", "text"], false).stdout;
    let served = place.run("bzip2", &["-9ck", "text"], true).stdout;
    assert!(plain == served && plain.len() > 100_000);
    fs::write(place.path("small.bz2"), &served).expect("it is written");
    let again = place.run("bunzip2", &["-ck", "small.bz2"], true).stdout;
    assert!(again == text(3 << 20).as_bytes());
    let counts = place.counts();
    assert!(counts.processes() == 2 && counts.of("malloc") >= 5 && counts.of("passed") == 0, "{counts:?}");
}

#[test]
fn sort_with_threads_puts_lines_into_the_same_order() {
    let place = Place::new();
    fs::write(place.path("text"), text(6 << 20)).expect("it is written");
    let arguments = ["-S", "2M", "--parallel=2", "-k2n", "text"];
    let plain = place.run("sort", &arguments, false).stdout;
    let served = place.run("sort", &arguments, true).stdout;
    assert!(plain == served && plain.len() >= 6 << 20);
    let counts = place.counts();
    assert!(counts.of("malloc") + counts.of("realloc") > 0, "{counts:?}");
}

#[test]
fn a_compiler_makes_the_same_object() {
    let place = Place::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole.c");
    let make = |to: &str, with_library| {
        place.run("cc", &["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-c", source, "-o", to], with_library);
        fs::read(place.path(to)).expect("it was made")
    };
    assert!(make("plain.o", false) == make("served.o", true));
    let counts = place.counts();
    assert!(counts.processes() >= 3, "the compiler, the assembler, and who starts them: {counts:?}");
    assert!(counts.of("malloc") > 100 && counts.of("free") > 50, "{counts:?}");
}

#[test]
fn git_packs_a_repository_and_finds_all_of_it_whole() {
    let place = Place::new();
    let git = |arguments: &[&str], with_library| {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "pack.threads=2", "-C", "repository"];
        place.run("git", &[&who[..], arguments].concat(), with_library).stdout
    };
    place.run("git", &["init", "-q", "repository"], false);
    let all = text(1 << 20);
    for version in 1..=6 {
        for file in 0..4 {
            let part = all.get(file * 1000..(version * 150_000 + file * 1000)).expect("plain text");
            fs::write(place.path("repository").join(format!("file{file}")), part).expect("it is written");
        }
        git(&["add", "."], true);
        git(&["commit", "-q", "-m", "a version"], true);
    }
    git(&["gc", "-q", "--aggressive", "--prune=now"], true);
    git(&["fsck", "--full", "--strict"], true);
    let counts = place.counts();
    assert!(counts.of("malloc") > 200, "{counts:?}");
    assert_eq!(git(&["rev-list", "--count", "HEAD"], false), b"6\n");
    git(&["fsck", "--full", "--strict"], false);
    assert!(git(&["archive", "HEAD"], false) == git(&["archive", "HEAD"], true));
}

/// Python's own tests of what uses memory directly.
#[test]
fn pythons_tests_of_memory_pass() {
    let place = Place::new();
    let tests = ["test_memoryview", "test_array", "test_mmap", "test_bytes"];
    let output = place.run("/usr/bin/python3", &[&["-m", "test"][..], &tests].concat(), true);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("All 4 tests OK."), "{said}");
    let counts = place.counts();
    assert!(counts.of("malloc") > 1000 && counts.of("realloc") > 500 && counts.of("mmap") > 0, "{counts:?}");
}
