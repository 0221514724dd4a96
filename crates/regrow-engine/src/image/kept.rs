//! An image that is kept, and what decides whether a run may use it.

use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::Arc;

use regrow_abi::PAGE_BYTES;
use regrow_abi::task::Task;
use regrow_image::envkey::KeyNames;
use regrow_image::image::Image;
use regrow_image::resolve::FileIdentity;

use regrow_sys::strings::Strings;

use crate::run::creation::Point;

/// Page tables and the like of a small process.
const TABLES_BYTES: u64 = 128 * 1024;
/// A page of a page table has so many entries.
const PAGES_PER_TABLE: u64 = 512;
/// What the runs of a large image are reckoned to write.
const WRITTEN_BYTES: u64 = 1024 * 1024;

/// After how many runs it is looked which saved pages of a large image they write. Where nothing is given back then, after twice as many.
const RUNS_BEFORE: u64 = 32;
/// An image of fewer saved pages keeps them in its store.
const LARGE_PAGES: usize = 1024;

/// Files by the names that lead to them.
pub(crate) type Identities = Vec<(PathBuf, FileIdentity)>;

/// The image of a program, ready for bodies and runs.
#[derive(Debug)]
pub(crate) struct KeptImage {
    pub(crate) image: Arc<Image>,
    /// The environment variables that belong to the key, and the image's entries of them.
    names: KeyNames,
    key_env: Vec<CString>,
    then: Task,
    /// Which files the image is of, by the names that lead to them.
    identities: Identities,
    /// An environment that is known to fit: most runs have the same as the last one.
    fitting_env: Vec<u8>,
    /// How many runs there were after which a body is put back.
    runs: u64,
}

impl KeptImage {
    /// An image of these files whose seed inherited `then` from the caller, for runs whose entries of `names` are `key_env`.
    pub(crate) fn new(
        image: Image,
        names: KeyNames,
        key_env: Vec<CString>,
        then: Task,
        identities: Identities,
    ) -> KeptImage {
        let (image, fitting_env) = (Arc::new(image), Vec::new());
        KeptImage { image, names, key_env, then, identities, fitting_env, runs: 0 }
    }

    /// Counts a run after which its body is put back. True when it is time to look which saved pages runs write, and to give the others back.
    pub(crate) fn count_run(&mut self) -> bool {
        self.runs += 1;
        let is_large = self.image.pages.len() >= LARGE_PAGES && self.image.tracks_writes();
        is_large && self.runs >= RUNS_BEFORE && self.runs.is_power_of_two() && !self.image.has_given_back()
    }

    /// What the keepers inherited from the caller.
    pub(crate) fn then(&self) -> &Task {
        &self.then
    }

    /// The snapshot point.
    pub(crate) fn point(&self) -> Point {
        self.image.point
    }

    /// The entries of an environment that belong to the key.
    pub(crate) fn key_env_of(&self, env: &Strings) -> Vec<CString> {
        self.names.select(env).into_iter().map(CStr::to_owned).collect()
    }

    /// Whether a run with this environment may use the image.
    pub(crate) fn fits(&self, env: &Strings) -> bool {
        env.as_bytes() == self.fitting_env
            || self.names.select(env).into_iter().eq(self.key_env.iter().map(CString::as_c_str))
    }

    /// Remembers that this environment fits.
    pub(crate) fn remember(&mut self, env: &Strings) {
        if env.as_bytes() != self.fitting_env {
            self.fitting_env.clear();
            self.fitting_env.extend_from_slice(env.as_bytes());
        }
    }

    /// Whether every file of the image is as it was. Costs a look at each file.
    pub(crate) fn is_unchanged(&self) -> bool {
        let same = |(file, then): &(PathBuf, FileIdentity)| {
            FileIdentity::of_path(file).is_ok_and(|current| current == *then)
        };
        self.identities.iter().all(same)
            && self.image.dependencies.absent.iter().all(|file| file.symlink_metadata().is_err())
    }

    /// Bytes that the image and so many bodies of it are reckoned to hold.
    pub(crate) fn bytes(&self, bodies: usize) -> u64 {
        self.image_bytes() + self.body_bytes() * bodies as u64
    }

    /// Bytes of the image: its saved pages in the seed, and those that were not given back in the store.
    pub(crate) fn image_bytes(&self) -> u64 {
        let given_back = self.image.given_back() as u64 * PAGE_BYTES;
        (self.image.saved_bytes() + TABLES_BYTES) * 2 - given_back
    }

    /// Bytes of a body: a copy of the saved pages. A body whose writes are tracked copies the pages that its runs write, and
    /// shares the others with the seed.
    pub(crate) fn body_bytes(&self) -> u64 {
        let own = if self.image.tracks_writes() { WRITTEN_BYTES } else { u64::MAX };
        let tables = self.image.saved_bytes() / PAGES_PER_TABLE;
        self.image.saved_bytes().min(own) + tables + TABLES_BYTES
    }
}
