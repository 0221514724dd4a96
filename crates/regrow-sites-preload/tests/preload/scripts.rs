//! Interpreted parents: the line of the script is part of the site.

use std::fs;
use std::process::Command;

use regrow_abi::sites::fnv1a_of_words;
use regrow_sites::Event;

use crate::harness::{Place, Told, is_there, plain};

/// The lines of the scripts at which processes were created, in order.
fn lines(told: &Told) -> Vec<u64> {
    told.processes().iter().map(|seen| seen.site.script.map_or(0, |script| script.line)).collect()
}

/// How many files they were created by.
fn files(told: &Told) -> usize {
    let files: std::collections::HashSet<_> =
        told.processes().iter().filter_map(|seen| seen.site.script.map(|script| script.file)).collect();
    files.len()
}

#[test]
fn a_script_of_bash_has_lines_also_in_functions_and_files_that_it_sources() {
    let place = Place::new();
    fs::write(place.path("sourced.sh"), "# a comment\n/bin/true\n").expect("it is written");
    let script = "f() {\n  /bin/true\n}\nfor i in 1 2; do f; done\nx=$(/bin/echo a)\n. ./sourced.sh\n(/bin/true) & wait\n";
    let told = place.watch_shell("bash", script).whole();
    let found = lines(&told);
    assert_eq!(found[..5], [2, 2, 5, 2, 7], "{found:?}");
    assert_eq!(files(&told), 2);
    // The same place again is the same site, in another process too.
    let again = place.watch_shell("bash", script).whole();
    let sites = |told: &Told| told.processes().iter().map(|seen| seen.site).collect::<Vec<_>>();
    assert_eq!(sites(&told), sites(&again));
}

#[test]
fn shells_without_lines_are_told_apart_by_their_scripts() {
    let place = Place::new();
    let one = place.watch_shell("dash", "/bin/true\n/bin/true; (:)\n").whole();
    assert_eq!((lines(&one), files(&one)), (vec![0; 3], 1));
    let script = |text: &str| {
        let told = place.watch(Command::new("dash").args(["-c", text])).whole();
        told.processes()[0].site.script.expect("the text is known")
    };
    assert_ne!(script("/bin/true; :"), script("/bin/true; true"));
    assert_eq!(script("/bin/true; :"), script("/bin/true; :"));
    let places: Vec<_> = one.processes().iter().map(|seen| seen.site.frames).collect();
    assert_eq!(places[0], places[1], "a command");
    assert_ne!(places[0], places[2], "a subshell");
}

#[test]
fn a_script_of_python_has_the_line_that_calls_the_library() {
    let place = Place::new();
    let script = "import os, subprocess\n\
                  def run():\n    subprocess.run(['/bin/true'])\n\
                  run()\nrun()\n\
                  subprocess.check_output('true; true', shell=True)\n\
                  pid = os.fork()\n\
                  if pid == 0: os._exit(0)\n\
                  os.waitpid(pid, 0)\n\
                  os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)\n\
                  assert os.system('exit 3') >> 8 == 3\n";
    fs::write(place.path("script.py"), script).expect("it is written");
    let told = place.watch(Command::new("/usr/bin/python3").arg("script.py")).whole();
    // `os.system` has given up the lock by which frames may be looked at.
    assert_eq!(lines(&told), [3, 3, 6, 7, 10, 0]);
    assert_eq!(files(&told), 1);
}

#[test]
fn a_test_of_python_that_comes_with_it_is_no_part_of_the_library() {
    let place = Place::new();
    let folder = place.path("lib/python3.11/test");
    fs::create_dir_all(&folder).expect("it is made");
    fs::write(folder.join("test_own.py"), "import subprocess\n\nsubprocess.run(['/bin/true'])\n")
        .expect("it is written");
    let told = place.watch(Command::new("/usr/bin/python3").arg(folder.join("test_own.py"))).whole();
    assert_eq!(lines(&told), [3]);
}

#[test]
fn what_a_program_is_given_is_told_when_it_begins() {
    let told =
        Place::new().watch_shell("dash", "/bin/true a 'b c' ''\n/bin/true\nexec /bin/true -x 1\n").whole();
    let hashes = |event: &Event| match event {
        Event::Arguments { process, hash, arguments } => Some((*process, *hash, arguments.magnitude)),
        _ => None,
    };
    let found: Vec<_> = told.events.iter().filter_map(hashes).collect();
    let expected = [
        (&["dash", "script.sh"][..], 1),
        (&["/bin/true", "a", "b c", ""], 2),
        (&["/bin/true"], 0),
        (&["/bin/true", "-x", "1"], 2),
    ];
    let expected = expected
        .map(|(words, magnitude)| (fnv1a_of_words(words.iter().map(|word| word.as_bytes())), magnitude));
    assert_eq!(found.iter().map(|&(_, hash, magnitude)| (hash, magnitude)).collect::<Vec<_>>(), expected);
    assert_eq!(found[0].0, found[3].0, "the shell's own process");
}

#[test]
fn a_script_of_perl_has_lines() {
    let place = Place::new();
    let script = "system('true');\nmy $x = `echo hello`;\nif (!fork()) { exit 0; }\nwait;\nprint $x;\n";
    fs::write(place.path("script.pl"), script).expect("it is written");
    let told = place.watch(Command::new("perl").arg("script.pl")).whole();
    assert_eq!((told.output.as_str(), lines(&told), files(&told)), ("hello\n", vec![1, 2, 3], 1));
}

#[test]
fn the_commands_of_make_are_told_apart() {
    let place = Place::new();
    let rules = "all: a b c\na b:\n\t/bin/echo $@\nc:\n\t@cd . && true\n";
    fs::write(place.path("Makefile"), rules).expect("it is written");
    let told = place.watch(&mut Command::new("make")).whole();
    let found = lines(&told);
    assert_eq!(found.iter().collect::<std::collections::HashSet<_>>().len(), 3, "{found:?}");
    assert_eq!((files(&told), told.output.as_str()), (1, "/bin/echo a\na\n/bin/echo b\nb\n"));
    let again = place.watch(&mut Command::new("make")).whole();
    assert_eq!(lines(&again), found, "the same commands");
}

#[test]
fn interpreters_do_as_they_do_without() {
    let place = Place::new();
    let texts = [
        (
            "bash",
            "trap 'echo end $?' EXIT; (exit 3); echo $?; kill -9 $BASHPID & wait $!; echo $?; set -m; sleep 0 & fg",
        ),
        (
            "bash",
            "coproc cat; echo hello >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x; exec {COPROC[1]}>&-; wait; echo <(true) | wc -l",
        ),
        (
            "dash",
            "x=$(echo a | sed s/a/b/); echo $x; (kill -TERM $(sh -c 'echo $PPID')); echo $?; nowhere; echo $?; exec /bin/false",
        ),
        (
            "perl",
            "open(my $f, '|-', 'cat') or die; print $f \"hello\\n\"; close $f; print $? >> 8, \"\\n\"; system('kill -9 $$'); print $? & 127, \"\\n\"; exec 'exit 9'",
        ),
    ];
    for (program, text) in texts.into_iter().filter(|(program, _)| is_there(program)) {
        let flag = if program == "perl" { "-e" } else { "-c" };
        let command = || {
            let mut command = Command::new(program);
            command.args([flag, text]).env("LC_ALL", "C").stderr(std::process::Stdio::null());
            command
        };
        let without = plain(&mut command());
        let with = place.watch(&mut command());
        assert_eq!(with.output, String::from_utf8_lossy(&without.stdout), "{program}: {text}");
        assert_eq!(with.status, without.status, "{program}: {text}");
        assert!(!with.processes().is_empty() && with.summary.lost == 0);
    }
}
