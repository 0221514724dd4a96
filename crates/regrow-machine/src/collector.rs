//! From records to events: who has mapped what, which files those are, and which processes are about to end.

use std::collections::HashMap;

use regrow_abi::sites::fnv1a_of_words;
use regrow_sites::{Arguments, Event, ImageId, Site};

use crate::arch;
use crate::frames;
use crate::images::{Images, Met, identity_of, words};
use crate::record::{Accounts, Created, FileIdentity, MappedFile, Process, Record};
use crate::unwind::stack::{Piece, Stack};
use crate::unwind::{Mapped, Place, places};

/// Most processes whose mappings are known.
const MOST_SPACES: usize = 1 << 14;

/// What was met and could not be told whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Gaps {
    /// Records that are not understood.
    pub(crate) records: u64,
    /// Creations by a program of 64 bits whose stack or mappings were not to be had.
    pub(crate) places: u64,
}

/// Turns records into events.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) images: Images,
    /// What processes have mapped for execution, ascending.
    spaces: HashMap<Process, Vec<Mapped>>,
    /// Processes whose last thread exits: when, and what they had used by then.
    exited: HashMap<Process, (u64, Accounts)>,
    pub(crate) gaps: Gaps,
    /// Mappings come as records.
    mappings_are_told: bool,
}

impl Collector {
    pub(crate) fn new(mappings_are_told: bool) -> Self {
        let (images, spaces, exited) = (Images::default(), HashMap::new(), HashMap::new());
        Self { images, spaces, exited, gaps: Gaps::default(), mappings_are_told }
    }

    /// Takes one record.
    pub(crate) fn take(&mut self, bytes: &[u8], now_ns: u64, tell: &mut dyn FnMut(Event)) {
        match Record::read(bytes) {
            Some(Record::Created(created)) => self.created(&created, tell),
            Some(Record::Mapping { process, mapping, first }) => self.mapped(process, &mapping, first),
            Some(Record::Image { .. }) => {}
            Some(Record::Executed { process, time_ns, image, arguments }) => {
                self.spaces.remove(&process);
                let image = self.id(image, Met::executed(process.pid), tell);
                let process = process.key();
                tell(Event::Executed { time_us: time_ns / 1_000, process, image });
                if let Some(told) = arguments {
                    let words = || told.strip_suffix(&[0]).unwrap_or(told).split(|&byte| byte == 0);
                    let (arguments, hash) = (Arguments::of(words()), fnv1a_of_words(words()));
                    tell(Event::Arguments { process, arguments, hash });
                }
            }
            Some(Record::Exited { process, time_ns, accounts }) => {
                self.exited.insert(process, (time_ns, accounts));
            }
            Some(Record::Ended { process, accounts }) => {
                let time_ns = self.exited.remove(&process).map_or(now_ns, |(time_ns, _)| time_ns);
                self.ended(process, time_ns, accounts, tell);
            }
            None => self.gaps.records += 1,
        }
    }

    /// Reads the file that a record speaks of; `Some`: its code is known.
    pub(crate) fn see(&mut self, bytes: &[u8]) -> Option<FileIdentity> {
        let Some(Record::Image { process, file, mapped, path }) = Record::read(bytes) else {
            self.gaps.records += 1;
            return None;
        };
        self.images.see(file, path, Met { pid: process.pid, mapped }).then_some(file)
    }

    /// How many processes exit that have not ended.
    pub(crate) fn exiting(&self) -> usize {
        self.exited.len()
    }

    /// Ends those that exit, with what they had used when they began to.
    pub(crate) fn end_exited(&mut self, tell: &mut dyn FnMut(Event)) {
        for (process, (time_ns, accounts)) in std::mem::take(&mut self.exited) {
            self.ended(process, time_ns, accounts, tell);
        }
    }

    /// Forgets files and mappings, which are to be told again.
    pub(crate) fn forget(&mut self) {
        self.images = Images::default();
        self.spaces.clear();
    }

    fn ended(&mut self, process: Process, time_ns: u64, accounts: Accounts, tell: &mut dyn FnMut(Event)) {
        self.spaces.remove(&process);
        let usage = accounts.usage(time_ns.saturating_sub(process.start_ns));
        tell(Event::Ended { time_us: time_ns / 1_000, process: process.key(), usage });
    }

    fn mapped(&mut self, process: Process, mapping: &MappedFile, first: bool) {
        let file = self.images.number(mapping.file, Met::mapped(process.pid, mapping));
        if self.spaces.len() >= MOST_SPACES && !self.spaces.contains_key(&process) {
            // They are read from /proc where they are needed.
            self.spaces.clear();
        }
        let space = self.spaces.entry(process).or_default();
        if first {
            space.clear();
        }
        space.push(Mapped { start: mapping.start, end: mapping.end, offset: mapping.offset, file });
    }

    fn created(&mut self, created: &Created<'_>, tell: &mut dyn FnMut(Event)) {
        let Created { child, parent, image, .. } = *created;
        let mut site = Site { image: ImageId::UNKNOWN, frames: [None; 3], script: None, child: None };
        if let Some(image) = image {
            site.image = self.id(image, Met::executed(parent.pid), tell);
            site.frames = self.frames(created);
            self.tell_names(tell);
        }
        tell(Event::Created {
            time_us: child.start_ns / 1_000,
            process: child.key(),
            parent: parent.key(),
            site,
        });
    }

    fn frames(&mut self, created: &Created<'_>) -> [Option<regrow_sites::Frame>; 3] {
        let Some(registers) = arch::registers(created.registers) else { return [None; 3] };
        let base = registers.get(arch::STACK_POINTER).copied().unwrap_or(0);
        let (far_at, far) = created.far;
        let far = (!far.is_empty()).then_some(Piece { base: far_at, bytes: far });
        let stack = Stack { near: Piece { base, bytes: created.near }, far };
        let pid = created.parent.pid;
        let is_read = !self.spaces.contains_key(&created.parent);
        if is_read {
            self.spaces.insert(created.parent, read_space(pid, &mut self.images));
        }
        let mut found = self.places(registers, &stack, created.parent);
        if found.is_empty() && !is_read && !self.mappings_are_told {
            // It has mapped more since it was read.
            self.spaces.insert(created.parent, read_space(pid, &mut self.images));
            found = self.places(registers, &stack, created.parent);
        }
        self.gaps.places += u64::from(found.is_empty());
        frames::choose(&found, |file| self.images.id(file))
    }

    fn places(
        &mut self,
        registers: [u64; arch::REGISTERS],
        stack: &Stack<'_>,
        process: Process,
    ) -> Vec<Place> {
        let Some(space) = self.spaces.get(&process) else { return Vec::new() };
        places(registers, stack, space, process.pid, &mut self.images)
    }

    /// The id of a file; what is found of its name is told.
    fn id(&mut self, file: FileIdentity, met: Met, tell: &mut dyn FnMut(Event)) -> ImageId {
        let number = self.images.number(file, met);
        self.tell_names(tell);
        self.images.id(number)
    }

    fn tell_names(&mut self, tell: &mut dyn FnMut(Event)) {
        for (image, path) in self.images.take_names() {
            tell(Event::Named { image, path: words(&path) });
        }
    }
}

/// What a process has mapped for execution at present; empty when it is gone.
fn read_space(pid: u32, images: &mut Images) -> Vec<Mapped> {
    let mappings =
        i32::try_from(pid).ok().and_then(|pid| regrow_sys::maps::read_maps(pid).ok()).unwrap_or_default();
    let executable = mappings.iter().filter(|mapping| mapping.exec && mapping.inode != 0);
    let mapped = executable.filter_map(|mapping| {
        let (start, end, offset) = (mapping.start, mapping.end, mapping.offset);
        let link = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        let file = identity_of(&std::fs::metadata(link).ok()?);
        let mapping = MappedFile { start, end, offset, file };
        Some(Mapped { start, end, offset, file: images.number(file, Met::mapped(pid, &mapping)) })
    });
    mapped.collect()
}
