//! The search against `std::process::Command`, which asks glibc, over odd directories and paths.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use regrow_sys::search::DEFAULT_PATH;
use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;
use crate::program::elf::{ElfError, ElfFacts, ElfIdent};
use crate::program::script::lab::{Lab, Printed, output, printed};
use crate::program::script::{ScriptHead, parse_head};

/// Drops what lets root pass over permissions, in this thread and the children it starts.
fn obey_permissions() {
    let mut sets = capabilities(None).expect("the capabilities of this thread");
    sets.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, sets).expect("fewer capabilities");
}

/// Runs `test` in a thread that permissions hold for, whoever runs the tests.
fn with_permissions(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            obey_permissions();
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// What is under the name that is searched for.
#[derive(Clone, Copy, Debug)]
enum NameKind {
    Missing,
    MissingDirectory,
    FileAsDirectory,
    ClosedDirectory,
    Program,
    Script,
    UnreadableScript,
    ScriptOnScript,
    NotExecutable,
    Directory,
    DanglingLink,
    LinkLoop,
    MissingInterpreter,
    ClosedInterpreter,
    EmptyInterpreter,
    DeepMissingInterpreter,
    ScriptOnItself,
    NoInterpreter,
    Text,
    MissingLoader,
    ClosedLoader,
    Truncated,
}

const KINDS: [NameKind; 22] = [
    NameKind::Missing,
    NameKind::MissingDirectory,
    NameKind::FileAsDirectory,
    NameKind::ClosedDirectory,
    NameKind::Program,
    NameKind::Script,
    NameKind::UnreadableScript,
    NameKind::ScriptOnScript,
    NameKind::NotExecutable,
    NameKind::Directory,
    NameKind::DanglingLink,
    NameKind::LinkLoop,
    NameKind::MissingInterpreter,
    NameKind::ClosedInterpreter,
    NameKind::EmptyInterpreter,
    NameKind::DeepMissingInterpreter,
    NameKind::ScriptOnItself,
    NameKind::NoInterpreter,
    NameKind::Text,
    NameKind::MissingLoader,
    NameKind::ClosedLoader,
    NameKind::Truncated,
];

/// As a script, it prints as the printer does: the path that it was given, and no arguments.
const PRINTING_TEXT: &str = "printf '%s\\0' \"$0\"\n";

/// The printer with another loader's path.
fn with_loader(lab: &Lab, loader: &str) -> Vec<u8> {
    let mut bytes = fs::read(lab.path("p")).expect("the printer");
    let old =
        ElfFacts::read_interpreter(&bytes).expect("facts").expect("a loader").into_os_string().into_vec();
    let at = bytes.windows(old.len()).position(|window| window == old).expect("the loader's path");
    bytes[at..at + old.len()].fill(0);
    bytes[at..at + loader.len()].copy_from_slice(loader.as_bytes());
    bytes
}

/// Makes directory `dir` with `tool` in it; the lab has a `plain` file that is not executable.
fn make(lab: &Lab, dir: &str, kind: NameKind) {
    let name = format!("{dir}/tool");
    let at = lab.path(dir);
    let script = |line: &str| {
        lab.file(&name, format!("#!{line}\n{PRINTING_TEXT}").as_bytes(), 0o755);
    };
    let make_dir = || fs::create_dir_all(&at).expect("a directory");
    match kind {
        NameKind::MissingDirectory => {}
        NameKind::Missing => make_dir(),
        NameKind::FileAsDirectory => drop(lab.file(dir, b"", 0o755)),
        NameKind::ClosedDirectory => {
            script(&lab.printer());
            fs::set_permissions(&at, fs::Permissions::from_mode(0o600)).expect("the mode is set");
        }
        NameKind::Program => drop(lab.file(&name, &fs::read(lab.path("p")).expect("the printer"), 0o755)),
        NameKind::Script => script(&lab.printer()),
        NameKind::UnreadableScript => {
            drop(lab.file(&name, format!("#!{}\n", lab.printer()).as_bytes(), 0o111));
        }
        NameKind::ScriptOnScript => {
            let inner =
                lab.file(&format!("{dir}/inner"), format!("#!{} x\n", lab.printer()).as_bytes(), 0o755);
            script(inner.to_str().expect("text"));
        }
        NameKind::NotExecutable => drop(lab.file(&name, b"#!p\n", 0o644)),
        NameKind::Directory => fs::create_dir_all(at.join("tool")).expect("a directory"),
        NameKind::DanglingLink => {
            make_dir();
            symlink("nowhere", at.join("tool")).expect("a link");
        }
        NameKind::LinkLoop => {
            make_dir();
            symlink("tool", at.join("tool")).expect("a link");
        }
        NameKind::MissingInterpreter => script("/no/such/interpreter"),
        NameKind::ClosedInterpreter => script("plain"),
        NameKind::EmptyInterpreter => drop(lab.file(&name, b"#!", 0o755)),
        NameKind::DeepMissingInterpreter => {
            let inner = lab.file(&format!("{dir}/inner"), b"#!nowhere\n", 0o755);
            script(inner.to_str().expect("text"));
        }
        NameKind::ScriptOnItself => script(&format!("{}/tool", at.display())),
        NameKind::NoInterpreter => drop(lab.file(&name, format!("#! \n{PRINTING_TEXT}").as_bytes(), 0o755)),
        NameKind::Text => drop(lab.file(&name, PRINTING_TEXT.as_bytes(), 0o755)),
        NameKind::MissingLoader => drop(lab.file(&name, &with_loader(lab, "/no/loader"), 0o755)),
        NameKind::ClosedLoader => drop(lab.file(&name, &with_loader(lab, "plain"), 0o755)),
        NameKind::Truncated => drop(lab.file(&name, b"\x7fELF", 0o755)),
    }
}

/// What `posix_spawnp` or `execvp` did with `tool`.
#[derive(Debug)]
enum SpawnOutcome {
    Ran(Printed),
    Failed(Errno),
    /// `execvp` gave it to the shell, which did not understand it.
    Shell,
}

const CHILD_TEST: &str = "program::resolve::tests::spawn_in_child";
const NAME_VARIABLE: &str = "REGROW_TEST_NAME";
const CWD_VARIABLE: &str = "REGROW_TEST_CWD";
const RESULT_VARIABLE: &str = "REGROW_TEST_RESULT";

/// The other side of [`by_posix_spawnp`]: it has the `PATH` in question as its own.
#[test]
#[ignore = "runs in a child that another test starts"]
fn spawn_in_child() {
    let variable = |name: &str| std::env::var_os(name).expect("a variable from the other test");
    obey_permissions();
    let mut command = Command::new(variable(NAME_VARIABLE));
    command.arg("x").current_dir(variable(CWD_VARIABLE));
    let result = match output(&mut command) {
        Ok(output) => [b"ran:", output.stdout.as_slice()].concat(),
        Err(error) => format!("errno:{}", error.raw_os_error().expect("an error of the kernel")).into_bytes(),
    };
    fs::write(variable(RESULT_VARIABLE), result).expect("the result is written");
}

/// `Command` with an unchanged `PATH` calls `posix_spawnp`. Another process has that `PATH`.
fn by_posix_spawnp(lab: &Lab, name: &str, path_var: Option<&OsStr>) -> SpawnOutcome {
    let result = lab.path("result");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", CHILD_TEST, "--ignored", "--test-threads=1"]);
    command.env(NAME_VARIABLE, name).env(CWD_VARIABLE, lab.dir()).env(RESULT_VARIABLE, &result);
    match path_var {
        Some(value) => command.env("PATH", value),
        None => command.env_remove("PATH"),
    };
    let output = output(&mut command).expect("this program runs again");
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(&result).expect("the result");
    match bytes.strip_prefix(b"ran:") {
        Some(printed) => SpawnOutcome::Ran(Printed::parse(printed)),
        None => {
            let text = String::from_utf8(bytes).expect("text");
            let errno = text.strip_prefix("errno:").and_then(|number| number.parse().ok()).expect("a number");
            SpawnOutcome::Failed(Errno::from_raw_os_error(errno))
        }
    }
}

/// `Command` with a changed `PATH` forks and calls `execvp`, if the name has no slash.
fn by_execvp(lab: &Lab, name: &str, path_var: Option<&OsStr>) -> SpawnOutcome {
    let mut command = Command::new(name);
    command.arg("x").current_dir(lab.dir());
    match path_var {
        Some(value) => command.env("PATH", value),
        None => command.env_remove("PATH"),
    };
    match output(&mut command) {
        Ok(output) if !output.status.success() => SpawnOutcome::Shell,
        result => match printed(result) {
            Ok(printed) => SpawnOutcome::Ran(printed),
            Err(errno) => SpawnOutcome::Failed(errno),
        },
    }
}

/// The kernel has no format for the file: no script, no program. All files here that cannot be
/// read are scripts.
fn has_no_format(lab: &Lab, path: &Path) -> bool {
    let Ok(bytes) = fs::read(lab.dir().join(path)) else { return false };
    match parse_head(&bytes) {
        ScriptHead::NoInterpreter => true,
        ScriptHead::Script(_) => false,
        ScriptHead::NoScript => {
            matches!(ElfFacts::read(&bytes), Err(ElfError::NotElf | ElfError::Truncated { .. }))
        }
    }
}

fn compare(lab: &Lab, name: &str, path_var: Option<&OsStr>, outcome: &SpawnOutcome, has_shell: bool) {
    let predicted = find_program(OsStr::new(name), path_var, Some(lab.dir()));
    match (&predicted, outcome) {
        (Ok(found), SpawnOutcome::Ran(printed)) => {
            assert_eq!(found.path, printed.path, "{path_var:?}");
            assert!(has_shell || !has_no_format(lab, &found.path), "{path_var:?}");
        }
        (Ok(found), SpawnOutcome::Shell) => {
            assert!(has_shell && has_no_format(lab, &found.path), "{path_var:?} {predicted:?}");
        }
        (Ok(found), SpawnOutcome::Failed(errno)) => {
            let expected = *errno == Errno::NOEXEC && !has_shell && has_no_format(lab, &found.path);
            assert!(expected, "{path_var:?} {predicted:?} {errno:?}");
        }
        (Err(error), SpawnOutcome::Failed(errno)) => {
            assert_eq!(error.errno(), Some(errno.raw_os_error()), "{path_var:?} {error}");
            assert_eq!(error.to_io_error().and_then(|error| error.raw_os_error()), error.errno());
        }
        (Err(_), outcome) => panic!("{path_var:?} {predicted:?} {outcome:?}"),
    }
}

fn check(lab: &Lab, path_var: Option<&OsStr>) {
    compare(lab, "tool", path_var, &by_execvp(lab, "tool", path_var), true);
    compare(lab, "tool", path_var, &by_posix_spawnp(lab, "tool", path_var), false);
}

/// A lab with one directory for each kind, `d0` and on.
fn lab_of(kinds: &[NameKind]) -> Lab {
    let lab = Lab::new();
    lab.file("plain", b"", 0o644);
    for (index, kind) in kinds.iter().enumerate() {
        make(&lab, &format!("d{index}"), *kind);
    }
    lab
}

#[test]
fn every_kind_alone_and_before_a_program() {
    with_permissions(|| {
        let mut kinds = KINDS.to_vec();
        kinds.push(NameKind::Program);
        let lab = lab_of(&kinds);
        let last = lab.path(&format!("d{}", KINDS.len()));
        for index in 0..KINDS.len() {
            let dir = lab.path(&format!("d{index}"));
            let path_var = [dir.as_os_str(), last.as_os_str()].join(OsStr::new(":"));
            check(&lab, Some(dir.as_os_str()));
            check(&lab, Some(&path_var));
            // A name with a slash is not searched, whatever PATH is.
            let name = dir.join("tool").into_os_string().into_string().expect("text");
            let path_var = Some(last.as_os_str());
            compare(&lab, &name, path_var, &by_execvp(&lab, &name, path_var), false);
            compare(&lab, &name, None, &by_posix_spawnp(&lab, &name, None), false);
            let name = format!("d{index}/tool");
            compare(&lab, &name, None, &by_posix_spawnp(&lab, &name, None), false);
        }
    });
}

#[test]
fn odd_paths() {
    let lab = lab_of(&[NameKind::Program]);
    lab.file("tool", &fs::read(lab.path("p")).expect("the printer"), 0o755);
    let long = format!("/{}", "x".repeat(5000));
    let longer_than_name = format!("{}/{}", lab.dir().display(), "x".repeat(300));
    let paths = [
        String::new(),
        ":".into(),
        "d0".into(),
        "./d0/".into(),
        "d0//:".into(),
        "/nowhere:".into(),
        ":/nowhere".into(),
        "/nowhere::/nowhere".into(),
        "d0/../d0".into(),
        "~/x:$HOME: d0".into(),
        format!("/nowhere:{long}:d0"),
        format!("d0:{long}"),
        format!("/nowhere:{long}"),
        format!("{long}:d0"),
        format!("{longer_than_name}:d0"),
        format!("/{}:d0", "x/".repeat(2046)),
        format!("/{}x:d0", "x/".repeat(2046)),
        format!("/{}xx:d0", "x/".repeat(2046)),
    ];
    for path in paths {
        check(&lab, Some(OsStr::new(&path)));
    }
}

#[test]
fn odd_names() {
    let lab = lab_of(&[NameKind::Program]);
    let path_var = Some(OsStr::new("/nowhere:d0"));
    for name in
        ["", ".", "..", "no-such-tool", "no such tool", &"n".repeat(255), &"n".repeat(256), &"n".repeat(700)]
    {
        compare(&lab, name, path_var, &by_execvp(&lab, name, path_var), true);
        compare(&lab, name, path_var, &by_posix_spawnp(&lab, name, path_var), false);
    }
    for name in
        ["/", "./", "d0/", "d0/tool/", "./d0/tool", "d0/../d0//tool", "/nowhere/tool", &"n/".repeat(2100)]
    {
        compare(&lab, name, path_var, &by_execvp(&lab, name, path_var), false);
        compare(&lab, name, path_var, &by_posix_spawnp(&lab, name, path_var), false);
    }
    let error = find_program(OsStr::new("a\0b"), None, None).expect_err("a NUL");
    assert_eq!(error, ResolveError::NulByte { name: "a\0b".into() });
    let kind = Command::new("a\0b").spawn().expect_err("a NUL").kind();
    assert_eq!(error.to_io_error().map(|error| error.kind()), Some(kind));
}

#[test]
fn unset_path_is_the_default_one() {
    let output = Command::new("getconf").arg("PATH").output().expect("getconf runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), DEFAULT_PATH);
    let found = find_program(OsStr::new("true"), None, None).expect("true");
    assert!(Command::new("true").env_remove("PATH").status().expect("true runs").success());
    assert_eq!(found, FoundProgram { path: "/bin/true".into(), earlier_dirs: vec![] });
    let lab = lab_of(&[NameKind::Program]);
    check(&lab, None);
}

#[test]
fn earlier_directories_are_named() {
    let lab = lab_of(&[NameKind::Missing, NameKind::NotExecutable, NameKind::Script]);
    let found = find_program(OsStr::new("tool"), Some(OsStr::new("d0/::d1:d2:d0")), Some(lab.dir()));
    let found = found.expect("a script");
    assert_eq!(found.path, Path::new("d2/tool"));
    assert_eq!(found.earlier_dirs, [Path::new("d0/"), Path::new("."), Path::new("d1")]);
}

#[test]
fn working_directory_that_cannot_be_entered() {
    with_permissions(|| {
        let lab = lab_of(&[NameKind::ClosedDirectory]);
        for dir in ["nowhere", "plain", "d0"] {
            let cwd = lab.path(dir);
            let error = find_program(OsStr::new("true"), None, Some(&cwd)).expect_err("no directory");
            let actual = Command::new("true").current_dir(&cwd).spawn().expect_err("no directory");
            assert_eq!(error.errno(), actual.raw_os_error());
            assert!(error.to_string().contains(dir));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_paths(
        kinds in proptest::collection::vec(proptest::sample::select(KINDS.to_vec()), 1..5),
        forms in proptest::collection::vec(0_usize..4, 5),
        here in proptest::option::of(proptest::sample::select(vec![NameKind::Program, NameKind::Script, NameKind::NotExecutable])),
    ) {
        with_permissions(|| {
            let lab = lab_of(&kinds);
            if let Some(kind) = here {
                make(&lab, ".", kind);
            }
            let element = |(index, form): (usize, &usize)| match form {
                0 => lab.path(&format!("d{index}")).into_os_string(),
                1 => OsString::from(format!("d{index}")),
                2 => OsString::from(format!("d{index}/")),
                _ => OsString::new(),
            };
            let elements: Vec<_> = forms.iter().take(kinds.len()).enumerate().map(element).collect();
            check(&lab, Some(&elements.join(OsStr::new(":"))));
        });
    }
}

fn refusal(lab: &Lab, name: &str) -> Option<FileRefusal> {
    open_executable(&lab.path(name), None).err()
}

#[test]
fn plain_program_is_opened() {
    let lab = Lab::new();
    let opened = open_executable(Path::new("p"), Some(lab.dir())).expect("the printer");
    assert_eq!(FileIdentity::of_path(&lab.path("p")), Ok(opened.identity));
    assert_eq!(FileIdentity::of_file(&opened.file), Ok(opened.identity));
    assert!(ElfFacts::read(&opened.file).is_ok());
    assert_eq!(opened.identity.size, fs::metadata(lab.path("p")).expect("metadata").len());
    assert_ne!(opened.identity.mnt_id, 0);
}

#[test]
fn what_is_no_regular_file_is_refused_without_opening_it() {
    let lab = Lab::new();
    fs::create_dir(lab.path("dir")).expect("a directory");
    rustix::fs::mknodat(CWD, lab.path("fifo"), FileType::Fifo, Mode::from_raw_mode(0o755), 0)
        .expect("a pipe");
    let _socket = UnixListener::bind(lab.path("socket")).expect("a socket");
    symlink("/dev/null", lab.path("null")).expect("a link");
    for name in ["dir", "fifo", "socket", "null"] {
        assert_eq!(refusal(&lab, name), Some(FileRefusal::NotRegular { path: lab.path(name) }));
    }
}

#[test]
fn unreachable_files_name_the_reason() {
    let lab = Lab::new();
    symlink("loop", lab.path("loop")).expect("a link");
    for (name, errno) in [("nowhere", Errno::NOENT), ("p/x", Errno::NOTDIR), ("loop", Errno::LOOP)] {
        let path = lab.path(name);
        let refusal = refusal(&lab, name).expect("no file");
        assert!(refusal.to_string().contains(path.to_str().expect("text")));
        assert_eq!(refusal, FileRefusal::Unreachable { path, errno });
    }
    let cwd = lab.path("nowhere");
    let refusal = open_executable(Path::new("p"), Some(&cwd)).err();
    assert_eq!(refusal, Some(FileRefusal::Unreachable { path: cwd, errno: Errno::NOENT }));
}

#[test]
fn set_id_programs_are_refused() {
    let lab = Lab::new();
    let path = lab.path("p");
    let with_mode = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the mode is set");
        assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o7777, mode);
        refusal(&lab, "p")
    };
    assert_eq!(with_mode(0o4755), Some(FileRefusal::SetUid { path: path.clone() }));
    assert_eq!(with_mode(0o6755), Some(FileRefusal::SetUid { path: path.clone() }));
    assert_eq!(with_mode(0o2755), Some(FileRefusal::SetGid { path: path.clone() }));
    assert_eq!(with_mode(0o2745), None, "without execution for the group the bit means locking");
    assert_eq!(with_mode(0o1755), None);
}

#[test]
fn file_capabilities_are_refused() {
    let lab = Lab::new();
    let path = lab.path("p");
    // Version 2 of vfs_cap_data: effective, CAP_NET_BIND_SERVICE permitted.
    let words = [0x0200_0001_u32, 1 << 10, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    match rustix::fs::setxattr(&path, c"security.capability", &value, XattrFlags::empty()) {
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => return,
        result => result.expect("the attribute is set"),
    }
    assert_eq!(refusal(&lab, "p"), Some(FileRefusal::FileCapabilities { path: path.clone() }));
    rustix::fs::removexattr(&path, c"security.capability").expect("the attribute is removed");
    assert_eq!(refusal(&lab, "p"), None);
}

#[test]
fn permissions_of_the_effective_user_hold() {
    with_permissions(|| {
        let lab = Lab::new();
        let path = lab.path("p");
        let with_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the mode is set");
            refusal(&lab, "p")
        };
        assert_eq!(with_mode(0o644), Some(FileRefusal::NotExecutable { path: path.clone() }));
        assert_eq!(with_mode(0o655), Some(FileRefusal::NotExecutable { path: path.clone() }));
        assert_eq!(
            with_mode(0o111),
            Some(FileRefusal::NotReadable { path: path.clone(), errno: Errno::ACCESS })
        );
        assert_eq!(with_mode(0o500), None);
        let script = lab.file("script", format!("#!{}\n", lab.printer()).as_bytes(), 0o111);
        assert!(lab.exec(&script, &["x"]).is_ok(), "exec needs no reading");
        let error = crate::program::script::resolve_script_chain(&script, &[], None).expect_err("unreadable");
        assert_eq!(error, ResolveError::Unreadable { path: script, errno: Errno::ACCESS });
        assert_eq!(error.errno(), None);
        assert!(error.to_io_error().is_none());
    });
}

#[test]
fn elf_errors_become_refusals() {
    let path = Path::new("/x/y");
    let ident = ElfIdent { class: 1, data: 1, machine: 3 };
    let foreign = FileRefusal::from_elf(path, ElfError::WrongMachine { ident });
    assert_eq!(foreign.to_string(), "/x/y is for another machine: 32-bit little-endian i386");
    let malformed = FileRefusal::from_elf(path, ElfError::NotElf);
    assert_eq!(malformed.to_string(), "/x/y: not an ELF file");
}

/// Where [`noexec_mount`] mounts.
const MOUNT_VARIABLE: &str = "REGROW_TEST_MOUNT";

#[test]
#[ignore = "runs in a child that another test starts"]
fn noexec_in_child() {
    let path = PathBuf::from(std::env::var_os(MOUNT_VARIABLE).expect("a variable")).join("p");
    assert_eq!(open_executable(&path, None).err(), Some(FileRefusal::NoExecMount { path: path.clone() }));
    let error = find_program(path.as_os_str(), None, None).expect_err("no execution");
    let actual = Command::new(&path).spawn().expect_err("no execution");
    assert_eq!(error.errno(), actual.raw_os_error());
    assert_eq!(error, ResolveError::File { path, errno: Errno::ACCESS });
}

#[test]
fn noexec_mount() {
    let lab = Lab::new();
    let mount = lab.path("mount");
    fs::create_dir(&mount).expect("a directory");
    let may_mount = |args: &[&str]| {
        let status =
            Command::new("unshare").args(args).args(["mount", "-t", "tmpfs", "none"]).arg(&mount).status();
        status.is_ok_and(|status| status.success())
    };
    let flags = match [&["-m"][..], &["-r", "-m"]].into_iter().find(|flags| may_mount(flags)) {
        Some(flags) => flags,
        // An unprivileged user who may not make namespaces has no mount to look at.
        None => return,
    };
    let script =
        "mount -t tmpfs -o noexec none \"$1\" && cp \"$2\" \"$1/p\" && exec \"$3\" --exact \"$4\" --ignored";
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", script, "sh"]).arg(&mount).arg(lab.path("p"));
    command
        .arg(std::env::current_exe().expect("this program"))
        .arg("program::resolve::tests::noexec_in_child");
    let output = output(command.env(MOUNT_VARIABLE, &mount)).expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

#[test]
fn every_change_changes_the_identity() {
    let lab = Lab::new();
    let path = lab.file("program", b"one", 0o755);
    let mut seen = vec![FileIdentity::of_path(&path).expect("an identity")];
    let mut changed = |what: &str, change: &dyn Fn()| {
        // The clock that stamps changes ticks every few milliseconds.
        std::thread::sleep(Duration::from_millis(20));
        change();
        let identity = FileIdentity::of_path(&path).expect("an identity");
        assert!(!seen.contains(&identity), "{what}");
        seen.push(identity);
    };
    changed("same size", &|| fs::write(&path, b"two").expect("written"));
    changed("time set back", &|| {
        let file = fs::File::options().write(true).open(&path).expect("the file");
        fs::write(&path, b"six").expect("written");
        file.set_modified(UNIX_EPOCH).expect("the time is set");
    });
    changed("mode", &|| {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("the mode is set");
    });
    changed("replaced", &|| {
        let other = lab.file("other", b"six", 0o700);
        fs::rename(other, &path).expect("renamed");
    });
    let before = FileIdentity::of_path(&path).expect("an identity");
    fs::read(&path).expect("read");
    assert_eq!(FileIdentity::of_path(&path), Ok(before), "reading changes nothing");
}

#[test]
fn a_change_is_before_a_moment_only_when_no_later_one_can_look_like_it() {
    let lab = Lab::new();
    let path = lab.file("program", b"one", 0o755);
    for _ in 0..200 {
        fs::write(&path, b"two").expect("written");
        let moment = Stamp::now();
        let before = FileIdentity::of_path(&path).expect("an identity");
        fs::write(&path, b"six").expect("written");
        let after = FileIdentity::of_path(&path).expect("an identity");
        assert!(!after.changed_before(moment), "{after:?}, {moment:?}");
        assert!(before != after || !before.changed_before(moment), "{before:?}, {moment:?}");
    }
    std::thread::sleep(Duration::from_millis(20));
    assert!(FileIdentity::of_path(&path).expect("an identity").changed_before(Stamp::now()));
}
