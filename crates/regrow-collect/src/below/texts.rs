//! Puts texts together that come in parts.

use std::collections::HashMap;

use regrow_abi::sites::{TEXT_BYTES, Text};

/// The longest text that is believed.
const LONGEST: usize = 4096;
/// Texts that are kept.
const MOST: usize = 65_536;

/// Texts by what they stand for.
#[derive(Debug, Default)]
pub(super) struct Texts {
    whole: HashMap<u64, Vec<u8>>,
    begun: HashMap<u64, Begun>,
}

/// A text of which not all parts are there.
#[derive(Debug)]
struct Begun {
    bytes: Vec<u8>,
    parts: Vec<bool>,
}

impl Texts {
    /// The text that a hash stands for.
    pub(super) fn get(&self, hash: u64) -> Option<&[u8]> {
        self.whole.get(&hash).map(Vec::as_slice)
    }

    /// Takes a part. Returns the whole text when it was the last part.
    pub(super) fn take(&mut self, text: &Text) -> Option<&[u8]> {
        let length = text.length as usize;
        let parts = length.div_ceil(TEXT_BYTES);
        let part = text.part as usize;
        let is_room = self.whole.len() + self.begun.len() < MOST;
        if length > LONGEST || part >= parts || !is_room || self.whole.contains_key(&text.hash) {
            return None;
        }
        let begun = self.begun.entry(text.hash);
        let begun = begun.or_insert_with(|| Begun { bytes: vec![0; length], parts: vec![false; parts] });
        let to = begun.bytes.iter_mut().skip(part * TEXT_BYTES);
        to.zip(text.bytes).for_each(|(to, byte)| *to = byte);
        *begun.parts.get_mut(part)? = true;
        if begun.parts.contains(&false) {
            return None;
        }
        let whole = self.begun.remove(&text.hash)?;
        Some(self.whole.entry(text.hash).or_insert(whole.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(hash: u64, text: &[u8]) -> Vec<Text> {
        let part = |(part, bytes): (u32, &[u8])| {
            let mut text = Text {
                is_image: false,
                hash,
                length: u32::try_from(text.len()).expect("short"),
                part,
                bytes: [0; TEXT_BYTES],
            };
            text.bytes[..bytes.len()].copy_from_slice(bytes);
            text
        };
        (0..).zip(text.chunks(TEXT_BYTES)).map(part).collect()
    }

    #[test]
    fn a_text_is_whole_when_its_last_part_comes_in_any_order() {
        let text: Vec<u8> = (0..250).collect();
        let mut texts = Texts::default();
        for part in parts(7, &text).iter().rev().take(3) {
            assert_eq!(texts.take(part), None);
            assert_eq!(texts.get(7), None);
        }
        assert_eq!(texts.take(&parts(7, &text)[0]), Some(text.as_slice()));
        assert_eq!(texts.get(7), Some(text.as_slice()));
        assert_eq!(texts.take(&parts(7, &text)[0]), None, "it is there");
    }

    #[test]
    fn parts_that_cannot_be_are_passed_over() {
        let mut texts = Texts::default();
        let text = Text { is_image: false, hash: 1, length: u32::MAX, part: 0, bytes: [0; TEXT_BYTES] };
        assert_eq!(texts.take(&text), None);
        assert_eq!(texts.take(&Text { length: 10, part: 1, ..text }), None);
        assert_eq!(texts.take(&Text { length: 0, part: 0, ..text }), None);
        assert!(texts.begun.is_empty());
        // Two that say different lengths: the first counts.
        assert_eq!(texts.take(&Text { length: 100, part: 0, ..text }), None);
        assert_eq!(texts.take(&Text { length: 4000, part: 40, ..text }), None);
        assert_eq!(texts.take(&Text { length: 100, part: 1, ..text }).map(<[u8]>::len), Some(100));
    }
}
