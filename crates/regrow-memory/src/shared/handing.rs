//! Handing a block over: what giver, receiver and porter do with the entry of its page and the receiver's presence, and in which order.
//!
//! ```text
//!   giver                                      receiver                     porter, when the receiver has ended
//!     is the receiver there?                                                  the receiver is not there any more
//!     entry: giver -> receiver, pending          entry: pending -> its own    entry: the receiver -> nobody
//!     is it still there? ── no: entry: pending -> giver
//! ```
//!
//! Each arrow is one compare-and-exchange ([`Entry`]), so that of giver, receiver and porter one has the block, whoever ends or is stopped between two steps; and
//! who has it sees what the others have written to it. The giver looks after its step, and the porter after the receiver's leaving: one of them sees the other.

use super::entry::Entry;
use super::inbox::Note;
use super::layout::Presence;
use crate::request::{NOBODY, Owner};
use crate::sync::AtomicU64;

/// What has become of a block that was to be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handed {
    /// It is the receiver's, which has to accept it. The entry then.
    Pending(Entry),
    /// The receiver is not there. The giver has the block as before, or the porter has it already.
    Gone {
        /// The giver has it.
        is_own: bool,
    },
    /// It was not the giver's.
    NotOwn,
}

/// Makes a block of a giver and an order another one's.
pub(crate) fn hand(
    word: &AtomicU64,
    giver: Owner,
    order: u8,
    receiver: Owner,
    presence: &Presence,
) -> Handed {
    if !presence.is(receiver) {
        return Handed::Gone { is_own: true };
    }
    let entry = Entry::of(word);
    let is_own = (entry.owner, entry.order) == (giver, order) && !entry.is_pending;
    let Some(handed) = (if is_own { entry.hand(word, receiver) } else { None }) else {
        return Handed::NotOwn;
    };
    if presence.is_still(receiver) {
        Handed::Pending(handed)
    } else {
        Handed::Gone { is_own: recall(word, handed, giver) }
    }
}

/// Makes a block the giver's again, which the receiver has not accepted. False where somebody else has it.
pub(crate) fn recall(word: &AtomicU64, handed: Entry, giver: Owner) -> bool {
    handed.accept(word, giver)
}

/// Makes a block that was handed to a receiver its own. False where the note is for no such block.
pub(crate) fn accept(word: &AtomicU64, note: Note, receiver: Owner) -> bool {
    let entry = Entry::of(word);
    let is_meant = (entry.owner, entry.generation, entry.order) == (receiver, note.generation, note.order);
    is_meant && entry.accept(word, receiver)
}

/// Takes a block back that its client gives back. False where it is not its own: it may be handed over this very moment.
pub(crate) fn take_back(word: &AtomicU64, client: Owner) -> bool {
    let entry = Entry::of(word);
    let is_own = entry.owner == client && client != NOBODY && !entry.is_pending;
    is_own && entry.take_back(word)
}

/// Takes a block back where nobody has it who is there, as far as the porter knows.
pub(crate) fn collect(word: &AtomicU64, is_there: impl Fn(Owner) -> bool) -> bool {
    for _ in 0..TRIES {
        let entry = Entry::of(word);
        if is_there(entry.owner) {
            return false;
        }
        if entry.take_back(word) {
            return true;
        }
        // It was handed on or recalled this very moment: then somebody has it who is there, or it is tried again.
    }
    false
}

/// How often an entry may change while it is looked at, before it is left for the next time.
const TRIES: usize = if cfg!(loom) { 4 } else { 1000 };
