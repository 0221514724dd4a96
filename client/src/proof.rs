//! The daemon's secret, which shows that this process may look into the daemon (`regrow-daemon`'s `proof`).
//!
//! The kernel asks the same question for a copy of the daemon's descriptor as for its entry in `/proc`, and one more of its modules (Yama)
//! may say no to a copy only. Then the entry is read.

use regrow_abi::client::{PROOF_BYTES, PROOF_NUMBERS};

use crate::buffer::Buffer;
use crate::sys;

/// The secret of the daemon that listens at the other end of a socket.
pub fn of_daemon(socket: i32) -> Option<[u8; PROOF_BYTES]> {
    /// `SO_PEERPIDFD`, Linux 6.5.
    const PEER_PROCESS: usize = 77;
    const NOT_PERMITTED: sys::Res = -1;
    const NOT_OPEN: sys::Res = -9;
    let daemon = sys::peer(socket, PEER_PROCESS) as i32;
    if daemon < 0 {
        return from_entries(socket);
    }
    for number in PROOF_NUMBERS {
        match sys::descriptor_of(daemon, number) {
            NOT_OPEN => {}
            NOT_PERMITTED => return from_entries(socket),
            fd @ 0.. => {
                if let Some(secret) = secret_in(fd as i32) {
                    return Some(secret);
                }
                sys::close(fd as i32);
            }
            _ => return None,
        }
    }
    None
}

/// What a sealed memfd of the secret's size holds. Nothing happens to any other descriptor.
fn secret_in(fd: i32) -> Option<[u8; PROOF_BYTES]> {
    /// Against sealing, shrinking, growing and writing.
    const SEALED: sys::Res = 0b1111;
    if sys::seals(fd) != SEALED {
        return None;
    }
    let mut bytes = [0; PROOF_BYTES + 1];
    let is_whole = sys::read_start(fd, &mut bytes) == PROOF_BYTES as sys::Res;
    is_whole.then(|| *bytes.first_chunk().unwrap_or(&[0; PROOF_BYTES]))
}

/// By the daemon's entries in `/proc`.
fn from_entries(socket: i32) -> Option<[u8; PROOF_BYTES]> {
    /// `SO_PEERCRED`: the first number of what it gives is the process.
    const PEER: usize = 17;
    const NAME: &[u8] = b"/memfd:regrow-proof (deleted)";
    let daemon = sys::peer(socket, PEER);
    if daemon <= 0 {
        return None;
    }
    for number in PROOF_NUMBERS {
        let mut path = Buffer::<40>::new();
        path.put(b"/proc/");
        path.decimal(daemon as u32);
        path.put(b"/fd/");
        path.decimal(number as u32);
        path.put(&[0]);
        let mut link = [0; 40];
        let length = sys::read_link(path.pointer(), &mut link);
        if length >= 0 && link.get(..length as usize) == Some(NAME) {
            let fd = sys::open(path.pointer(), 0) as i32;
            return if fd < 0 { None } else { secret_in(fd) };
        }
    }
    None
}
