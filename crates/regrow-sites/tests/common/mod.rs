//! Sites and processes for the tests of the model.

use regrow_sites::site::{Frame, ImageId, Script, Site};
use regrow_sites::{Arguments, Event, Model, ProcessKey, Usage};

/// An image by its name.
pub(crate) fn image(name: &str) -> ImageId {
    ImageId::of_build_id(name.as_bytes())
}

/// A place in a program: with the frames at these offsets, innermost first.
pub(crate) fn place(program: &str, offsets: &[u64]) -> Site {
    let frame = |at: usize| offsets.get(at).map(|&offset| Frame { module: image(program), offset });
    Site { image: image(program), frames: [frame(0), frame(1), frame(2)], script: None, child: None }
}

/// A line of a script that the shell runs.
pub(crate) fn line(line: u64) -> Site {
    Site { script: Some(Script { file: 77, line }), ..place("sh", &[10, 20, 30]) }
}

/// The same site, with what the child executes.
pub(crate) fn child_of(site: Site, child: &str) -> Site {
    Site { child: Some(image(child)), ..site }
}

pub(crate) fn cpu(cpu_us: u64) -> Usage {
    Usage { cpu_us, life_us: cpu_us * 2, peak_kib: 1_000, startup_us: Some(cpu_us / 2) }
}

/// Whether two values are within an eighth of each other.
pub(crate) fn is_close(value: u64, wanted: u64) -> bool {
    value.abs_diff(wanted) * 8 <= wanted
}

/// Tells a model of processes, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    processes: u32,
    pub(crate) now_us: u64,
}

/// The process that creates all others.
pub(crate) const PARENT: ProcessKey = ProcessKey { pid: 1, created_us: 0 };

impl Teller {
    /// One that begins at this time.
    pub(crate) fn at(now_us: u64) -> Teller {
        Teller { processes: 0, now_us }
    }

    pub(crate) fn process(&mut self) -> ProcessKey {
        self.processes += 1;
        self.now_us += 1_000;
        ProcessKey { pid: 2 + self.processes % 30_000, created_us: self.now_us }
    }

    /// What is told of a process.
    pub(crate) fn events(&mut self, site: &Site, arguments: Option<Arguments>, usage: Usage) -> Vec<Event> {
        let process = self.process();
        let at = |us: u64| self.now_us + us;
        let mut events = vec![Event::Created {
            time_us: at(0),
            process,
            parent: PARENT,
            site: Site { child: None, ..*site },
        }];
        if let Some(image) = site.child {
            events.push(Event::Executed { time_us: at(100), process, image });
        }
        if let Some(arguments) = arguments {
            events.push(Event::Arguments { process, arguments, hash: 0 });
        }
        let time_us = at(usage.life_us.min(1 << 40));
        events.push(Event::Ended { time_us, process, usage });
        events
    }

    /// Tells of a process.
    pub(crate) fn tell(&mut self, model: &mut Model, site: &Site, usage: Usage) {
        self.events(site, None, usage).iter().for_each(|event| model.observe(event));
    }

    /// Tells of so many like it.
    pub(crate) fn tell_often(&mut self, model: &mut Model, site: &Site, usage: Usage, count: usize) {
        (0..count).for_each(|_| self.tell(model, site, usage));
    }
}
