//! Parents with a runtime of their own: Python, a shell, Go.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use regrow_abi::sites::fnv1a_of_words;
use regrow_sites::Event;

use crate::case::{Case, programs};
use crate::program::{Workshop, output};
use crate::seen::{Places, look_at_all};

pub(crate) const CASES: &[Case] = &[
    Case { name: "places_of_python", looks: true, needs: python, run: places_of_python },
    Case { name: "places_of_a_shell", looks: true, needs: || programs(&["dash"]), run: places_of_a_shell },
    Case {
        name: "arguments_of_programs",
        looks: true,
        needs: || programs(&["dash"]),
        run: arguments_of_programs,
    },
    Case { name: "places_of_go", looks: true, needs: || programs(&["go"]), run: places_of_go },
];

/// Debian's own: another one may be a script.
const PYTHON: &str = "/usr/bin/python3";

fn python() -> Result<(), String> {
    if Path::new(PYTHON).exists() { Ok(()) } else { Err(format!("{PYTHON} is not installed")) }
}

/// `subprocess` and `os.system` are two places of one interpreter.
fn places_of_python() {
    let script = "import os, subprocess\nfor _ in range(9): subprocess.run(['/bin/true'], check=True)\nfor _ in range(4): os.system(':')";
    let (seen, _) = look_at_all(|| output(Command::new(PYTHON).args(["-c", script])));
    let path = std::fs::canonicalize(PYTHON).expect("it is there");
    let sites = seen.own_sites(seen.image(&path));
    let mut counts: Vec<usize> = sites.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [4, 9], "{sites:?}");
    for (places, count) in &sites {
        let own = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let expected: &[&str] = if *count == 9 { &[own, own, own] } else { &["libc.so.6", own, own] };
        assert_eq!(places.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), expected);
    }
}

/// A command, a pipeline and a subshell are different places; the second command of a pipeline is created at another one than the first.
fn places_of_a_shell() {
    let script = "for i in 1 2 3 4 5; do /bin/true; done; for i in 1 2 3; do (:); done";
    let (seen, _) = look_at_all(|| output(Command::new("dash").args(["-c", script])));
    let sites = seen.own_sites(seen.image(&find("dash")));
    let mut counts: Vec<usize> = sites.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 5], "{sites:?}");
}

/// What a program is given is told as it was executed: of each call its own hash, and of calls that ask for the same one class. What is too long is not told.
fn arguments_of_programs() {
    let long = "x".repeat(2000);
    let script = format!("/bin/true a; /bin/true b c -d; /bin/true b 8 -d; /bin/true {long}; :");
    let (seen, _) = look_at_all(|| output(Command::new("dash").args(["-c", &script])));
    let mut told: Vec<(u64, u32)> = Vec::new();
    for event in &seen.events {
        if let Event::Arguments { arguments, hash, .. } = event {
            told.push((*hash, arguments.class));
        }
    }
    let class_of = |words: &[&str]| {
        let hash = fnv1a_of_words(words.iter().map(|word| word.as_bytes()));
        let found: Vec<u32> =
            told.iter().filter(|(other, _)| *other == hash).map(|&(_, class)| class).collect();
        assert_eq!(found.len(), 1, "{words:?}: {told:?}");
        found[0]
    };
    let [one, other, like] =
        [&["/bin/true", "a"][..], &["/bin/true", "b", "c", "-d"], &["/bin/true", "b", "8", "-d"]]
            .map(class_of);
    assert!(one != other && other == like, "what stands behind the first word does not count");
    let long_hash = fnv1a_of_words(["/bin/true".as_bytes(), long.as_bytes()]);
    assert!(told.iter().all(|&(hash, _)| hash != long_hash));
}

/// The file of a program on the search path.
fn find(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    file.and_then(|file| file.canonicalize().ok()).unwrap_or_else(|| panic!("{name} is installed"))
}

/// A static Go program without symbols: the place is in `main.start`, below `os/exec`.
fn places_of_go() {
    let workshop = Workshop::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine/programs/creator.go");
    let build = |name: &str, flags: &str| {
        let path = workshop.path(name);
        let mut command = Command::new("go");
        command.env("CGO_ENABLED", "0").args(["build", "-trimpath", "-ldflags", flags, "-o"]);
        output(command.arg(&path).arg(&source));
        path
    };
    let (whole, stripped) = (build("whole", ""), build("stripped", "-s -w"));
    let (seen, _) = look_at_all(|| output(Command::new(&stripped).arg("6")));
    let sites: BTreeMap<Places, usize> = seen.own_sites(seen.image(&stripped));
    // The runtime creates one child to see whether it can.
    let (places, count) = sites.iter().max_by_key(|(_, count)| **count).expect("it has created");
    assert_eq!(*count, 6, "{sites:?}");
    let functions: Vec<String> = places.iter().map(|(_, offset)| function_of(&whole, *offset - 1)).collect();
    assert_eq!(functions, ["main.start", "main.middle", "main.main"]);
    assert!(sites.values().sum::<usize>() <= 7, "{sites:?}");
}

/// The function of an address, by the program that has symbols.
fn function_of(program: &Path, address: u64) -> String {
    let question = format!("printf '{address:#x}\\n' | go tool addr2line {}", program.display());
    let answer = output(Command::new("sh").args(["-c", &question]));
    answer.lines().next().unwrap_or_default().to_owned()
}
