//! What a keeper does on command while its armed process waits.

use std::time::Duration;

use regrow_abi::{State, command};

use crate::body::Body;

/// How long a keeper may take for a command.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

impl Body {
    /// Gives back the pages of a waiting body that its image does not have. False when it is not waiting, or is broken
    /// by that.
    pub fn trim(&self) -> bool {
        self.armed().is_some() && self.control.take() && self.command(command::TRIM)
    }

    /// Has the keeper carry out a command while the armed process is taken.
    pub(crate) fn command(&self, command: u32) -> bool {
        self.control.set_command(command);
        self.bell().ring();
        let state = self.control.wait_until(COMMAND_TIMEOUT, |state| state != Some(State::Taken));
        self.control.set_command(command::NONE);
        state == Some(State::Armed)
    }
}
