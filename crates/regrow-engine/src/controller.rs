//! The controller: the only door to the resource tables. The papers' resource interface controller (RIC).
//!
//! ```text
//!   /<host>                        the pool: what it may take, what it takes
//!   /<host>/image/3                a program's image, or why there is none
//!   /<host>/body/7                 a body: its image, its keeper, what it is doing
//!   /<host>/shell/9                a task without a program: its keeper
//!   /<host>/process/4711           a run that has not been waited for: its body's image, since when
//!   /<host>/creation/12            a line of the log of creations
//! ```
//!
//! A resource is opened by its path, read, written or controlled by the handle, and closed. A handle names the table and
//! the number in it, and never points into a table: a resource that is gone makes the next call fail. The tables refer to
//! each other by number.

mod tree;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::creation::{Creation, Fallback};
use crate::log::{CreationLog, Record};
use crate::request::Request;
use crate::settings::Settings;
use crate::shard::{Bequest, Shard};
use crate::started::Started;

pub use tree::{Table, TreeError, Value};

/// Handles that may be open at a time.
const MAX_OPEN: usize = 1024;

/// An opened resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(u64);

/// What can be done with a resource, beside reading and writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Drop it: an image with its bodies, or everything.
    Drop,
}

/// A run that has not been waited for.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) program: String,
    pub(crate) creation: Creation,
    ordered: Instant,
    ordered_ns: u64,
}

/// The controller of a shard.
#[derive(Debug)]
pub struct Controller {
    shard: Shard,
    host: String,
    began: Instant,
    processes: BTreeMap<i32, Process>,
    log: CreationLog,
    open: HashMap<Handle, tree::Resource>,
    next: u64,
}

impl Controller {
    /// A controller of a shard that keeps nothing yet.
    #[must_use]
    pub fn new(settings: Settings, log: CreationLog) -> Controller {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Controller {
            shard: Shard::new(settings),
            host: if host.is_empty() || host.contains('/') { "localhost".to_owned() } else { host },
            began: Instant::now(),
            processes: BTreeMap::new(),
            log,
            open: HashMap::new(),
            next: 0,
        }
    }

    /// The shard, for what is no resource: its domain, its reports.
    #[must_use]
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Creates a process for somebody else (see [`Shard::start_for`]), and notes it.
    ///
    /// # Errors
    /// [`Fallback`]: the process is to be created by other means.
    pub fn create(&mut self, request: &Request, bequest: &Bequest) -> Result<Started, Fallback> {
        let (ordered, ordered_ns) = (Instant::now(), now_ns());
        let started = self.shard.start_for(request, bequest)?;
        self.shard.count(&started.creation);
        let program = request.program_name().to_string_lossy().into_owned();
        let process = Process { program, creation: started.creation.clone(), ordered, ordered_ns };
        self.processes.insert(started.pid, process);
        Ok(started)
    }

    /// Notes that a process was not created here, and why.
    pub fn declined(&mut self, program: &str, why: Fallback) {
        let creation = Creation::Exec { why };
        self.shard.count(&creation);
        self.log.add(Record {
            number: 0,
            at: self.began.elapsed(),
            program: program.to_owned(),
            site: None,
            creation,
            to_main: None,
            took: None,
        });
    }

    /// Notes that a process that was created here has ended. One whose start was refused inside its body was not created.
    pub fn ended(&mut self, started: &Started) {
        let Some(process) = self.processes.remove(&started.pid) else { return };
        if started.was_refused() {
            return self.declined(&process.program, Fallback::UnsupportedRequest);
        }
        let entered = started.entered_ns().and_then(|entered| entered.checked_sub(process.ordered_ns));
        self.log.add(Record {
            number: 0,
            at: process.ordered.saturating_duration_since(self.began),
            program: process.program,
            site: None,
            creation: process.creation,
            to_main: entered.map(Duration::from_nanos),
            took: Some(process.ordered.elapsed()),
        });
    }

    /// Does a piece of what there is to do for what is kept, if there is one. Takes up to some milliseconds.
    pub fn work(&mut self) -> bool {
        let Some(work) = self.shard.take_work() else { return false };
        self.shard.finish(work.carry_out());
        true
    }

    /// When there is something to do again, if nothing else happens.
    #[must_use]
    pub fn next_work(&self) -> Option<Instant> {
        self.shard.next_work()
    }

    /// Drops the image that was used longest ago, where descriptors or memory are short. False when there is none.
    pub fn give_back(&mut self) -> bool {
        self.shard.give_back()
    }

    /// The log of creations.
    #[must_use]
    pub fn log(&self) -> &CreationLog {
        &self.log
    }

    /// Opens the resource of a path.
    ///
    /// # Errors
    /// [`TreeError`].
    pub fn open(&mut self, path: &str) -> Result<Handle, TreeError> {
        if self.open.len() >= MAX_OPEN {
            return Err(TreeError::TooManyOpen { most: MAX_OPEN });
        }
        self.shard.take_in_ready();
        self.shard.tick();
        let resource = tree::Resource::parse(path, &self.host)?;
        self.look_up(resource)?;
        self.next += 1;
        let handle = Handle(self.next);
        self.open.insert(handle, resource);
        Ok(handle)
    }

    /// The fields of a resource.
    ///
    /// # Errors
    /// [`TreeError::Gone`] when it is there no more.
    pub fn read(&self, handle: Handle) -> Result<Value, TreeError> {
        self.look_up(self.resource(handle)?)
    }

    /// The names of what stands below a resource, in order.
    ///
    /// # Errors
    /// [`TreeError::Gone`] when it is there no more.
    pub fn list(&self, handle: Handle) -> Result<Vec<String>, TreeError> {
        let resource = self.resource(handle)?;
        self.look_up(resource)?;
        Ok(self.names_below(resource))
    }

    /// Sets a field of a resource: `budget_bytes` or `max_bodies_per_program` of the pool.
    ///
    /// # Errors
    /// [`TreeError::NotWritable`].
    pub fn write(&mut self, handle: Handle, field: &str, value: u64) -> Result<(), TreeError> {
        let resource = self.resource(handle)?;
        let not_writable = || TreeError::NotWritable { field: field.to_owned() };
        if resource != tree::Resource::Host {
            return Err(not_writable());
        }
        match field {
            "budget_bytes" => self.shard.set_budget(value),
            "max_bodies_per_program" => {
                self.shard.settings_mut().max_bodies_per_program =
                    usize::try_from(value).map_err(|_| not_writable())?;
            }
            _ => return Err(not_writable()),
        }
        Ok(())
    }

    /// Does something with a resource.
    ///
    /// # Errors
    /// [`TreeError::NotControllable`].
    pub fn control(&mut self, handle: Handle, control: Control) -> Result<(), TreeError> {
        let resource = self.resource(handle)?;
        match (resource, control) {
            (tree::Resource::Host, Control::Drop) => self.shard.clear(),
            (tree::Resource::Item(Table::Image, image), Control::Drop) if self.shard.drop_image(image) => {}
            (tree::Resource::Item(Table::Image, _), Control::Drop) => return Err(resource.gone()),
            _ => return Err(TreeError::NotControllable),
        }
        Ok(())
    }

    /// Closes a handle.
    pub fn close(&mut self, handle: Handle) {
        self.open.remove(&handle);
    }

    fn resource(&self, handle: Handle) -> Result<tree::Resource, TreeError> {
        self.open.get(&handle).copied().ok_or(TreeError::NotOpen)
    }
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
