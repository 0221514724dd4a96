//! Attacks of unprivileged runs that a client has ordered from the daemon: the next runs of any client are as after exec, or the
//! body is given up; no program runs twice, and the daemon serves on.
//!
//! Those rows of `tests/hostile/manifest.toml` that say `daemon`; `REGROW_HOSTILE_OPEN=1` plays those that are open too.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod service;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use regrow::{Pool, Stdio};
use regrow_testkit::attacks::{
    Attacks, EndedRun, Ground, Made, Start, built_attacks_dir, play, project_attacks_dir,
};
use regrow_testkit::{left, summary};
use service::{Said, Service, text};

/// How long a client may take.
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// The variable that has open rows played too.
const OPEN: &str = "REGROW_HOSTILE_OPEN";

/// A daemon with one body for each program, and what starts its clients.
struct Clients {
    service: Service,
    /// Recycles nothing: it starts clients with numbered descriptors.
    starter: Pool,
}

impl Clients {
    fn new() -> Clients {
        let service = Service::with(&["--max-bodies", "1", "--policy", "recycle"]);
        Clients { service, starter: Pool::builder().recycle(false).build() }
    }

    fn status(&self) -> serde_json::Value {
        let output = self.service.regrow().args(["status", "--json"]).output().expect("the command starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }
}

impl Ground for Clients {
    /// The daemon makes the image after the first run.
    fn prepare(&mut self, _program: &Path, _env: &[(&'static str, OsString)]) {}

    fn run(&mut self, start: Start<'_>) -> io::Result<EndedRun> {
        let mut command = self.starter.command(env!("CARGO_BIN_EXE_regrow"));
        command.args(["--log", "info", "run", "--no-tty", "--"]).arg(start.program).args(start.args);
        command.env_clear().envs(start.env.iter().map(|(name, value)| (name, value)));
        command.env("XDG_RUNTIME_DIR", self.service.folder()).stdin(Stdio::null());
        for (number, descriptor) in start.descriptors {
            command.fd(descriptor, number);
        }
        let [stdout, mut stderr] = start.output;
        let mut child = command.stdout(stdout).stderr(stderr.try_clone()?).spawn()?;
        drop(command);
        let deadline = std::time::Instant::now() + RUN_LIMIT;
        let mut hung = None;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if std::time::Instant::now() > deadline {
                hung.get_or_insert_with(|| left::described(&child.id().to_string()));
                child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let mut told = Vec::new();
        stderr.rewind()?;
        stderr.read_to_end(&mut told)?;
        let said = Said::read(&told);
        stderr.set_len(0)?;
        stderr.rewind()?;
        stderr.write_all(&said.rest)?;
        let made = match (said.how.as_deref(), said.why) {
            (Some("recycled"), _) => Made::Recycled,
            (Some("forked_body"), _) => Made::Forked,
            (_, why) => Made::Exec(reason(&why.unwrap_or_default())),
        };
        Ok(EndedRun { made, status, hung })
    }

    fn given_up(&mut self) -> BTreeMap<String, u64> {
        let status = self.status();
        let counts = status["pool"]["given_up"].as_object().into_iter().flatten();
        counts.map(|(reason, count)| (reason.clone(), count.as_u64().unwrap_or(0))).collect()
    }

    /// Which of its children keep bodies the daemon does not tell.
    fn keepers(&mut self) -> Vec<i32> {
        Vec::new()
    }

    /// The parent is the daemon, and a run leads a group of its own.
    fn known_differences(&self) -> &'static [&'static str] {
        &["ids ", "group "]
    }

    fn differences(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The name of a reason, of which the command tells in words: `the daemon declines: NAME: …`.
fn reason(why: &str) -> String {
    let name = why.split(": ").find(|part| !part.contains(' ')).unwrap_or("unknown");
    name.to_owned()
}

#[test]
fn attacks_through_the_daemon_leave_nothing_to_other_clients() {
    let attacks =
        Attacks::load(&project_attacks_dir(), &built_attacks_dir()).unwrap_or_else(|error| panic!("{error}"));
    let plays_open = std::env::var_os(OPEN).is_some();
    let (mut failures, mut recycled, mut played, mut open) = (Vec::new(), 0, 0, 0);
    for attack in attacks.all.iter().filter(|attack| attack.daemon) {
        for &way in &attack.ways {
            if attack.is_open(way) && !plays_open {
                open += 1;
                continue;
            }
            let outcome = play(&mut Clients::new(), attack, way).expect("it can be played");
            println!("{} {way}: {outcome:?}", attack.name);
            played += 1;
            recycled += outcome.recycled + outcome.forked;
            failures
                .extend(outcome.failures.into_iter().map(|what| format!("{} {way}: {what}", attack.name)));
        }
    }
    let line = format!(
        "hostile by the daemon: {played} attacks x ways, {open} open; {recycled} probes in bodies; {} failures",
        failures.len()
    );
    println!("{line}");
    summary::add(&line).expect("the summary can be written");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(played > 0 && recycled > 0, "{line}");
}
