//! The descriptors that a process has while its image is made.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use regrow_front::channel::DESCRIPTOR;

use crate::making::agent_code::AgentCode;

/// The descriptors that a process has while its image is made, by number: standard ones, then those of the agent.
pub(crate) mod fd {
    pub(crate) const SOCKET: i32 = regrow_abi::KEEPER_SOCKET_FD;
    pub(crate) const CODE: i32 = 4;
    pub(crate) const STORE: i32 = 5;
    pub(crate) const CONTROL: i32 = 6;
    pub(crate) const COUNT: usize = 7;
    /// Of a front end.
    pub(crate) const REPORT: i32 = super::DESCRIPTOR;
}

/// Sources of those descriptors, out of the way of the numbers that they get.
pub(crate) struct MakingDescriptors {
    null: OwnedFd,
    socket: OwnedFd,
    code: OwnedFd,
    store: OwnedFd,
    control: OwnedFd,
    report: Option<OwnedFd>,
}

impl MakingDescriptors {
    pub(crate) fn new(
        agent: &AgentCode,
        socket: BorrowedFd<'_>,
        store: BorrowedFd<'_>,
        control: BorrowedFd<'_>,
        report: Option<BorrowedFd<'_>>,
    ) -> io::Result<Self> {
        let up = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 64);
        let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        Ok(MakingDescriptors {
            null: up(null.as_fd())?,
            socket: up(socket)?,
            code: up(agent.fd())?,
            store: up(store)?,
            control: up(control)?,
            report: report.map(up).transpose()?,
        })
    }

    pub(crate) fn pairs(&self) -> Vec<(i32, i32)> {
        let null = self.null.as_raw_fd();
        let mut pairs = vec![
            (null, 0),
            (null, 1),
            (null, 2),
            (self.socket.as_raw_fd(), fd::SOCKET),
            (self.code.as_raw_fd(), fd::CODE),
            (self.store.as_raw_fd(), fd::STORE),
            (self.control.as_raw_fd(), fd::CONTROL),
        ];
        pairs.extend(self.report.as_ref().map(|report| (report.as_raw_fd(), fd::REPORT)));
        pairs
    }
}
