//! What a model has learned, as bytes that outlive it.
//!
//! ```text
//!   0        8         10       12        16      20
//!   │ magic  │ version │ 0      │ length  │ crc32 │ payload: images, symbols, keys with their histograms, cues
//!                └─── the checksum is of these and of the payload ───┘
//! ```
//!
//! Numbers are little endian; the payload is written by postcard. Processes that live are not in it: they are not known to live when it is
//! read. A key comes after the key that it is more special than.

use serde::{Deserialize, Serialize};

use super::chain::Identity;
use super::histogram::Histogram;
use super::level::Level;
use super::next::MOST_NEXT;
use super::node::{NO_PART, Node, Runs};
use crate::site::ImageId;

/// What such bytes begin with.
const MAGIC: [u8; 8] = *b"rgrwsite";
/// The version that this code writes and reads.
const VERSION: u16 = 1;
/// Bytes before the payload.
const HEADER: usize = 20;

/// Why bytes are no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They begin otherwise.
    #[error("it does not begin as a model of creation sites does")]
    NotAModel,
    /// Another version has written them.
    #[error("it is of version {found}; this is version {VERSION}")]
    Version {
        /// Its version.
        found: u16,
    },
    /// Some are missing, or there are too many.
    #[error("it has {bytes} bytes, and should have {wanted}")]
    Length {
        /// How many there are.
        bytes: usize,
        /// How many it says there are.
        wanted: usize,
    },
    /// They are not those that were written.
    #[error("its checksum is {found:08x}, and should be {wanted:08x}")]
    Checksum {
        /// That of the bytes.
        found: u32,
        /// The one that was written.
        wanted: u32,
    },
    /// They cannot be read, though the checksum is right.
    #[error("its payload cannot be read: {0}")]
    Payload(#[from] postcard::Error),
    /// They say something impossible.
    #[error("{what} {number} is impossible")]
    Impossible {
        /// What.
        what: &'static str,
        /// Its number, from 0.
        number: usize,
    },
}

/// The payload.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    /// Images, with the hashes of their paths.
    pub(super) images: Vec<(u64, u32)>,
    /// Hashes of frames and of their symbols.
    pub(super) symbols: Vec<(u32, u32)>,
    /// The first is that of everything.
    pub(super) keys: Vec<StoredKey>,
    pub(super) cues: Vec<StoredCue>,
}

/// A key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredKey {
    /// The number of the key that it is more special than.
    pub(super) parent: u16,
    pub(super) level: u8,
    pub(super) part: u32,
    identity: Identity,
    pub(super) is_split: bool,
    /// Epochs since it was used.
    pub(super) age: u8,
    pub(super) runs: Runs,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredCue {
    pub(super) hash: u32,
    pub(super) seen: u8,
    pub(super) at_a_time: Histogram<2>,
    pub(super) follows: Vec<StoredFollow>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredFollow {
    pub(super) image: u32,
    pub(super) place: u32,
    pub(super) weight: u8,
    pub(super) gaps: Histogram<2>,
}

impl Stored {
    /// With a header before it.
    pub(super) fn encode(&self) -> Vec<u8> {
        // Serializing into memory fails for types that do not know their length, and there are none here.
        let payload = postcard::to_allocvec(self).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        let checksum = checksum(&bytes[MAGIC.len()..], &payload);
        bytes.extend(checksum.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// What was written, if it is that and can be.
    pub(super) fn decode(bytes: &[u8]) -> Result<Stored, DecodeError> {
        let (stored, rest) = postcard::take_from_bytes::<Stored>(payload_of(bytes)?)?;
        if !rest.is_empty() {
            return Err(DecodeError::Length { bytes: bytes.len(), wanted: bytes.len() - rest.len() });
        }
        check(&stored)?;
        Ok(stored)
    }
}

/// The payload of such bytes, once all around it is right.
fn payload_of(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    if !bytes.starts_with(&MAGIC) {
        return Err(DecodeError::NotAModel);
    }
    let (Some(version), Some(length), Some(wanted)) = (word(8), word(12), word(16)) else {
        return Err(DecodeError::Length { bytes: bytes.len(), wanted: HEADER });
    };
    // A version of more than 16 bits is as unknown as any other.
    let version = u16::try_from(version).unwrap_or(u16::MAX);
    if version != VERSION {
        return Err(DecodeError::Version { found: version });
    }
    let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(HEADER);
    if whole != bytes.len() {
        return Err(DecodeError::Length { bytes: bytes.len(), wanted: whole });
    }
    let payload = &bytes[HEADER..];
    let found = checksum(&bytes[MAGIC.len()..HEADER - 4], payload);
    if found == wanted { Ok(payload) } else { Err(DecodeError::Checksum { found, wanted }) }
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// Whether what was read can be a model.
fn check(stored: &Stored) -> Result<(), DecodeError> {
    let impossible = |what, number| Err(DecodeError::Impossible { what, number });
    for (number, key) in stored.keys.iter().enumerate() {
        let parent = stored.keys.get(usize::from(key.parent)).filter(|_| usize::from(key.parent) < number);
        let is_fit = match (Level::from_number(key.level), parent) {
            (Some(Level::Everything), None) => number == 0 && key.is_root(),
            (Some(level), Some(parent)) => level != Level::Everything && key.may_follow(parent),
            _ => false,
        };
        if !is_fit {
            return impossible("key", number);
        }
    }
    for (number, cue) in stored.cues.iter().enumerate() {
        let is_light = cue.follows.iter().all(|follow| follow.weight > 0 && follow.weight <= cue.seen);
        if cue.hash == 0 || cue.follows.len() > MOST_NEXT || !is_light {
            return impossible("cue", number);
        }
    }
    if let Some(number) = stored.images.iter().position(|&(image, _)| ImageId(image) == ImageId::UNKNOWN) {
        return impossible("image", number);
    }
    match stored.symbols.iter().position(|&(frame, symbol)| frame == 0 || symbol == 0) {
        Some(number) => impossible("symbol", number),
        None => Ok(()),
    }
}

impl StoredKey {
    pub(super) fn new(node: &Node, parent: u16, age: u8) -> StoredKey {
        let Node { level, part, identity, is_split, runs, .. } = *node;
        StoredKey { parent, level: level as u8, part, identity, is_split, age, runs }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Its level; that of everything for the first.
    pub(super) fn level(&self) -> Level {
        Level::from_number(self.level).unwrap_or(Level::Everything)
    }

    pub(super) fn is_root(&self) -> bool {
        self.level() == Level::Everything && self.parent == 0
    }

    /// Whether it may be more special by its part than another one.
    fn may_follow(&self, parent: &StoredKey) -> bool {
        let is_without_part = self.part == NO_PART && self.level == parent.level && !self.is_split;
        let is_fit = is_without_part || self.part != NO_PART && self.level().may_follow(parent.level());
        is_fit && (parent.part != NO_PART || parent.is_root())
    }
}
