//! Hashes of what sites are made of, the same in every process.

pub(super) const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(PRIME)
}

/// 64-bit FNV-1a.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_after(SEED, bytes)
}

/// The same of what has this hash, and these bytes behind it.
#[must_use]
pub(super) fn fnv1a_after(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| step(hash, byte))
}

/// 64-bit FNV-1a of words, each ended by a zero byte: how traces know the arguments of a program.
#[must_use]
pub fn fnv1a_of_words<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    words.into_iter().fold(SEED, |hash, word| fnv1a_after(fnv1a_after(hash, word), &[0]))
}

/// The image with this build id; never 0.
#[must_use]
pub fn image_of_build_id(build_id: &[u8]) -> u64 {
    build_id.iter().fold(step(SEED, 1), |hash, &byte| step(hash, byte)).max(1)
}

/// The image in a file without a build id: device, inode, time of its last change in nanoseconds, size in bytes; never 0.
#[must_use]
pub fn image_of_file(device: u64, inode: u64, ctime_ns: i128, size_bytes: u64) -> u64 {
    let mut hash = step(SEED, 2);
    for bytes in [device.to_le_bytes(), inode.to_le_bytes()] {
        hash = bytes.iter().fold(hash, |hash, &byte| step(hash, byte));
    }
    hash = ctime_ns.to_le_bytes().iter().fold(hash, |hash, &byte| step(hash, byte));
    size_bytes.to_le_bytes().iter().fold(hash, |hash, &byte| step(hash, byte)).max(1)
}

/// Words mixed to one; quicker than by bytes.
pub(super) fn mix(words: &[u64]) -> u64 {
    let mut hash = SEED;
    for &word in words {
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^= hash >> 32;
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_is_as_published() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn words_in_another_order_are_another_hash() {
        assert_ne!(mix(&[1, 2]), mix(&[2, 1]));
        assert_ne!(mix(&[0]), mix(&[0, 0]));
    }
}
