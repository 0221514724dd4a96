//! How much the pipe of a process holds. One through which much goes holds more, so that process and gateway change places less often.
//!
//! ```text
//!   64 KiB, as the kernel makes it ── more than that has gone through ──> 256 KiB
//! ```
//!
//! The kernel may refuse: an unprivileged user has 64 MiB in large pipes (`pipe-user-pages-soft`). The pipe stays as it is then.

use std::os::fd::AsFd;

use rustix::pipe::fcntl_setpipe_size;

/// What a pipe holds as the kernel makes it.
const USUAL_BYTES: usize = 64 * 1024;
/// What it holds after that.
const LARGE_BYTES: usize = 256 * 1024;

/// The size of one pipe.
#[derive(Debug, Default)]
pub(crate) struct PipeSize {
    passed: usize,
    is_large: bool,
}

impl PipeSize {
    /// So many bytes more go through the pipe, of which this is either end.
    pub(crate) fn pass(&mut self, pipe: impl AsFd, bytes: usize) {
        self.passed = self.passed.saturating_add(bytes);
        if self.passed > USUAL_BYTES && !self.is_large {
            self.is_large = true;
            let _ = fcntl_setpipe_size(pipe, LARGE_BYTES);
        }
    }

    /// Whether more than usual has gone through.
    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::fcntl_getpipe_size;

    #[test]
    fn a_pipe_is_enlarged_once_more_than_it_holds_has_gone_through() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let held = || fcntl_getpipe_size(&reader).expect("its size");
        let usual = held();
        let mut size = PipeSize::default();
        size.pass(&writer, USUAL_BYTES);
        assert_eq!((held(), size.is_large()), (usual, false));
        size.pass(&writer, 1);
        assert_eq!((held(), size.is_large()), (LARGE_BYTES, true));
        // Whoever has it otherwise keeps it so.
        fcntl_setpipe_size(&reader, usual).expect("a smaller pipe");
        size.pass(&writer, usize::MAX);
        assert_eq!(held(), usual);
    }
}
