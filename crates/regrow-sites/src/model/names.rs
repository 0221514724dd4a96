//! The names of images and frames, as hashes: by them a changed binary is known as the one that it was.
//!
//! ```text
//!   images    hash of the id ──> the id, hash of the path       the longest unused makes room
//!   frames    hash of module and offset ──> hash of the symbol  sets of four: within a set the oldest makes room
//! ```

use super::index::Index;
use crate::hash::{self, Hash64};
use crate::site::{Frame, ImageId};

/// Symbols of a set.
const WAYS: usize = 4;

/// An image that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownImage {
    id: ImageId,
    /// Hash of its path; 0: not known.
    path: u32,
    /// It was met again since the hand was there last.
    used: bool,
}

/// The names that are known.
#[derive(Debug, Clone)]
pub(super) struct Names {
    images: Vec<KnownImage>,
    most_images: usize,
    hand: usize,
    index: Index,
    /// Hash of a frame, hash of its symbol; zeros: nothing.
    symbols: Vec<(u32, u32)>,
}

impl Names {
    /// How many bytes the names of so many images and frames take.
    pub(super) const fn bytes_for(images: usize, frames: usize) -> usize {
        images * size_of::<KnownImage>()
            + Index::bytes_for(images)
            + frames.div_ceil(WAYS) * WAYS * size_of::<(u32, u32)>()
    }

    pub(super) fn new(most_images: usize, frames: usize) -> Names {
        Names {
            images: Vec::with_capacity(most_images),
            most_images,
            hand: 0,
            index: Index::new(most_images),
            symbols: vec![(0, 0); frames.div_ceil(WAYS) * WAYS],
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.images.capacity() * size_of::<KnownImage>()
            + self.index.bytes()
            + self.symbols.capacity() * size_of::<(u32, u32)>()
    }

    /// Notes an image, and its path if that is told.
    pub(super) fn note_image(&mut self, id: ImageId, path: Option<u32>) {
        if id == ImageId::UNKNOWN {
            return;
        }
        let hash = image_hash(id);
        let known = self.slot(hash);
        let slot = known.unwrap_or_else(|| self.add_image(id));
        let image = &mut self.images[usize::from(slot)];
        image.used = known.is_some();
        image.path = path.unwrap_or(image.path);
    }

    /// Notes the symbol of a frame.
    pub(super) fn note_symbol(&mut self, frame: Frame, symbol: &str) {
        self.note_symbol_hash(frame_hash(frame), name_hash(14, symbol));
    }

    pub(super) fn note_symbol_hash(&mut self, frame: u32, symbol: u32) {
        let Some(set) = self.set_of(frame) else { return };
        let set = &mut self.symbols[set..set + WAYS];
        let at = set.iter().position(|&(known, _)| known == frame || known == 0).unwrap_or(WAYS - 1);
        // The latest comes first.
        set.copy_within(0..at, 1);
        set[0] = (frame, symbol);
    }

    /// The hash of an image's name, or of the image where it has none.
    pub(super) fn image(&self, hash: u32) -> u32 {
        let path = self.slot(hash).map_or(0, |slot| self.images[usize::from(slot)].path);
        if path == 0 { hash } else { path }
    }

    /// The hash of a frame's symbol, or of the frame where it has none.
    pub(super) fn frame(&self, hash: u32) -> u32 {
        let Some(set) = self.set_of(hash) else { return hash };
        let known = self.symbols[set..set + WAYS].iter().find(|&&(known, _)| known == hash && hash != 0);
        known.map_or(hash, |&(_, symbol)| symbol)
    }

    /// The image with this hash.
    pub(super) fn image_of(&self, hash: u32) -> Option<ImageId> {
        self.slot(hash).map(|slot| self.images[usize::from(slot)].id)
    }

    /// The images that are known, with the hashes of their paths.
    pub(super) fn images(&self) -> impl Iterator<Item = (ImageId, u32)> + '_ {
        self.images.iter().map(|image| (image.id, image.path))
    }

    /// The frames that have symbols: hashes of both.
    pub(super) fn symbols(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.symbols.iter().copied().filter(|&(frame, _)| frame != 0)
    }

    fn slot(&self, hash: u32) -> Option<u16> {
        let is_it =
            |slot: u16| self.images.get(usize::from(slot)).is_some_and(|image| image_hash(image.id) == hash);
        if hash == 0 { None } else { self.index.find(hash::mixed(u64::from(hash)), is_it) }
    }

    fn add_image(&mut self, id: ImageId) -> u16 {
        let new = KnownImage { id, path: 0, used: false };
        let slot = if self.images.len() < self.most_images {
            self.images.push(new);
            self.images.len() - 1
        } else {
            self.make_room()
        };
        self.images[slot] = new;
        let slot = u16::try_from(slot).unwrap_or(0);
        self.index.insert(index_hash(id), slot);
        slot
    }

    /// Forgets an image that was not met again since the hand was there last.
    fn make_room(&mut self) -> usize {
        loop {
            let slot = self.hand;
            self.hand = (slot + 1) % self.images.len().max(1);
            let image = &mut self.images[slot];
            if !image.used {
                let (hash, images) = (index_hash(image.id), &self.images);
                let hash_of = |slot: u16| index_hash(images[usize::from(slot)].id);
                self.index.remove(hash, u16::try_from(slot).unwrap_or(0), hash_of);
                return slot;
            }
            image.used = false;
        }
    }

    fn set_of(&self, hash: u32) -> Option<usize> {
        let sets = self.symbols.len() / WAYS;
        let set = usize::try_from(hash::mixed(u64::from(hash)) % (sets.max(1) as u64)).unwrap_or(0);
        (sets > 0).then_some(set * WAYS)
    }
}

/// The hash of an image.
pub(super) fn image_hash(image: ImageId) -> u32 {
    if image == ImageId::UNKNOWN { 0 } else { hash::of(6, &[image.0]).low() }
}

/// The hash of a frame.
pub(super) fn frame_hash(frame: Frame) -> u32 {
    hash::of(7, &[frame.module.0, frame.offset]).low()
}

fn index_hash(id: ImageId) -> u64 {
    hash::mixed(u64::from(image_hash(id)))
}

/// The hash of a path.
pub(super) fn path_hash(path: &str) -> u32 {
    name_hash(13, path)
}

fn name_hash(kind: u64, name: &str) -> u32 {
    let mut hash = Hash64::new(kind);
    hash.add_bytes(name.as_bytes());
    hash.low()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_one_path_have_one_name() {
        let mut names = Names::new(8, 8);
        let hash = |id| image_hash(ImageId(id));
        assert_eq!(names.image(hash(1)), hash(1));
        names.note_image(ImageId(1), Some(path_hash("/bin/sh")));
        names.note_image(ImageId(2), None);
        names.note_image(ImageId(2), Some(path_hash("/bin/sh")));
        names.note_image(ImageId(2), None);
        assert_eq!(names.image(hash(1)), names.image(hash(2)));
        assert_ne!(names.image(hash(1)), hash(1));
        assert_eq!(names.image_of(hash(2)), Some(ImageId(2)));
        assert_eq!((names.image(0), names.image_of(0)), (0, None));
        names.note_image(ImageId::UNKNOWN, Some(5));
        assert_eq!(names.images().count(), 2);
    }

    #[test]
    fn frames_of_one_symbol_have_one_name() {
        let mut names = Names::new(8, 8);
        let frame = |offset| Frame { module: ImageId(1), offset };
        names.note_symbol(frame(16), "main");
        names.note_symbol(frame(32), "main");
        names.note_symbol(frame(48), "other");
        let named = |offset| names.frame(frame_hash(frame(offset)));
        assert_eq!(named(16), named(32));
        assert_ne!(named(16), named(48));
        assert_eq!(named(64), frame_hash(frame(64)));
        assert_eq!(names.frame(0), 0);
    }

    #[test]
    fn what_is_not_used_makes_room() {
        let mut names = Names::new(16, 16);
        for id in 1..=1000 {
            names.note_image(ImageId(id), Some(u32::try_from(id).unwrap()));
            names.note_image(ImageId(1), None);
            names.note_symbol(Frame { module: ImageId(id), offset: id }, "f");
        }
        assert_eq!(names.images().count(), 16);
        assert_eq!(names.image(image_hash(ImageId(1))), 1);
        assert_eq!(names.image(image_hash(ImageId(1000))), 1000);
        assert!(names.symbols().count() <= 16);
        assert_eq!(names.bytes(), Names::bytes_for(16, 16));
    }
}
