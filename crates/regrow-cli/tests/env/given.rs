//! A world for `regrow env`: a daemon, and a folder for everything.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::service::{Service, shell_status, text};

/// The command under test.
pub(crate) const REGROW: &str = env!("CARGO_BIN_EXE_regrow");
/// Where the programs of the system are.
pub(crate) const SYSTEM: &str = "/usr/bin:/bin";

pub(crate) struct World {
    pub(crate) service: Service,
}

/// What a command left.
#[derive(PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Its files: content, and whether they can be executed.
    pub(crate) files: BTreeMap<PathBuf, (String, bool)>,
}

impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Left { status, stdout, stderr, files } = self;
        writeln!(f, "{status}\n{stdout}\n{stderr}")?;
        for (path, (content, executable)) in files {
            let is_text = !content.contains('\0');
            let content = if is_text { content.clone() } else { format!("{} characters", content.len()) };
            writeln!(f, "{} {executable}: {content}", path.display())?;
        }
        Ok(())
    }
}

impl World {
    pub(crate) fn new() -> World {
        World { service: Service::start() }
    }

    /// A folder of the world, which is made.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let folder = self.service.folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A command in this world, with this `PATH`.
    pub(crate) fn command(&self, path: &str, words: &[&str]) -> Command {
        let mut command = Command::new("/usr/bin/setsid");
        command.arg("--wait").args(words).env_clear().env("PATH", path).stdin(std::process::Stdio::null());
        command.env("HOME", self.folder("home")).env("XDG_RUNTIME_DIR", self.service.folder());
        command
            .env("XDG_STATE_HOME", self.folder("state"))
            .env("LC_ALL", "C")
            .current_dir(self.folder("work"));
        command
    }

    /// The same below `regrow env`, with a launcher for every program that may have one.
    pub(crate) fn below(&self, path: &str, words: &[&str]) -> Command {
        self.command(path, &[&[REGROW, "env", "--all", "--"], words].concat())
    }

    /// What a script writes to standard output below `regrow env`. It succeeds and has no errors.
    pub(crate) fn told(&self, path: &str, script: &str) -> String {
        let output = self.below(path, &["sh", "-c", script]).output().unwrap();
        assert_eq!((shell_status(output.status), text(&output.stderr)), (0, String::new()), "{script}");
        text(&output.stdout)
    }

    /// Where the launchers of this `PATH` are.
    pub(crate) fn launchers(&self, path: &str) -> PathBuf {
        PathBuf::from(self.told(path, r#"printf %s "${PATH%%:*}""#))
    }

    /// How many runs of the daemon were recycled so far.
    pub(crate) fn recycled(&self) -> u64 {
        let output = self.service.regrow().args(["status", "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let creations = &status["pool"]["creations"];
        let all = [&creations["recycled"], &creations["forked_body"]];
        all.iter()
            .flat_map(|ways| ways.as_object().unwrap().values())
            .map(|count| count.as_u64().unwrap())
            .sum()
    }

    /// Runs words in an empty folder, and says what they left.
    pub(crate) fn left(&self, command: &mut Command) -> Left {
        let folder = self.service.folder().join("work");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let Output { status, stdout, stderr } = command.output().unwrap();
        let mut files = BTreeMap::new();
        gather(&folder, &folder, &mut files);
        Left { status: shell_status(status), stdout: text(&stdout), stderr: text(&stderr), files }
    }

    /// Asserts that a script leaves the same with and without, until so many runs of it were recycled in one go.
    pub(crate) fn same(&self, path: &str, script: &str, recycled: u64) -> Left {
        let plain = self.left(&mut self.command(path, &["sh", "-c", script]));
        for _ in 0..crate::service::ATTEMPTS {
            let before = self.recycled();
            let below = self.left(&mut self.below(path, &["sh", "-c", script]));
            assert_eq!(below, plain, "{script}");
            if self.recycled() - before >= recycled {
                return plain;
            }
        }
        panic!("less than {recycled} runs are recycled: {script}: {}", self.service.daemon_said());
    }
}

fn gather(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, (String, bool)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(root, &path, files);
            continue;
        }
        let executable = fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0;
        // A log has the elements of PATH, of which there is one more.
        let is_element = |line: &&str| !line.starts_with("PATH: ");
        let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        let content: Vec<&str> = content.split('\n').filter(is_element).collect();
        files.insert(path.strip_prefix(root).unwrap().to_owned(), (content.join("\n"), executable));
    }
}
