//! The service, as its users have it: made once, it gives out clients.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use crate::client::Client;
use crate::error::ServiceError;
use crate::giving_back::{Cause, GiveBack, GivingBackState};
use crate::keeper::{Keeper, LookedAfter, Woken, keep_for_now};
use crate::master::{Master, Routing};
use crate::range::{Backing, Range};
use crate::raw::{NEVER_SINGLE, RawClient};
use crate::seat::Seat;
use crate::slave::{Fixed, Slaves};
use crate::store::Store;
use crate::units::{CHUNK_ORDER, Chunk};
use crate::zone::{Look, Notice};

/// How a service is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceOptions {
    /// How much memory it may use, in chunks of 2 MiB.
    pub chunks: u32,
    /// How many zones there are: as many as processors work at a time.
    pub zones: usize,
    /// How clients are spread over zones.
    pub routing: Routing,
    /// The chunks by which a zone grows.
    pub grow_by: u32,
    /// How many pages of each size a client keeps of what it has given back.
    pub keep_pages: usize,
    /// When threads serve the zones.
    pub slaves: Slaves,
    /// What the memory is made of.
    pub backing: Backing,
    /// What goes back to the kernel, and when.
    pub give_back: GiveBack,
}

impl Default for ServiceOptions {
    /// 1 GiB, and a zone for each processor that may be used.
    fn default() -> ServiceOptions {
        let zones = std::thread::available_parallelism().map_or(1, usize::from);
        ServiceOptions {
            chunks: 512,
            zones,
            routing: Routing::DEFAULT,
            grow_by: 4,
            keep_pages: 64,
            slaves: Slaves::Elastic,
            backing: Backing::Anonymous,
            give_back: GiveBack::default(),
        }
    }
}

/// See the module. Clones are the same service.
#[derive(Debug, Clone)]
pub struct Service {
    store: Arc<Store>,
    options: ServiceOptions,
    _slaves: Option<Arc<Fixed>>,
}

/// What a zone holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneState {
    /// Pages of its chunks.
    pub own_pages: u64,
    /// Those that no client has.
    pub free_pages: u64,
    /// Those of them that may be there in memory: somebody has had them, and they were not given back since.
    pub idle_pages: u64,
    /// The share of them that cannot be given in blocks of a chunk.
    pub fragmentation: f64,
    /// How many clients waited when somebody looked, on the mean.
    pub queue_length: f64,
    /// A slave serves it.
    pub has_slave: bool,
    /// Messages that came to its server and that it sent, modulo 2^32: requests and answers, blocks that went home, chunks that moved.
    pub messages: u32,
}

impl Service {
    /// Reserves the range. No page is mapped as yet.
    ///
    /// # Errors
    /// [`ServiceError::Chunks`], [`ServiceError::Zones`], [`ServiceError::System`].
    pub fn new(options: &ServiceOptions) -> Result<Service, ServiceError> {
        Service::make(options, Keeper::new(options.give_back, None))
    }

    /// The same, where the caller keeps it himself: `notice` is called when a zone has more idle pages than its limits say, and then somebody
    /// is to call [`Service::keep`]. It is called in the middle of a request, once until then: it asks the service for nothing.
    ///
    /// # Errors
    /// As [`Service::new`].
    pub fn with_notice(options: &ServiceOptions, notice: Notice) -> Result<Service, ServiceError> {
        Service::make(options, Keeper::other(options.give_back, notice))
    }

    /// The same, where another one than the kernel says that memory is short: all that is idle is given back when the descriptor can be read,
    /// which is read then (an eventfd, a pipe).
    ///
    /// # Errors
    /// As [`Service::new`].
    pub fn with_pressure(options: &ServiceOptions, source: OwnedFd) -> Result<Service, ServiceError> {
        Service::make(options, Keeper::new(options.give_back, Some(source)))
    }

    fn make(options: &ServiceOptions, keeper: Keeper) -> Result<Service, ServiceError> {
        let &ServiceOptions { chunks, zones, routing, grow_by, slaves, backing, .. } = options;
        let range = Range::reserve(chunks, backing)?;
        if zones == 0 || zones > chunks as usize {
            return Err(ServiceError::Zones { zones, chunks });
        }
        let store = Arc::new(Store::new(range, zones, Master::new(routing), grow_by, keeper));
        store.watch_zones();
        let fixed = (slaves == Slaves::Always).then(|| Arc::new(Fixed::start(&store)));
        Ok(Service { store, options: *options, _slaves: fixed })
    }

    /// A client, which the master routes to a zone.
    #[must_use]
    pub fn client(&self) -> Client {
        self.start_keeper();
        let ServiceOptions { keep_pages, slaves, .. } = self.options;
        Client::new(Arc::clone(&self.store), self.store.new_client(), keep_pages, slaves)
    }

    /// Its memory and zones.
    #[cfg(not(loom))]
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A client for callers that have addresses alone. All threads use it. It does not start the keeper ([`Service::start_keeper`]).
    #[must_use]
    pub fn raw_client(&self) -> RawClient {
        self.raw_client_of(&NEVER_SINGLE)
    }

    /// The same, for a process that knows when it has one thread: the byte is other than zero only as long as no other thread uses the client
    /// (`__libc_single_threaded` of glibc). Requests cost less then.
    #[must_use]
    pub fn raw_client_of(&self, single_threaded: &'static AtomicU8) -> RawClient {
        let (number, _) = self.store.new_client();
        RawClient::new(Arc::clone(&self.store), number, single_threaded)
    }

    /// Starts the thread that gives back by time and under pressure, if it is wanted ([`GiveBack`]) and not there. [`Service::client`] does so; who
    /// is called where no thread can be started does it himself, later.
    pub fn start_keeper(&self) {
        self.store.keeper().start(&self.store);
    }

    /// Whether that thread was started in this process: there may be no further one, or none is wanted.
    #[must_use]
    pub fn has_keeper(&self) -> bool {
        self.store.keeper().has_thread()
    }

    /// Gives all pages back to the kernel that nobody uses. What clients keep for themselves is in use: [`Client::trim`]. How many pages.
    pub fn give_back_now(&self) -> u64 {
        self.store.give_back(Look::Everything, Cause::Asked)
    }

    /// Gives back each T1 and T2, until there is nothing to do, or `wait` says that it is over: it waits so long at most. `after_all` is called
    /// after each look at all sizes. For a service of [`Service::with_notice`].
    pub fn keep(&self, wait: impl FnMut(Duration) -> Woken, after_all: impl FnMut()) {
        keep_for_now(&*self.store, self.store.keeper().options(), wait, after_all);
    }

    /// Gives back what nobody uses, but for H2 of each zone, and has zones call who keeps the service when they have more again. For a caller
    /// that has ended [`Service::keep`]. How many pages.
    pub fn give_back_surplus(&self) -> u64 {
        let pages = self.store.give_back(Look::Surplus, Cause::Asked);
        self.store.end_looking();
        pages
    }

    /// What was given back until now.
    #[must_use]
    pub fn giving_back(&self) -> GivingBackState {
        self.store.giving_back_state()
    }

    /// What its zones hold, one after the other.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneState> {
        let state = |seat: &Seat| {
            let messages = seat.messages();
            seat.with(|zone| ZoneState {
                own_pages: zone.own_pages(),
                free_pages: zone.free_pages(),
                idle_pages: zone.idle_pages(),
                fragmentation: zone.fragmentation(CHUNK_ORDER),
                queue_length: seat.queue_length(),
                has_slave: seat.has_slave(),
                messages,
            })
        };
        self.store.seats().iter().map(state).collect()
    }

    /// How many chunks the range has.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.store.range().chunks()
    }

    /// The chunks that zones have: the chunk, its zone, and how many of its pages clients have. In the order of the range.
    #[must_use]
    pub fn used_by_chunk(&self) -> Vec<(Chunk, usize, u32)> {
        let of_zone = |(zone, seat): (usize, &Seat)| {
            let used = seat.with(|zone| zone.used_by_chunk());
            used.into_iter().map(move |(chunk, pages)| (chunk, zone, pages))
        };
        let mut all: Vec<_> = self.store.seats().iter().enumerate().flat_map(of_zone).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::block::{Block, Home};
    use crate::request::Mode;

    /// Lines that the processor fetches as a pair.
    const LINES: usize = 128;

    #[test]
    fn clients_and_slaves_share_no_cache_line_that_is_written() -> Result<(), ServiceError> {
        assert!([align_of::<Client>(), align_of::<Seat>(), align_of::<Home>()].iter().all(|&to| to >= LINES));
        let give_back = GiveBack::NEVER;
        let options = ServiceOptions { chunks: 8, zones: 2, give_back, ..ServiceOptions::default() };
        let service = Service::new(&options)?;
        let (mut one, mut other) = (service.client(), service.client());
        let blocks =
            [one.alloc(1, Mode::Delayed)?, one.alloc(1, Mode::Delayed)?, other.alloc(1, Mode::Delayed)?];
        let homes = blocks.each_ref().map(Block::home);
        assert!(homes[0] == homes[1] && homes[0] != homes[2], "each client counts its blocks itself");
        Ok(())
    }
}
