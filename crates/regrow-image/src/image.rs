//! An image: what is kept of a program at a snapshot point, and its seed, the process that bodies are forked from.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

use regrow_abi::{ImageHeader, PageEntry, VmaEntry};
use regrow_sys::maps::{ReadMapsError, SmapsEntry, read_smaps};

pub use crate::patch::PatchKind;
use crate::point::Point;
use crate::recipe::Dependencies;
use crate::saved::{SavedPages, SavedReader};
pub use crate::seed::Seed;
use crate::stack_plan::StackPlan;

/// All that the engine must know of an image, as it is read while the image is contents.
#[derive(Debug)]
pub(crate) struct ImageContents {
    pub(crate) header: ImageHeader,
    pub(crate) vmas: Vec<VmaEntry>,
    pub(crate) pages: Vec<PageEntry>,
    pub(crate) stack: StackPlan,
    pub(crate) patches: Vec<(u64, PatchKind)>,
    pub(crate) dependencies: Dependencies,
    pub(crate) learned: Vec<Vec<u8>>,
    pub(crate) start_time: Option<Duration>,
}

/// A program at a snapshot point, kept.
#[derive(Debug)]
pub struct Image {
    /// What the agent knows of it.
    pub header: ImageHeader,
    /// Its mappings.
    pub vmas: Vec<VmaEntry>,
    /// Its saved pages.
    pub pages: Vec<PageEntry>,
    /// Where a run's argument block goes.
    pub stack: StackPlan,
    /// The pointers that each run gets anew.
    pub patches: Vec<(u64, PatchKind)>,
    /// Files that it depends on.
    pub dependencies: Dependencies,
    /// Names of the environment variables that were read before the point: their values are part of the key.
    pub learned: Vec<Vec<u8>>,
    /// The processor time from exec to the point. The tracer's stops are in it, about the same for all programs.
    pub start_time: Option<Duration>,
    /// What a front end has reported.
    pub report: Vec<u8>,
    /// The point.
    pub point: Point,
    seed: Seed,
    saved: SavedPages,
    seed_smaps: OnceLock<Vec<SmapsEntry>>,
}

impl Image {
    pub(crate) fn new(
        contents: ImageContents,
        seed: Seed,
        store: OwnedFd,
        point: Point,
        report: Vec<u8>,
    ) -> Image {
        Image {
            header: contents.header,
            vmas: contents.vmas,
            pages: contents.pages,
            stack: contents.stack,
            patches: contents.patches,
            dependencies: contents.dependencies,
            learned: contents.learned,
            start_time: contents.start_time,
            report,
            point,
            seed,
            saved: SavedPages::new(store),
            seed_smaps: OnceLock::new(),
        }
    }

    /// The process that bodies are forked from.
    #[must_use]
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The seed's mappings with the kernel's flags. They are read once: the seed never changes them.
    ///
    /// # Errors
    /// When the seed is gone, or what the kernel tells of it is not understood.
    pub fn seed_smaps(&self) -> Result<&[SmapsEntry], ReadMapsError> {
        if let Some(known) = self.seed_smaps.get() {
            return Ok(known);
        }
        let read = read_smaps(self.seed.pid())?;
        Ok(self.seed_smaps.get_or_init(|| read))
    }

    /// Reads saved pages.
    #[must_use]
    pub fn saved(&self) -> SavedReader<'_> {
        self.saved.reader(&self.header, &self.pages, self.seed.pid())
    }

    /// Keeps the saved pages at these addresses, which runs write, and leaves the others to the seed, as far as it has them. Bodies that are
    /// made from then on read those there that a run writes nevertheless; for the others nothing changes. Gives how many pages the seed has
    /// alone. What was given back once stays so.
    ///
    /// # Errors
    /// When the seed is gone, or somebody may not read its memory: all pages are kept.
    pub fn give_back(&self, written: &HashSet<u64>) -> io::Result<usize> {
        self.saved.give_back(&self.header, &self.pages, &self.seed, written)
    }

    /// Whether pages were given back.
    #[must_use]
    pub fn has_given_back(&self) -> bool {
        self.saved.has_given_back()
    }

    /// How many saved pages the seed alone has.
    #[must_use]
    pub fn given_back(&self) -> usize {
        self.saved.given_back()
    }

    /// Whether its bodies are told what their runs write, where they can be.
    #[must_use]
    pub fn tracks_writes(&self) -> bool {
        self.header.features & regrow_abi::features::TRACK_WRITES != 0
    }

    /// Whether its runs may be told something in the exchange.
    #[must_use]
    pub fn has_exchange(&self) -> bool {
        self.patches.iter().any(|patch| patch.1 == PatchKind::Exchange)
    }

    /// Bytes of saved pages.
    #[must_use]
    pub fn saved_bytes(&self) -> u64 {
        self.pages.len() as u64 * regrow_abi::PAGE_BYTES
    }
}
