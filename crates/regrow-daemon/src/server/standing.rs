//! Whether a client is of the daemon's security domain: what it has may be given to a run of the daemon's, and the other way round.
//!
//! The kernel tells, and not the client: the rights of its process are the daemon's; the daemon may look into it; and it may look into
//! the daemon, which its secret shows ([`crate::proof`]). The last two together hold for no two processes of which one is in a Landlock
//! domain that the other is not in.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use regrow_sys::peer::{PeerProcess, Rights};

/// How old what was seen of a client may be. A client that has connected lately was looked at then.
const VALID: Duration = Duration::from_secs(1);

/// What the daemon has that its clients must have.
#[derive(Debug)]
pub(super) struct Domain {
    rights: Rights,
}

impl Domain {
    pub(super) fn own() -> io::Result<Domain> {
        Ok(Domain { rights: Rights::own()? })
    }
}

/// What is known of a client.
#[derive(Debug)]
pub(super) struct Standing {
    process: Option<PeerProcess>,
    /// It knows the secret.
    is_proved: bool,
    /// What the kernel said of its rights, and when.
    seen: Option<(bool, Instant)>,
}

impl Standing {
    /// Of the process that has connected a socket.
    pub(super) fn of(socket: BorrowedFd<'_>) -> Standing {
        Standing { process: PeerProcess::of(socket).ok(), is_proved: false, seen: None }
    }

    /// The client has told a secret, which is the daemon's or is not.
    pub(super) fn prove(&mut self, is_right: bool) {
        self.is_proved = is_right;
    }

    /// Looks at its rights, unless that was done a short while ago.
    pub(super) fn look(&mut self, domain: &Domain) -> bool {
        if let Some((has_rights, _)) = self.seen.filter(|(_, at)| at.elapsed() < VALID) {
            return has_rights;
        }
        let has_rights = self.process.as_ref().is_some_and(|process| process.has_rights(&domain.rights));
        self.seen = Some((has_rights, Instant::now()));
        has_rights
    }

    /// Whether it is of the daemon's domain.
    pub(super) fn is_of(&mut self, domain: &Domain) -> bool {
        self.is_proved && self.look(domain)
    }
}
