//! A client that has bodies on lease, and what is seen of its runs from outside.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;
use std::thread::JoinHandle;
use std::time::Instant;

use regrow_daemon::caller::spawn_message;
use regrow_daemon::client::{Client, ClientError};
use regrow_daemon::place::Place;
use regrow_daemon::wire::{Question, SpawnMessage};
use regrow_sys::strings::Strings;
use rustix::process::Signal;

use crate::service::{LIMIT, Service, eventually, signal};

/// What this process is, as a message says it. It is asked once, before any test makes a file: to be asked it sets its umask for a moment.
static SELF: LazyLock<SpawnMessage> = LazyLock::new(|| spawn_message::<&str>("".as_ref(), &[]).unwrap());

/// A daemon of a test's own.
pub(crate) fn service() -> Service {
    LazyLock::force(&SELF);
    Service::start()
}

/// A connected client.
pub(crate) struct Borrower {
    pub(crate) client: Client,
    place: Place,
    /// What marks the processes of the service.
    variable: String,
}

/// What the daemon tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) leases: u64,
    pub(crate) runs: u64,
    pub(crate) created: u64,
}

impl Borrower {
    pub(crate) fn of(service: &Service) -> Borrower {
        Borrower::at(service.place())
    }

    /// One that is connected to the daemon of a place.
    pub(crate) fn at(place: Place) -> Borrower {
        let variable = format!("XDG_RUNTIME_DIR={}", place.folder().display());
        Borrower { client: Client::connect(&place).unwrap(), place, variable }
    }

    /// A run with a short environment.
    pub(crate) fn message(&self, program: &Path, args: &[&str]) -> SpawnMessage {
        let mut message = SELF.clone();
        message.program = program.as_os_str().as_bytes().to_vec();
        for arg in args {
            message.args.push(&[arg.as_bytes()]).unwrap();
        }
        message.env = Strings::new();
        for entry in [self.variable.as_str(), "PATH=/usr/bin:/bin"] {
            message.env.push(&[entry.as_bytes()]).unwrap();
        }
        message.directory = b"/".to_vec();
        message.targets = vec![0, 1, 2];
        message
    }

    /// Has a run, and gives its status and what it has written.
    pub(crate) fn complete(&mut self, message: &SpawnMessage) -> (Option<i32>, String) {
        let null = File::open("/dev/null").unwrap();
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let descriptors = [null.as_fd(), write.as_fd(), write.as_fd()];
        let status = self.client.complete(message.clone(), &descriptors).unwrap();
        drop(write);
        let mut said = String::new();
        // What has left a process behind has no end as yet.
        if !message.args.as_bytes().ends_with(b"&\0") {
            File::from(read).read_to_string(&mut said).unwrap();
        }
        (status, said)
    }

    /// The same by a shell.
    pub(crate) fn shell(&mut self, script: &str) -> (Option<i32>, String) {
        let message = self.message(Path::new("/bin/sh"), &["-c", script]);
        self.complete(&message)
    }

    /// Has runs like this one until one of them needs the daemon no more.
    pub(crate) fn lease_of(&mut self, message: &SpawnMessage) {
        let before = self.client.leased_runs();
        eventually("a run on lease", || {
            self.complete(message);
            self.client.leased_runs() > before
        });
    }

    /// The same for shells.
    pub(crate) fn lease(&mut self) {
        self.lease_of(&self.message(Path::new("/bin/sh"), &["-c", "exit 0"]));
    }

    /// Has a run on lease by a shell that tells its number, and ends when it has read a line.
    pub(crate) fn shell_with_input(mut self, script: &str) -> Running {
        let deadline = Instant::now() + LIMIT;
        loop {
            let running = self.start_shell(script);
            // On a busy machine a body may not be put back in time, so that the daemon starts the run.
            if running.observer().status().runs == 0 {
                return running;
            }
            assert!(Instant::now() < deadline, "it is started by the daemon");
            signal(running.pid(), Signal::KILL);
            self = running.end(Some(9));
            self.lease();
        }
    }

    fn start_shell(self, script: &str) -> Running {
        let message = self.message(Path::new("/bin/sh"), &["-c", script]);
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let ((input, to_input), (from_output, output)) = (pipe(), pipe());
        let Borrower { mut client, place, variable } = self;
        let thread = std::thread::spawn(move || {
            let descriptors = [input.as_fd(), output.as_fd(), output.as_fd()];
            let ended = client.complete(message, &descriptors);
            (client, ended)
        });
        let mut line = String::new();
        BufReader::new(File::from(from_output)).read_line(&mut line).unwrap();
        Running { thread, to_input, pid: line.trim().parse().unwrap(), place, variable }
    }

    pub(crate) fn status(&mut self) -> Status {
        let told: serde_json::Value =
            serde_json::from_str(&self.client.ask(Question::Status).unwrap()).unwrap();
        let number = |name: &str| told["daemon"][name].as_u64().unwrap();
        let creations = &told["pool"]["creations"];
        let of = |way: &str| -> u64 {
            creations[way].as_object().unwrap().values().map(|number| number.as_u64().unwrap()).sum()
        };
        Status { leases: number("leases"), runs: number("runs"), created: of("recycled") + of("forked_body") }
    }

    pub(crate) fn created(&mut self) -> u64 {
        self.status().created
    }
}

/// A run under way.
pub(crate) struct Running {
    thread: JoinHandle<(Client, Result<Option<i32>, ClientError>)>,
    to_input: OwnedFd,
    pid: i32,
    place: Place,
    variable: String,
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it go on, and sees that it ends so. Gives the client.
    pub(crate) fn end(self, status: Option<i32>) -> Borrower {
        drop(self.to_input);
        let (client, ended) = self.thread.join().unwrap();
        assert_eq!(ended.unwrap(), status);
        Borrower { client, place: self.place, variable: self.variable }
    }

    fn observer(&self) -> Borrower {
        Borrower::at(self.place.clone())
    }
}

/// The children of a process.
pub(crate) fn children(parent: i32) -> HashSet<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>())
        .collect()
}

/// Whether a text is in the writable memory of one of these processes.
pub(crate) fn has_in_memory(processes: &[i32], text: &str) -> bool {
    processes.iter().any(|pid| {
        let (Ok(maps), Ok(memory)) =
            (fs::read_to_string(format!("/proc/{pid}/maps")), File::open(format!("/proc/{pid}/mem")))
        else {
            return false;
        };
        maps.lines().filter(|line| line.contains(" rw")).any(|line| {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let address = |text: &str| u64::from_str_radix(text, 16).unwrap();
            let mut bytes = vec![0; usize::try_from(address(end) - address(start)).unwrap()];
            let read = memory.read_at(&mut bytes, address(start)).unwrap_or(0);
            bytes[..read].windows(text.len()).any(|window| window == text.as_bytes())
        })
    })
}
