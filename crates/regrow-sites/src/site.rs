//! A creation site: the place in a parent process at which it created a child.
//!
//! ```text
//!   Site { image, frames: [innermost, its caller, the caller of that], script, child }
//!            │        │                                                  │       └ what the child executes, once that is known
//!            │        │                                                  └ for an interpreted parent: file and line, or make's target
//!            │        └ return addresses, each as a module and an offset in it: `system` in libc, then who called it
//!            └ the program that the parent ran
//! ```
//!
//! An offset is the address less the module's load base, so that it is the same in every process, and is what the symbol table of the
//! module's file has.

use crate::hash;

/// Most frames of a site: a wrapper (`system`, `popen`, `subprocess`) and its callers.
pub const MOST_FRAMES: usize = 3;

/// An executable or a library: 64 bits made of its build id, or of device, inode, ctime and size where it has none.
///
/// The same build has the same id on every machine; a changed file has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(pub u64);

impl ImageId {
    /// No image is known.
    pub const UNKNOWN: ImageId = ImageId(0);

    /// The image with this build id (`NT_GNU_BUILD_ID`, any length).
    #[must_use]
    pub fn of_build_id(build_id: &[u8]) -> ImageId {
        ImageId(fnv(1, build_id))
    }

    /// The image in this file, which has no build id.
    #[must_use]
    pub fn of_file(device: u64, inode: u64, ctime_ns: i128, size_bytes: u64) -> ImageId {
        let mut bytes = Vec::with_capacity(40);
        bytes.extend(device.to_le_bytes());
        bytes.extend(inode.to_le_bytes());
        bytes.extend(ctime_ns.to_le_bytes());
        bytes.extend(size_bytes.to_le_bytes());
        ImageId(fnv(2, &bytes))
    }
}

/// A place in the code of a parent: the return address of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The executable or library.
    pub module: ImageId,
    /// The return address less the module's load base, in bytes.
    pub offset: u64,
}

/// A place in the script of an interpreted parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Script {
    /// The script's file: 64-bit FNV-1a of its path. For make: of the makefile's.
    pub file: u64,
    /// The line, from 1; for make, 64-bit FNV-1a of the target's name; 0: not known.
    pub line: u64,
}

/// A creation site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site {
    /// The program that the parent ran.
    pub image: ImageId,
    /// The innermost frames, those of the C library's own wrappers included; `None` behind the last one that is known.
    pub frames: [Option<Frame>; MOST_FRAMES],
    /// The place in the parent's script.
    pub script: Option<Script>,
    /// What the child executes, once that is known.
    pub child: Option<ImageId>,
}

impl Site {
    /// A hash of the place: image, frames and script, whatever the child executes. It is what a trace has in its column `site`.
    #[must_use]
    pub fn place_hash(&self) -> u64 {
        let [first, second, third] =
            self.frames.map(|frame| frame.map_or((0, 0), |frame| (frame.module.0, frame.offset)));
        let script = self.script.map_or((0, 0), |script| (script.file, script.line));
        let pairs = [first, second, third, script];
        let mut hash = hash::of(17, &[self.image.0]);
        pairs.into_iter().for_each(|(one, other)| {
            hash.add(one);
            hash.add(other);
        });
        hash.whole()
    }
}

/// 64-bit FNV-1a of a kind and bytes; never 0, which is [`ImageId::UNKNOWN`].
fn fnv(kind: u8, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(step(0xcbf2_9ce4_8422_2325, kind), |hash, &byte| step(hash, byte));
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_place_is_that_of_each_of_its_parts_and_not_of_the_child() {
        let frame = |offset| Some(Frame { module: ImageId(2), offset });
        let site = Site { image: ImageId(1), frames: [frame(5), frame(6), None], script: None, child: None };
        let others = [
            Site { image: ImageId(9), ..site },
            Site { frames: [frame(6), frame(5), None], ..site },
            Site { frames: [frame(5), None, None], ..site },
            Site { script: Some(Script { file: 1, line: 0 }), ..site },
            Site { script: Some(Script { file: 0, line: 1 }), ..site },
        ];
        assert!(others.iter().all(|other| other.place_hash() != site.place_hash()));
        assert_eq!(Site { child: Some(ImageId(4)), ..site }.place_hash(), site.place_hash());
    }

    #[test]
    fn a_build_has_an_id_and_another_file_another_one() {
        assert_eq!(ImageId::of_build_id(&[1, 2, 3]), ImageId::of_build_id(&[1, 2, 3]));
        assert_ne!(ImageId::of_build_id(&[1, 2, 3]), ImageId::of_build_id(&[1, 2, 4]));
        assert_ne!(ImageId::of_file(1, 2, 3, 4), ImageId::of_file(1, 2, 4, 4), "changed");
        assert_ne!(ImageId::of_file(0, 0, 0, 0), ImageId::UNKNOWN);
    }
}
