//! A shell: what is left of a body when its program is unmapped. A task that is there already, in its sandbox, executes
//! any program in the place of a new one (the Tender papers' virtual space without a program).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use regrow_abi::{ARG_AREA_OFFSET, MAX_FDS, PAGE_BYTES, PREFAULT_READ, State, command, vma_flags};
use regrow_image::image::Image;
use regrow_sys::{child, raw};

use crate::body::{Body, END_TIMEOUT, StartError};
use crate::control::ExecPlace;
use crate::run::{Run, StringBlock};

/// How long a keeper may take for a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
/// Most ranges of pages that are mapped ahead in one body.
const MAX_RANGES: usize = 4096;
/// Files that are mapped ahead as a whole are not larger.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// All of them together.
const MAX_FILES_BYTES: u64 = 16 << 20;
/// Zero pages of a mapping that is larger are not mapped ahead.
const MAX_ZERO_BYTES: u64 = 256 << 10;
/// All of them together.
const MAX_ZEROS_BYTES: u64 = 1 << 20;
/// Saved pages of an image that has more are not mapped ahead.
const MAX_SAVED_PAGES: usize = 96;

impl Body {
    /// Gives back the pages of a waiting body that its image does not have. False when it is not waiting, or is broken
    /// by that.
    pub fn trim(&self) -> bool {
        let pid = self.control.pid();
        self.control.take() && self.command(pid, command::TRIM)
    }

    /// Maps the pages of a waiting body that runs in another body of the same image, that of the keeper `like`, have
    /// touched. False as for [`Body::trim`].
    pub fn prefault_like(&self, image: &Image, like: i32) -> bool {
        self.map(&own_pages(image, like).unwrap_or_default())
    }

    /// Maps the pages of a waiting body that most first runs touch, so that its first run has no fault there: code, data,
    /// and small mappings that are zero. False as for [`Body::trim`].
    pub fn prefault_first(&self, image: &Image) -> bool {
        self.map(&likely_pages(image))
    }

    /// Maps ranges of pages.
    fn map(&self, ranges: &[(u64, u64)]) -> bool {
        if ranges.is_empty() {
            return true;
        }
        let pid = self.control.pid();
        if !self.control.take() {
            return false;
        }
        let words = ranges.iter().take(MAX_RANGES).flat_map(|range| [range.0, range.1]).chain([0, 0]);
        let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        self.control.write_args(0, &bytes) && self.command(pid, command::PREFAULT)
    }

    /// Has the keeper carry out a command while the armed process, which was this one, is taken.
    fn command(&self, pid: i32, command: u32) -> bool {
        self.control.set_command(command);
        self.control.bell().ring();
        let state = self.control.wait_until(COMMAND_TIMEOUT, |state| state != Some(State::Taken));
        self.control.set_command(command::NONE);
        // Somebody may have killed it, and another one be in its place.
        if self.control.pid() != pid {
            let _ = raw::wait_pid(pid, true);
        }
        state == Some(State::Armed)
    }

    /// Makes a shell of a body that waits. The memory of its program is given back.
    ///
    /// # Errors
    /// When it does not wait, or its keeper does not answer: it is dropped.
    pub fn break_up(self) -> io::Result<Shell> {
        let ready = self.wait_ready(COMMAND_TIMEOUT) == Some(State::Armed);
        let pid = self.control.pid();
        if !ready || !self.control.take() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // Before the process ends: its keeper may see that at once.
        self.control.set_command(command::BREAK_UP);
        child::end(pid, END_TIMEOUT);
        self.control.bell().ring();
        if self.wait_ready(COMMAND_TIMEOUT) != Some(State::Armed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(Shell { body: self })
    }
}

/// What most first runs touch: all of small files that are mapped to be read, saved pages that can be written, and small
/// mappings that are zero. As ranges of address and bytes, of which bit 0 says that they are only read.
fn likely_pages(image: &Image) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let (mut file_bytes, mut zero_bytes) = (0, 0);
    for vma in image.vmas.iter().filter(|vma| vma.flags & (vma_flags::HANDS_OFF | vma_flags::SHARED) == 0) {
        let bytes = vma.end - vma.start;
        let has = |flag: u32| vma.flags & flag != 0;
        match (has(vma_flags::WRITE), has(vma_flags::FILE)) {
            (false, true) if bytes <= MAX_FILE_BYTES && file_bytes + bytes <= MAX_FILES_BYTES => {
                file_bytes += bytes;
                ranges.push((vma.start, bytes | PREFAULT_READ));
            }
            (true, false)
                if bytes <= MAX_ZERO_BYTES
                    && zero_bytes + bytes <= MAX_ZEROS_BYTES
                    && !has(vma_flags::STACK | vma_flags::WIPE)
                    && !(vma.start..=vma.end).contains(&image.header.brk) =>
            {
                zero_bytes += bytes;
                ranges.push((vma.start, bytes));
            }
            (true, _) if image.pages.len() <= MAX_SAVED_PAGES => {
                let own = image.pages.iter().map(|page| page.address());
                for address in own.filter(|address| (vma.start..vma.end).contains(address)) {
                    match ranges.last_mut() {
                        Some(last) if last.0 + last.1 == address => last.1 += PAGE_BYTES,
                        _ => ranges.push((address, PAGE_BYTES)),
                    }
                }
            }
            _ => {}
        }
    }
    ranges
}

/// The pages of a keeper's program that it shares with nobody, as ranges of address and bytes.
fn own_pages(image: &Image, keeper: i32) -> io::Result<Vec<(u64, u64)>> {
    use std::os::unix::fs::FileExt;
    const PRESENT: u64 = 1 << 63;
    const FILE_OR_SHARED: u64 = 1 << 61;
    const EXCLUSIVE: u64 = 1 << 56;
    let pagemap = std::fs::File::open(format!("/proc/{keeper}/pagemap"))?;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let ours = |vma: &&regrow_abi::VmaEntry| {
        vma.flags & (vma_flags::WRITE | vma_flags::HANDS_OFF) == vma_flags::WRITE
    };
    for vma in image.vmas.iter().filter(ours) {
        let pages = usize::try_from((vma.end - vma.start) / PAGE_BYTES).unwrap_or(0);
        let mut words = vec![0u8; pages * 8];
        pagemap.read_exact_at(&mut words, vma.start / PAGE_BYTES * 8)?;
        for (word, address) in words.chunks_exact(8).zip((vma.start..).step_by(4096)) {
            let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            if word & (PRESENT | FILE_OR_SHARED | EXCLUSIVE) != PRESENT | EXCLUSIVE {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.0 + last.1 == address => last.1 += PAGE_BYTES,
                _ => ranges.push((address, PAGE_BYTES)),
            }
        }
    }
    Ok(ranges)
}

/// A task with a blank address space. Dropping it ends it.
#[derive(Debug)]
pub struct Shell {
    body: Body,
}

impl Shell {
    /// The process that holds it.
    #[must_use]
    pub fn keeper(&self) -> i32 {
        self.body.keeper()
    }

    /// As [`Body::is_used_by`].
    #[must_use]
    pub fn is_used_by(&self, pid: i32) -> bool {
        self.body.is_used_by(pid)
    }

    /// Whether it waits for a program.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.body.state() == Some(State::Armed)
    }

    /// Waits until it waits for a program again, after one was executed in it.
    #[must_use]
    pub fn wait_ready(&self, timeout: Duration) -> bool {
        self.body.bell().ring();
        self.body.wait_ready(timeout) == Some(State::Armed)
    }

    /// Executes the program at `path`, and waits until that is done. Returns the pid: a child of the calling process, not
    /// yet waited for. The shell makes another process for the next one.
    ///
    /// # Errors
    /// [`StartError`]: nothing of the program has run. After [`StartError::Broken`] the shell must be dropped.
    pub fn start(&mut self, path: &CStr, run: &Run<'_>) -> Result<i32, StartError> {
        if run.fds.len() >= MAX_FDS {
            return Err(StartError::TooManyDescriptors(run.fds.len()));
        }
        let (bytes, place) = self.lay_out(path, run).ok_or(StartError::TooLarge)?;
        let (read, write) = pipe().map_err(StartError::Broken)?;
        let last = run.fds.iter().map(|fd| fd.1).max().unwrap_or(0);
        let place = ExecPlace { fd: last.saturating_add(1).max(3), ..place };
        let mut fds: Vec<(BorrowedFd<'_>, i32)> = run.fds.to_vec();
        fds.push((write.as_fd(), place.fd));
        if !self.body.control.take() {
            return Err(StartError::NotArmed);
        }
        let pid = self.body.living_armed().map_err(StartError::Broken)?;
        if run.traced {
            regrow_sys::ptrace::seize_to_exit(pid).map_err(StartError::Broken)?;
        }
        self.body.control.write_args(0, &bytes);
        self.body.control.write_exec_order(pid, run, &fds, place);
        self.body.send(&fds).map_err(StartError::Broken)?;
        drop(fds);
        drop(write);
        self.body.last_run = pid;
        await_closed(&read).map_err(StartError::Broken)?;
        if let Some((step, errno)) = self.body.control.refused(pid) {
            let _ = raw::wait_pid(pid, false);
            self.body.bell().ring();
            return Err(StartError::Refused { step, source: io::Error::from_raw_os_error(errno) });
        }
        Ok(pid)
    }

    /// The path, the directory, the strings and the arrays that point to them, as they stand in the arg area.
    fn lay_out(&self, path: &CStr, run: &Run<'_>) -> Option<(Vec<u8>, ExecPlace)> {
        let base = self.body.control_address + ARG_AREA_OFFSET as u64;
        let mut bytes = Vec::with_capacity(run.args.bytes.len() + run.env.bytes.len() + 1024);
        bytes.extend_from_slice(path.to_bytes_with_nul());
        let cwd_offset = u32::try_from(bytes.len()).ok()?;
        if let Some(directory) = run.directory {
            bytes.extend_from_slice(directory);
            bytes.push(0);
        }
        let mut strings = |block: &StringBlock<'_>| {
            let mut pointers = Vec::with_capacity(block.count + 1);
            for string in block.bytes.split_inclusive(|&byte| byte == 0) {
                pointers.push(base + bytes.len() as u64);
                bytes.extend_from_slice(string);
            }
            pointers.push(0);
            pointers
        };
        let (argv, envp) = (strings(&run.args), strings(&run.env));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut array = |pointers: &[u64]| {
            let at = base + bytes.len() as u64;
            pointers.iter().for_each(|pointer| bytes.extend_from_slice(&pointer.to_ne_bytes()));
            at
        };
        let (argv, envp) = (array(&argv), array(&envp));
        (bytes.len() <= regrow_abi::ARG_AREA_BYTES)
            .then_some((bytes, ExecPlace { path: base, argv, envp, cwd_offset, fd: 0 }))
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Waits until nobody has the other end of a pipe open any more.
fn await_closed(read: &OwnedFd) -> io::Result<()> {
    let mut byte = [0; 1];
    rustix::io::retry_on_intr(|| rustix::io::read(read, &mut byte))?;
    Ok(())
}
