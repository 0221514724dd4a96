//! The service, as its users have it: made once, it gives out clients.

use std::sync::Arc;

use crate::client::Client;
use crate::error::ServiceError;
use crate::master::{Master, Routing};
use crate::range::Range;
use crate::seat::Seat;
use crate::slave::{Fixed, Slaves};
use crate::store::Store;
use crate::units::CHUNK_ORDER;

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
    /// The share of them that cannot be given in blocks of a chunk.
    pub fragmentation: f64,
    /// How many clients waited when somebody looked, on the mean.
    pub queue_length: f64,
    /// A slave serves it.
    pub has_slave: bool,
}

impl Service {
    /// Reserves the range. No page is mapped as yet.
    ///
    /// # Errors
    /// [`ServiceError::Chunks`], [`ServiceError::Zones`], [`ServiceError::System`].
    pub fn new(options: &ServiceOptions) -> Result<Service, ServiceError> {
        let &ServiceOptions { chunks, zones, routing, grow_by, slaves, .. } = options;
        let range = Range::reserve(chunks)?;
        if zones == 0 || zones > chunks as usize {
            return Err(ServiceError::Zones { zones, chunks });
        }
        let store = Arc::new(Store::new(range, zones, Master::new(routing), grow_by));
        let fixed = (slaves == Slaves::Always).then(|| Arc::new(Fixed::start(&store)));
        Ok(Service { store, options: *options, _slaves: fixed })
    }

    /// A client, which the master routes to a zone.
    #[must_use]
    pub fn client(&self) -> Client {
        let (number, zone) = self.store.new_client();
        Client::new(Arc::clone(&self.store), number, zone, &self.options)
    }

    /// What its zones hold, one after the other.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneState> {
        let state = |seat: &Seat| {
            seat.with(|zone| ZoneState {
                own_pages: zone.own_pages(),
                free_pages: zone.free_pages(),
                fragmentation: zone.fragmentation(CHUNK_ORDER),
                queue_length: seat.queue_length(),
                has_slave: seat.has_slave(),
            })
        };
        self.store.seats().iter().map(state).collect()
    }
}
