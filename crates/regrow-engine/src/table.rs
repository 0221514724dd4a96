//! The tables of a shard: names of programs, and images with their bodies. They hold ids of each other, never pointers.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use regrow_abi::State;
use regrow_body::{Body, verify};
use regrow_image::envkey::KeyNames;
use regrow_image::image::Image;
use regrow_image::resolve::FileIdentity;
use regrow_pool::{BodyId, ProgramId};
use regrow_sys::caller::Settable;

use crate::creation::{Fallback, Point};
use crate::maker::{self, Built};
use crate::program::{Key, Name, Resolved};
use crate::request::Strings;
use crate::settings::Settings;
use crate::watch::Owner;

/// How long a run waits for a body that is being put back, before another one is made.
const RESET_WAIT: Duration = Duration::from_micros(400);

/// A program that is kept, or is to be, or cannot be.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Its image is being made.
    Making { receiver: Receiver<Result<Built, Fallback>> },
    /// It is started by exec, for this reason.
    Refused(Fallback),
    /// It is kept.
    Kept(Box<Kept>),
}

/// Most entries of the table of images, where the process may have enough descriptors.
const MAX_IMAGES: u64 = 256;
/// Fewest.
const MIN_IMAGES: u64 = 16;
/// An image with two bodies holds seven descriptors: all images may hold a little less than half of them.
const DESCRIPTORS_PER_IMAGE: u64 = 16;
/// Most images that are made at a time.
const MAX_MAKING: usize = 4;
/// Most names that are remembered. One more takes the place of all.
const MAX_NAMES: usize = 512;
/// A name whose answer rests on more files is looked up each time.
const MAX_NAME_FILES: usize = 256;
/// How long after its failure an image is tried again, the first time. Every further failure doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// After how many failures it is not doubled any more: that is a little less than an hour.
const MOST_DOUBLINGS: u32 = 14;

/// Page tables and the like of a small process.
const TABLES_BYTES: u64 = 128 * 1024;
/// A page of a page table has so many entries.
const PAGES_PER_TABLE: u64 = 512;
/// What the runs of a large image are reckoned to write.
const WRITTEN_BYTES: u64 = 1024 * 1024;

/// An entry of the table of images.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key<'static>,
    /// The environment's part of the key, as far as it was known when the entry was made.
    pub(crate) key_env: Vec<CString>,
    pub(crate) slot: Slot,
    pub(crate) used: u64,
    /// How often in a row its image could not be made.
    pub(crate) failures: u32,
    /// When that may be tried again.
    pub(crate) again: Option<Instant>,
    /// What the pool calls the program.
    pub(crate) program: Option<ProgramId>,
    /// The body that the pool waits for while the image is made.
    pub(crate) awaited: Option<BodyId>,
}

impl Entry {
    /// Notes that there is no image. What need not be so the next time (a process was killed, memory was short, a front end has
    /// met a file that has changed since) is tried again, the less often the more often it has failed.
    pub(crate) fn refuse(&mut self, why: Fallback) {
        let may_pass = match why {
            Fallback::ImageFailed { .. } | Fallback::NoMemory | Fallback::NoDescriptors => true,
            Fallback::RefusedState { .. } => self.key.warm.is_some(),
            _ => false,
        };
        self.again =
            may_pass.then(|| Instant::now() + FIRST_RETRY * (1 << self.failures.min(MOST_DOUBLINGS)));
        self.failures = self.failures.saturating_add(1);
        self.slot = Slot::Refused(why);
    }

    /// Whether it is time to try again what has failed.
    pub(crate) fn is_to_be_tried_again(&self) -> bool {
        self.again.is_some_and(|again| again <= Instant::now())
    }

    /// Whether a run with this environment may use the entry.
    pub(crate) fn is_for(&self, key: &Key<'_>, env: &Strings) -> bool {
        if self.key != *key {
            return false;
        }
        match &self.slot {
            Slot::Kept(kept) => kept.fits(env),
            Slot::Making { .. } | Slot::Refused(_) => regrow_image::envkey::key_variables(env)
                .into_iter()
                .eq(self.key_env.iter().map(CString::as_c_str)),
        }
    }
}

/// A program that is kept: its image and its bodies.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) image: Arc<Image>,
    pub(crate) bodies: Vec<Body>,
    names: KeyNames,
    key_env: Vec<CString>,
    then: Settable,
    /// Which files the image is of, by the names that lead to them.
    identities: Vec<(PathBuf, FileIdentity)>,
    /// An environment that is known to fit: most runs have the same as the last one.
    fitting_env: Vec<u8>,
}

/// A body for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) body: usize,
    /// It was made for this run.
    pub(crate) forked: bool,
    /// How long the run has waited for it to be put back.
    pub(crate) waited: Duration,
}

impl Kept {
    pub(crate) fn new(built: Built, ids: &mut Ids) -> Kept {
        let Built { image, mut bodies, names, key_env, then, .. } = built;
        bodies.iter_mut().for_each(|body| body.set_id(ids.next()));
        let identity = |file: &PathBuf| Some((file.clone(), FileIdentity::of_path(file).ok()?));
        let identities = image.dependencies.files.iter().filter_map(identity).collect();
        Kept { image: Arc::new(image), bodies, names, key_env, then, identities, fitting_env: Vec::new() }
    }

    /// What the keepers have from the caller.
    pub(crate) fn then(&self) -> &Settable {
        &self.then
    }

    /// Which files the image is of, by the names that lead to them.
    pub(crate) fn identities(&self) -> &[(PathBuf, FileIdentity)] {
        &self.identities
    }

    fn fits(&self, env: &Strings) -> bool {
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

    pub(crate) fn point(&self) -> Point {
        match self.image.point {
            regrow_image::make::Point::Entry => Point::Entry,
            regrow_image::make::Point::Main => Point::Main,
            regrow_image::make::Point::Warm => Point::Warm,
        }
    }

    /// Bytes that the image and its bodies are reckoned to hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.image_bytes() + self.body_bytes() * self.bodies.len() as u64
    }

    /// Bytes of the image: its saved pages, once in the store and once in the seed.
    pub(crate) fn image_bytes(&self) -> u64 {
        (self.image.saved_bytes() + TABLES_BYTES) * 2
    }

    /// Bytes of a body: a copy of the saved pages. One whose writes are tracked has copies of those alone that its runs have
    /// written, and shares the others with the seed.
    pub(crate) fn body_bytes(&self) -> u64 {
        let own = if self.image.tracks_writes() { WRITTEN_BYTES } else { u64::MAX };
        let tables = self.image.saved_bytes() / PAGES_PER_TABLE;
        self.image.saved_bytes().min(own) + tables + TABLES_BYTES
    }

    /// Finds an armed body, or makes one. In verify mode a body is compared before it is used again; one that differs is
    /// dropped and reported.
    pub(crate) fn choose(
        &mut self,
        settings: &Settings,
        reports: &mut Reports,
        ids: &mut Ids,
    ) -> Result<Choice, Fallback> {
        if let Some(body) = self.armed(reports) {
            return Ok(Choice { body, forked: false, waited: Duration::ZERO });
        }
        // A run that nobody has waited for may have ended.
        self.bodies
            .iter()
            .filter(|body| body.state() == Some(State::Running))
            .for_each(|body| body.bell().ring());
        let started = Instant::now();
        while self.bodies.iter().any(Body::is_being_put_back) && started.elapsed() < self.patience(settings) {
            if let Some(body) = self.bodies.iter().find(|body| body.is_being_put_back()) {
                if body.state() == Some(State::Running) {
                    // It has ended since.
                    body.bell().ring();
                }
                body.wait_ready(RESET_WAIT / 4);
            }
            if let Some(body) = self.armed(reports) {
                return Ok(Choice { body, forked: false, waited: started.elapsed() });
            }
        }
        if self.bodies.len() >= settings.max_bodies_per_program {
            return Err(Fallback::AllBusy);
        }
        let mut body = maker::fork(&self.image, settings).map_err(|error| {
            tracing::debug!(%error, "no further body");
            match error {
                regrow_body::BodyError::Fork { .. } => Fallback::NoMemory,
                regrow_body::BodyError::Setup { .. } => Fallback::NoDescriptors,
                _ => Fallback::BodyBroken,
            }
        })?;
        body.set_id(ids.next());
        self.bodies.push(body);
        match self.armed(reports) {
            // Another one may have become ready meanwhile.
            Some(body) => {
                let forked = body + 1 == self.bodies.len();
                Ok(Choice { body, forked, waited: started.elapsed() })
            }
            None => Err(Fallback::BodyBroken),
        }
    }

    /// At the limit a run waits longer: exec is the alternative, not a fork. That of an interpreter, with all that it would have to prepare
    /// again, takes tens of milliseconds.
    fn patience(&self, settings: &Settings) -> Duration {
        if settings.verify {
            Duration::from_secs(2)
        } else if self.bodies.len() >= settings.max_bodies_per_program {
            if self.point() == Point::Warm { RESET_WAIT * 50 } else { RESET_WAIT * 4 }
        } else {
            RESET_WAIT
        }
    }

    /// The bodies that no run is in.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &Body> {
        self.bodies.iter().filter(|body| !matches!(body.state(), Some(State::Taken | State::Running)))
    }

    /// Whether a body waits for a run.
    pub(crate) fn is_ready(&self) -> bool {
        self.bodies.iter().any(|body| body.state() == Some(State::Armed))
    }

    /// An armed body. Where there is none at once, bodies are looked at: those in doubt are dropped.
    fn armed(&mut self, reports: &mut Reports) -> Option<usize> {
        let is_armed = |body: &Body| body.state() == Some(State::Armed);
        if let Some(body) = self.bodies.iter().position(is_armed) {
            return Some(body);
        }
        self.settle(reports);
        self.bodies.iter().position(is_armed)
    }

    /// Compares every body that waits to be compared; drops those that differ or are broken.
    pub(crate) fn settle(&mut self, reports: &mut Reports) {
        let image = &*self.image;
        self.bodies.retain(|body| settle(image, body, reports));
    }

    /// Waits for the resets that are under way.
    pub(crate) fn await_resets(&self) {
        for body in &self.bodies {
            body.wait_ready(Duration::from_millis(200));
        }
    }
}

/// Lets a body go on if it can; false when it must be dropped.
fn settle(image: &Image, body: &Body, reports: &mut Reports) -> bool {
    match body.state() {
        None | Some(State::Broken) => {
            let why = body.broken();
            tracing::debug!(keeper = body.keeper(), ?why, "a body was given up");
            let reason = why.map_or("unknown", |why| broken_name(why.0));
            *reports.given_up.entry(reason).or_default() += 1;
            false
        }
        Some(State::Clean) => match verify::compare(image, body) {
            Ok(()) => {
                reports.compared += 1;
                body.arm_after_verify()
            }
            Err(_) if body.is_broken() => {
                *reports.given_up.entry("keeper_died").or_default() += 1;
                false
            }
            Err(difference) if difference.is_huge_page_advice() => {
                *reports.given_up.entry("huge_page_advice").or_default() += 1;
                false
            }
            Err(difference) => {
                tracing::error!(keeper = body.keeper(), %difference, "a body differs from its image");
                reports.differences.push(difference.to_string());
                false
            }
        },
        Some(State::Armed) => true,
        // A keeper that died leaves its word as it was.
        Some(_) if body.is_broken() => {
            *reports.given_up.entry("keeper_died").or_default() += 1;
            false
        }
        Some(_) => true,
    }
}

/// A stable name for why a keeper gave its body up.
fn broken_name(why: regrow_abi::Broken) -> &'static str {
    use regrow_abi::Broken;
    match why {
        Broken::Version => "version",
        Broken::Clone => "clone",
        Broken::Shared => "shared",
        Broken::MappingLost => "mapping_lost",
        Broken::Mappings => "mappings",
        Broken::Pages => "pages",
        Broken::Brk => "brk",
        Broken::Sticky => "sticky",
        Broken::Proc => "proc",
        Broken::TooManyMappings => "too_many_mappings",
        Broken::Fault => "fault",
        Broken::Died => "died",
    }
}

/// What was seen of bodies, beside the creations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Bodies that were compared with their image and equal (verify mode).
    pub compared: u64,
    /// What differed, for each body that was compared and was not equal.
    pub differences: Vec<String>,
    /// Bodies that their keepers gave up, by reason.
    pub given_up: std::collections::BTreeMap<&'static str, u64>,
}

/// Numbers that nothing of a shard had before.
#[derive(Debug, Default)]
pub(crate) struct Ids(u64);

impl Ids {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// Both tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) ids: Ids,
    pub(crate) names: HashMap<Name<'static>, (Owner, Arc<Resolved>)>,
    pub(crate) entries: HashMap<Owner, Entry>,
}

impl Tables {
    /// What a name resolves to, if that is remembered.
    pub(crate) fn resolved(&self, name: &Name<'_>) -> Option<Arc<Resolved>> {
        let names: &HashMap<Name<'_>, (Owner, Arc<Resolved>)> = &self.names;
        names.get(name).map(|(_, resolved)| Arc::clone(resolved))
    }

    /// An id that no entry had before.
    pub(crate) fn new_owner(&mut self) -> Owner {
        self.ids.next()
    }

    /// The entry that a run with this key and environment may use.
    pub(crate) fn find(&self, key: &Key<'_>, env: &Strings) -> Option<Owner> {
        self.entries.iter().find(|(_, entry)| entry.is_for(key, env)).map(|(&owner, _)| owner)
    }

    /// The entries of an environment that belong to a key, as far as it is known what the program reads: where it is kept with another
    /// environment, its image tells.
    pub(crate) fn key_env(&self, key: &Key<'_>, env: &Strings) -> Vec<CString> {
        let of_same_key = self.entries.values().filter(|entry| entry.key == *key);
        let mut kept = of_same_key.filter_map(|entry| match &entry.slot {
            Slot::Kept(kept) => Some(&kept.names),
            _ => None,
        });
        let select = |names: &KeyNames| names.select(env).into_iter().map(CStr::to_owned).collect();
        kept.next().map_or_else(|| table_key(env), select)
    }

    /// Drops what belongs to these owners.
    pub(crate) fn drop_owners(&mut self, owners: &HashSet<Owner>) {
        self.names.retain(|_, (owner, _)| !owners.contains(owner));
        self.entries.retain(|owner, _| !owners.contains(owner));
    }

    /// The entry that was used longest ago, of those that are kept.
    pub(crate) fn least_used(&self) -> Option<Owner> {
        let kept = self.entries.iter().filter(|(_, entry)| matches!(entry.slot, Slot::Kept(_)));
        kept.min_by_key(|(_, entry)| entry.used).map(|(&owner, _)| owner)
    }

    /// Whether the making of a further image may begin.
    pub(crate) fn may_make(&self) -> bool {
        let making = self.entries.values().filter(|entry| matches!(entry.slot, Slot::Making { .. }));
        making.count() < MAX_MAKING
    }

    /// The entry that makes room for another one, where there are `most` of them: the one that was used longest ago.
    pub(crate) fn surplus(&self, most: usize) -> Option<Owner> {
        let made = self.entries.iter().filter(|(_, entry)| !matches!(entry.slot, Slot::Making { .. }));
        let longest = made.min_by_key(|(_, entry)| entry.used).map(|(&owner, _)| owner);
        longest.filter(|_| self.entries.len() >= most)
    }

    /// The names that make room for another, where room must be made; `None` when it is not to be remembered.
    pub(crate) fn room_for(&self, resolved: &Resolved) -> Option<HashSet<Owner>> {
        let files = resolved.files.len() + resolved.absent.len();
        let is_full = self.names.len() >= MAX_NAMES;
        let room = || self.names.values().filter(|_| is_full).map(|(owner, _)| *owner).collect();
        (files <= MAX_NAME_FILES).then(room)
    }

    /// Bytes that all entries are reckoned to hold.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |entry: &Entry| match &entry.slot {
            Slot::Kept(kept) => kept.bytes(),
            _ => 0,
        };
        self.entries.values().map(bytes).sum()
    }
}

/// How many entries the table of images may have in a process of this limit of descriptors.
pub(crate) fn max_images(descriptors: u64) -> usize {
    usize::try_from((descriptors / DESCRIPTORS_PER_IMAGE).clamp(MIN_IMAGES, MAX_IMAGES)).unwrap_or(usize::MAX)
}

/// The entries of an environment that belong to every image's key.
pub(crate) fn table_key(env: &Strings) -> Vec<CString> {
    regrow_image::envkey::key_variables(env).into_iter().map(CStr::to_owned).collect()
}
