//! Reads the body's mappings as they are: by `PROCMAP_QUERY`, else from the text of `/proc/self/maps`.

use regrow_abi::{Broken, MappedSizes, VmaEntry, features, vma_flags};

use crate::arch::nr;
use crate::state::{Agent, MAX_VMAS, TEXT_BYTES};
use crate::sys;

const ENOENT: isize = -2;

/// The kernel's `struct procmap_query`.
#[repr(C)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const PROCMAP_QUERY: usize = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;
const WRITABLE: u64 = 0x02;

/// Calls `each` for every mapping in order of address; neighbours are not joined.
///
/// # Errors
/// [`Broken::Proc`] when the kernel does not answer, or what `each` returns.
pub fn each_vma(
    agent: &Agent,
    each: &mut dyn FnMut(VmaEntry) -> Result<(), (Broken, i32)>,
) -> Result<(), (Broken, i32)> {
    if !agent.has(features::PROCMAP_QUERY) {
        return by_text(agent, each);
    }
    let mut at = 0;
    while let Some(vma) = next(agent, COVERING_OR_NEXT, at)? {
        each(vma)?;
        at = vma.end;
    }
    Ok(())
}

/// Calls `each` for the program's mappings that can be written to, in order of address, until it returns false. The kernel passes the others
/// over, which is a small part of a question. What is asked is `PROCMAP_QUERY`, which the kernel must have.
///
/// # Errors
/// [`Broken::Proc`] when the kernel does not answer, or what `each` returns.
pub fn each_writable(
    agent: &Agent,
    each: &mut dyn FnMut(VmaEntry) -> Result<bool, (Broken, i32)>,
) -> Result<(), (Broken, i32)> {
    let own = agent.image().agent_start..agent.image().agent_end;
    let mut at = 0;
    while let Some(vma) = next(agent, COVERING_OR_NEXT | WRITABLE, at)? {
        at = vma.end;
        if own.start <= vma.start && vma.end <= own.end {
            // No run changes the agent's.
            at = own.end;
        } else if !each(vma)? {
            break;
        }
    }
    Ok(())
}

type EachMapping<'a> = dyn FnMut(VmaEntry) -> Result<(), (Broken, i32)> + 'a;

/// The first mapping that ends above an address and is as the flags say.
fn next(agent: &Agent, flags: u64, address: u64) -> Result<Option<VmaEntry>, (Broken, i32)> {
    const NOTHING: Query = Query {
        size: size_of::<Query>() as u64,
        flags: 0,
        address: 0,
        start: 0,
        end: 0,
        vma_flags: 0,
        page_size: 0,
        offset: 0,
        inode: 0,
        dev_major: 0,
        dev_minor: 0,
        name_size: 0,
        build_id_size: 0,
        name: 0,
        build_id: 0,
    };
    let mut query = Query { flags, address, ..NOTHING };
    // SAFETY: the private area is this body's; the request takes this struct.
    let result = unsafe { sys::ioctl((*agent.private()).maps, PROCMAP_QUERY, &raw mut query) };
    if result == ENOENT {
        return Ok(None);
    }
    if result < 0 {
        return Err((Broken::Proc, -result as i32));
    }
    let file = query.inode != 0;
    Ok(Some(VmaEntry {
        start: query.start,
        end: query.end,
        offset: if file { query.offset } else { 0 },
        inode: query.inode,
        dev_major: query.dev_major,
        dev_minor: query.dev_minor,
        flags: (query.vma_flags & 15) as u32 | if file { vma_flags::FILE } else { 0 },
        path_offset: 0,
    }))
}

/// A cursor over the text of `/proc/self/maps`, refilled line by line.
struct Text {
    buffer: *mut u8,
    length: usize,
    at: usize,
    offset: u64,
    fd: i32,
}

impl Text {
    fn byte(&mut self) -> Option<u8> {
        if self.at == self.length {
            // SAFETY: the buffer has `TEXT_BYTES` bytes.
            let got = unsafe { sys::pread(self.fd, self.buffer, TEXT_BYTES, self.offset) };
            if got <= 0 {
                return None;
            }
            self.length = got as usize;
            self.offset += got as u64;
            self.at = 0;
        }
        // SAFETY: `at` is below `length`.
        let byte = unsafe { *self.buffer.add(self.at) };
        self.at += 1;
        Some(byte)
    }

    /// A number that ends at the first byte which is no digit of the radix; that byte is eaten.
    fn number(&mut self, radix: u64) -> Option<u64> {
        let mut value = 0u64;
        loop {
            let digit = match self.byte()? {
                byte @ b'0'..=b'9' => u64::from(byte - b'0'),
                byte @ b'a'..=b'f' if radix == 16 => u64::from(byte - b'a' + 10),
                _ => return Some(value),
            };
            value = value.wrapping_mul(radix).wrapping_add(digit);
        }
    }

    fn line(&mut self) -> Option<VmaEntry> {
        let start = self.number(16)?;
        let end = self.number(16)?;
        let mut flags = 0;
        for bit in [vma_flags::READ, vma_flags::WRITE, vma_flags::EXEC] {
            if self.byte()? != b'-' {
                flags |= bit;
            }
        }
        if self.byte()? == b's' {
            flags |= vma_flags::SHARED;
        }
        self.byte()?;
        let offset = self.number(16)?;
        let dev_major = self.number(16)? as u32;
        let dev_minor = self.number(16)? as u32;
        let mut inode = 0u64;
        let mut last = b' ';
        while last != b'\n' {
            last = self.byte()?;
            if !last.is_ascii_digit() {
                break;
            }
            inode = inode.wrapping_mul(10).wrapping_add(u64::from(last - b'0'));
        }
        while last != b'\n' {
            last = self.byte()?;
        }
        if inode != 0 {
            flags |= vma_flags::FILE;
        }
        let offset = if inode == 0 { 0 } else { offset };
        Some(VmaEntry { start, end, offset, inode, dev_major, dev_minor, flags, path_offset: 0 })
    }
}

fn by_text(agent: &Agent, each: &mut EachMapping<'_>) -> Result<(), (Broken, i32)> {
    // SAFETY: the private area is this body's; only this function uses the text buffer meanwhile.
    let (fd, buffer) = unsafe { ((*agent.private()).maps, &raw mut (*agent.private()).text) };
    let mut text = Text { buffer: buffer.cast(), length: 0, at: 0, offset: 0, fd };
    // The vsyscall page lies in the kernel's half; the ioctl does not tell it either.
    while let Some(vma) = text.line().filter(|vma| vma.start < 1 << 63) {
        each(vma)?;
    }
    Ok(())
}

/// Reads mappings into the private area, neighbours that differ in nothing joined: all, or those of the program that can be written to. Returns
/// how many.
///
/// # Errors
/// [`Broken::TooManyMappings`], or as [`each_vma`].
pub fn read(agent: &Agent, all: bool) -> Result<usize, (Broken, i32)> {
    // SAFETY: the private area is this body's; nobody else uses this table meanwhile.
    let table = unsafe { &raw mut (*agent.private()).vmas }.cast::<VmaEntry>();
    let mut count = 0usize;
    let mut add = |vma: VmaEntry| {
        // SAFETY: `count` is at most `MAX_VMAS`, and entries below it are written.
        unsafe {
            if count > 0 && (*table.add(count - 1)).joins(&vma) {
                (*table.add(count - 1)).end = vma.end;
                return Ok(());
            }
            if count == MAX_VMAS {
                return Err((Broken::TooManyMappings, 0));
            }
            table.add(count).write(vma);
        }
        count += 1;
        Ok(())
    };
    if all {
        each_vma(agent, &mut add)?;
    } else {
        each_writable(agent, &mut |vma| add(vma).map(|()| true))?;
    }
    Ok(count)
}

/// How much is mapped. Nothing where the kernel does not tell.
pub fn sizes(agent: &Agent) -> Option<MappedSizes> {
    // SAFETY: the private area is this body's; the buffer has this many bytes, and only this function uses it meanwhile.
    unsafe {
        let buffer = (&raw mut (*agent.private()).text).cast::<u8>();
        let got = sys::pread((*agent.private()).status, buffer, TEXT_BYTES, 0);
        let bytes = usize::try_from(got).ok()?;
        MappedSizes::read(core::slice::from_raw_parts(buffer, bytes))
    }
}

/// Ends an AIO context whose ring lies at this address, if one does: the context belongs to the address space.
pub fn end_aio(address: u64) {
    // SAFETY: io_destroy of a number that is no context is an error without effect.
    unsafe { sys::raw(nr::IO_DESTROY, [address as usize, 0, 0, 0, 0, 0]) };
}
