//! What is predicted of a process, as what is done about it.

use std::collections::HashMap;

use regrow_collect::below::Class;
use regrow_sites::{Arguments, Event, ImageId, Model, ProcessKey, Site};
use regrow_sys::scheduling::processor_time_ns;

use crate::cli::schedule::Basis;

/// How classes are found.
#[derive(Debug)]
pub(super) struct Classes {
    by: Basis,
    /// What tells short from long, in microseconds of processor time.
    limit_us: u64,
    /// By the parent: the class with which each process that lives began.
    inherited: HashMap<ProcessKey, Class>,
}

impl Classes {
    pub(super) fn new(by: Basis, limit_us: u64) -> Classes {
        Classes { by, limit_us, inherited: HashMap::new() }
    }

    /// Is called with each event before its classes are asked for.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Created { process, parent, .. } if self.by == Basis::Parent => {
                let used_ns = i32::try_from(parent.pid).ok().and_then(|pid| processor_time_ns(pid).ok());
                let class = match used_ns {
                    None => Class::Unknown,
                    Some(used_ns) if used_ns / 1000 < self.limit_us => Class::Short,
                    Some(_) => Class::Long,
                };
                self.inherited.insert(*process, class);
            }
            Event::Ended { process, .. } => {
                self.inherited.remove(process);
            }
            _ => {}
        }
    }

    /// The class of a process that was created there.
    pub(super) fn of(
        &self,
        model: &Model,
        process: ProcessKey,
        site: &Site,
        arguments: Option<Arguments>,
    ) -> Class {
        match self.by {
            Basis::Parent => self.inherited.get(&process).copied().unwrap_or(Class::Unknown),
            Basis::Site | Basis::Program => self.predicted(model, site, arguments),
        }
    }

    /// The class that is predicted of a site.
    pub(super) fn predicted(&self, model: &Model, site: &Site, arguments: Option<Arguments>) -> Class {
        let prediction = match self.by {
            Basis::Program => {
                let alone =
                    Site { image: ImageId::UNKNOWN, frames: [None; 3], script: None, child: site.child };
                model.predict(&alone)
            }
            Basis::Site | Basis::Parent => model.predict_call(site, arguments),
        };
        if prediction.is_long(self.limit_us) {
            Class::Long
        } else if prediction.is_short(self.limit_us) {
            Class::Short
        } else {
            Class::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use regrow_sites::Usage;

    use super::*;

    const SITE: Site = Site { image: ImageId(5), frames: [None; 3], script: None, child: None };

    fn created(pid: u32, parent: ProcessKey, site: Site) -> [Event; 2] {
        let process = ProcessKey { pid, created_us: u64::from(pid) };
        let usage = Usage { cpu_us: 900_000, life_us: 900_000, ..Usage::default() };
        [Event::Created { time_us: 1, process, parent, site }, Event::Ended { time_us: 2, process, usage }]
    }

    #[test]
    fn where_nothing_is_known_nothing_is_done() {
        let classes = Classes::new(Basis::Site, 10_000);
        assert_eq!(classes.predicted(&Model::new(1 << 20), &SITE, None), Class::Unknown);
    }

    #[test]
    fn the_program_alone_knows_no_place() {
        let (mut model, nobody) = (Model::new(1 << 20), ProcessKey { pid: 1, created_us: 0 });
        (10..30).flat_map(|pid| created(pid, nobody, SITE)).for_each(|event| model.observe(&event));
        let class = |by| Classes::new(by, 10_000).predicted(&model, &SITE, None);
        assert_eq!((class(Basis::Site), class(Basis::Program)), (Class::Long, Class::Unknown));
    }

    #[test]
    fn a_child_of_this_process_inherits_what_it_has_used() {
        let own = ProcessKey { pid: std::process::id(), created_us: 0 };
        let child = ProcessKey { pid: 7, created_us: 7 };
        let class = |limit_us| {
            let mut classes = Classes::new(Basis::Parent, limit_us);
            let [created, ended] = created(7, own, SITE);
            classes.take(&created);
            let class = classes.of(&Model::new(1 << 20), child, &SITE, None);
            classes.take(&ended);
            assert_eq!(classes.of(&Model::new(1 << 20), child, &SITE, None), Class::Unknown, "it is gone");
            class
        };
        assert_eq!((class(u64::MAX), class(0)), (Class::Short, Class::Long));
    }
}
