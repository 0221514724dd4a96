//! What a front end writes while it prepares itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use regrow_front::report;
use regrow_sys::raw;

use crate::point::Point;

/// The file that a front end reports to; none at the other points.
pub(crate) struct ReportFile(Option<File>);

/// The words that a front end has named, by their addresses; zero for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedWords {
    /// Two, which tell it how to wait for its order.
    pub(crate) gate: u64,
    /// One, which tells it where the exchange is.
    pub(crate) exchange: u64,
}

impl ReportFile {
    pub(crate) fn new(point: Point) -> io::Result<ReportFile> {
        let file = (point == Point::Warm).then(|| raw::memfd("regrow-report", 0)).transpose()?;
        Ok(ReportFile(file.map(File::from)))
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn read(&self) -> Vec<u8> {
        let Some(file) = &self.0 else { return Vec::new() };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if file.read_exact_at(&mut bytes, 0).is_err() {
            bytes.clear();
        }
        bytes
    }

    /// Why the front end itself says that there can be no image.
    pub(crate) fn refusal(&self) -> Option<String> {
        report::refusal(&self.read())
    }

    /// The words that it has named so far.
    pub(crate) fn named_words(&self) -> NamedWords {
        let bytes = self.read();
        NamedWords {
            gate: report::gate(&bytes).unwrap_or(0),
            exchange: report::exchange(&bytes).unwrap_or(0),
        }
    }
}
