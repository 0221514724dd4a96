//! One line of `maps`: reading it and writing it.
//!
//! The columns up to the inode are separated by one space each. The kernel then pads with spaces to a fixed
//! column, so every space before the name is padding; no name starts with a space.

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::error::{Field, MapsError, Problem};
use super::mapping::{MapName, Mapping};

/// Mappings start and end on multiples of this on every architecture; some have larger pages.
const SMALLEST_PAGE: u64 = 4096;

/// Where the kernel starts the name, counted from 0 (`show_vma_header_prefix` in `fs/proc/task_mmu.c`).
const NAME_COLUMN: usize = 73;

/// The mark behind the path of a file that has no name any longer.
const DELETED: &[u8] = b" (deleted)";

/// The bytes of one line and where the reader is in it.
struct LineCursor<'a> {
    rest: &'a [u8],
    line: usize,
}

impl<'a> LineCursor<'a> {
    fn error(&self, field: Field, problem: Problem) -> MapsError {
        MapsError { line: self.line, field, problem }
    }

    /// The bytes up to `stop`, which is consumed.
    fn until(&mut self, stop: u8, field: Field) -> Result<&'a [u8], MapsError> {
        let Some(length) = self.rest.iter().position(|&byte| byte == stop) else {
            let problem = if self.rest.is_empty() { Problem::Missing } else { Problem::Malformed };
            return Err(self.error(field, problem));
        };
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(word)
    }

    /// A number in lower-case hexadecimal.
    fn hex(&mut self, stop: u8, field: Field) -> Result<u64, MapsError> {
        let word = self.until(stop, field)?;
        let mut value: u64 = 0;
        for &byte in word {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return Err(self.error(field, Problem::Malformed)),
            };
            if value >> 60 != 0 {
                return Err(self.error(field, Problem::TooLarge));
            }
            value = value << 4 | u64::from(digit);
        }
        if word.is_empty() { Err(self.error(field, Problem::Missing)) } else { Ok(value) }
    }

    /// A number in hexadecimal that is a multiple of the smallest page.
    fn page(&mut self, stop: u8, field: Field) -> Result<u64, MapsError> {
        let value = self.hex(stop, field)?;
        if value % SMALLEST_PAGE == 0 { Ok(value) } else { Err(self.error(field, Problem::NotOnAPage)) }
    }
}

/// Reads one line without its newline. `floor` is the end of the mapping above it.
pub(super) fn parse(line: &[u8], number: usize, floor: u64) -> Result<Mapping, MapsError> {
    let mut cursor = LineCursor { rest: line, line: number };
    let start = cursor.page(b'-', Field::Start)?;
    let end = cursor.page(b' ', Field::End)?;
    if end <= start {
        return Err(cursor.error(Field::End, Problem::NotAfterStart));
    }
    if start < floor {
        return Err(cursor.error(Field::Order, Problem::Overlaps));
    }
    let [read, write, exec, shared] = permissions(&mut cursor)?;
    let offset = cursor.page(b' ', Field::Offset)?;
    let dev = device(&mut cursor)?;
    let inode = inode(&mut cursor)?;
    let padding = cursor.rest.iter().take_while(|&&byte| byte == b' ').count();
    cursor.rest = cursor.rest.get(padding..).unwrap_or_default();
    let name = name(&cursor)?;
    Ok(Mapping { start, end, read, write, exec, shared, offset, dev, inode, name })
}

fn permissions(cursor: &mut LineCursor<'_>) -> Result<[bool; 4], MapsError> {
    let word = cursor.until(b' ', Field::Permissions)?;
    let malformed = cursor.error(Field::Permissions, Problem::Malformed);
    let &[r, w, x, s] = word else { return Err(malformed) };
    let letter = |byte, on, off| match byte {
        b if b == on => Ok(true),
        b if b == off => Ok(false),
        _ => Err(malformed),
    };
    Ok([letter(r, b'r', b'-')?, letter(w, b'w', b'-')?, letter(x, b'x', b'-')?, letter(s, b's', b'p')?])
}

fn device(cursor: &mut LineCursor<'_>) -> Result<(u32, u32), MapsError> {
    let major = cursor.hex(b':', Field::Device)?;
    let minor = cursor.hex(b' ', Field::Device)?;
    match (u32::try_from(major), u32::try_from(minor)) {
        (Ok(major), Ok(minor)) => Ok((major, minor)),
        _ => Err(cursor.error(Field::Device, Problem::TooLarge)),
    }
}

/// The inode is the last column of a line without a name; the kernel writes a space behind it all the same.
fn inode(cursor: &mut LineCursor<'_>) -> Result<u64, MapsError> {
    let word = cursor.until(b' ', Field::Inode)?;
    decimal(word).map_err(|problem| cursor.error(Field::Inode, problem))
}

/// A number in decimal digits alone.
pub(super) fn decimal(word: &[u8]) -> Result<u64, Problem> {
    let mut value: u64 = 0;
    for &byte in word {
        if !byte.is_ascii_digit() {
            return Err(Problem::Malformed);
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(byte - b'0')))
            .ok_or(Problem::TooLarge)?;
    }
    if word.is_empty() { Err(Problem::Missing) } else { Ok(value) }
}

fn name(cursor: &LineCursor<'_>) -> Result<MapName, MapsError> {
    match cursor.rest {
        [] => Ok(MapName::Anonymous),
        [b'[', inner @ .., b']'] => bracketed(inner, cursor),
        [b'[', ..] => Err(cursor.error(Field::Name, Problem::Malformed)),
        bytes => Ok(file(bytes)),
    }
}

fn bracketed(inner: &[u8], cursor: &LineCursor<'_>) -> Result<MapName, MapsError> {
    let text =
        std::str::from_utf8(inner).map_err(|_invalid| cursor.error(Field::Name, Problem::Malformed))?;
    Ok(match text {
        "" => return Err(cursor.error(Field::Name, Problem::Malformed)),
        "heap" => MapName::Heap,
        "stack" => MapName::Stack,
        "vdso" => MapName::Vdso,
        "vsyscall" => MapName::Vsyscall,
        "uprobes" => MapName::Uprobes,
        _ if text.starts_with("vvar") => MapName::Vvar(text.to_owned()),
        _ => MapName::Other(text.to_owned()),
    })
}

fn file(bytes: &[u8]) -> MapName {
    let (path, deleted) = match bytes.strip_suffix(DELETED) {
        Some(path) if !path.is_empty() => (path, true),
        _ => (bytes, false),
    };
    MapName::File { path: PathBuf::from(OsString::from_vec(unescape(path))), deleted }
}

/// Turns the kernel's only escape, `\012`, back into a newline.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = tail;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    out
}

/// Appends the kernel's line for a mapping.
fn write(mapping: &Mapping, out: &mut Vec<u8>) {
    let letter = |on, yes, no| if on { yes } else { no };
    let begin = out.len();
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {} ",
        mapping.start,
        mapping.end,
        letter(mapping.read, 'r', '-'),
        letter(mapping.write, 'w', '-'),
        letter(mapping.exec, 'x', '-'),
        letter(mapping.shared, 's', 'p'),
        mapping.offset,
        mapping.dev.0,
        mapping.dev.1,
        mapping.inode,
    );
    if mapping.name != MapName::Anonymous {
        let padded = begin + NAME_COLUMN - 1;
        out.resize(out.len().max(padded), b' ');
        out.push(b' ');
        write_name(&mapping.name, out);
    }
    out.push(b'\n');
}

fn write_name(name: &MapName, out: &mut Vec<u8>) {
    let inner = match name {
        MapName::Anonymous => return,
        MapName::Heap => "heap",
        MapName::Stack => "stack",
        MapName::Vdso => "vdso",
        MapName::Vsyscall => "vsyscall",
        MapName::Uprobes => "uprobes",
        MapName::Vvar(text) | MapName::Other(text) => text,
        MapName::File { path, deleted } => return write_file(path.as_os_str().as_bytes(), *deleted, out),
    };
    out.push(b'[');
    out.extend_from_slice(inner.as_bytes());
    out.push(b']');
}

fn write_file(path: &[u8], deleted: bool, out: &mut Vec<u8>) {
    for &byte in path {
        match byte {
            b'\n' => out.extend_from_slice(b"\\012"),
            _ => out.push(byte),
        }
    }
    if deleted {
        out.extend_from_slice(DELETED);
    }
}

impl Mapping {
    /// Appends the line as the kernel writes it, with its newline. The inverse of [`parse_maps`](super::parse_maps).
    pub fn write_line(&self, out: &mut Vec<u8>) {
        write(self, out);
    }
}

impl fmt::Display for Mapping {
    /// The kernel's line without its newline; bytes of a name that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write_line(&mut text);
        f.write_str(String::from_utf8_lossy(&text).trim_end())
    }
}
