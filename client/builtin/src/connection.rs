//! The shell's connection to the daemon, which stays for as many orders as it has. A subshell makes one of its own.

use regrow_abi::client::PROOF_BYTES;
use regrow_client::place;
use regrow_client::proof;
use regrow_client::sys;

/// Numbers below this one are the scripts'.
const FIRST_OWN: usize = 10;

/// See the module.
pub struct Connection {
    /// The process that has made it; zero: nobody has.
    owner: i32,
    /// Zero where there is none.
    socket: i32,
    secret: [u8; PROOF_BYTES],
}

impl Connection {
    /// None as yet.
    pub const fn none() -> Connection {
        Connection { owner: 0, socket: 0, secret: [0; PROOF_BYTES] }
    }

    /// The socket.
    pub fn socket(&self) -> i32 {
        self.socket
    }

    /// The daemon's secret.
    pub fn secret(&self) -> &[u8; PROOF_BYTES] {
        &self.secret
    }

    /// Connects, if this process has not. `runtime_folder` is the variable `XDG_RUNTIME_DIR`. `None` without a daemon.
    pub fn open(&mut self, runtime_folder: Option<&[u8]>) -> Option<()> {
        if self.is_open() {
            return Some(());
        }
        // Of a shell that has forked this one: the other goes on with it.
        self.close();
        let address = place::address(runtime_folder, sys::effective_user())?;
        let low = sys::connect(address.filled()) as i32;
        if low < 0 {
            return None;
        }
        self.socket = sys::move_up(low, FIRST_OWN).max(0) as i32;
        self.owner = sys::own_number();
        let Some(secret) = Some(self.socket).filter(|&socket| socket > 0).and_then(proof::of_daemon) else {
            self.close();
            return None;
        };
        self.secret = secret;
        Some(())
    }

    /// Whether this process has connected.
    fn is_open(&self) -> bool {
        self.socket > 0 && self.owner == sys::own_number()
    }

    /// Closes it: a run that is under way ends.
    pub fn close(&mut self) {
        if self.socket > 0 {
            sys::close(self.socket);
        }
        self.socket = 0;
    }
}
