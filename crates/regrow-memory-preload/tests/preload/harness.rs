//! A folder with the library under its name, in which commands run with it and without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// See the module. It is removed at the end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What processes have counted in all.
#[derive(Debug)]
pub(crate) struct Counts(Vec<(String, u64)>);

impl Counts {
    /// The sum of a count over all processes.
    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.iter().filter(|(name, _)| name == what).map(|&(_, count)| count).sum()
    }

    /// How many processes there were.
    pub(crate) fn processes(&self) -> usize {
        self.0.iter().filter(|(name, _)| name == "pid").count()
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        // Cargo builds the library beside the test, and calls it by the crate.
        let test = std::env::current_exe().expect("the test's own file");
        let built = test.with_file_name("libregrow_memory_preload.so");
        std::os::unix::fs::symlink(&built, folder.path().join("libregrow_memory.so")).expect("a link");
        assert!(built.exists(), "{}", built.display());
        Place { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that runs in the folder, with the library or without.
    pub(crate) fn command(&self, program: &str, with_library: bool) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env_remove("LD_PRELOAD").env("LC_ALL", "C");
        if with_library {
            command.env("LD_PRELOAD", self.path("libregrow_memory.so"));
            command.env("REGROW_MEMORY_STATISTICS", self.statistics());
        }
        command
    }

    /// Runs a command with the library; it must succeed.
    pub(crate) fn run(&self, program: &str, arguments: &[&str], with_library: bool) -> Output {
        let output = self.command(program, with_library).args(arguments).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{program} {arguments:?}, {with_library}: {}: {said}",
            output.status
        );
        output
    }

    /// What the processes have counted since this was asked last.
    pub(crate) fn counts(&self) -> Counts {
        let text = fs::read_to_string(self.statistics()).expect("each process has written a line");
        fs::remove_file(self.statistics()).expect("it was there");
        let count = |word: &str| {
            let (name, count) = word.split_once('=').expect("a name and a number");
            (name.to_owned(), count.parse().expect("a number"))
        };
        Counts(text.split_whitespace().map(count).collect())
    }

    fn statistics(&self) -> PathBuf {
        self.path("statistics")
    }
}

/// Memory of a process that is there, in KiB, without that of files.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    number_of_status(pid, "RssAnon:")
}

/// How many threads a process has.
pub(crate) fn threads_of(pid: u32) -> u64 {
    number_of_status(pid, "Threads:")
}

fn number_of_status(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Nothing here takes so long but where it never comes.
const NEVER: Duration = Duration::from_secs(60);

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < NEVER, "it never comes: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Compiles a program of `tests/`.
pub(crate) fn compile(place: &Place, source: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let to = place.path("program");
    let source = source.to_str().expect("a path of plain text");
    let flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1"];
    place.run(
        "cc",
        &[&flags[..], &[source, "-o", to.to_str().expect("plain text"), "-lpthread"]].concat(),
        false,
    );
    to
}
