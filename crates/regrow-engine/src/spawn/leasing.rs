//! Lends a body to a client of the daemon, for runs like one request.
//!
//! The body is forked for that, so that the pool's own stay with whoever else wants them. The ledger takes it for one that a long run is in.

use std::sync::Arc;

use regrow_abi::fault;
use regrow_body::lease::LeasePage;
use regrow_body::{Layout, Lent};

use crate::ids::{BodyId, ImageId};
use crate::keeping::leases::{Grant, Lease};
use crate::ledger::{BodyOf, RunInBody};
use crate::run::creation::{Creation, Fallback, Point};
use crate::run::program::Resolved;
use crate::run::request::Request;
use crate::settings::{Reuse, Settings};
use crate::spawn::finder::Wanted;
use crate::spawn::starting::Starter;

impl Starter<'_> {
    /// Lends a body of the image that runs of a request are in. Only `argv` after its first entry may differ from run to run.
    ///
    /// # Errors
    /// Why there is none to be lent.
    pub(crate) fn lend(&mut self, request: &Request) -> Result<(Lease, Grant), Fallback> {
        if let Some(what) = request.only_exec_gives() {
            return Err(Fallback::UnsupportedRequest { what });
        }
        if !may_lend(self.finder.settings) || !self.finder.holdings.watches() || request.single_use {
            return Err(Fallback::RecyclingOff);
        }
        let resolved = self.finder.holdings.resolve(request)?;
        let task = request.task;
        if self.finder.front_end(&resolved, request).is_some() {
            return Err(Fallback::NotKept);
        }
        let image = self.finder.find(Wanted { resolved: &resolved, request, task: &task }, None)?;
        let (page, memfd) = LeasePage::new().map_err(|_| Fallback::NoDescriptors)?;
        let watch = self.finder.holdings.watch_descriptor().ok_or(Fallback::NoDescriptors)?;
        let (body, lent, bytes) = self.fork_to_lend(image)?;
        let kept = self.finder.holdings.tables.images.kept_mut(image).ok_or(Fallback::NotKept)?;
        kept.remember(&request.env);
        let mut told = task.beyond(kept.then());
        // A run can change those of its keeper.
        if let Some(processors) = task.affinity().or(kept.then().affinity()) {
            told.set_affinity(processors);
        }
        let grant = Grant {
            lent,
            page: memfd,
            watch,
            layout: Layout { stack: kept.image.stack.clone(), patches: kept.image.patches.clone() },
            first_args: resolved.first_arguments(),
            exec_path: own_exec_path(&resolved),
            task: told,
            timed: self.finder.settings.timed,
        };
        let creation = Creation::Recycled { point: kept.point() };
        let (id, page) = (self.finder.holdings.reserve_body(), Arc::new(page));
        let site = request.site;
        self.note_lent((image, id), &page, bytes, site);
        let program = request.program.clone();
        Ok((Lease { id, body, page, taken: 0, program, site, creation }, grant))
    }

    fn fork_to_lend(&mut self, image: ImageId) -> Result<(Box<regrow_body::Body>, Lent, u64), Fallback> {
        let kept = self.finder.holdings.tables.images.kept(image).ok_or(Fallback::NotKept)?;
        let (of, bytes) = (Arc::clone(&kept.image), kept.body_bytes());
        // A front end's process runs code of the program before its order.
        if kept.point() == Point::Warm || of.header.gate_address != 0 {
            return Err(Fallback::NotKept);
        }
        if !self.finder.holdings.leases.has_room(bytes, self.finder.settings.budget_bytes) {
            return Err(Fallback::AllBusy);
        }
        let body = self.forker.fork_to_lend(&of).map_err(|error| {
            tracing::debug!(%error, "no body to be lent");
            Fallback::BodyBroken
        })?;
        let mut body = Box::new(body);
        let lent = body.lend().map_err(|_| Fallback::BodyBroken)?;
        Ok((body, lent, bytes))
    }

    /// Tells tables and ledger of a body that is lent.
    fn note_lent(
        &mut self,
        (image, id): (ImageId, BodyId),
        page: &Arc<LeasePage>,
        bytes: u64,
        site: Option<u64>,
    ) {
        let holdings = &mut *self.finder.holdings;
        let Some(program) = holdings.tables.images.get(image).map(|row| row.program) else { return };
        let process = holdings.tables.processes.next_id();
        let of = BodyOf { image, program };
        let waited = std::time::Duration::ZERO;
        let run = RunInBody { process, body: id, of, forked: true, waited, single_use: false, site };
        holdings.lend_out(run, Arc::clone(page), bytes);
    }
}

/// Whether bodies of a pool with these settings may be lent at all.
fn may_lend(settings: &Settings) -> bool {
    let Settings { verify, sessions, trusts_runs, .. } = *settings;
    !verify && !sessions && !trusts_runs && settings.reuse == Reuse::Always && settings.fault == fault::NONE
}

fn own_exec_path(resolved: &Resolved) -> Option<std::ffi::CString> {
    resolved.own_exec_path().map(|_| resolved.exec_path.clone())
}
