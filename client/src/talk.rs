//! The connection: sends the order, waits for the answer, and leaves all that is not the end to the full command.

use regrow_client::message::Message;
use regrow_client::order::Order;
use regrow_client::place::Address;
use regrow_client::{proof, sys};

use crate::command::TakenOver;

/// The signals that a command passes on to its run: HUP, INT, QUIT, USR1, USR2, TERM, CONT, TSTP, WINCH.
const PASSED_ON: [u32; 9] = [1, 2, 3, 10, 12, 15, 18, 20, 28];

/// The signals wait while this process does not know whom they are for.
pub struct Signals {
    /// What this process blocked before.
    pub before: u64,
}

impl Signals {
    fn passed_on() -> u64 {
        PASSED_ON.iter().fold(0, |mask, signal| mask | 1 << (signal - 1))
    }

    /// Holds them from here on.
    pub fn hold() -> Signals {
        Signals { before: sys::block_signals(0, Signals::passed_on()) }
    }

    /// What is blocked meanwhile.
    pub fn held(&self) -> u64 {
        self.before | Signals::passed_on()
    }

    /// Lets them act.
    pub fn let_go(&self) {
        sys::block_signals(2, self.before);
    }
}

/// What came of asking.
pub enum Outcome<'a> {
    /// The run has ended, with this wait status.
    Ended(i32),
    /// Nothing has run, and this process is to be the program.
    Declined,
    /// Nothing was asked for, or the answer is one of another version: nothing has run.
    Nothing,
    /// Something that the full command knows what to do about.
    TakeOver(TakenOver<'a>),
}

/// A connection to the daemon, and what is needed beside it.
pub struct Connection {
    socket: i32,
    ticket: i32,
    waiting: i32,
}

impl Connection {
    /// Connects before the order is put together: the daemon looks at this process meanwhile. `None` without a daemon.
    pub fn open(address: &Address) -> Option<Connection> {
        let socket = sys::connect(address.filled()) as i32;
        let ticket = sys::counter() as i32;
        let waiting = sys::signal_descriptor(Signals::passed_on()) as i32;
        (socket >= 0 && ticket >= 0 && waiting >= 0).then_some(Connection { socket, ticket, waiting })
    }
}

/// Asks for the run and waits for its end.
pub fn until_the_end<'a>(
    order: &Order,
    connection: &Connection,
    signals: &Signals,
    program: &'a [u8],
) -> Outcome<'a> {
    let Connection { socket, ticket, waiting } = *connection;
    let Some(secret) = proof::of_daemon(socket) else { return Outcome::Nothing };
    if order.send(socket, &secret, ticket) < 0 {
        return Outcome::Nothing;
    }
    let mut run = TakenOver { socket, ticket, pidfd: -1, pid: -1, blocked: signals.before, program };
    loop {
        let (has_message, has_signal) = sys::wait(socket, waiting);
        if has_message {
            let mut message = [0; 12];
            let bytes = sys::peek(socket, &mut message);
            match Message::read(message.get(..bytes.max(0) as usize).unwrap_or_default()) {
                Message::Ended(status) => return Outcome::Ended(status),
                Message::Started(pid) => {
                    (run.pid, run.pidfd) = (pid, sys::take(socket, &mut message).1);
                    continue;
                }
                Message::Declined => return Outcome::Declined,
                Message::Other => return Outcome::TakeOver(run),
            }
        }
        if has_signal {
            return Outcome::TakeOver(run);
        }
    }
}
