//! The model: what collectors tell goes in, what is to be expected comes out.
//!
//! ```text
//!   Created, Executed, Arguments, Ended ──> Processes ──a run, once both its ends are known──> Tree    histograms for each key of its chain
//!   Outlived ──> the same at once, and again at its end
//!                                               └──what came after what──> Cues
//!   Named, Symbol ──> Names ──> keys that outlive a build
//!
//!   site ──> chain of keys ──> Tree ──> Prediction
//!   place, exec ──> Cues ──> Expected
//! ```
//!
//! All memory is taken at the start, within the budget; neither telling nor asking allocates. A model has no clock: what is old is so by the
//! number of runs since.
//!
//! Which usage counts to which key: what a process has used in its whole life counts to its place, and to its place with the program that it
//! executed first, since that is what a prediction at its creation, or at that exec, speaks of. The copy of the parent that it was before is
//! part of it. When it executes a second program in its place (`env`, `sh -c exec`), what it used since then counts to the place with that
//! program too: its life is known, and of the processor time it has the same part.

mod chain;
mod distribution;
mod histogram;
mod index;
mod keep;
mod level;
mod names;
mod next;
mod node;
mod prediction;
mod processes;
pub mod scale;
mod stored;
mod tree;

pub use distribution::{Distribution, Quantiles};
pub use level::Level;
pub use next::{After, Expected, MOST_NEXT, Next, PlaceId};
pub use prediction::Prediction;
pub use stored::DecodeError;

use self::chain::{Call, Chain, Place};
use self::names::{Names, image_hash, path_hash};
use self::next::{Cues, executed_cue, gap};
use self::node::Sample;
use self::processes::{Process, Processes};
use self::tree::Tree;
use crate::Arguments;
use crate::event::{Event, ProcessKey, Usage};
#[cfg(doc)]
use crate::site::Script;
use crate::site::{ImageId, Site};

/// The memory of a model that nobody has set: enough for 10,000 sites.
pub const DEFAULT_BUDGET_BYTES: usize = 1 << 20;
/// The least memory of a model.
pub const LEAST_BUDGET_BYTES: usize = 32 << 10;
/// The most memory of a model.
pub const MOST_BUDGET_BYTES: usize = 4 << 20;

/// How much of the budget each table has: one entry for so many bytes of it.
const BYTES_A_PROCESS: usize = 1536;
const BYTES_A_CUE: usize = 896;
const BYTES_AN_IMAGE: usize = 1024;
const BYTES_A_FRAME: usize = 1024;

/// What a model was told, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events that were told.
    pub events: u64,
    /// Runs that were counted.
    pub runs: u64,
    /// Processes of which the end, or the creation, was never told before they had to make room.
    pub lost: u64,
    /// Events that told what was known already.
    pub repeated: u64,
    /// Keys that are known at this moment.
    pub keys: u64,
    /// Keys that had to make room.
    pub evicted: u64,
    /// Keys that were not made for want of room.
    pub refused: u64,
}

/// A model of what follows from creation sites.
#[derive(Debug, Clone)]
pub struct Model {
    budget_bytes: usize,
    tree: Tree,
    processes: Processes,
    cues: Cues,
    names: Names,
    counts: Counts,
}

impl Default for Model {
    fn default() -> Self {
        Model::new(DEFAULT_BUDGET_BYTES)
    }
}

impl Model {
    /// A model that knows nothing, and takes at most so many bytes, between [`LEAST_BUDGET_BYTES`] and [`MOST_BUDGET_BYTES`].
    #[must_use]
    pub fn new(budget_bytes: usize) -> Model {
        let budget_bytes = budget_bytes.clamp(LEAST_BUDGET_BYTES, MOST_BUDGET_BYTES);
        let processes = budget_bytes / BYTES_A_PROCESS;
        let cues = budget_bytes / BYTES_A_CUE;
        let (images, frames) = (budget_bytes / BYTES_AN_IMAGE, budget_bytes / BYTES_A_FRAME);
        let others =
            Processes::bytes_for(processes) + Cues::bytes_for(cues) + Names::bytes_for(images, frames);
        Model {
            budget_bytes,
            tree: Tree::new(Tree::most_in(budget_bytes - others)),
            processes: Processes::new(processes),
            cues: Cues::new(cues),
            names: Names::new(images, frames),
            counts: Counts::default(),
        }
    }

    /// The memory that it may take, in bytes.
    #[must_use]
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// The memory that it has taken, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.tree.bytes() + self.processes.bytes() + self.cues.bytes() + self.names.bytes()
    }

    /// What it was told, and what became of it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            keys: self.tree.len() as u64 - 1,
            evicted: self.tree.evicted,
            refused: self.tree.refused,
            ..self.counts
        }
    }

    /// Learns from what has happened. Events may come in any order, twice, or not at all.
    pub fn observe(&mut self, event: &Event) {
        self.counts.events += 1;
        match event {
            Event::Created { time_us, process, parent, site } => {
                self.created(*time_us, *process, *parent, site);
            }
            Event::Executed { time_us, process, image } => self.executed(*time_us, *process, *image),
            Event::Arguments { process, arguments, .. } => self.called(*process, *arguments),
            Event::Outlived { time_us, process, cpu_us } => self.outlived(*time_us, *process, *cpu_us),
            Event::Ended { time_us, process, usage } => self.ended(*time_us, *process, usage),
            Event::Named { image, path } => self.names.note_image(*image, Some(path_hash(path))),
            Event::Symbol { frame, name } => self.names.note_symbol(*frame, name),
        }
    }

    /// What is expected of a process that is created at this site, as it is [`completed`](Model::completed); what it executes may be known or not.
    #[must_use]
    pub fn predict(&self, site: &Site) -> Prediction {
        self.predict_call(site, None)
    }

    /// The same where the arguments are known of what it executes.
    #[must_use]
    pub fn predict_call(&self, site: &Site, arguments: Option<Arguments>) -> Prediction {
        let call = site.child.map_or(Call::default(), |child| Call::new(child, arguments));
        prediction::predict(&self.tree, &Chain::new(&Place::of(site), &call, &self.names))
    }

    /// The site as it is learned of when this parent creates a child there now. Where no place in a script is told, the class of the parent's own
    /// arguments and the number of its creations stand for it ([`Script::of_creation`]), if the parent's exec was told. What is asked of the
    /// site is asked of this.
    #[must_use]
    pub fn completed(&self, parent: ProcessKey, site: &Site) -> Site {
        self.processes.look_at(parent).map_or(*site, |parent| parent.filled(site))
    }

    /// What is created next; `None` where nothing is known.
    #[must_use]
    pub fn next(&self, after: After) -> Option<Expected> {
        let cue = match after {
            After::Place(PlaceId(hash)) => hash,
            After::Executed(image) => executed_cue(image_hash(image)),
        };
        self.cues.expected(cue, |hash| self.names.image_of(hash))
    }

    fn created(&mut self, time_us: u64, key: ProcessKey, parent: ProcessKey, site: &Site) {
        self.names.note_image(site.image, None);
        let maker = self.process(parent);
        let (cue, cue_us) = (maker.cue, maker.cue_us);
        let place = Place::of(&maker.filled(site));
        let process = self.process(key);
        if process.place.is_some() {
            self.counts.repeated += 1;
            return;
        }
        process.place = Some(place);
        if let Some(gap) = gap(cue_us, time_us) {
            (process.after, process.gap) = (cue, gap);
        }
        if let Some(child) = site.child.filter(|_| process.executions == 0) {
            process.first = Call { image: image_hash(child), ..process.first };
            process.last = process.first;
        }
        process.is_alive_there = process.ended.is_none();
        let (is_alive, has_executed) = (process.is_alive_there, process.executions > 0);
        let maker = self.process(parent);
        (maker.cue, maker.cue_us) = (place.whole(), time_us);
        maker.created = maker.created.saturating_add(1);
        if is_alive {
            self.cues.arrive(place.whole());
        }
        if has_executed {
            self.follow(key);
        }
        self.finish(key);
    }

    fn executed(&mut self, time_us: u64, key: ProcessKey, image: ImageId) {
        self.names.note_image(image, None);
        let hash = image_hash(image);
        let process = self.process(key);
        let is_again = process.executions > 0 && (process.executed_us, process.last.image) == (time_us, hash);
        if process.is_done || is_again {
            self.counts.repeated += 1;
            return;
        }
        process.executions = process.executions.saturating_add(1);
        (process.executed_us, process.created) = (time_us, 0);
        let is_first = process.executions == 1;
        if is_first {
            // Its arguments may have been told before.
            process.first.image = hash;
            process.last = process.first;
        } else {
            process.last = Call::new(image, None);
        }
        (process.cue, process.cue_us) = (executed_cue(hash), time_us);
        if is_first && process.place.is_some() {
            self.follow(key);
        }
    }

    fn called(&mut self, key: ProcessKey, arguments: Arguments) {
        let process = self.process(key);
        process.last = process.last.with(arguments);
        if process.executions <= 1 {
            process.first = process.last;
        }
    }

    /// Counts a process that lives: what it has used so far is likely half of what it will use, and a process that never ends would teach nothing.
    fn outlived(&mut self, time_us: u64, key: ProcessKey, cpu_us: u64) {
        let Some(process) = self.processes.get(key).filter(|process| process.ended.is_none()) else { return };
        let Some(place) = process.place else { return };
        let life_us = time_us.saturating_sub(key.created_us);
        let usage = Usage {
            cpu_us: cpu_us.saturating_mul(2),
            life_us: life_us.saturating_mul(2),
            ..Usage::default()
        };
        let call = if process.last.is_known() { process.last } else { Call::FORK };
        self.tree.count(&Chain::new(&place, &call, &self.names), &Sample::of(&usage));
        self.counts.runs += 1;
    }

    fn ended(&mut self, time_us: u64, key: ProcessKey, usage: &Usage) {
        let process = self.process(key);
        if process.ended.is_some() {
            self.counts.repeated += 1;
            return;
        }
        let since_us = time_us.checked_sub(process.executed_us).unwrap_or(usage.life_us);
        process.ended = Some((Sample::of(usage), Sample::of(&last_part(usage, since_us))));
        let Process { cue, after, executions, is_alive_there, .. } = *process;
        let place_cue = process.place_cue();
        process.is_alive_there = false;
        self.cues.nothing(cue);
        if executions == 0 {
            self.cues.nothing(after);
        }
        if is_alive_there {
            self.cues.leave(place_cue);
        }
        self.finish(key);
    }

    /// The process with this key; what makes room for it is given up.
    fn process(&mut self, key: ProcessKey) -> &mut Process {
        let (process, gone) = self.processes.get_or_add(key);
        if let Some(gone) = gone {
            if gone.is_alive_there {
                self.cues.leave(gone.place_cue());
            }
            let is_half_known = gone.place.is_some() != gone.ended.is_some();
            self.counts.lost += u64::from(is_half_known);
        }
        process
    }

    /// Notes what a process that has executed its first program came after.
    fn follow(&mut self, key: ProcessKey) {
        if let Some(process) = self.processes.get(key) {
            self.cues.follow(process.after, process.first.image, process.place_cue(), process.gap);
        }
    }

    /// Counts a process of which both ends are known.
    fn finish(&mut self, key: ProcessKey) {
        let Some(process) = self.processes.get(key) else { return };
        let (Some(place), Some((whole, since)), false) = (process.place, process.ended, process.is_done)
        else {
            return;
        };
        process.is_done = true;
        let first = if process.first.is_known() { process.first } else { Call::FORK };
        let second = (process.executions > 1 && process.last != first).then_some(process.last);
        self.tree.count(&Chain::new(&place, &first, &self.names), &whole);
        if let Some(second) = second {
            self.tree.count_call(&Chain::new(&place, &second, &self.names), &since);
        }
        self.counts.runs += 1;
    }
}

/// What a process used in the last part of its life: of the processor time and of the time before `main` it is taken to have the same part.
fn last_part(usage: &Usage, since_us: u64) -> Usage {
    let life_us = since_us.min(usage.life_us);
    let cpu_us = u128::from(usage.cpu_us) * u128::from(life_us) / u128::from(usage.life_us.max(1));
    Usage { cpu_us: u64::try_from(cpu_us).unwrap_or(u64::MAX), life_us, ..*usage }
}
