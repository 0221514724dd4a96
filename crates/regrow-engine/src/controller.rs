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

pub(crate) mod look;
mod tree;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use regrow_body::lease::LeaseRecord;

use crate::clock::monotonic_ns;
use crate::keeping::leases::{Grant, Lease};
use crate::log::{CreationLog, Record};
use crate::run::creation::{Creation, Fallback, RequestPart};
use crate::run::lookup::Lookup;
use crate::run::request::Request;
use crate::run::started::Started;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::tables::processes::ProcessRow;

use look::TreeView;
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

/// The controller of a shard.
#[derive(Debug)]
pub struct Controller {
    shard: Shard,
    host: String,
    began_ns: u64,
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
            began_ns: monotonic_ns(),
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

    /// What must be looked up before a process is created for a request (see [`Shard::lookup`]).
    #[must_use]
    pub fn lookup(&self, request: &Request) -> Option<Lookup> {
        self.shard.lookup(request)
    }

    /// Creates a process for somebody else (see [`Shard::start_for`]), and notes it.
    ///
    /// # Errors
    /// [`Fallback`]: the process is to be created by other means.
    pub fn create(&mut self, request: &Request) -> Result<Started, Fallback> {
        let started = self.shard.start_for(request)?;
        self.shard.count(&started.creation);
        Ok(started)
    }

    /// Lends a body for runs like a request. Each of them is told of by [`Controller::ran`].
    ///
    /// # Errors
    /// [`Fallback`]: why there is none to be lent.
    pub fn lend(&mut self, request: &Request) -> Result<(Lease, Grant), Fallback> {
        self.shard.lend_for(request)
    }

    /// Whether a lease holds. One that does not is to be ended.
    #[must_use]
    pub fn lease_holds(&self, lease: &Lease) -> bool {
        self.shard.lease_holds(lease)
    }

    /// Looks at everything that may have changed, so that the leases hold that are to.
    ///
    /// # Errors
    /// [`Fallback`]: nothing is to be started at present.
    pub fn look_after_leases(&mut self) -> Result<(), Fallback> {
        self.shard.look_after_leases()
    }

    /// Has no lease hold any more.
    pub fn revoke_leases(&mut self) {
        self.shard.revoke_leases();
    }

    /// Takes the body of a lease that was ended.
    pub fn lease_is_over(&mut self, lease: Lease) {
        self.shard.lease_is_over(lease);
    }

    /// Whether a process is one that the pool keeps.
    #[must_use]
    pub fn is_own(&self, pid: i32) -> bool {
        self.shard.is_own(pid)
    }

    /// Notes a process that the client of a lease has created and waited for.
    pub fn ran(&mut self, lease: &Lease, record: &LeaseRecord) {
        let program = lease.program.to_string_lossy().into_owned();
        if record.refused {
            return self.declined(&program, Fallback::UnsupportedRequest { what: RequestPart::Step(None) });
        }
        self.shard.count(&lease.creation);
        let since =
            |later_ns: u64, earlier_ns: u64| later_ns.checked_sub(earlier_ns).map(Duration::from_nanos);
        let entered_ns = Some(record.entered_ns).filter(|&ns| ns != 0);
        self.log.add(Record {
            number: 0,
            at: since(record.ordered_ns, self.began_ns).unwrap_or_default(),
            program,
            site: lease.site,
            creation: lease.creation.clone(),
            to_main: entered_ns.and_then(|entered_ns| since(entered_ns, record.ordered_ns)),
            took: since(record.ended_ns, record.ordered_ns),
        });
    }

    /// Notes that a process was not created here, and why.
    pub fn declined(&mut self, program: &str, why: Fallback) {
        let creation = Creation::Exec { why };
        self.shard.count(&creation);
        self.log.add(Record {
            number: 0,
            at: Duration::from_nanos(monotonic_ns().saturating_sub(self.began_ns)),
            program: program.to_owned(),
            site: None,
            creation,
            to_main: None,
            took: None,
        });
    }

    /// Notes that a process that was created here has ended. One whose start was refused inside its body was not created.
    pub fn ended(&mut self, started: &Started) {
        let row = started.process.and_then(|process| self.shard.take_process(process));
        let Some(ProcessRow { program, site, creation, ordered_ns, .. }) = row else { return };
        let program = program.to_string_lossy().into_owned();
        if started.was_refused() {
            return self.declined(&program, Fallback::UnsupportedRequest { what: RequestPart::Step(None) });
        }
        let since =
            |later_ns: u64, earlier_ns: u64| later_ns.checked_sub(earlier_ns).map(Duration::from_nanos);
        self.log.add(Record {
            number: 0,
            at: since(ordered_ns, self.began_ns).unwrap_or_default(),
            program,
            site,
            creation,
            to_main: started.entered_ns().and_then(|entered_ns| since(entered_ns, ordered_ns)),
            took: since(monotonic_ns(), ordered_ns),
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
        self.shard.catch_up();
        let generation = self.shard.view().ledger().planner().inventory().generation();
        let resource = tree::Resource::parse(path, &self.host, generation)?;
        self.look().look_up(resource)?;
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
        self.look().look_up(self.resource(handle)?)
    }

    /// The names of what stands below a resource, in order.
    ///
    /// # Errors
    /// [`TreeError::Gone`] when it is there no more.
    pub fn list(&self, handle: Handle) -> Result<Vec<String>, TreeError> {
        let resource = self.resource(handle)?;
        self.look().look_up(resource)?;
        Ok(self.look().names_below(resource))
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
                let bodies = usize::try_from(value).map_err(|_| not_writable())?;
                self.shard.set_max_bodies_per_program(bodies);
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
            (tree::Resource::Image(image), Control::Drop) if self.shard.drop_image(image) => {}
            (tree::Resource::Image(_), Control::Drop) => return Err(resource.gone()),
            _ => return Err(TreeError::NotControllable),
        }
        Ok(())
    }

    /// Closes a handle.
    pub fn close(&mut self, handle: Handle) {
        self.open.remove(&handle);
    }

    fn look(&self) -> TreeView<'_> {
        TreeView {
            shard: self.shard.view(),
            stats: self.shard.stats_so_far(),
            log: &self.log,
            host: &self.host,
            began_ns: self.began_ns,
        }
    }

    fn resource(&self, handle: Handle) -> Result<tree::Resource, TreeError> {
        self.open.get(&handle).copied().ok_or(TreeError::NotOpen)
    }
}
