//! The table of images: of each key the image that is kept, the making that is under way, or the reason why there is none.
//!
//! ```text
//!   (no row) ──> Making ──> Kept        a changed file, the policy or a lack of room drops the row
//!                  │
//!                  └──────> Refused     what may pass is tried again, the less often the more often it has failed
//! ```

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use regrow_sys::strings::Strings;

use crate::ids::{BodyId, ImageId, Numbering, ProgramId};
use crate::image::kept::KeptImage;
use crate::image::maker::Built;
use crate::run::creation::Fallback;
use crate::run::program::Key;

/// Most rows, where the process may have enough descriptors.
const MAX_IMAGES: u64 = 256;
/// Fewest.
const MIN_IMAGES: u64 = 16;
/// An image with two bodies holds seven descriptors: all images may hold a little less than half of them.
const DESCRIPTORS_PER_IMAGE: u64 = 16;
/// Most images that are made at a time.
const MAX_MAKING: usize = 4;
/// A making that takes longer is given up: a file system keeps it waiting. A front end has two minutes to prepare itself.
const MAKING_LIMIT: Duration = Duration::from_secs(150);
/// How long after its failure an image is tried again, the first time. Every further failure doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// After how many failures it is not doubled any more: that is a little less than an hour.
const MOST_DOUBLINGS: u32 = 14;

/// What the making of an image gives.
pub(crate) type Making = Receiver<Result<Built, Fallback>>;

/// How far an image is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// A thread makes it.
    Making(Making),
    /// It cannot be made, for this reason.
    Refused(Fallback),
    /// It is kept.
    Kept(Box<KeptImage>),
}

/// What is known of an image that could not be made. It outlives the row, which is dropped when the image is tried again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    /// How often in a row that was so.
    in_a_row: u32,
    /// Why, the last time.
    pub(crate) last: Option<Fallback>,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct ImageRow {
    pub(crate) key: Key<'static>,
    /// The environment's part of the key, as far as it was known when the row was made.
    key_env: Vec<CString>,
    pub(crate) stage: Stage,
    /// The program that it is the image of.
    pub(crate) program: ProgramId,
    /// The body that the policy waits for while the image is made.
    pub(crate) awaited: Option<BodyId>,
    pub(crate) failures: Failures,
    /// When its making began.
    began: Instant,
    /// When that may be tried again.
    again: Option<Instant>,
    /// When a run last asked for it, by the table's count of such questions.
    used: u64,
}

impl ImageRow {
    /// Notes that there is no image, and when to try again where the reason may pass: a process was killed, memory was short, a
    /// front end has met a file that has changed since.
    pub(crate) fn refuse(&mut self, why: Fallback, now: Instant) {
        let may_pass = match why {
            Fallback::ImageFailed { .. } | Fallback::NoMemory | Fallback::NoDescriptors => true,
            Fallback::RefusedState { .. } => self.key.warm.is_some(),
            _ => false,
        };
        self.again = may_pass.then(|| now + FIRST_RETRY * (1 << self.failures.in_a_row.min(MOST_DOUBLINGS)));
        self.failures =
            Failures { in_a_row: self.failures.in_a_row.saturating_add(1), last: Some(why.clone()) };
        self.stage = Stage::Refused(why);
    }

    /// Whether it is time to try again what has failed.
    pub(crate) fn is_to_be_tried_again(&self, now: Instant) -> bool {
        self.again.is_some_and(|again| again <= now)
    }

    /// The image, where it is kept.
    pub(crate) fn kept(&self) -> Option<&KeptImage> {
        match &self.stage {
            Stage::Kept(kept) => Some(kept),
            Stage::Making(_) | Stage::Refused(_) => None,
        }
    }

    /// Whether a run with this key and environment may use the row.
    fn is_for(&self, key: &Key<'_>, env: &Strings) -> bool {
        if self.key != *key {
            return false;
        }
        match &self.stage {
            Stage::Kept(kept) => kept.fits(env),
            Stage::Making(_) | Stage::Refused(_) => regrow_image::envkey::key_variables(env)
                .into_iter()
                .eq(self.key_env.iter().map(CString::as_c_str)),
        }
    }
}

/// The images of a shard.
#[derive(Debug, Default)]
pub(crate) struct Images {
    rows: BTreeMap<ImageId, ImageRow>,
    numbering: Numbering,
    questions: u64,
}

impl Images {
    /// An empty table whose ids are of this generation.
    pub(crate) fn of_generation(generation: u32) -> Images {
        Images { numbering: Numbering::of_generation(generation), ..Images::default() }
    }

    /// An id for a row that is about to be added.
    pub(crate) fn next_id(&mut self) -> ImageId {
        self.numbering.next_id()
    }

    /// Adds the making of an image, with what is known of its failures.
    pub(crate) fn insert(
        &mut self,
        id: ImageId,
        key: Key<'static>,
        env: &Strings,
        making: Making,
        failures: Failures,
        (program, awaited): (ProgramId, BodyId),
    ) {
        self.questions += 1;
        let row = ImageRow {
            key,
            key_env: first_key_env(env),
            stage: Stage::Making(making),
            program,
            awaited: Some(awaited),
            failures,
            began: Instant::now(),
            again: None,
            used: self.questions,
        };
        self.rows.insert(id, row);
    }

    /// Drops a row. Gives the body that the policy waited for.
    pub(crate) fn remove(&mut self, id: ImageId) -> Option<ImageRow> {
        self.rows.remove(&id)
    }

    /// A row.
    pub(crate) fn get(&self, id: ImageId) -> Option<&ImageRow> {
        self.rows.get(&id)
    }

    /// A row, to be changed.
    pub(crate) fn get_mut(&mut self, id: ImageId) -> Option<&mut ImageRow> {
        self.rows.get_mut(&id)
    }

    /// An image that is kept.
    pub(crate) fn kept(&self, id: ImageId) -> Option<&KeptImage> {
        self.rows.get(&id)?.kept()
    }

    /// An image that is kept, to be changed.
    pub(crate) fn kept_mut(&mut self, id: ImageId) -> Option<&mut KeptImage> {
        match &mut self.rows.get_mut(&id)?.stage {
            Stage::Kept(kept) => Some(kept),
            Stage::Making(_) | Stage::Refused(_) => None,
        }
    }

    /// All rows, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ImageId, &ImageRow)> {
        self.rows.iter().map(|(&id, row)| (id, row))
    }

    /// All images that are kept, oldest first.
    pub(crate) fn iter_kept(&self) -> impl Iterator<Item = (ImageId, &KeptImage)> {
        self.iter().filter_map(|(id, row)| Some((id, row.kept()?)))
    }

    /// The row that a run with this key and environment may use.
    pub(crate) fn find(&self, key: &Key<'_>, env: &Strings) -> Option<ImageId> {
        self.iter().find(|(_, row)| row.is_for(key, env)).map(|(id, _)| id)
    }

    /// The same, noted as used.
    pub(crate) fn use_for(&mut self, key: &Key<'_>, env: &Strings) -> Option<ImageId> {
        let id = self.find(key, env)?;
        self.questions += 1;
        self.rows.get_mut(&id)?.used = self.questions;
        Some(id)
    }

    /// The entries of an environment that belong to a key, as far as it is known what the program reads: an image that is kept
    /// with another environment tells.
    pub(crate) fn key_env(&self, key: &Key<'_>, env: &Strings) -> Vec<CString> {
        let mut kept = self.rows.values().filter(|row| row.key == *key).filter_map(ImageRow::kept);
        kept.next().map_or_else(|| first_key_env(env), |kept| kept.key_env_of(env))
    }

    /// The kept image that was used longest ago.
    pub(crate) fn least_used(&self) -> Option<ImageId> {
        self.iter().filter(|(_, row)| row.kept().is_some()).min_by_key(|(_, row)| row.used).map(|(id, _)| id)
    }

    /// The row that makes room for another one, in a process that may have so many descriptors: the one that was used longest ago.
    pub(crate) fn surplus(&self, descriptors: u64) -> Option<ImageId> {
        let most = (descriptors / DESCRIPTORS_PER_IMAGE).clamp(MIN_IMAGES, MAX_IMAGES);
        let made = self.iter().filter(|(_, row)| !matches!(row.stage, Stage::Making(_)));
        let longest = made.min_by_key(|(_, row)| row.used).map(|(id, _)| id);
        longest.filter(|_| self.rows.len() as u64 >= most)
    }

    /// Whether the making of a further image may begin.
    pub(crate) fn may_make(&self) -> bool {
        self.making().count() < MAX_MAKING
    }

    /// Whether an image is being made.
    pub(crate) fn is_making(&self) -> bool {
        self.making().next().is_some()
    }

    fn making(&self) -> impl Iterator<Item = (ImageId, &Making)> {
        self.iter().filter_map(|(id, row)| match &row.stage {
            Stage::Making(making) => Some((id, making)),
            Stage::Refused(_) | Stage::Kept(_) => None,
        })
    }

    /// What the makings gave that have ended; with `wait` of all that are under way.
    pub(crate) fn take_made(&self, wait: bool) -> Vec<(ImageId, Result<Built, Fallback>)> {
        let failed = |detail: &str| Err(Fallback::ImageFailed { detail: detail.to_owned() });
        let lost = || failed("its thread ended");
        let ended = |(id, making): (ImageId, &Making)| {
            let result = if wait {
                making.recv().unwrap_or_else(|_| lost())
            } else {
                match making.try_recv() {
                    Ok(result) => result,
                    Err(TryRecvError::Empty) if self.is_late(id, Instant::now()) => {
                        failed("it takes too long")
                    }
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Disconnected) => lost(),
                }
            };
            Some((id, result))
        };
        self.making().filter_map(ended).collect()
    }

    /// Whether the making of an image takes too long.
    fn is_late(&self, id: ImageId, now: Instant) -> bool {
        self.rows.get(&id).is_some_and(|row| now.saturating_duration_since(row.began) > MAKING_LIMIT)
    }
}

/// The entries of an environment that belong to every image's key.
fn first_key_env(env: &Strings) -> Vec<CString> {
    regrow_image::envkey::key_variables(env).into_iter().map(CStr::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn key(file: &'static CStr) -> Key<'static> {
        let file = Cow::Borrowed(file);
        Key { argv0: file.clone(), file, stack_limit: 0, warm: None, ignored: 0, script: None }
    }

    fn env(entry: &CStr) -> Strings {
        let mut strings = Strings::new();
        strings.push_c_str(entry);
        strings
    }

    /// Adds a making, and gives what ends it.
    fn add(images: &mut Images, file: &'static CStr) -> (ImageId, Sender<Result<Built, Fallback>>) {
        let (sender, receiver) = channel();
        let id = images.next_id();
        images.insert(
            id,
            key(file),
            &env(c"A=1"),
            receiver,
            Failures::default(),
            (ProgramId::new(1), BodyId::new(1)),
        );
        (id, sender)
    }

    fn refuse(images: &mut Images, id: ImageId, why: Fallback) {
        images.get_mut(id).expect("it is there").refuse(why, Instant::now());
    }

    #[test]
    fn a_row_is_for_its_key_and_the_variables_that_every_program_reads() {
        let mut images = Images::default();
        let (id, _sender) = add(&mut images, c"/bin/true");
        assert_eq!(images.find(&key(c"/bin/true"), &env(c"A=2")), Some(id), "no key has this variable");
        assert_eq!(images.find(&key(c"/bin/true"), &env(c"LD_LIBRARY_PATH=/tmp")), None);
        assert_eq!(images.find(&key(c"/bin/false"), &env(c"A=1")), None);
    }

    #[test]
    fn few_images_are_made_at_a_time_and_a_lost_thread_is_a_failure() {
        let mut images = Images::default();
        let files = [c"/a", c"/b", c"/c", c"/d"];
        let mut senders: Vec<_> = files.map(|file| add(&mut images, file)).into();
        assert!(!images.may_make() && images.is_making());
        assert!(images.take_made(false).is_empty());
        let (failed, sender) = senders.remove(0);
        sender.send(Err(Fallback::NoMemory)).expect("the table waits");
        let (lost, sender) = senders.remove(0);
        drop(sender);
        let ended: Vec<_> = images.take_made(false).into_iter().map(|(id, made)| (id, made.err())).collect();
        let its_thread_ended = Fallback::ImageFailed { detail: "its thread ended".to_owned() };
        assert_eq!(ended, [(failed, Some(Fallback::NoMemory)), (lost, Some(its_thread_ended))]);
    }

    #[test]
    fn a_making_that_takes_too_long_makes_room_for_another() {
        let mut images = Images::default();
        let (id, _sender) = add(&mut images, c"/bin/true");
        let began = Instant::now();
        assert!(!images.is_late(id, began + MAKING_LIMIT / 2) && images.take_made(false).is_empty());
        assert!(images.is_late(id, began + MAKING_LIMIT * 2));
        images.get_mut(id).expect("it is there").began -= MAKING_LIMIT * 2;
        let late = Fallback::ImageFailed { detail: "it takes too long".to_owned() };
        let made: Vec<_> = images.take_made(false).into_iter().map(|(id, made)| (id, made.err())).collect();
        assert_eq!(made, [(id, Some(late))]);
    }

    #[test]
    fn what_may_pass_is_tried_again_the_less_often_the_more_often_it_failed() {
        let mut images = Images::default();
        let (id, _sender) = add(&mut images, c"/bin/true");
        let row = images.get_mut(id).expect("it is there");
        let began = Instant::now();
        row.refuse(Fallback::SetUid, began);
        assert!(!row.is_to_be_tried_again(began + FIRST_RETRY * 1000), "it stays as it is");
        row.refuse(Fallback::NoMemory, began);
        assert!(
            !row.is_to_be_tried_again(began + FIRST_RETRY)
                && row.is_to_be_tried_again(began + FIRST_RETRY * 2)
        );
        row.failures.in_a_row = u32::MAX;
        row.refuse(Fallback::NoMemory, began);
        assert!(row.is_to_be_tried_again(began + FIRST_RETRY * (1 << MOST_DOUBLINGS)));
    }

    #[test]
    fn the_row_that_was_used_longest_ago_makes_room() {
        let mut images = Images::default();
        let files = [c"/a", c"/b", c"/c", c"/d", c"/e", c"/f", c"/g", c"/h"];
        let ids: Vec<ImageId> = files.iter().chain(&files).map(|file| add(&mut images, file).0).collect();
        assert_eq!(images.surplus(0), None, "what is being made stays");
        ids.iter().for_each(|&id| refuse(&mut images, id, Fallback::SetUid));
        assert_eq!((images.surplus(u64::MAX), images.surplus(0)), (None, Some(ids[0])));
        assert_eq!(images.use_for(&key(c"/a"), &env(c"A=1")), Some(ids[0]));
        assert_eq!(images.surplus(0), Some(ids[1]));
        assert_eq!(images.least_used(), None, "none is kept");
        assert!(images.remove(ids[1]).is_some() && images.surplus(0).is_none());
    }
}
