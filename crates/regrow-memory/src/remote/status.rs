//! How the service of a domain is: what its zones hold, and who has how much. Any process of the user may ask.
//!
//! The answer is one message of 64-bit words, little-endian: the version, the numbers of [`DomainStatus`] from its top, how many zones and how
//! many cells there are, five words of each zone, and one of each cell.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::counts::DomainState;
use super::error::DomainError;
use super::hello::{Hello, QUESTION};
use super::socket_file::call;
use crate::service::Service;
use crate::units::CHUNK_PAGES;

const VERSION: u64 = 1;
/// Words before the zones, and of each zone.
const HEAD: usize = 9;
const OF_ZONE: usize = 5;
/// Most cells of the picture, and most bytes of an answer.
const MOST_CELLS: usize = 4096;
const MOST_BYTES: usize = 128 << 10;
/// Fractions are told in millionths.
const MILLION: f64 = 1e6;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainStatus {
    /// Clients in other processes.
    pub clients: u64,
    /// Pages of the blocks that they have.
    pub lent_pages: u64,
    /// Blocks that came back because their client had ended.
    pub collected: u64,
    /// Clients that were cut off.
    pub cut_off: u64,
    /// Pages that went back to the kernel.
    pub given_back_pages: u64,
    /// Chunks of a cell.
    pub cell_chunks: u64,
    /// What the zones hold.
    pub zones: Vec<ZoneStatus>,
    /// The range from its beginning to the last chunk that a zone has, in equal parts.
    pub cells: Vec<Cell>,
}

/// What a zone holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneStatus {
    /// Pages of its chunks.
    pub own_pages: u64,
    /// Those that no client has.
    pub free_pages: u64,
    /// The share of them that cannot be given in blocks of a chunk, from 0 to 1.
    pub fragmentation: f64,
    /// How many clients waited when somebody looked, on the mean.
    pub queue_length: f64,
    /// A slave serves it.
    pub has_slave: bool,
}

/// A part of the range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The zone of its first chunk; none where no zone has one of its chunks.
    pub zone: Option<usize>,
    /// The share of the pages of its chunks that clients have, from 0 to 1.
    pub used: f64,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share or a length, not negative"
)]
fn millionths(number: f64) -> u64 {
    (number * MILLION).round() as u64
}

#[allow(clippy::cast_precision_loss, reason = "a share or a length, far below 2^52")]
fn from_millionths(number: u64) -> f64 {
    number as f64 / MILLION
}

impl DomainStatus {
    /// How the service of a domain is at this moment.
    pub(super) fn of(service: &Service, state: DomainState) -> DomainStatus {
        let zone = |zone: crate::service::ZoneState| ZoneStatus {
            own_pages: zone.own_pages,
            free_pages: zone.free_pages,
            fragmentation: zone.fragmentation,
            queue_length: zone.queue_length,
            has_slave: zone.has_slave,
        };
        let (cell_chunks, cells) = cells(service);
        DomainStatus {
            clients: state.clients,
            lent_pages: state.lent_pages,
            collected: state.collected,
            cut_off: state.cut_off,
            given_back_pages: service.giving_back().pages,
            cell_chunks,
            zones: service.zones().into_iter().map(zone).collect(),
            cells,
        }
    }

    /// Asks the domain that listens at a path.
    ///
    /// # Errors
    /// [`DomainError::Socket`], [`DomainError::User`], [`DomainError::Version`], [`DomainError::Gone`].
    pub fn ask(path: &Path) -> Result<DomainStatus, DomainError> {
        let socket = call(path)?;
        Hello::receive(socket.as_fd())?;
        let gone = |_| DomainError::Gone;
        send(&socket, QUESTION, SendFlags::NOSIGNAL).map_err(gone)?;
        let mut bytes = vec![0; MOST_BYTES];
        let (length, _) = loop {
            match recv(&socket, &mut bytes[..], RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                other => break other.map_err(gone)?,
            }
        };
        let answer = bytes.get(..length).filter(|answer| !answer.is_empty()).ok_or(DomainError::Gone)?;
        let mut status =
            DomainStatus::from_bytes(answer).ok_or(DomainError::Version { what: "its status" })?;
        // Who asks is a client as well, as long as that takes.
        status.clients = status.clients.saturating_sub(1);
        Ok(status)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let counts = [self.zones.len() as u64, self.cells.len() as u64];
        let head = [VERSION, self.clients, self.lent_pages, self.collected, self.cut_off];
        let mut words = head.to_vec();
        words.extend([self.given_back_pages, self.cell_chunks]);
        words.extend(counts);
        for zone in &self.zones {
            let shares = [zone.fragmentation, zone.queue_length].map(millionths);
            words.extend([zone.own_pages, zone.free_pages, shares[0], shares[1], u64::from(zone.has_slave)]);
        }
        for cell in &self.cells {
            words.push(millionths(cell.used) << 32 | cell.zone.map_or(0, |zone| zone as u64 + 1));
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// None where it is no answer of this version.
    fn from_bytes(bytes: &[u8]) -> Option<DomainStatus> {
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (head, rest) = words.split_at_checked(HEAD)?;
        let &[version, clients, lent_pages, collected, cut_off, given_back_pages, cell_chunks, zones, cells] =
            head
        else {
            return None;
        };
        let (of_zones, of_cells) =
            rest.split_at_checked(usize::try_from(zones).ok()?.checked_mul(OF_ZONE)?)?;
        if version != VERSION || of_cells.len() as u64 != cells {
            return None;
        }
        let zone = |words: &[u64; OF_ZONE]| ZoneStatus {
            own_pages: words[0],
            free_pages: words[1],
            fragmentation: from_millionths(words[2]),
            queue_length: from_millionths(words[3]),
            has_slave: words[4] == 1,
        };
        let cell = |&word: &u64| Cell {
            zone: usize::try_from(word & 0xffff_ffff).ok().and_then(|zone| zone.checked_sub(1)),
            used: from_millionths(word >> 32),
        };
        let zones = of_zones.as_chunks().0.iter().map(zone).collect();
        let cells = of_cells.iter().map(cell).collect();
        Some(DomainStatus {
            clients,
            lent_pages,
            collected,
            cut_off,
            given_back_pages,
            cell_chunks,
            zones,
            cells,
        })
    }
}

/// The range in equal parts, and how many chunks a part has.
fn cells(service: &Service) -> (u64, Vec<Cell>) {
    let used = service.used_by_chunk();
    let chunks = used.last().map_or(0, |&(chunk, ..)| chunk as usize + 1);
    let size = chunks.div_ceil(MOST_CELLS).max(1);
    let mut parts = vec![(None, 0u32, 0u32); chunks.div_ceil(size)];
    for (chunk, zone, pages) in used {
        if let Some((first, own, has)) = parts.get_mut(chunk as usize / size) {
            first.get_or_insert(zone);
            *own += CHUNK_PAGES;
            *has += pages;
        }
    }
    let cell = |(zone, own, has): (Option<usize>, u32, u32)| Cell {
        zone,
        used: if own == 0 { 0.0 } else { f64::from(has) / f64::from(own) },
    };
    (size as u64, parts.into_iter().map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::request::Mode;
    use crate::service::ServiceOptions;

    #[test]
    fn what_is_told_is_what_the_service_holds() {
        let options = ServiceOptions { chunks: 12, zones: 2, grow_by: 1, ..ServiceOptions::default() };
        let service = Service::new(&options).expect("a range");
        let mut clients: Vec<Client> = (0..2).map(|_| service.client()).collect();
        let blocks: Vec<_> =
            clients.iter_mut().map(|client| client.alloc(512, Mode::Delayed).expect("memory")).collect();
        let state = DomainState {
            clients: 3,
            lent_pages: 4,
            collected: 5,
            not_taken: 6,
            cut_off: 7,
            last_forged: None,
        };
        let status = DomainStatus::of(&service, state);
        assert_eq!((status.clients, status.cut_off, status.cell_chunks), (3, 7, 1));
        assert_eq!(status.zones.iter().map(|zone| zone.own_pages - zone.free_pages).sum::<u64>(), 1024);
        assert_eq!(status.cells.iter().filter(|cell| cell.used >= 1.0).count(), 2);
        assert_eq!(status.cells.iter().map(|cell| cell.zone).collect::<Vec<_>>(), [Some(0), Some(1)]);
        let bytes = status.to_bytes();
        assert_eq!(DomainStatus::from_bytes(&bytes), Some(status));
        for wrong in [0, 8, HEAD * 8, bytes.len() - 8] {
            assert_eq!(DomainStatus::from_bytes(&bytes[..wrong]), None, "{wrong} bytes");
        }
        drop(blocks);
    }
}
