//! The builtins for bash against launchers and the programs themselves, in a loop of bash, in turn.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use super::launchers::{PATH, in_turn, link, shell};
use super::own::{OwnDaemon, own_path};
use crate::error::BenchError;
use crate::figure::Figure;
use crate::system::native::PosixSpawn;

/// Where bash is.
const BASH: &str = "/bin/bash";
/// How many commands a loop runs: the start of bash itself is to be a small part of it.
const LOOP: u32 = 200;
/// How many loops of each way there are.
const MOST_RUNS: u32 = 20;
/// Programs by their names, with their arguments as a shell reads them. What they write is no line of a script's own.
const CASES: [(&str, &str); 6] = [
    ("cat", "/dev/null"),
    ("expr", "1 + 1"),
    ("sed", "s/a/b/ /proc/version"),
    ("git", "--version"),
    ("perl", "-e 1"),
    ("python3", "-c pass"),
];

/// A builtin that is to be used instead of a launcher is so many times as quick.
const WORTH_IT: f64 = 1.3;

/// Measures every program that is there.
pub(super) fn measure(daemon: &OwnDaemon, runs: u32) -> Result<Vec<Figure>, BenchError> {
    if !Path::new(BASH).exists() {
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir().map_err(BenchError::system("there is no folder for launchers"))?;
    let mut figures = Vec::new();
    for (name, args) in CASES.iter().filter(|case| Path::new("/usr/bin").join(case.0).exists()) {
        link(folder.path(), &format!("/usr/bin/{name}"))?;
        let takes = line(daemon, folder.path(), name)?;
        let behind = format!("PATH={}:{PATH}", folder.path().display());
        let command = format!("{name} {args}");
        let scripts = [format!("PATH={PATH}"), behind, format!("PATH={PATH}; {takes}")];
        same_output(daemon, &scripts, &command)?;
        let ways = [
            looped(daemon, &scripts[0], &command)?,
            looped(daemon, &scripts[1], &command)?,
            looped(daemon, &scripts[2], &command)?,
        ];
        let [plain, launched, builtin] = in_turn(daemon, &ways, (runs.min(MOST_RUNS), LOOP), 2)?;
        figures.extend([
            Figure::at_least(
                &format!("in a loop of bash: builtin for {command}, against its launcher"),
                launched / builtin,
                WORTH_IT,
                "times",
            ),
            Figure::told(
                &format!("in a loop of bash: builtin for {command}, against the program"),
                plain / builtin,
                "times",
            ),
            Figure::told(&format!("in a loop of bash: builtin for {command}, each"), builtin, "us"),
        ]);
    }
    Ok(figures)
}

/// The line by which bash takes the builtin of a name.
fn line(daemon: &OwnDaemon, folder: &Path, name: &str) -> Result<String, BenchError> {
    let mut command = Command::new(own_path()?);
    command.args(["builtins", name]).env("PATH", PATH).env("XDG_DATA_HOME", folder).stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", daemon.place.folder());
    let output = command.output().map_err(BenchError::system("the builtins are not there"))?;
    super::spawn::check(output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A shell that begins with a script and then runs a command in a loop, with its output to nowhere.
fn looped(daemon: &OwnDaemon, begin: &str, command: &str) -> Result<PosixSpawn, BenchError> {
    let script = format!("{begin}; for ((i = 0; i < {LOOP}; i++)); do {command} >/dev/null || exit 1; done");
    shell(daemon, BASH, &["-c", &script])
}

/// Each way writes the same.
fn same_output(daemon: &OwnDaemon, begins: &[String; 3], command: &str) -> Result<(), BenchError> {
    let outputs = begins.each_ref().map(|begin| {
        let mut shell = Command::new("/usr/bin/setsid");
        shell.args(["--wait", BASH, "-c"]).arg(OsStr::new(&format!("{begin}; {command}")));
        shell.env("XDG_RUNTIME_DIR", daemon.place.folder()).stdin(Stdio::null());
        shell.output().ok().filter(|output| output.status.success()).map(|output| output.stdout)
    });
    if outputs[0].is_some() && outputs.iter().all(|output| *output == outputs[0]) {
        return Ok(());
    }
    let what = "its launcher or its builtin does not write what it does".to_owned();
    Err(BenchError::WrongRun { program: command.to_owned(), what })
}
