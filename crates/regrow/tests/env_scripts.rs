//! Scripts whose first line has `env` find their interpreter: they are runs of what it finds, and nobody can tell.

#[path = "common/elsewhere.rs"]
mod elsewhere;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command as StdCommand, Output};

use regrow::{Point, Pool, Stdio};

/// What a process can see of how it was started.
const LOOKS: &str = "
import os, sys
print(sys.argv, sys.executable, sys.orig_argv, os.readlink('/proc/self/exe'), open('/proc/self/comm').read())
print(open('/proc/self/cmdline', 'rb').read(), sorted(os.environ.items()), os.getcwd())
sys.exit(3)
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a script, and the folder that it is in.
    fn script(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        elsewhere::write(&path, text);
    }

    /// Runs a program with a search path as it is without Regrow, and out of a pool; gives the latter's point.
    fn same(&self, pool: &Pool, program: &str, path: &str) -> (Output, Option<Point>) {
        let mut plain = StdCommand::new(program);
        plain.args(["one", "two words"]).env_clear().env("PATH", path).env("X", "y").current_dir(self.path());
        let mut ours = pool.command(program);
        ours.args(["one", "two words"]).env_clear().env("PATH", path).env("X", "y").current_dir(self.path());
        // There is none of what cannot be found.
        let _ = pool.prepare(&ours);
        let plain = plain.output().expect("it starts");
        let child = ours
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let creation = child.creation().clone();
        let ours = child.wait_with_output().expect("its end");
        assert_eq!(ours, plain, "{program} with {path}: {creation}");
        (plain, creation.point())
    }
}

#[test]
fn a_script_for_env_is_a_run_of_what_env_finds() {
    let folder = Folder::new();
    folder.script("tool", &format!("#!/usr/bin/env python3\n{LOOKS}"));
    folder.script("perl-tool", "#! /usr/bin/env  perl \nprint \"$0 @ARGV $^X\\n\"; exit 4;");
    let absolute = folder.path().join("tool").display().to_string();
    let in_path = format!("{}:/usr/bin:/bin", folder.path().display());
    let pool = Pool::new();
    for (program, path) in
        [(absolute.as_str(), "/usr/bin:/bin"), ("./tool", "/usr/bin:/bin"), ("tool", &in_path)]
    {
        let (output, point) = folder.same(&pool, program, path);
        assert_eq!((output.status.code(), point), (Some(3), Some(Point::Warm)), "{program} {output:?}");
    }
    let (output, point) = folder.same(&pool, "./perl-tool", "/usr/bin:/bin");
    assert_eq!((output.status.code(), point), (Some(4), Some(Point::Main)), "{output:?}");
}

#[test]
fn what_env_finds_is_looked_for_anew() {
    let folder = Folder::new();
    folder.script("tool", &format!("#!/usr/bin/env python3\n{LOOKS}"));
    let pool = Pool::new();
    let path = "bin:/usr/bin:/bin";
    assert_eq!(folder.same(&pool, "./tool", path).0.status.code(), Some(3));
    // A file that appears before it in the search path is taken, by this run already.
    folder.script("bin/python3", "#!/bin/sh\necho other \"$0\" \"$@\"\nexit 5\n");
    assert_eq!(folder.same(&pool, "./tool", path).0.status.code(), Some(5));
    assert_eq!(folder.same(&pool, "./tool", "/usr/bin:/bin").0.status.code(), Some(3), "another search path");
    fs::remove_file(folder.path().join("bin/python3")).expect("removed");
    symlink("/usr/bin/python3", folder.path().join("bin/python3")).expect("a link");
    assert_eq!(folder.same(&pool, "./tool", path).0.status.code(), Some(3));
    // The script itself.
    folder.script("tool", "#!/usr/bin/env sh\necho now \"$0\" \"$@\"\nexit 6\n");
    let (output, point) = folder.same(&pool, "./tool", path);
    assert_eq!((output.status.code(), point), (Some(6), Some(Point::Main)), "{output:?}");
}

#[test]
fn what_env_does_by_itself_is_left_to_it() {
    let folder = Folder::new();
    let lines = [
        ("nothing", "env no-such-program"),
        ("split", "env -S python3 -c pass"),
        ("words", "env python3 -c pass"),
        ("folder", "env /usr"),
        ("option", "env --no-such-option"),
    ];
    let pool = Pool::new();
    for (name, line) in lines {
        folder.script(name, &format!("#!/usr/bin/{line}\nprint(1)\n"));
        let _ = folder.same(&pool, &format!("./{name}"), "/usr/bin:/bin");
    }
}
