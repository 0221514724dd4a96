//! Forks bodies of images, as the settings of the shard say.

use std::io;

use regrow_body::{Body, BodyError, Keepers, Making, Purpose, Shell};
use regrow_image::image::Image;

use crate::settings::{Reuse, Settings};
use regrow_abi::fault::{self, FaultPoint};

/// How bodies are forked.
#[derive(Clone, Debug)]
pub(crate) struct BodyForker {
    how: Making,
    fault: FaultPoint,
    keepers: Keepers,
}

impl BodyForker {
    /// Bodies of a shard with these settings, noted in this registry.
    pub(crate) fn new(settings: &Settings, keepers: Keepers) -> BodyForker {
        let purpose = if settings.reuse == Reuse::Never { Purpose::OneRun } else { Purpose::Runs };
        let Settings { verify, sessions, trusts_runs, .. } = *settings;
        let how = Making { verify, sessions, trusts_runs, purpose, ..Making::default() };
        BodyForker { how, fault: settings.fault, keepers }
    }

    /// Forks a body that nobody waits for, and maps what its first run is going to touch.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) fn fork_ahead(&self, image: &Image) -> Result<Body, BodyError> {
        // In verify mode the body is compared first.
        self.fork_so(image, Making { ahead: !self.how.verify, ..self.how })
    }

    /// Forks a body with the settings' fault point in it.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) fn fork(&self, image: &Image) -> Result<Body, BodyError> {
        self.fork_so(image, self.how)
    }

    /// Forks a body that is to be lent.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) fn fork_to_lend(&self, image: &Image) -> Result<Body, BodyError> {
        self.fork_so(image, Making { ahead: true, lendable: true, ..self.how })
    }

    /// Makes a shell, of a body that no run has been in. It is compared with no image.
    ///
    /// # Errors
    /// As [`Body::fork`] and [`Body::break_up`].
    pub(crate) fn make_shell(&self, image: &Image) -> io::Result<Shell> {
        let how = Making { verify: false, purpose: Purpose::Shell, ..self.how };
        self.fork_so(image, how).map_err(io::Error::other)?.break_up()
    }

    fn fork_so(&self, image: &Image, how: Making) -> Result<Body, BodyError> {
        if self.fault == fault::SEED_KILLED {
            image.seed().kill();
        }
        if self.fault == fault::FORK_FAILS {
            let source = std::io::ErrorKind::OutOfMemory.into();
            return Err(BodyError::Fork { pid: image.seed().pid(), source });
        }
        let body = Body::fork(image, how, &self.keepers)?;
        if self.fault.is_in_agent() {
            body.set_fault(self.fault);
        }
        Ok(body)
    }
}
