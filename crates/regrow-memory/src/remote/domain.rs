//! A domain: lets other processes of the same user have blocks of a service.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use super::counts::{Counts, DomainState};
use super::doorman::{Doorman, Report, stop_signal};
use super::error::DomainError;
use super::guest::Office;
use super::memory::SharedMemory;
use super::porter::Porter;
use super::socket_file::{SocketFile, random};
use super::status::DomainStatus;
use crate::error::ServiceError;
use crate::service::Service;

/// See the module. When it is dropped, clients in other processes get nothing more ([`DomainError::Gone`]), but keep what they have; the service does not give
/// that to anybody.
///
/// ```
/// use regrow_memory::{Backing, Domain, Mode, RemoteClient, Service, ServiceOptions};
///
/// # let folder = std::env::temp_dir().join(format!("regrow-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("memory");
/// let options = ServiceOptions { chunks: 8, backing: Backing::Memfd, ..ServiceOptions::default() };
/// let domain = Domain::open(&Service::new(&options)?, &path)?;
/// // In another process:
/// let mut giver = RemoteClient::connect(&path)?;
/// let mut block = giver.alloc(16, Mode::Immediate)?;
/// block[..5].copy_from_slice(b"hello");
/// // In a third one:
/// let mut receiver = RemoteClient::connect(&path)?;
/// let peer = receiver.peer();
/// // In the other one:
/// let ticket = block.hand_to(peer)?;
/// // In the third one again:
/// assert_eq!(&receiver.accept(&ticket)?[..5], b"hello");
/// # drop(domain);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Domain {
    file: SocketFile,
    shared: Arc<SharedMemory>,
    stop: Arc<OwnedFd>,
    counts: Arc<Counts>,
    threads: Vec<JoinHandle<()>>,
    _service: Service,
}

impl Domain {
    /// Listens at a path. The socket's file is the user's alone.
    ///
    /// # Errors
    /// [`DomainError::NotShared`], [`DomainError::Socket`], [`DomainError::Refused`].
    pub fn open(service: &Service, path: &Path) -> Result<Domain, DomainError> {
        let store = service.store();
        if store.range().file().is_none() {
            return Err(DomainError::NotShared);
        }
        let system = |what| move |source| DomainError::Refused(ServiceError::System { what, source });
        let making = "making the domain's memory";
        let shared = Arc::new(SharedMemory::new(store.range().chunks()).map_err(system(making))?);
        let stop = Arc::new(stop_signal().map_err(system("making an eventfd"))?);
        let (listener, file) = SocketFile::take(path)?;
        let counts = Arc::new(Counts::default());
        service.start_keeper();
        let office = Office::new(Arc::clone(store), Arc::clone(&shared), Arc::clone(&counts));
        let (porter, events) = channel();
        let (asked, state) = (service.clone(), Arc::clone(&counts));
        let report = Report(Box::new(move |clients| {
            DomainStatus::of(&asked, DomainState { clients, ..state.state() }).to_bytes()
        }));
        let doorman =
            Doorman { listener, stop: Arc::clone(&stop), porter, shared: Arc::clone(&shared), report };
        // Tickets of other domains have another number.
        let porter = Porter::new(office, events, random());
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let named = thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
            named.spawn(work).map_err(system("starting a thread of the domain"))
        };
        // Where the second one cannot be started, the first one ends with the domain.
        let mut domain =
            Domain { file, shared, stop, counts, threads: Vec::new(), _service: service.clone() };
        domain.threads.push(start("regrow-porter", Box::new(move || porter.work()))?);
        domain.threads.push(start("regrow-doorman", Box::new(move || doorman.work()))?);
        Ok(domain)
    }

    /// The socket at which it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What it is at this moment.
    #[must_use]
    pub fn state(&self) -> DomainState {
        self.counts.state()
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // An eventfd takes a word; it is not full.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        // A porter without a doorman has nobody else who wakes it.
        self.shared.head().bell.insist(0);
        for thread in self.threads.drain(..) {
            // It has nothing to give back but what it holds itself.
            let _ = thread.join();
        }
    }
}
