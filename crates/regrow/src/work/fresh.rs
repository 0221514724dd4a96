//! Works in fresh processes of this program.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use regrow_front::{DESCRIPTOR, ORDER_VARIABLE};
use serde::de::DeserializeOwned;

use super::died::{Died, StartError};
use super::exchange::{Exchange, Header};
use super::function::Call;
use super::handover;
use super::process::{Outcome, Process, Task, reader};
use super::ready::{FRESH_VARIABLE, Program, program};
use super::weight::Weight;
use crate::command::Start;
use crate::{Command, Point, Pool, PrepareError};

/// A call, on its way to a process.
struct Errand {
    command: Command,
    exchange: Exchange,
    memory: u64,
}

/// What has come of a call.
pub(crate) enum Ran<T> {
    /// Its process has ended.
    Over(Result<T, Died>),
    /// The time is over, and its process goes on.
    GoesOn(Process<T>),
}

/// Starts the process of a call.
pub(crate) fn start<T: DeserializeOwned>(
    pool: &Pool,
    call: &Call<T>,
    memory: u64,
) -> Result<Process<T>, Died> {
    Errand::of(pool, call, memory).and_then(|errand| errand.start(Start::Awaited)).map_err(not_started)
}

/// Calls a function in a process, and waits for its end.
pub(crate) fn run<T: DeserializeOwned>(
    pool: &Pool,
    call: &Call<T>,
    memory: u64,
    deadline: Option<Instant>,
) -> Result<Ran<T>, Died> {
    let mut start = Start::Unawaited;
    loop {
        let errand = Errand::of(pool, call, memory).map_err(not_started)?;
        let mut process = errand.start(start).map_err(not_started)?;
        match process.join_until(deadline) {
            None => return Ok(Ran::GoesOn(process)),
            Some(_) if start == Start::Unawaited && process.task.was_refused() => start = Start::ByExec,
            Some(result) => return Ok(Ran::Over(result)),
        }
    }
}

fn not_started(why: StartError) -> Died {
    Died::not_started(Weight::Fresh, why)
}

impl Errand {
    fn of<T>(pool: &Pool, call: &Call<T>, memory: u64) -> Result<Self, StartError> {
        let program = program().ok_or(StartError::NotReady)?;
        let (arguments, ends) = handover::collect(|| call.arguments());
        let arguments = arguments.map_err(StartError::Arguments)?;
        let header = Header { function: call.function(), program: program.file, memory };
        let exchange = Exchange::begin(header, &arguments)?;
        let mut command = command_of(pool, program);
        command.fd(exchange.as_fd().try_clone_to_owned()?, DESCRIPTOR);
        for (number, end) in (DESCRIPTOR + 1..).zip(ends) {
            command.fd(end, number);
        }
        Ok(Self { command, exchange, memory })
    }

    fn start<T: DeserializeOwned>(self, start: Start) -> Result<Process<T>, StartError> {
        let task = Task::Child(Box::new(self.command.start(start)?));
        let result = Outcome::Exchange(self.exchange, reader());
        Ok(Process { weight: Weight::Fresh, task, result, memory: self.memory })
    }
}

/// This program, started for one function. With its own arguments it initialises itself as this process has done.
fn command_of(pool: &Pool, program: &Program) -> Command {
    let mut command = pool.command(&program.path);
    command.args(program.front_end.args.iter().map(|argument| OsStr::from_bytes(argument.to_bytes())));
    command.env(ORDER_VARIABLE, DESCRIPTOR.to_string()).env(FRESH_VARIABLE, "1");
    command.warm(Arc::clone(&program.front_end));
    command
}

/// Makes the image of this program in which fresh processes begin.
pub(crate) fn prepare(pool: &Pool) -> Result<Point, PrepareError> {
    let Some(program) = program() else {
        let source = std::io::Error::other(StartError::NotReady);
        return Err(PrepareError::Program {
            program: std::env::args_os().next().unwrap_or_default(),
            source,
        });
    };
    pool.prepare(&command_of(pool, program))
}
