//! The corpus runner tried on small manifests of its own.

use std::fs;
use std::io;
use std::path::Path;

use super::*;

const HEAD: &str = "[environment]\nPATH = \"/usr/bin:/bin\"\nLC_ALL = \"C\"\n";

fn parse(entries: &str) -> Result<Corpus, CorpusError> {
    Corpus::parse(&format!("{HEAD}{entries}"), Path::new("/nowhere"))
}

fn shell(name: &str, script: &str, alt: &str, more: &str) -> String {
    format!(
        "[[entry]]\nname = \"{name}\"\npackage = \"dash\"\nargv = [\"sh\", \"-c\", '''{script}''']\n\
         alt = [\"sh\", \"-c\", '''{alt}''']\n{more}\n"
    )
}

fn prove(entries: &str, trial: &mut dyn Spawner) -> Tally {
    let corpus = parse(entries).expect("the manifest is right");
    let root = tempfile::tempdir().expect("a temporary directory");
    let rounds = Rounds::same(2);
    Prover { plain: &mut PlainExec, trial, rounds }.prove(&corpus, root.path()).expect("sh is installed")
}

/// Runs plainly and then spoils what came of it.
struct Spoiler(fn(&mut RunResult, &Path));

impl Spawner for Spoiler {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let mut result = PlainExec.run(invocation, dir)?;
        (self.0)(&mut result, dir);
        Ok(result)
    }
}

fn differences(entries: &str, spoil: fn(&mut RunResult, &Path)) -> Vec<Difference> {
    let tally = prove(entries, &mut Spoiler(spoil));
    let mut all = Vec::new();
    for failure in tally.failures {
        match failure {
            Failure::Different { differences, .. } => all.extend(differences),
            other => panic!("{other}"),
        }
    }
    all
}

#[test]
fn the_same_spawner_twice_differs_in_nothing() {
    let entry = shell(
        "same",
        "cat; echo oops >&2; echo $HOME >f; exit 3",
        "pwd",
        "stdin = 'x'\nstatus = 3\nalt_status = 0",
    );
    let tally = prove(&entry, &mut PlainExec);
    assert!(tally.failures.is_empty(), "{tally}");
    assert_eq!((tally.entries, tally.plain_runs, tally.runs), (1, 2, 2));
    assert_eq!(tally.how.get("exec"), Some(&2));
}

#[test]
fn each_kind_of_difference_is_found() {
    let entry = shell(
        "spoiled",
        "echo text | tee f; ln -s f l; mkdir d; chmod 700 d",
        "echo other | tee f; mkdir d; ln -s f l",
        "",
    );
    let found = differences(&entry, |result, _| result.stdout.push(b'!'));
    assert!(
        matches!(&found[..], [Difference::Text { stream: Stream::Stdout, offset: 5, .. }, _]),
        "{found:?}"
    );
    let found = differences(&entry, |result, _| result.stderr = b"noise".to_vec());
    assert!(matches!(found[0], Difference::Text { stream: Stream::Stderr, offset: 0, .. }), "{found:?}");
    let found = differences(&entry, |result, _| {
        result.status = std::os::unix::process::ExitStatusExt::from_raw(9);
    });
    assert!(matches!(found[0], Difference::Status { .. }), "{found:?}");
    let found = differences(&entry, |_, dir| fs::remove_file(dir.join("f")).expect("f is there"));
    assert_eq!(found[0], Difference::Missing("f".into()));
    let found = differences(&entry, |_, dir| fs::write(dir.join("d/g"), "").expect("d is there"));
    assert_eq!(found[0], Difference::Unexpected("d/g".into()));
    let found = differences(&entry, |_, dir| {
        let text = fs::read_to_string(dir.join("f")).expect("f is there");
        fs::write(dir.join("f"), text.to_uppercase()).expect("f can be written");
    });
    assert!(matches!(&found[0], Difference::Content { offset: 0, .. }), "{found:?}");
    let found = differences(&entry, |_, dir| {
        fs::remove_file(dir.join("l")).expect("l is there");
        std::os::unix::fs::symlink("d", dir.join("l")).expect("l can be made");
    });
    assert!(matches!(&found[0], Difference::Attributes { .. }), "{found:?}");
}

#[test]
fn modes_links_and_set_times_are_compared() {
    use std::os::unix::fs::PermissionsExt;
    let entry = shell("attributes", "echo a >f; touch -d @5 f", "touch -d @7 f", "");
    let found = differences(&entry, |_, dir| {
        fs::set_permissions(dir.join("f"), fs::Permissions::from_mode(0o600)).expect("f is ours");
    });
    assert!(matches!(&found[0], Difference::Attributes { .. }), "{found:?}");
    let found = differences(&entry, |_, dir| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(6);
        fs::File::open(dir.join("f")).and_then(|f| f.set_modified(time)).expect("f is ours");
    });
    assert!(matches!(&found[0], Difference::Attributes { .. }), "{found:?}");
    let found =
        differences(&entry, |_, dir| fs::hard_link(dir.join("f"), dir.join("g")).expect("f is there"));
    assert!(matches!(&found[..2], [Difference::Attributes { .. }, Difference::Unexpected(_)]), "{found:?}");
}

#[test]
fn an_unexpected_end_is_a_failure() {
    let tally = prove(&shell("wrong", "exit 1", "kill -9 $$", "alt_signal = 15"), &mut PlainExec);
    assert_eq!(tally.failures.len(), 2, "{tally}");
    assert!(tally.failures.iter().all(|f| matches!(f, Failure::Unexpected { .. })), "{tally}");
    let tally = prove(&shell("right", "exit 1", "kill -9 $$", "status = 1\nalt_signal = 9"), &mut PlainExec);
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn what_one_run_leaves_is_not_there_for_the_next() {
    let script = "test ! -e left || exit 9; echo x >left; rm -r d; echo y >>kept";
    let more = "setup = 'mkdir d; echo z >kept; touch d/e'";
    let tally = prove(&shell("fresh", script, &format!(": ; {script}"), more), &mut PlainExec);
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn a_run_that_takes_too_long_is_killed() {
    let tally = prove(&shell("long", "exec sleep 60", "sleep 61", "limit_s = 1"), &mut PlainExec);
    assert!(matches!(&tally.failures[..], [Failure::Broken { .. }]), "{tally}");
}

#[test]
fn normalisers_cover_streams_and_names_but_nothing_else() {
    let normaliser = "[normalisers.pid]\npattern = 'p[0-9]+'\nwith = 'pN'\n";
    let script = "echo p$$; echo x >p$$";
    let entry = shell("pid", script, &format!("{script}; :"), "normalise = ['pid']");
    let tally = prove(&format!("{normaliser}{entry}"), &mut PlainExec);
    assert!(tally.failures.is_empty(), "{tally}");
    let entry = shell("pid", script, &format!("{script}; :"), "");
    let tally = prove(&format!("{normaliser}{entry}"), &mut PlainExec);
    assert_eq!(tally.failures.len(), 2, "{tally}");
}

#[test]
fn input_and_output_can_be_files() {
    let more = "setup = 'printf abc >in'\nstdin_file = 'in'\nstdout_file = 'out'";
    let tally =
        prove(&shell("files", "cat; test -s out", "cat; cat <in; test -f /dev/stdin", more), &mut PlainExec);
    assert!(tally.failures.is_empty(), "{tally}");
}

#[test]
fn variables_are_added_and_taken_out() {
    let corpus =
        parse(&shell("env", "env", "env; :", "env = { X = 'in {dir}' }\nunset = ['LC_ALL']")).expect("right");
    let root = tempfile::tempdir().expect("a temporary directory");
    let workshop = Workshop::new(&corpus, root.path());
    let entry = &corpus.entries[0];
    let dir = workshop.work_dir(entry).into_os_string();
    let mut in_dir = std::ffi::OsString::from("in ");
    in_dir.push(&dir);
    let env = workshop.invocation(entry, ArgumentList::Main).env;
    let expected = [("HOME", dir.clone()), ("PATH", "/usr/bin:/bin".into()), ("TMPDIR", dir), ("X", in_dir)];
    assert_eq!(env, expected.map(|(name, value)| (name.into(), value)));
}

#[test]
fn a_bad_manifest_is_refused_by_name() {
    let cases = [
        (shell("a/b", "a", "b", ""), "a name has only"),
        (shell("a", "a", "a", ""), "argv and alt are the same"),
        (shell("a", "a", "b", "normalise = ['none']"), "no normaliser is named none"),
        (shell("a", "a", "b", "files = ['gen/none']"), "nothing generates none"),
        (shell("a", "a", "b", "stdin = ''\nstdin_file = ''"), "not both"),
        (shell("a", "a", "b", "").repeat(2), "two entries are named a"),
        (shell("a", "a", "b", "colour = 1"), "colour"),
        ("[[entry]]\nname = 'a'\npackage = 'p'\nargv = ['x']\nalt = ['y', 'z']".into(), "different programs"),
        ("[[entry]]\nname = 'a'\npackage = 'p'\nargv = ['x']\nalt = []".into(), "alt is empty"),
    ];
    for (text, expected) in cases {
        let error = parse(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }
}

#[test]
fn a_missing_program_names_its_package() {
    let text = "[[entry]]\nname = 'a'\npackage = 'some-package'\nargv = ['no-such-program']\n\
                alt = ['no-such-program', 'x']";
    let corpus = parse(text).expect("right");
    match corpus.check_installed() {
        Err(CorpusError::MissingPrograms(missing)) => {
            assert_eq!(missing.len(), 1);
            assert_eq!(missing[0].to_string(), "no-such-program (apt-get install some-package)");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn generated_files_are_always_the_same() {
    for name in ["words.txt", "access.log", "numbers.txt", "noise.bin", "table.csv", "long.txt"] {
        let bytes = generate(name).expect(name);
        assert!(bytes.len() > 10_000, "{name} has {} bytes", bytes.len());
        assert_eq!(bytes, generate(name).expect(name));
    }
    assert!(generate("none").is_none());
}

#[test]
fn descriptors_of_the_test_stay_with_the_test() {
    use rustix::io::{FdFlags, dup, fcntl_getfd};
    let file = fs::File::open("/dev/null").expect("/dev/null");
    let stray = dup(&file).expect("a descriptor without close-on-exec");
    assert!(!fcntl_getfd(&stray).expect("open").contains(FdFlags::CLOEXEC));
    let tally = prove(&shell("strays", "ls -l /proc/self/fd | grep -c null", "exit 0", ""), &mut PlainExec);
    assert!(tally.failures.is_empty(), "{tally}");
    assert!(fcntl_getfd(&stray).expect("still open").contains(FdFlags::CLOEXEC));
}
