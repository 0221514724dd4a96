//! What a model has learned goes into bytes and comes out of them, and two models become one.

use super::next::{Cue, Follow};
use super::stored::{DecodeError, Stored, StoredCue, StoredFollow};
use super::{DEFAULT_BUDGET_BYTES, Model};
use crate::site::ImageId;

impl Model {
    /// What it has learned, as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.stored().encode()
    }

    /// The model that has learned what these bytes say, within [`DEFAULT_BUDGET_BYTES`].
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Model, DecodeError> {
        Model::decode_within(bytes, DEFAULT_BUDGET_BYTES)
    }

    /// The same within another budget: what does not fit is left out.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_within(bytes: &[u8], budget_bytes: usize) -> Result<Model, DecodeError> {
        let stored = Stored::decode(bytes)?;
        let mut model = Model::new(budget_bytes);
        model.absorb(&stored);
        Ok(model)
    }

    /// Takes in what another model has learned. What both have learned counts once: each position of a histogram has the larger of both weights,
    /// so that two models that went on from the same one, and one that is taken in again, count no run twice.
    pub fn merge(&mut self, other: &Model) {
        self.absorb(&other.stored());
    }

    fn stored(&self) -> Stored {
        let cue = |cue: &Cue| {
            let follows = cue.follows.iter().filter(|follow| follow.weight > 0);
            let follow =
                |&Follow { image, place, gaps, weight }: &Follow| StoredFollow { image, place, weight, gaps };
            let follows = follows.map(follow).collect();
            StoredCue { hash: cue.hash, seen: cue.seen, at_a_time: cue.at_a_time, follows }
        };
        Stored {
            images: self.names.images().map(|(image, path)| (image.0, path)).collect(),
            symbols: self.names.symbols().collect(),
            keys: self.tree.stored(),
            cues: self.cues.all().iter().map(cue).collect(),
        }
    }

    /// Takes in what was stored, and is checked.
    fn absorb(&mut self, stored: &Stored) {
        for &(image, path) in &stored.images {
            self.names.note_image(ImageId(image), (path != 0).then_some(path));
        }
        stored.symbols.iter().for_each(|&(frame, symbol)| self.names.note_symbol_hash(frame, symbol));
        self.tree.absorb(&stored.keys);
        for cue in &stored.cues {
            let follows = cue.follows.iter().map(|follow| {
                let &StoredFollow { image, place, weight, gaps } = follow;
                Follow { image, place, gaps, weight }
            });
            self.cues.join(&Cue::known(cue.hash, cue.seen, cue.at_a_time, follows));
        }
    }
}
