//! From records to events: what is known of each process below the command.
//!
//! ```text
//!   created ──> executed ──> main is called ──> ended (told by itself) ──> waited for (told by its parent)
//!      └ what a child tells before its parent has told of it is held back ┘
//! ```
//!
//! | of an end | processor time | when |
//! |---|---|---|
//! | a program that ends by `exit` or `_exit` | its own, up to there; of one without children what its parent got for it | then |
//! | a forked child that executes nothing, an end by a signal, a program without the library | what its parent got for it, less what its own children had used | when its parent has waited |
//! | the same, and nobody with the library waits for it | the last that was seen of its clock | when it is missed |

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow_abi::sites::{Call, Class, How, Place, Record, WaitStatus};
use regrow_sites::{Event, Frame, ImageId, ProcessKey, Script, Site, Usage};
use regrow_sys::scheduling;

use super::images::Executable;
use super::texts::Texts;

/// How long what a child tells waits for its parent's word, and an end for its parent's wait.
const HOLD: Duration = Duration::from_millis(250);
/// How often processes are looked for that have ended unseen.
const LOOK: Duration = Duration::from_secs(1);
/// Creations of one process whose child is not known yet.
const MOST_BEGUN: usize = 256;

/// What a collection has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Processes that were created.
    pub created: u64,
    /// Of those, the ones whose creation nobody told: a system call, or a program without the library.
    pub unseen: u64,
    /// Of those, the ones that were predicted to use little processor time, and those that were predicted to use much.
    pub short: u64,
    /// See above.
    pub long: u64,
    /// Programs that were executed.
    pub executed: u64,
    /// Processes that have ended.
    pub ended: u64,
    /// Of those, the ones whose processor time is not exact.
    pub inexact: u64,
}

/// A site of which something was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Touched {
    pub(super) place: Place,
    /// The path that the child has executed, as its hash, and what was in it.
    pub(super) executed: Option<(u64, ImageId)>,
}

/// A creation without a number.
#[derive(Debug, Clone, Copy)]
struct BegunCreation {
    time_ns: u64,
    how: How,
    class: Class,
    place: Place,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    key: ProcessKey,
    parent: Option<u32>,
    how: How,
    pub(super) class: Class,
    place: Place,
    image: ImageId,
    /// Its creation was told.
    is_known: bool,
    /// When it was first heard of, and since when its end waits.
    heard: Instant,
    ending: Option<Instant>,
    held: Vec<Event>,
    begun: VecDeque<BegunCreation>,
    /// Time and path of an execution that has not succeeded as yet.
    executing: Option<(u64, u64)>,
    /// The path that it has executed.
    path: u64,
    start_ns: u64,
    startup_us: Option<u64>,
    /// Time and processor time: told by itself.
    own_end: Option<(u64, u64)>,
    has_created: bool,
    /// Processor time of the children that it has waited for.
    children_ns: u64,
    /// The last that was seen of its clock.
    pub(super) clock_ns: u64,
    /// It has outlived what was predicted.
    pub(super) is_taken_back: bool,
    /// It was not there at the last look. What it has told of its end may be read after that.
    is_gone: bool,
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    pub(super) all: HashMap<u32, Process>,
    texts: Texts,
    files: HashMap<u64, Option<Executable>>,
    looked: Option<Instant>,
    pub(super) counts: Counts,
    pub(super) touched: Vec<Touched>,
    /// What hashes of scripts, or of paths, stand for.
    pub(super) scripts: Vec<(u64, String)>,
    events: Vec<Event>,
}

fn us(time_ns: u64) -> u64 {
    time_ns / 1000
}

/// A site, as the model has it.
pub(super) fn site_of(place: &Place, child: Option<ImageId>) -> Site {
    let frame =
        |(module, offset): (u64, u64)| (module != 0).then_some(Frame { module: ImageId(module), offset });
    let (file, line) = place.script;
    Site {
        image: ImageId(place.image),
        frames: place.frames.map(frame),
        script: (file != 0).then_some(Script { file, line }),
        child,
    }
}

impl Process {
    fn new(pid: u32, time_ns: u64, now: Instant) -> Process {
        Process {
            key: ProcessKey { pid, created_us: us(time_ns) },
            parent: None,
            how: How::Fork,
            class: Class::Unknown,
            place: Place::default(),
            image: ImageId::UNKNOWN,
            is_known: false,
            heard: now,
            ending: None,
            held: Vec::new(),
            begun: VecDeque::new(),
            executing: None,
            path: 0,
            start_ns: time_ns,
            startup_us: None,
            own_end: None,
            has_created: false,
            children_ns: 0,
            clock_ns: 0,
            is_taken_back: false,
            is_gone: false,
        }
    }

    /// The C library has created it and waits for it, which no wait tells.
    fn is_inner(&self) -> bool {
        matches!(self.how, How::System | How::Popen | How::Wordexp)
    }

    /// The process.
    pub(super) fn key(&self) -> ProcessKey {
        self.key
    }

    /// Its place, and what it has executed there.
    pub(super) fn touched(&self) -> Touched {
        let executed = (self.image != ImageId::UNKNOWN).then_some((self.path, self.image));
        Touched { place: self.place, executed }
    }

    /// What it and the children that it has waited for have used.
    fn total_ns(&self) -> u64 {
        self.own_end.map_or(self.clock_ns, |(_, cpu_ns)| cpu_ns) + self.children_ns
    }
}

impl Processes {
    /// The command was started by this process, at a time.
    pub(super) fn begin(&mut self, pid: u32, time_ns: u64, now: Instant) {
        let creation =
            BegunCreation { time_ns, how: How::Fork, class: Class::Unknown, place: Place::default() };
        self.create(std::process::id(), pid, creation, now);
    }

    /// Takes records in the order of their times; returns what has happened.
    pub(super) fn take(&mut self, records: &[Record], now: Instant) -> Vec<Event> {
        for record in records {
            self.take_one(record, now);
        }
        let due = |process: &Process| {
            let waits = |since: Instant| now.duration_since(since) >= HOLD;
            process.ending.is_some_and(waits) || !process.is_known && waits(process.heard)
        };
        let due: Vec<u32> =
            self.all.iter().filter(|(_, process)| due(process)).map(|(&pid, _)| pid).collect();
        for pid in due {
            self.know(pid);
            if self.all.get(&pid).is_some_and(|process| process.ending.is_some()) {
                self.end(pid, None);
            }
        }
        if self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK) {
            self.looked = Some(now);
            self.look(false);
        }
        std::mem::take(&mut self.events)
    }

    /// No more is to come. What is still there has not ended.
    pub(super) fn finish(&mut self) -> Vec<Event> {
        self.look(true);
        let all: Vec<u32> = self.all.keys().copied().collect();
        for pid in all {
            self.know(pid);
            if self.all.get(&pid).is_some_and(|process| process.own_end.is_some()) {
                self.end(pid, None);
            }
        }
        std::mem::take(&mut self.events)
    }

    fn take_one(&mut self, record: &Record, now: Instant) {
        match *record {
            Record::Created { pid, time_ns, how, child, class, place } => {
                let creation = BegunCreation { time_ns, how, class, place };
                if child != 0 {
                    self.create(pid, child, creation, now);
                } else {
                    let begun = &mut self.of(pid, time_ns, now).begun;
                    begun.push_back(creation);
                    if begun.len() > MOST_BEGUN {
                        begun.pop_front();
                    }
                }
            }
            Record::Executing { pid, time_ns, path } => {
                self.of(pid, time_ns, now).executing = Some((time_ns, path));
            }
            Record::Executed { pid, time_ns, parent, image } => {
                self.executed(pid, time_ns, parent, ImageId(image), now);
            }
            Record::Started { pid, time_ns, call } => {
                let process = self.of(pid, time_ns, now);
                process.startup_us = Some(us(time_ns.saturating_sub(process.start_ns)));
                let key = process.key;
                if let Some(Call { arguments, hash }) = call {
                    self.say(pid, Event::Arguments { process: key, arguments, hash });
                }
            }
            Record::Text { text, .. } => {
                if let Some(whole) = self.texts.take(&text) {
                    let name = String::from_utf8_lossy(whole).into_owned();
                    if text.is_image {
                        self.events.push(Event::Named { image: ImageId(text.hash), path: name });
                    } else {
                        self.scripts.push((text.hash, name));
                    }
                }
            }
            Record::Ended { pid, time_ns, cpu_ns } => self.ended(pid, (time_ns, cpu_ns), now),
            Record::Waited { pid, time_ns, end } => self.waited(pid, time_ns, end, now),
        }
    }

    /// A process by its number, which is met if it was not.
    fn of(&mut self, pid: u32, time_ns: u64, now: Instant) -> &mut Process {
        self.all.entry(pid).or_insert_with(|| Process::new(pid, time_ns, now))
    }

    fn create(&mut self, parent: u32, child: u32, creation: BegunCreation, now: Instant) {
        // A process of this number that was known, or that has spoken before this one was created, has ended unseen.
        let is_other = |process: &Process| process.is_known || process.key.created_us < us(creation.time_ns);
        if self.all.get(&child).is_some_and(is_other) {
            self.know(child);
            self.end(child, None);
        }
        if let Some(process) = self.all.get_mut(&parent) {
            process.has_created = true;
        }
        let process = self.of(child, creation.time_ns, now);
        process.parent = Some(parent);
        process.key.created_us = us(creation.time_ns);
        (process.how, process.class, process.place) = (creation.how, creation.class, creation.place);
        if process.startup_us.is_none() {
            process.start_ns = creation.time_ns;
        }
        let executed = (process.path != 0).then_some((process.path, process.image));
        self.touched.push(Touched { place: creation.place, executed });
        self.know(child);
    }

    /// Tells of a process's creation, and what was held back.
    fn know(&mut self, pid: u32) {
        let Some(process) = self.all.get(&pid).filter(|process| !process.is_known) else { return };
        let (key, place, parent, class) = (process.key, process.place, process.parent, process.class);
        let of_parent = parent.and_then(|parent| self.all.get(&parent));
        let parent_key = of_parent.map(|process| process.key);
        let unknown = ProcessKey { pid: parent.unwrap_or(0), created_us: 0 };
        let mut site = site_of(&place, None);
        if site.image == ImageId::UNKNOWN {
            site.image = of_parent.map_or(ImageId::UNKNOWN, |process| process.image);
        }
        self.counts.created += 1;
        self.counts.unseen += u64::from(place == Place::default());
        self.counts.short += u64::from(class == Class::Short);
        self.counts.long += u64::from(class == Class::Long);
        let parent = parent_key.unwrap_or(unknown);
        self.events.push(Event::Created { time_us: key.created_us, process: key, parent, site });
        if let Some(process) = self.all.get_mut(&pid) {
            process.is_known = true;
            // They were told before the number of the process was known in full.
            self.events
                .extend(std::mem::take(&mut process.held).into_iter().map(|event| with_key(event, key)));
        }
    }

    /// Tells an event of a process, at once or when its creation is known.
    fn say(&mut self, pid: u32, event: Event) {
        match self.all.get_mut(&pid) {
            Some(process) if !process.is_known => process.held.push(event),
            _ => self.events.push(event),
        }
    }

    fn executed(&mut self, pid: u32, time_ns: u64, parent: u32, image: ImageId, now: Instant) {
        if !self.of(pid, time_ns, now).is_known {
            // Its parent may have told of a creation without a number.
            let begun = self.all.get_mut(&parent).and_then(|process| {
                let is_before = |creation: &&BegunCreation| creation.time_ns <= time_ns;
                process.begun.front().filter(is_before)?;
                process.begun.pop_front()
            });
            if let Some(creation) = begun {
                self.create(parent, pid, creation, now);
            }
        }
        let process = self.of(pid, time_ns, now);
        process.parent = process.parent.or(Some(parent));
        let (since_ns, path) = process.executing.take().unwrap_or((process.start_ns, 0));
        (process.start_ns, process.path, process.image) = (since_ns, path, image);
        process.startup_us = None;
        let (key, place) = (process.key, process.place);
        self.counts.executed += 1;
        self.touched.push(Touched { place, executed: Some((path, image)) });
        self.say(pid, Event::Executed { time_us: us(time_ns), process: key, image });
    }

    fn ended(&mut self, pid: u32, end: (u64, u64), now: Instant) {
        let process = self.of(pid, end.0, now);
        process.own_end = Some(end);
        process.ending = Some(now);
        let (total, parent) = (process.total_ns(), process.parent);
        if process.is_inner()
            && let Some(parent) = parent.and_then(|parent| self.all.get_mut(&parent))
        {
            parent.children_ns += total;
        }
    }

    fn waited(&mut self, pid: u32, time_ns: u64, end: WaitStatus, now: Instant) {
        let child = self.all.get(&end.child);
        // What `ended` has counted is not counted again.
        let counted =
            child.filter(|child| child.is_inner() && child.own_end.is_some()).map_or(0, Process::total_ns);
        let parent = self.of(pid, time_ns, now);
        parent.children_ns = (parent.children_ns + end.cpu_ns.unwrap_or(0)).saturating_sub(counted);
        // One that nobody has told of yet is not known by its number alone.
        if self.all.contains_key(&end.child) {
            self.know(end.child);
            self.end(end.child, Some((time_ns, end)));
        }
    }

    /// A process has ended, as its parent was told or not.
    fn end(&mut self, pid: u32, waited: Option<(u64, WaitStatus)>) {
        self.executed_unseen(pid);
        let Some(process) = self.all.remove(&pid) else { return };
        let waited_ns = waited.and_then(|(_, end)| Some(end.cpu_ns?.saturating_sub(process.children_ns)));
        let own_ns = process.own_end.map(|(_, cpu_ns)| cpu_ns);
        // Its end costs time as well. Who has had children may have been told of more or of fewer than it has waited for.
        let cpu_ns = if process.has_created { own_ns.or(waited_ns) } else { waited_ns.or(own_ns) };
        let since = |time_ns: u64| us(time_ns).saturating_sub(process.key.created_us);
        let end_ns = process.own_end.map(|(time_ns, _)| time_ns).or(waited.map(|(time_ns, _)| time_ns));
        let life_us = since(end_ns.unwrap_or_else(now_ns));
        let peak_kib = waited.map_or(0, |(_, end)| end.peak_kib);
        self.counts.ended += 1;
        self.counts.inexact += u64::from(cpu_ns.is_none());
        let cpu_us = us(cpu_ns.unwrap_or(process.clock_ns));
        let usage = Usage { cpu_us, life_us, peak_kib, startup_us: process.startup_us };
        self.touched.push(process.touched());
        let time_us = process.key.created_us + life_us;
        self.events.push(Event::Ended { time_us, process: process.key, usage });
    }

    /// A process has told what it is about to execute, and nothing since: a program without the library.
    fn executed_unseen(&mut self, pid: u32) {
        let Some((time_ns, path)) = self.all.get_mut(&pid).and_then(|process| process.executing.take())
        else {
            return;
        };
        let Some(text) = self.texts.get(path) else { return };
        // As `/proc/PID/exe` would name it.
        let found = Path::new(OsStr::from_bytes(text)).canonicalize().unwrap_or_default();
        let path_text = found.to_string_lossy().into_owned();
        let read = || Executable::read(&found);
        let is_met = self.files.contains_key(&path);
        let Some(executable) = *self.files.entry(path).or_insert_with(read) else { return };
        if !is_met {
            self.events.push(Event::Named { image: executable.id, path: path_text });
        }
        let Some(process) = self.all.get_mut(&pid) else { return };
        (process.path, process.image) = (path, executable.id);
        let event = Event::Executed { time_us: us(time_ns), process: process.key, image: executable.id };
        self.counts.executed += 1;
        self.say(pid, event);
    }

    /// Looks at the clocks of all processes, and ends those that are no more: those that were not there at the look before either, or, where
    /// all that they have told is read, at once.
    fn look(&mut self, all_is_read: bool) {
        let mut gone = Vec::new();
        for (&pid, process) in &mut self.all {
            match i32::try_from(pid).map(scheduling::processor_time_ns) {
                Ok(Ok(clock_ns)) => process.clock_ns = process.clock_ns.max(clock_ns),
                // What has told of its end has its time to be waited for.
                _ if process.ending.is_some() => {}
                _ if all_is_read || process.is_gone => gone.push(pid),
                _ => process.is_gone = true,
            }
        }
        for pid in gone {
            self.know(pid);
            self.end(pid, None);
        }
    }
}

/// An event with the process's whole key.
fn with_key(event: Event, key: ProcessKey) -> Event {
    match event {
        Event::Executed { time_us, image, .. } => Event::Executed { time_us, process: key, image },
        Event::Arguments { arguments, hash, .. } => Event::Arguments { process: key, arguments, hash },
        other => other,
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}
