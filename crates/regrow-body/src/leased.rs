//! A body as its borrower has it: a process that is neither its maker nor the parent of its runs.
//!
//! ```text
//!   armed ──begin──> a process that the page names ──start──> LeaseRun ──finish──> status; the body is being put back ──> armed
//! ```
//!
//! The run is a child of the body's owner, so that its status is what the kernel tells of a stranger
//! ([`regrow_sys::ended`]). Its number is not used again as long as the page names it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use regrow_abi::{CONTROL_BYTES, REFUSED_STATUS, State};
use regrow_image::image::PatchKind;
use regrow_image::stack_plan::StackPlan;
use regrow_sys::ended::Stranger;
use regrow_sys::raw::SharedMapping;

use crate::control::{Addressee, Bell, ControlArea, RunOf};
use crate::desk::Desk;
use crate::lease::LeasePage;
use crate::lent::Lent;
use crate::line::{Line, Waits};
use crate::place::{Place, Stay};
use crate::run::Run;
use crate::start_error::StartError;

/// How long the borrower stays on its processor for a run. Longer than a tick, so that no timer is set.
const STAY: Duration = Duration::from_millis(10);

/// How an order for a body is laid out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where the argument block goes.
    pub stack: StackPlan,
    /// The pointers that each run gets anew.
    pub patches: Vec<(u64, PatchKind)>,
}

/// See the module. Dropping it gives the body back: nobody else uses it.
#[derive(Debug)]
pub struct LeasedBody {
    line: Arc<Line>,
    control: ControlArea,
    desk: Desk,
    layout: Layout,
    page: LeasePage,
    keeper: i32,
    /// Where its tasks wake.
    place: Place,
    serial: u64,
}

/// A run that has its order.
#[derive(Debug)]
pub struct LeaseRun {
    process: Stranger,
    serial: u64,
}

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leased {
    /// It has ended with this wait status.
    Ended(i32),
    /// It has refused its order, or never taken it: nothing of the program has run.
    Refused,
    /// It has ended, and the kernel does not tell how.
    Unknown,
}

impl LeasedBody {
    /// A body that was lent with a page.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn new(lent: Lent, page: &OwnedFd, layout: Layout) -> io::Result<LeasedBody> {
        let page = LeasePage::map(page.as_fd())?;
        let control = ControlArea::new(SharedMapping::new(lent.control.as_fd(), CONTROL_BYTES)?);
        let line = Arc::new(Line::of_armed(lent.socket, lent.armed));
        let (desk, place) = (Desk::default(), Place::default());
        Ok(LeasedBody { line, control, desk, layout, page, keeper: lent.keeper, place, serial: 0 })
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> &LeasePage {
        &self.page
    }

    /// Waits until a process is armed. False when none is in time, or the body is broken.
    #[must_use]
    pub fn wait_armed(&self, timeout: Duration) -> bool {
        let is_settled = |state| matches!(state, None | Some(State::Armed | State::Broken));
        if self.armed().is_some() {
            return true;
        }
        if self.place.is_here() {
            // Whoever tells is about to sleep, so that this thread is woken where it is.
            self.line.await_report(timeout);
        }
        self.control.wait_until(timeout, is_settled);
        self.armed().is_some()
    }

    /// Whether its keeper has given it up, as far as it has told.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        matches!(self.control.state(), None | Some(State::Broken))
            || matches!(self.line.waits(), Some(Waits::Gone { .. }))
    }

    fn armed(&self) -> Option<i32> {
        match self.line.waits() {
            Some(Waits::Armed { pid, is_shell: false }) => Some(pid),
            _ => None,
        }
    }

    /// Has the page name the armed process. From here on the owner lets it be, and the run is [started](LeasedBody::start) or
    /// [called off](LeasedBody::call_off).
    ///
    /// # Errors
    /// [`StartError::NotArmed`].
    pub fn begin(&self) -> Result<i32, StartError> {
        let pid = self.armed().ok_or(StartError::NotArmed)?;
        self.page.set_current(pid);
        Ok(pid)
    }

    /// The armed process gets no order for now.
    pub fn call_off(&self) {
        self.page.set_current(0);
    }

    /// Starts a run in the armed process, which the page names.
    ///
    /// # Errors
    /// [`StartError`]: nothing of the program has run. After [`StartError::Broken`] the body must not be used again.
    pub fn start(&mut self, run: &Run<'_>) -> Result<LeaseRun, StartError> {
        self.desk.lay_out(&self.layout.stack, run)?;
        let pid = self.armed().ok_or(StartError::NotArmed)?;
        let mut process = Stranger::open(pid).map_err(StartError::Broken)?;
        if process.has_ended() {
            return Err(StartError::Broken(io::ErrorKind::BrokenPipe.into()));
        }
        if !self.control.take() {
            return Err(StartError::NotArmed);
        }
        if let Some(all) = run.processors {
            let is_short = self.control.reset_work().mappings == 0;
            self.place.prepare([self.keeper, pid], all, run.caller_sleeps && is_short);
        }
        let serial = self.serial + 1;
        self.desk.write(&self.control, Addressee { pid, serial }, run, &self.layout.patches, 0);
        // One that was not sent has left the process in the socket's other end as it was, and the state taken.
        self.line.send_order(serial, run.fds).map_err(StartError::Broken)?;
        self.line.forget();
        self.serial = serial;
        self.desk.is_sent();
        process.prepare();
        Ok(LeaseRun { process, serial })
    }

    /// Waits for the end of a run, and has the body put back.
    #[must_use]
    pub fn finish(&self, run: &LeaseRun) -> Leased {
        if let Some(_stay) = self.place.is_here().then(Stay::here) {
            let _ = run.process.ends_within(STAY);
        }
        let is_waited_for = run.process.wait();
        let status = run.process.status(is_waited_for);
        let may_be_refused = status.is_none_or(|status| status == REFUSED_STATUS << 8);
        let is_refused = may_be_refused
            && (self.line.is_untaken(run.serial) || self.line.take_refusal(run.serial).is_some());
        self.line.set_over(run.serial);
        self.bell().ring();
        match status {
            _ if is_refused => Leased::Refused,
            Some(status) => Leased::Ended(status),
            None => Leased::Unknown,
        }
    }

    /// When the last run that was timed entered its program, on the monotonic clock in nanoseconds.
    #[must_use]
    pub fn entered_ns(&self) -> u64 {
        self.bell().main_ns()
    }

    fn bell(&self) -> Bell {
        self.control.bell(&self.line, RunOf { serial: self.serial, ..RunOf::default() })
    }
}

impl LeaseRun {
    /// The process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The status of a run of which it was unknown, once the page names it no more and its record is written.
    #[must_use]
    pub fn status_soon(&self) -> Option<i32> {
        self.process.status_soon()
    }
}
