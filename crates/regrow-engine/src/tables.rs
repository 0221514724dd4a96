//! The resource tables of a shard. Each is a small thing of its own; they refer to one another by id.
//!
//! ```text
//!   Programs ──ImageId──> Images <──ImageId── Bodies <──BodyId── Processes          Shells
//!       ^                   │
//!       └────ProgramId──────┘
//! ```
//!
//! A resource can be there while no process is: that is what the tables are for.

pub(crate) mod bodies;
pub(crate) mod images;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod shells;

use regrow_body::Body;

use bodies::Bodies;
use images::Images;
use processes::Processes;
use programs::Programs;
use shells::Shells;

/// All tables of a shard.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) programs: Programs,
    pub(crate) images: Images,
    pub(crate) bodies: Bodies<Body>,
    pub(crate) shells: Shells,
    pub(crate) processes: Processes,
}

impl Tables {
    /// How many bodies of an image there are that serve more than one run.
    pub(crate) fn reusable_bodies(&self, image: crate::ids::ImageId) -> usize {
        self.bodies.of(image).filter(|(_, body)| !body.is_spent()).count()
    }

    /// Drops everything that is kept; ids from before find nothing after it. Processes go on, and stay.
    pub(crate) fn begin_anew(&mut self, generation: u32) {
        let processes = std::mem::take(&mut self.processes);
        *self = Tables {
            programs: Programs::of_generation(generation),
            images: Images::of_generation(generation),
            processes,
            ..Tables::default()
        };
    }

    /// Bytes that all kept images and their bodies are reckoned to hold.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.images.iter_kept().map(|(id, kept)| kept.bytes(self.bodies.of(id).count())).sum()
    }
}
