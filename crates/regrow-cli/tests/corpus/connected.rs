//! A client that stays connected to the daemon.

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use regrow_daemon::client::{Answer, Client, ClientError, RunEvent};
use regrow_daemon::place::Place;
use regrow_daemon::wire::SpawnMessage;
use regrow_sys::strings::Strings;
use regrow_testkit::corpus::{
    Input, Invocation, Output, Pipes, PlainExec, RunResult, Running, Spawner, gather,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// Asks for runs, and executes by other means what the daemon declines.
pub(crate) struct Connected {
    client: Client,
    template: SpawnMessage,
}

impl Connected {
    /// A client of a place; its messages are like this one.
    pub(crate) fn new(place: &Place, template: SpawnMessage) -> Connected {
        Connected { client: Client::connect(place).unwrap(), template }
    }

    fn message(&self, invocation: &Invocation, dir: &Path) -> SpawnMessage {
        let block = |strings: &mut dyn Iterator<Item = Vec<u8>>| {
            let mut list = Strings::new();
            strings.for_each(|string| list.push(&[&string]).unwrap());
            list
        };
        let mut args = invocation.args.iter().map(|arg| arg.as_bytes().to_vec());
        let mut env =
            invocation.env.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        SpawnMessage {
            program: invocation.program.as_bytes().to_vec(),
            args: block(&mut args),
            env: block(&mut env),
            directory: dir.as_os_str().as_bytes().to_vec(),
            targets: vec![0, 1, 2],
            ..self.template.clone()
        }
    }
}

/// The ends of a run's standard descriptors: its own, and ours.
struct Ends {
    own: [OwnedFd; 3],
    stdin: Option<OwnedFd>,
    stdout: Option<PipeReader>,
    stderr: PipeReader,
}

impl Ends {
    fn of(invocation: &Invocation) -> io::Result<Ends> {
        let (own_stdin, stdin) = match &invocation.stdin {
            Input::Null => (File::open("/dev/null")?.into(), None),
            Input::File(path) => (File::open(path)?.into(), None),
            Input::Text(_) => {
                let (from, to) = io::pipe()?;
                (from.into(), Some(to.into()))
            }
        };
        let (stdout, own_stdout) = match &invocation.stdout {
            Output::Pipe => {
                let (from, to) = io::pipe()?;
                (Some(from), to.into())
            }
            Output::File(path) => (None, File::create(path)?.into()),
        };
        let (stderr, own_stderr) = io::pipe()?;
        Ok(Ends { own: [own_stdin, own_stdout, own_stderr.into()], stdin, stdout, stderr })
    }

    fn pipes(stdin: Option<OwnedFd>, stdout: Option<PipeReader>, stderr: PipeReader) -> Pipes {
        let own = |pipe: PipeReader| OwnedFd::from(pipe);
        Pipes::new(stdin.map(Into::into), stdout.map(|pipe| own(pipe).into()), Some(own(stderr).into()))
    }
}

impl Spawner for Connected {
    fn run(&mut self, invocation: &Invocation, dir: &Path) -> io::Result<RunResult> {
        let message = self.message(invocation, dir);
        let Ends { own, stdin, stdout, stderr } = Ends::of(invocation)?;
        let descriptors: Vec<BorrowedFd<'_>> = own.iter().map(AsFd::as_fd).collect();
        let answer = self.client.spawn(message, &descriptors);
        drop(own);
        let why = match answer {
            Ok(Answer::Started { pidfd: Some(pidfd), how, .. }) => {
                let mut run = Run { client: &mut self.client, pidfd, refused: None };
                let gathered = gather(&mut run, Ends::pipes(stdin, stdout, stderr), invocation);
                match (gathered, run.refused) {
                    (Ok(gathered), _) => {
                        let (status, fallback, point) = (gathered.status, None, None);
                        let (stdout, stderr) = (gathered.stdout, gathered.stderr);
                        return Ok(RunResult { status, stdout, stderr, how, point, fallback });
                    }
                    (Err(_), Some(why)) => why,
                    (Err(error), None) => return Err(error),
                }
            }
            Ok(Answer::Started { pidfd: None, .. }) => return Err(io::Error::other("a run without a pidfd")),
            Ok(Answer::Declined { reason, detail }) => format!("{reason}: {detail}"),
            Ok(Answer::Ended(status)) => panic!("an end with status {status} before a start"),
            Err(error @ ClientError::TooLarge { .. }) => error.to_string(),
            Err(error) => return Err(io::Error::other(error)),
        };
        let result = PlainExec.run(invocation, dir)?;
        Ok(RunResult { fallback: Some(why), ..result })
    }
}

/// A run that is under way.
struct Run<'a> {
    client: &'a mut Client,
    pidfd: OwnedFd,
    /// Why its start was refused, if it was.
    refused: Option<String>,
}

impl Run<'_> {
    fn next(&mut self) -> io::Result<Option<ExitStatus>> {
        match self.client.next_event().map_err(io::Error::other)? {
            RunEvent::Ended(status) => Ok(Some(ExitStatus::from_raw(status))),
            RunEvent::Stopped(_) | RunEvent::Continued => Ok(None),
            RunEvent::Declined(why) => {
                self.refused = Some(why);
                Err(io::ErrorKind::NotFound.into())
            }
        }
    }
}

impl Running for Run<'_> {
    fn poll_status(&mut self) -> io::Result<Option<ExitStatus>> {
        let at_once = Timespec::default();
        let ready = poll(&mut [PollFd::new(&*self.client, PollFlags::IN)], Some(&at_once))?;
        if ready == 0 { Ok(None) } else { self.next() }
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        if self.refused.is_some() {
            return Ok(());
        }
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL)?;
        while self.next()?.is_none() {}
        Ok(())
    }
}
