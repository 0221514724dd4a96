//! From a place in code to its function and line.
//!
//! ```text
//!   Frame {module, offset} ──> the module's file ──> debug information, its own or /usr/lib/debug's ──> function, file:line
//!                                       │            symbol table ──────────────────────────────────> function+0x1f
//!                                       └──────────> nothing of both ───────────────────────────────> module+0x4a10
//! ```
//!
//! The offset of a frame is a return address: the call stands before it, so that the address below it is looked up. A file that is not the image
//! of the frame, because it was replaced since, is not looked at. Damaged files give less, and no error: a profile is shown as well as it can be.

mod module;
mod place;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regrow_sites::{Frame, ImageId};

use self::module::Module;
pub use self::place::Place;

/// Where distributions put debug information that is apart from its program.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
/// Most places that are remembered.
const MOST_PLACES: usize = 65_536;
/// Most files whose symbols are kept at a time.
const MOST_MODULES: usize = 8;

/// Looks places up, and remembers them.
#[derive(Debug)]
pub struct Symbols {
    debug_folder: PathBuf,
    places: HashMap<Frame, Arc<Place>>,
    /// The files that were looked at last; `None` for one that has nothing.
    modules: VecDeque<(ImageId, Option<Module>)>,
}

impl Default for Symbols {
    fn default() -> Symbols {
        Symbols::with_debug_folder(Path::new(DEBUG_FOLDER))
    }
}

impl Symbols {
    /// Looks for debug information in another folder than `/usr/lib/debug`.
    #[must_use]
    pub fn with_debug_folder(folder: &Path) -> Symbols {
        Symbols { debug_folder: folder.to_owned(), places: HashMap::new(), modules: VecDeque::new() }
    }

    /// The place of a frame; `path` is that of its module's file, where it is known.
    pub fn place(&mut self, frame: Frame, path: Option<&str>) -> Arc<Place> {
        if let Some(place) = self.places.get(&frame) {
            return Arc::clone(place);
        }
        let mut place =
            Place { module: path.unwrap_or_default().to_owned(), offset: frame.offset, ..Place::default() };
        if let Some(module) = path.and_then(|path| self.module(frame.module, path)) {
            module.fill(&mut place);
        }
        let place = Arc::new(place);
        if self.places.len() >= MOST_PLACES {
            self.places.clear();
        }
        // A path may be told later.
        if path.is_some() {
            self.places.insert(frame, Arc::clone(&place));
        }
        place
    }

    fn module(&mut self, image: ImageId, path: &str) -> Option<&Module> {
        let known = self.modules.iter().position(|(known, _)| *known == image);
        let entry = match known.and_then(|index| self.modules.remove(index)) {
            Some(entry) => entry,
            None => (image, Module::open(Path::new(path), image, &self.debug_folder)),
        };
        self.modules.push_back(entry);
        if self.modules.len() > MOST_MODULES {
            self.modules.pop_front();
        }
        self.modules.back()?.1.as_ref()
    }
}

#[cfg(test)]
mod tests;
