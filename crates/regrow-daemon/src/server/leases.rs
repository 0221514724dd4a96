//! The leases of a daemon's clients: those that hold, and those of which processes are left.

use std::time::Instant;

use regrow_engine::keeping::leases::Lease;

/// A lease, and the connection that has it.
#[derive(Debug)]
pub(super) struct ClientLease {
    pub(super) client: u64,
    pub(super) number: u32,
    pub(super) lease: Lease,
    pub(super) until: Instant,
}

/// A lease that has ended, until its processes have.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) held: ClientLease,
    pub(super) processes: Vec<i32>,
    /// Its last records have been looked for.
    pub(super) is_read: bool,
}

/// The leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    pub(super) held: Vec<ClientLease>,
    pub(super) closing: Vec<Closing>,
    pub(super) next: u32,
    /// When what has ended is waited for.
    pub(super) due: Option<Instant>,
    /// Ends of processes do not wake the loop.
    pub(super) is_muted: bool,
}

impl Leases {
    /// Whether there is no lease, and no process of one.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.closing.is_empty()
    }

    /// How many hold.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether a client has one.
    pub(super) fn has(&self, client: u64) -> bool {
        self.held.iter().any(|held| held.client == client)
    }

    /// When there is something to do.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).chain(self.due).min()
    }

    /// Whether a client says that a process is its run.
    pub(super) fn is_current(&self, pid: i32, but: u32) -> bool {
        self.held.iter().any(|held| held.number != but && held.lease.current() == pid)
    }
}
