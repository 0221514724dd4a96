//! What happened to processes, added up: a row for each creation site, and the tree of creations.
//!
//! ```text
//!   Event ──> Window ──in order of time──> processes that live ──each change──> SiteTable   (site, programs) ──> Totals
//!                                                                        └────> Tree        (node of the parent, site) ──> NodeTotals
//! ```
//!
//! A process is counted where it was created, once. Its row and its node say which programs it executed; when it executes one it moves from one row
//! to another, so that the counts are right at each moment. What was there before the collector, and the command itself, have no creation site: they
//! stand in the tree, not in the table.
//!
//! Memory is bounded by [`MOST_SITES`], [`MOST_NODES`], [`MOST_ALIVE`] and [`MOST_NAMES`]. What is beyond them is counted and shown as such: [`Counts`], [`SiteKey::FURTHER`].

mod processes;
mod sites;
pub mod totals;
mod tree;
mod window;

use std::collections::HashMap;

use regrow_sites::{Event, ImageId, ProcessKey, Site, Usage};

pub use self::processes::MOST_ALIVE;
use self::processes::{Process, Processes};
use self::sites::SiteTable;
pub use self::sites::{MOST_SITES, Programs, SiteId, SiteKey};
pub use self::totals::Totals;
use self::tree::Tree;
pub use self::tree::{MOST_NODES, Node, NodeId, NodeTotals, Step};
use self::window::Window;

/// Most names of images and of scripts, each.
pub const MOST_NAMES: usize = 65_536;
/// The longest name, in bytes: that of a path.
const LONGEST_NAME_BYTES: usize = 4096;

/// How much was told, and what of it could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Processes whose creation was told.
    pub created: u64,
    /// Processes without a creation: the command itself, and what was there before.
    pub found: u64,
    /// Programs that were executed.
    pub executed: u64,
    /// Processes whose end was told.
    pub ended: u64,
    /// Creations and executions that were told twice.
    pub repeated: u64,
    /// Ends of processes that nothing was told of before.
    pub unknown_ends: u64,
    /// Processes whose end was not told: another one had their number after them.
    pub lost_ends: u64,
    /// Processes that were created while too many others lived.
    pub left_out: u64,
}

/// The profile of a stream of events.
#[derive(Debug, Default)]
pub struct Profile {
    window: Window,
    processes: Processes,
    sites: SiteTable,
    tree: Tree,
    images: HashMap<ImageId, String>,
    scripts: HashMap<u64, String>,
    counts: Counts,
    /// The first and the last time that was told.
    span_us: Option<(u64, u64)>,
}

impl Profile {
    /// A profile of nothing.
    #[must_use]
    pub fn new() -> Profile {
        Profile::default()
    }

    /// Takes an event. It is held until those that happened before it are there.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Named { image, path } => self.name_image(image, path),
            // They are the model's.
            Event::Arguments { .. } | Event::Outlived { .. } | Event::Symbol { .. } => {}
            event => self.window.push(event),
        }
        while let Some(event) = self.window.next_due() {
            self.note(&event);
        }
    }

    /// Says that it is `now_us`: what was held long enough is taken in although nothing else happens.
    pub fn pass(&mut self, now_us: u64) {
        self.window.pass(now_us);
        while let Some(event) = self.window.next_due() {
            self.note(&event);
        }
    }

    /// Takes in all that is held: nothing more comes.
    pub fn finish(&mut self) {
        while let Some(event) = self.window.next_held() {
            self.note(&event);
        }
    }

    /// Gives a script, or a target of make, the name whose hash a site has.
    pub fn name_script(&mut self, hash: u64, name: String) {
        if name.len() <= LONGEST_NAME_BYTES && self.scripts.len() < MOST_NAMES {
            self.scripts.insert(hash, name);
        }
    }

    fn name_image(&mut self, image: ImageId, path: String) {
        if path.len() <= LONGEST_NAME_BYTES && self.images.len() < MOST_NAMES {
            self.images.insert(image, path);
        }
    }

    fn note(&mut self, event: &Event) {
        let time_us = window::time_us(event);
        let (first, last) = self.span_us.unwrap_or((time_us, time_us));
        self.span_us = Some((first.min(time_us), last.max(time_us)));
        match *event {
            Event::Created { process, parent, site, .. } => self.created(process, parent, site),
            Event::Executed { time_us, process, image } => self.executed(process, time_us, image),
            Event::Ended { process, usage, .. } => self.ended(process, &usage),
            Event::Named { .. } | Event::Arguments { .. } | Event::Outlived { .. } | Event::Symbol { .. } => {
            }
        }
    }

    fn created(&mut self, process: ProcessKey, parent: ProcessKey, site: Site) {
        let known = self.processes.get(process).copied();
        if known.is_some_and(|known| !known.is_found) {
            self.counts.repeated += 1;
            return;
        }
        let maker = self.find(parent, site.image);
        if let Some(maker) = maker.and_then(|maker| maker.site) {
            self.sites.totals(maker).children += 1;
        }
        let above = maker.map_or(NodeId::ORIGIN, |maker| maker.node);
        let site = Site { child: None, ..site };
        self.counts.created += 1;
        match known {
            // It was told of before its creation was: only the place was wrong.
            Some(known) => {
                self.counts.found -= 1;
                self.leave(&known);
                self.enter(process, Process { is_found: false, origin: Some(site), above, ..known });
            }
            None => {
                let entered = self.enter(process, Process::new(Some(site), above, Programs::NONE, false));
                self.counts.left_out += u64::from(entered.is_none());
            }
        }
    }

    fn executed(&mut self, process: ProcessKey, time_us: u64, image: ImageId) {
        let Some(known) = self.find(process, ImageId::UNKNOWN) else { return };
        if known.executed == Some((time_us, image)) {
            self.counts.repeated += 1;
            return;
        }
        self.counts.executed += 1;
        self.leave(&known);
        let (programs, starts) = (known.programs.then(image), known.starts.saturating_add(1));
        self.enter(process, Process { programs, starts, executed: Some((time_us, image)), ..known });
    }

    fn ended(&mut self, process: ProcessKey, usage: &Usage) {
        let Some(known) = self.processes.remove(process) else {
            self.counts.unknown_ends += 1;
            return;
        };
        self.counts.ended += 1;
        if let Some(site) = known.site {
            self.sites.totals(site).end(usage);
        }
        self.tree.totals(known.node).end(usage);
    }

    /// A process that was told of, or one that has been there before; `None` when too many live.
    fn find(&mut self, process: ProcessKey, image: ImageId) -> Option<Process> {
        if let Some(known) = self.processes.get(process) {
            return Some(*known);
        }
        let programs = if image == ImageId::UNKNOWN { Programs::NONE } else { Programs::NONE.then(image) };
        let found = self.enter(process, Process::new(None, NodeId::ORIGIN, programs, true));
        self.counts.found += u64::from(found.is_some());
        found
    }

    /// Puts a process into its row and its node.
    fn enter(&mut self, key: ProcessKey, mut process: Process) -> Option<Process> {
        if !self.processes.has_room_for(key) {
            return None;
        }
        let step = match process.origin {
            Some(site) => {
                let id = self.sites.id_of(SiteKey { site, programs: process.programs });
                process.site = Some(id);
                self.sites.totals(id).enter(process.starts);
                Step::Site(id)
            }
            None => Step::Found(process.programs),
        };
        process.node = self.tree.child(process.above, step);
        self.tree.totals(process.node).enter();
        if let Some(lost) = self.processes.insert(key, process) {
            self.counts.lost_ends += 1;
            self.abandon(&lost);
        }
        Some(process)
    }

    /// Takes a process out of its row and its node.
    fn leave(&mut self, process: &Process) {
        if let Some(site) = process.site {
            self.sites.totals(site).leave(process.starts);
        }
        self.tree.totals(process.node).leave();
    }

    /// A process lives no more, and what it has used is not known.
    fn abandon(&mut self, process: &Process) {
        if let Some(site) = process.site {
            self.sites.totals(site).abandon();
        }
        self.tree.totals(process.node).abandon();
    }

    /// The sites at which processes were created, with what is known of these.
    pub fn sites(&self) -> impl Iterator<Item = (SiteId, &SiteKey, &Totals)> {
        self.sites.rows()
    }

    /// The tree of creations; a node stands behind its parent.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        self.tree.nodes()
    }

    /// The path of an image's file, when a collector has told it.
    #[must_use]
    pub fn image_path(&self, image: ImageId) -> Option<&str> {
        self.images.get(&image).map(String::as_str)
    }

    /// The name of a script, or of a target, by its hash.
    #[must_use]
    pub fn script_name(&self, hash: u64) -> Option<&str> {
        self.scripts.get(&hash).map(String::as_str)
    }

    /// How much was told.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many processes live.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.processes.len()
    }

    /// From the first to the last time that was told, in microseconds.
    #[must_use]
    pub fn span_us(&self) -> u64 {
        self.span_us.map_or(0, |(first, last)| last - first)
    }
}

#[cfg(test)]
mod tests;
