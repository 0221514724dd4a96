//! A daemon that is besieged, and two well-behaved clients of it, which never notice: one that stays connected, and
//! commands one after the other.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use regrow_daemon::caller::spawn_message;
use regrow_daemon::client::{Client, ClientError};
use regrow_daemon::wire::{Question, SpawnMessage};
use regrow_sys::strings::Strings;
use regrow_testkit::left;

use crate::service::{Said, Service, eventually, text};

/// How many runs each well-behaved client makes while an attack goes on.
const RUNS_MEANWHILE: usize = 5;

/// How many runs a well-behaved client has made, all of them right.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) runs: AtomicUsize,
    pub(crate) recycled: AtomicUsize,
    /// Connections that the daemon has closed to make room.
    pub(crate) closed: AtomicUsize,
}

/// What the daemon takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) memory_kib: usize,
    pub(crate) descriptors: usize,
    pub(crate) children: usize,
    pub(crate) threads: usize,
}

impl Taken {
    fn by(daemon: i32) -> Taken {
        let status = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
        let number = |name: &str| {
            let field = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            field.trim().trim_end_matches(" kB").parse().unwrap()
        };
        Taken {
            memory_kib: number("RssAnon:"),
            descriptors: fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().count(),
            children: left::children(daemon.cast_unsigned()).unwrap().len(),
            threads: number("Threads:"),
        }
    }

    fn at_most(self, other: Taken) -> Taken {
        Taken {
            memory_kib: self.memory_kib.max(other.memory_kib),
            descriptors: self.descriptors.max(other.descriptors),
            children: self.children.max(other.children),
            threads: self.threads.max(other.threads),
        }
    }
}

/// A daemon and its well-behaved clients.
pub(crate) struct Siege {
    pub(crate) service: Service,
    pub(crate) daemon: i32,
    pub(crate) connected: Served,
    pub(crate) commands: Served,
    template: SpawnMessage,
    is_over: AtomicBool,
}

impl Siege {
    pub(crate) fn new(args: &[&str]) -> Siege {
        let service = Service::with(args);
        let daemon = service.daemon();
        // Once, while there is one thread: the umask cannot be read without being set.
        let template = spawn_message("sh".as_ref(), &[""; 0]).unwrap();
        let (connected, commands) = (Served::default(), Served::default());
        Siege { service, daemon, connected, commands, template, is_over: AtomicBool::new(false) }
    }

    /// The message for a program with arguments, as a well-behaved client has it. Its descriptors are 0, 1 and 2.
    pub(crate) fn order(&self, program: &str, args: &[&str]) -> SpawnMessage {
        let mut strings = Strings::new();
        args.iter().for_each(|arg| strings.push(&[arg.as_bytes()]).unwrap());
        let program = program.into();
        SpawnMessage { program, args: strings, targets: vec![0, 1, 2], ..self.template.clone() }
    }

    /// Besieges the daemon while the well-behaved clients work. Returns the most that the daemon has taken.
    pub(crate) fn lay(&self, attacks: impl FnOnce()) -> Taken {
        self.service.warm(&["sh"]);
        std::thread::scope(|scope| {
            let clients =
                [scope.spawn(|| self.stay_connected()), scope.spawn(|| self.command_after_command())];
            let most = scope.spawn(|| self.watch());
            let over = Over(&self.is_over);
            attacks();
            drop(over);
            clients.into_iter().for_each(|client| client.join().unwrap());
            most.join().unwrap()
        })
    }

    /// Waits until both well-behaved clients have made some further runs.
    pub(crate) fn others_are_served(&self) {
        for (name, served) in [("connected client", &self.connected), ("commands", &self.commands)] {
            let until = served.runs.load(SeqCst) + RUNS_MEANWHILE;
            eventually(&format!("service of the {name}"), || served.runs.load(SeqCst) >= until);
        }
    }

    fn watch(&self) -> Taken {
        let mut most = Taken::by(self.daemon);
        while !self.is_over.load(SeqCst) {
            most = most.at_most(Taken::by(self.daemon));
            std::thread::sleep(Duration::from_millis(10));
        }
        most
    }

    fn stay_connected(&self) {
        let connect = || Client::connect(&self.service.place()).unwrap();
        let mut client = connect();
        let mut number = 0;
        while !self.is_over.load(SeqCst) {
            number += 1;
            let word = format!("connected-{number}");
            let order = self.order("sh", &["-c", "echo \"$1\"; exit 3", "sh", &word]);
            let (mut from, to) = std::io::pipe().unwrap();
            let null = File::open("/dev/null").unwrap();
            let ended = client.complete(order, &[null.as_fd(), to.as_fd(), null.as_fd()]);
            drop(to);
            match ended {
                Ok(Some(status)) => {
                    let mut said = String::new();
                    from.read_to_string(&mut said).unwrap();
                    assert_eq!((said.as_str(), status), (format!("{word}\n").as_str(), 3 << 8));
                    self.connected.recycled.fetch_add(1, SeqCst);
                    self.connected.runs.fetch_add(1, SeqCst);
                }
                // It is told that it is to execute the program by other means.
                Ok(None) => drop(self.connected.runs.fetch_add(1, SeqCst)),
                Err(ClientError::Unknown(error)) => panic!("{error}"),
                Err(_) => {
                    self.connected.closed.fetch_add(1, SeqCst);
                    client = connect();
                }
            }
        }
    }

    fn command_after_command(&self) {
        let mut number = 0;
        while !self.is_over.load(SeqCst) {
            number += 1;
            let word = format!("command-{number}");
            let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
            command.args([
                "--log",
                "info",
                "run",
                "--no-tty",
                "sh",
                "-c",
                "echo \"$1\"; exit 4",
                "sh",
                &word,
            ]);
            command.env("XDG_RUNTIME_DIR", self.service.folder()).stdin(Stdio::null());
            let output = command.output().unwrap();
            let said = Said::read(&output.stderr);
            assert_eq!(
                (text(&output.stdout), output.status.code()),
                (format!("{word}\n"), Some(4)),
                "{said:?}"
            );
            assert_eq!(text(&said.rest), "");
            self.commands.recycled.fetch_add(usize::from(said.is_kept()), SeqCst);
            self.commands.runs.fetch_add(1, SeqCst);
        }
    }

    /// What the daemon takes when it keeps nothing and has no client but the one that asks.
    pub(crate) fn rest(&self) -> Taken {
        let mut client = Client::connect(&self.service.place()).unwrap();
        eventually("rest", || {
            client.clear().unwrap();
            let status = client.ask(Question::Status).unwrap();
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let taken = Taken::by(self.daemon);
            status["daemon"]["clients"] == 0 && taken.children == 0 && taken.threads == 1
        });
        Taken::by(self.daemon)
    }
}

/// Ends a siege, also when an attack has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
