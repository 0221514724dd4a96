//! Whether a client is of the daemon's security domain: what it has may be given to a run of the daemon's, and the other way round.
//!
//! The kernel tells, and not the client: the rights of its process are the daemon's; the daemon may look into it; and it may look into
//! the daemon, which its secret shows ([`crate::proof`]). The last two together hold for no two processes of which one is in a Landlock
//! domain that the other is not in.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use regrow_engine::run::creation::CallerPart;
use regrow_sys::peer::{Namespaces, PeerProcess, Rights};

/// How old what was seen of a client may be. A client that has connected lately was looked at then.
const VALID: Duration = Duration::from_secs(1);

/// What the daemon has that its clients must have.
#[derive(Debug)]
pub(super) struct Domain {
    rights: Rights,
    namespaces: Namespaces,
}

impl Domain {
    pub(super) fn own() -> io::Result<Domain> {
        Ok(Domain { rights: Rights::own()?, namespaces: Namespaces::own()? })
    }
}

/// What is known of a client.
#[derive(Debug)]
pub(super) struct Standing {
    process: Option<PeerProcess>,
    /// It knows the secret.
    is_proved: bool,
    /// What the kernel said, and when: the signals that it ignores, if it has the daemon's rights.
    seen: Option<(Option<u64>, Instant)>,
    /// When it was seen to have the daemon's namespaces and control groups.
    seen_inside: Option<Instant>,
}

impl Standing {
    /// Of the process that has connected a socket.
    pub(super) fn of(socket: BorrowedFd<'_>) -> Standing {
        Standing { process: PeerProcess::of(socket).ok(), is_proved: false, seen: None, seen_inside: None }
    }

    /// The client has told a secret, which is the daemon's or is not.
    pub(super) fn prove(&mut self, is_right: bool) {
        self.is_proved = is_right;
    }

    /// Looks at its rights, unless that was done a short while ago.
    pub(super) fn look(&mut self, domain: &Domain) -> Option<u64> {
        if let Some((ignored, _)) = self.seen.filter(|(_, at)| at.elapsed() < VALID) {
            return ignored;
        }
        let ignored = self.process.as_ref().and_then(|process| process.look(&domain.rights));
        self.seen = Some((ignored, Instant::now()));
        ignored
    }

    /// Whether it is of the daemon's domain.
    pub(super) fn is_of(&mut self, domain: &Domain) -> bool {
        self.is_proved && self.look(domain).is_some()
    }

    /// Whether it is of the daemon's domain in all that a client of one page does not say itself: rights, namespaces, and the control groups
    /// where they are given. The signals that it ignores.
    ///
    /// # Errors
    /// The part that differs.
    pub(super) fn ignored_signals(
        &mut self,
        domain: &Domain,
        cgroup: Option<&[u8]>,
    ) -> Result<u64, CallerPart> {
        let ignored = self.look(domain).filter(|_| self.is_proved).ok_or(CallerPart::Confinement)?;
        self.look_inside(domain, cgroup)?;
        Ok(ignored)
    }

    /// Looks at its namespaces, and at the control groups where they are given, unless that was done a short while ago.
    ///
    /// # Errors
    /// The part that differs.
    pub(super) fn look_inside(&mut self, domain: &Domain, cgroup: Option<&[u8]>) -> Result<(), CallerPart> {
        if self.seen_inside.is_some_and(|at| at.elapsed() < VALID) {
            return Ok(());
        }
        let process = self.process.as_ref().ok_or(CallerPart::Process)?;
        if !domain.namespaces.are_of(process) {
            return Err(CallerPart::Namespace);
        }
        if cgroup.is_some_and(|own| process.cgroup().is_none_or(|other| other != own)) {
            return Err(CallerPart::Cgroup);
        }
        self.seen_inside = Some(Instant::now());
        Ok(())
    }
}
