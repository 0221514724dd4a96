//! Bodies that clients have on lease, from the message that asks for one to the end of the last run in it.
//!
//! ```text
//!   lease ──admit──> a body is forked and lent ──renewed in time──> …
//!     └──> declined        └── returned, not renewed, revoked, client gone ──> keeper killed ──> its processes waited for ──> over
//! ```
//!
//! The runs are the daemon's children, and nobody waits for this loop at their ends. So while there are no other runs, `SIGCHLD` is left
//! pending, by which the kernel wakes nobody again, and what has ended is waited for a little later.
//!
//! Invariants: a process that a client names is waited for where it has ended and is not known as somebody else's; one that any client
//! names as under way is not waited for.

use std::time::{Duration, Instant};

use regrow_body::LeaseEnd;
use regrow_engine::keeping::leases::Grant;
use regrow_engine::run::creation::Fallback;
use regrow_sys::{child, raw};
use rustix::event::epoll::EventFlags;

use super::leases::{ClientLease, Closing};
use super::runs::declined;
use super::{CHILDREN, Server, request};
use crate::wire::{GrantMessage, SpawnMessage, ToClient};

/// How long a lease lasts that is not renewed. A client renews before the first run after half of it.
const TERM: Duration = Duration::from_secs(2);
/// How much later than its end a process is waited for.
const REAPED_AFTER: Duration = Duration::from_millis(20);

impl Server {
    /// Lends a body, or says why not.
    pub(super) fn lend(&mut self, client: u64, message: SpawnMessage) {
        let admitted = self.is_like_us(&message).and_then(|()| self.admit());
        let is_plain = message.preload.is_empty();
        let request = admitted.and_then(|()| request::without_descriptors(message));
        let request = request.and_then(|request| if is_plain { Ok(request) } else { Err(Fallback::NotKept) });
        let (lease, grant) = match request.and_then(|request| self.controller.lend(&request)) {
            Ok(lent) => lent,
            Err(why) => return self.send(client, &declined(&why)),
        };
        self.leases.next = self.leases.next.wrapping_add(1);
        let number = self.leases.next;
        self.leases.held.push(ClientLease { client, number, lease, until: Instant::now() + TERM });
        let (message, descriptors) = grant_message(number, grant);
        if let Some(connection) = self.clients.get_mut(client) {
            connection.send_with(&message, descriptors);
        }
    }

    /// Lets a lease hold on, if it does.
    pub(super) fn renew(&mut self, client: u64, number: u32) {
        let looked = self.controller.look_after_leases();
        self.take_ended();
        self.end_revoked();
        let found = self.leases.held.iter_mut().find(|held| held.client == client && held.number == number);
        let answer = match (looked, found) {
            (Ok(()), Some(held)) if !self.stopping => {
                held.until = Instant::now() + TERM;
                ToClient::Done
            }
            (Err(why), _) => declined(&why),
            _ => declined(&Fallback::RecyclingOff),
        };
        self.send(client, &answer);
    }

    /// Takes a lease back.
    pub(super) fn take_back(&mut self, client: u64, number: u32) {
        self.end_leases(LeaseEnd::RunGoesOn, |held, _| held.client == client && held.number == number);
    }

    /// A client is gone: so are its runs.
    pub(super) fn end_leases_of(&mut self, client: u64) {
        self.end_leases(LeaseEnd::RunIsKilled, |held, _| held.client == client);
        for closing in self.leases.closing.iter().filter(|closing| closing.held.client == client) {
            closing.processes.iter().for_each(|&pid| child::kill(pid));
        }
    }

    /// Ends the leases that do not hold any more, or were not renewed.
    pub(super) fn end_revoked(&mut self) {
        if self.leases.held.is_empty() {
            return;
        }
        if self.stopping {
            self.controller.revoke_leases();
        }
        let now = Instant::now();
        self.end_leases(LeaseEnd::RunGoesOn, |held, server| {
            held.until <= now || !server.controller.lease_holds(&held.lease)
        });
    }

    fn end_leases(&mut self, how: LeaseEnd, is_over: impl Fn(&ClientLease, &Server) -> bool) {
        while let Some(at) = self.leases.held.iter().position(|held| is_over(held, self)) {
            let held = self.leases.held.swap_remove(at);
            let processes = held.lease.end(how, |pid| {
                self.runs.get(pid).is_some()
                    || self.leases.is_current(pid, held.number)
                    || self.controller.is_own(pid)
            });
            self.leases.closing.push(Closing { held, processes, is_read: false });
            self.leases.due = Some(Instant::now() + REAPED_AFTER);
        }
    }

    /// Processes have ended.
    pub(super) fn take_ends(&mut self) {
        if self.runs.is_empty() && !self.leases.is_empty() {
            self.mute(true);
            return;
        }
        self.read_ends();
        if !self.leases.is_empty() {
            self.leases.due.get_or_insert(Instant::now() + REAPED_AFTER);
        }
    }

    /// Has the end of a process wake the loop.
    pub(super) fn listen_to_ends(&mut self) {
        self.mute(false);
    }

    fn mute(&mut self, is_muted: bool) {
        if self.leases.is_muted == is_muted {
            return;
        }
        self.leases.is_muted = is_muted;
        let events = if is_muted { EventFlags::empty() } else { EventFlags::IN };
        let _ = self.poller.change(&self.children, CHILDREN, events);
        if is_muted {
            self.leases.due.get_or_insert(Instant::now() + REAPED_AFTER);
        }
    }

    /// Does for the leases what is due.
    pub(super) fn look_after_leases(&mut self) {
        if self.leases.due.is_some_and(|due| due <= Instant::now()) {
            self.leases.due = None;
            self.mute(false);
            self.read_ends();
            self.take_ended();
            self.close_ended();
        }
        self.end_revoked();
    }

    /// Waits for what has ended by the words of clients, and notes it.
    pub(super) fn take_ended(&mut self) {
        let mut leaving = Vec::new();
        let mut held = std::mem::take(&mut self.leases.held);
        for one in &mut held {
            if self.take_records(one) {
                leaving.push(one.number);
            }
        }
        self.leases.held = held;
        self.end_leases(LeaseEnd::RunGoesOn, |held, _| leaving.contains(&held.number));
    }

    /// Takes the records of a lease. True when one of its runs has left processes in its group.
    fn take_records(&mut self, held: &mut ClientLease) -> bool {
        let mut has_left = false;
        for record in held.lease.take_records() {
            let is_others =
                self.runs.get(record.pid).is_some() || self.leases.is_current(record.pid, held.number);
            // One that lives is not what the client says.
            if record.pid > 0 && !is_others && !matches!(raw::wait_pid(record.pid, true), Ok(None)) {
                has_left |= raw::has_members(record.pid);
                self.controller.ran(&held.lease, &record);
            }
        }
        has_left
    }

    /// Waits for the runs of a lease that its client has not told of: they lead groups, and are nobody else's.
    fn sweep(&self) {
        let is_known = |pid: i32| {
            let is_closing = self.leases.closing.iter().any(|one| one.processes.contains(&pid));
            self.runs.get(pid).is_some() || self.leases.is_current(pid, 0) || is_closing
        };
        let ended = child::all().into_iter().filter(|&pid| child::led_group(pid) && !is_known(pid));
        ended.for_each(|pid| drop(raw::wait_pid(pid, true)));
    }

    /// Takes the last records of leases that have ended, and lets those go of which no process is left.
    fn close_ended(&mut self) {
        let mut closing = std::mem::take(&mut self.leases.closing);
        for one in &mut closing {
            one.is_read = one.processes.is_empty();
            // A run that goes on may have its record written a moment later.
            self.take_records(&mut one.held);
            one.processes.retain(|&pid| matches!(raw::wait_pid(pid, true), Ok(None)));
        }
        let (over, going): (Vec<_>, Vec<_>) = closing.into_iter().partition(|one| one.is_read);
        self.leases.closing = going;
        if !over.is_empty() {
            // What the other clients have told of is noted first.
            self.take_ended();
            self.sweep();
        }
        over.into_iter().for_each(|one| self.controller.lease_is_over(one.held.lease));
        if !self.leases.closing.is_empty() {
            self.leases.due = Some(Instant::now() + REAPED_AFTER);
        }
    }
}

fn grant_message(number: u32, grant: Grant) -> (ToClient, Vec<std::os::fd::OwnedFd>) {
    let Grant { lent, page, watch, layout, first_args, exec_path, task, timed } = grant;
    let message = GrantMessage {
        lease: number,
        armed: lent.armed,
        keeper: lent.keeper,
        timed,
        first_args,
        exec_path: exec_path.map(std::ffi::CString::into_bytes),
        task,
        layout,
    };
    (ToClient::Leased(Box::new(message)), vec![lent.socket, lent.control, page, watch])
}
