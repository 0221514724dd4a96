//! What a collector has told while something ran.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regrow_machine::{Losses, Machine, MachineOptions};
use regrow_sites::{Event, Frame, ImageId, ProcessKey, Site, Usage};

/// See the module.
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    pub(crate) losses: Losses,
}

/// Frames of a site: file name and offset of each.
pub(crate) type Places = Vec<(String, u64)>;

/// Looks at the machine while something runs.
pub(crate) fn look<T>(options: MachineOptions, run: impl FnOnce() -> T) -> (Seen, T) {
    let mut machine = Machine::start(&options).expect("the machine may be looked at");
    let is_over = AtomicBool::new(false);
    let mut events = Vec::new();
    let (losses, result) = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                machine.collect(Duration::from_millis(20), &mut |event| events.push(event)).expect("events");
            }
            machine.finish(&mut |event| events.push(event)).expect("what was lost is known")
        });
        // Also when it panics: the collector is waited for.
        let end = Ending(&is_over);
        let result = run();
        drop(end);
        (collector.join().expect("it collects"), result)
    });
    (Seen { events, losses }, result)
}

/// Ends collecting when it is dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The same for everything that the machine does, with nothing lost.
pub(crate) fn look_at_all<T>(run: impl FnOnce() -> T) -> (Seen, T) {
    let (seen, result) = look(MachineOptions::default(), run);
    let losses = seen.losses;
    assert_eq!((losses.created, losses.executed, losses.exited, losses.ended), (0, 0, 0, 0), "{losses:?}");
    assert_eq!((losses.files, losses.records), (0, 0), "{losses:?}");
    (seen, result)
}

impl Seen {
    /// The image of the file at a path.
    pub(crate) fn image(&self, path: &Path) -> ImageId {
        let path = path.to_str().expect("a path in words");
        let named = self.events.iter().find_map(|event| match event {
            Event::Named { image, path: named } if named == path => Some(*image),
            _ => None,
        });
        named.unwrap_or_else(|| panic!("{path} was told"))
    }

    /// The file name of an image.
    pub(crate) fn name(&self, image: ImageId) -> String {
        let named = self.events.iter().find_map(|event| match event {
            Event::Named { image: named, path } if *named == image => path.rsplit('/').next(),
            _ => None,
        });
        named.unwrap_or("?").to_owned()
    }

    /// All creations: child, parent, site.
    pub(crate) fn created(&self) -> impl Iterator<Item = (ProcessKey, ProcessKey, Site)> {
        self.events.iter().filter_map(|event| match event {
            Event::Created { process, parent, site, .. } => Some((*process, *parent, *site)),
            _ => None,
        })
    }

    /// How often each site of an image has created.
    pub(crate) fn sites(&self, image: ImageId) -> BTreeMap<Places, usize> {
        self.sites_where(|_, site| site.image == image)
    }

    /// The same for the children of this process alone: others may have the same program.
    pub(crate) fn own_sites(&self, image: ImageId) -> BTreeMap<Places, usize> {
        let of_this = |parent: ProcessKey| parent.pid == std::process::id();
        let own: BTreeSet<u32> =
            self.created().filter(|(_, parent, _)| of_this(*parent)).map(|(child, ..)| child.pid).collect();
        self.sites_where(|parent, site| site.image == image && own.contains(&parent.pid))
    }

    /// How often each site of a process has created.
    pub(crate) fn sites_of(&self, pid: u32) -> BTreeMap<Places, usize> {
        self.sites_where(|parent, _| parent.pid == pid)
    }

    fn sites_where(&self, is_meant: impl Fn(&ProcessKey, &Site) -> bool) -> BTreeMap<Places, usize> {
        let mut sites = BTreeMap::new();
        for (_, _, site) in self.created().filter(|(_, parent, site)| is_meant(parent, site)) {
            *sites.entry(self.places(&site)).or_default() += 1;
        }
        sites
    }

    fn places(&self, site: &Site) -> Places {
        site.frames.iter().flatten().map(|&Frame { module, offset }| (self.name(module), offset)).collect()
    }

    /// What a process has used.
    pub(crate) fn usage(&self, pid: u32) -> Vec<Usage> {
        let of = |event: &Event| match event {
            Event::Ended { process, usage, .. } if process.pid == pid => Some(*usage),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
}
