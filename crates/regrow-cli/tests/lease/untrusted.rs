//! Clients that write anything into what they share with the daemon: page, control area and socket. Nobody else's runs are harmed.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use regrow_daemon::client::{Client, introduce};
use regrow_daemon::wire::{ToClient, ToDaemon};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags,
    SocketAddrUnix, SocketType, recvmsg, sendmsg,
};

use crate::borrower::{Borrower, children, service};
use crate::service::{Service, eventually, lives};

/// Where the page of a lease has the process that is under way, how many records it has, and the first one.
const CURRENT: u64 = 4;
const WRITTEN: u64 = 8;
const RECORDS: u64 = 24;
/// Bytes of a record, and how many there are.
const RECORD_BYTES: u64 = 32;
const RECORD_COUNT: u64 = 128;

/// What a client has of a lease, to do what it likes with.
struct RawLease {
    _connection: OwnedFd,
    socket: OwnedFd,
    control: OwnedFd,
    page: OwnedFd,
}

impl RawLease {
    fn of(service: &Service, borrower: &Borrower) -> RawLease {
        let connection = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::connect(&connection, &SocketAddrUnix::new(service.place().socket()).unwrap()).unwrap();
        introduce(connection.as_fd());
        let message = borrower.message(std::path::Path::new("/bin/sh"), &[]);
        let message = ToDaemon::Lease(Box::new(message)).to_bytes();
        sendmsg(
            &connection,
            &[IoSlice::new(&message)],
            &mut SendAncillaryBuffer::default(),
            SendFlags::empty(),
        )
        .unwrap();
        let mut bytes = vec![0; 65536];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&connection, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap().bytes;
        let answer = ToClient::from_bytes(&bytes[..got]).unwrap();
        assert!(matches!(answer, ToClient::Leased(_)), "{answer:?}");
        let fds: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            })
            .flatten()
            .collect();
        let [socket, control, page, _watch] = <[OwnedFd; 4]>::try_from(fds).unwrap();
        RawLease { _connection: connection, socket, control, page }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert_eq!(rustix::io::pwrite(&self.page, bytes, at).unwrap(), bytes.len());
    }
}

#[test]
fn a_client_that_names_other_processes_harms_none_of_them() {
    let service = service();
    let mut other = Borrower::of(&service);
    other.lease();
    let mut third = Borrower::of(&service);
    third.client.lease_nothing();
    let daemon = service.daemon();
    let running = other.shell_with_input("echo $$; read line; exit 7");
    let own = std::process::id().cast_signed();
    let mut targets: Vec<i32> = children(daemon).into_iter().filter(|&pid| lives(pid)).collect();
    targets.extend([running.pid(), daemon, own, 1, 0, -1, i32::MIN, i32::MAX]);
    for &target in &targets {
        let lease = RawLease::of(&service, &third);
        lease.write(CURRENT, &target.to_ne_bytes());
        for slot in 0..RECORD_COUNT {
            lease.write(RECORDS + slot * RECORD_BYTES, &target.to_ne_bytes());
        }
        lease.write(WRITTEN, &RECORD_COUNT.to_ne_bytes());
        assert_eq!(third.status().runs, 0, "it has looked");
        drop(lease);
        eventually("the end of the lease", || third.status().leases == 1);
        assert!(lives(running.pid()) && lives(daemon), "{target}");
        assert_eq!(third.shell("exit 5").0, Some(5 << 8), "{target}");
    }
    let mut other = running.end(Some(7 << 8));
    assert_eq!(other.shell("exit 8").0, Some(8 << 8));
    assert_eq!(service.daemon(), daemon);
}

#[test]
fn a_client_that_writes_anything_harms_itself_alone() {
    let service = service();
    let mut other = Borrower::of(&service);
    other.lease();
    let daemon = service.daemon();
    for byte in [0u8, 1, 2, 3, 0x41, 0x80, 0xff] {
        let lease = RawLease::of(&service, &other);
        let garbage = [byte; 4096];
        for page in 0..2 {
            lease.write(page * 4096, &garbage);
            rustix::io::pwrite(&lease.control, &garbage, page * 4096).unwrap();
        }
        // Orders that no order stands for, and the end of the socket.
        for _ in 0..3 {
            let _ = rustix::net::send(&lease.socket, &[byte], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        assert_eq!(other.shell("exit 4").0, Some(4 << 8));
        let _ = rustix::net::shutdown(&lease.socket, rustix::net::Shutdown::Both);
        assert!(
            rustix::fs::ftruncate(&lease.page, 0).is_err()
                && rustix::fs::ftruncate(&lease.control, 0).is_err()
        );
        drop(lease);
        assert_eq!(other.shell("exit 6").0, Some(6 << 8));
    }
    assert_eq!(service.daemon(), daemon);
    let mut observer = Client::connect(&service.place()).unwrap();
    assert!(observer.ask(regrow_daemon::wire::Question::Status).is_ok());
    eventually("nothing that is not waited for", || children(daemon).into_iter().all(lives));
}
