//! Forks bodies of images, as the settings of the shard say.

use regrow_body::{Body, BodyError, Keepers};
use regrow_image::image::Image;

use crate::settings::Settings;
use regrow_abi::fault::{self, FaultPoint};

/// How bodies are forked.
#[derive(Clone, Debug)]
pub(crate) struct BodyForker {
    verify: bool,
    sessions: bool,
    fault: FaultPoint,
    keepers: Keepers,
}

impl BodyForker {
    /// Bodies of a shard with these settings, noted in this registry.
    pub(crate) fn new(settings: &Settings, keepers: Keepers) -> BodyForker {
        BodyForker { verify: settings.verify, sessions: settings.sessions, fault: settings.fault, keepers }
    }

    /// The same without verify mode: a shell is compared with no image.
    pub(crate) fn without_verify(&self) -> BodyForker {
        BodyForker { verify: false, ..self.clone() }
    }

    /// Forks a body that nobody waits for, and maps what its first run is going to touch.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) fn fork_ahead(&self, image: &Image) -> Result<Body, BodyError> {
        let body = self.fork(image)?;
        // In verify mode the body waits to be compared first.
        if self.verify || body.prefault_first(image) {
            return Ok(body);
        }
        Err(BodyError::Silent { keeper: body.keeper() })
    }

    /// Forks a body with the settings' fault point in it.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) fn fork(&self, image: &Image) -> Result<Body, BodyError> {
        if self.fault == fault::SEED_KILLED {
            image.seed().kill();
        }
        if self.fault == fault::FORK_FAILS {
            let source = std::io::ErrorKind::OutOfMemory.into();
            return Err(BodyError::Fork { pid: image.seed().pid(), source });
        }
        let body = Body::fork(image, self.verify, self.sessions, &self.keepers)?;
        if self.fault.is_in_agent() {
            body.set_fault(self.fault);
        }
        Ok(body)
    }
}
