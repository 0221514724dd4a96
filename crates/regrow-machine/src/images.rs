//! The files whose code runs: their ids, and what their code says of frames.
//!
//! A file is identified when it is met first, and its code is read when it is mapped by a process that creates one, while that is there. Code
//! is forgotten again when more is read than is worth the memory; what it said of single places is kept.

pub(crate) mod elf;
mod files;
mod go;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regrow_sites::ImageId;

use self::elf::{ElfCode, Function, Segment};
pub(crate) use self::files::{Met, identity_of};
use crate::record::FileIdentity;
use crate::unwind::rows::Row;

/// Most files that are known.
pub(crate) const MOST_FILES: usize = 1 << 16;
/// Most memory for code and tables of files.
const MOST_BYTES: usize = 64 << 20;
/// Most places of a file whose rows are kept.
const MOST_ROWS: usize = 1 << 12;

/// A file in [`Images`].
pub(crate) type FileNumber = usize;

/// How often a file is looked for that is not found.
const MOST_TRIES: u8 = 4;

/// What was read of a file.
#[derive(Debug, Default)]
enum Reading<T> {
    /// It was not tried, or the file was not found.
    #[default]
    Unread,
    /// There is no such thing in the file.
    Nothing,
    Read(T),
}

/// A file.
#[derive(Debug)]
struct Image {
    identity: FileIdentity,
    id: ImageId,
    path: Option<PathBuf>,
    /// It was found, and its id is that of its content.
    is_found: bool,
    /// How often it was looked for in vain since a process was known to have it.
    tries: u8,
    code: Reading<ElfCode>,
    text: Reading<Vec<(Segment, Vec<u8>)>>,
    functions: Reading<Vec<Function>>,
    rows: HashMap<u64, Option<Arc<Row>>>,
    /// Bytes of code, tables and text.
    bytes: usize,
}

/// All files that were met.
#[derive(Debug, Default)]
pub(crate) struct Images {
    known: HashMap<FileIdentity, FileNumber>,
    images: Vec<Image>,
    /// Names to tell.
    named: Vec<(ImageId, PathBuf)>,
    /// Bytes of all images together.
    bytes: usize,
}

impl Images {
    /// Reads a file that a process has at present; whether its code is known with it.
    pub(crate) fn see(&mut self, identity: FileIdentity, path: Option<PathBuf>, met: Met) -> bool {
        let number = self.number_of(identity, path, met);
        if let Some(image) = self.images.get_mut(number) {
            image.tries = 0;
        }
        if met.mapped.is_none() {
            return false;
        }
        self.code(number, met);
        self.images.get(number).is_some_and(|image| !matches!(image.code, Reading::Unread))
    }

    /// The number of a file.
    pub(crate) fn number(&mut self, identity: FileIdentity, met: Met) -> FileNumber {
        if let Some(number) = self.known.get(&identity) {
            return *number;
        }
        self.number_of(identity, None, met)
    }

    /// The number of a file, which is looked for unless it was found.
    fn number_of(&mut self, identity: FileIdentity, path: Option<PathBuf>, met: Met) -> FileNumber {
        let known = self.known.get(&identity).copied();
        let is_found = |number: &FileNumber| self.images.get(*number).is_some_and(|image| image.is_found);
        if let Some(number) = known.filter(is_found) {
            return number;
        }
        let image = Image::identify(identity, path, met);
        if let Some(path) = &image.path {
            self.named.push((image.id, path.clone()));
        }
        if let Some(number) = known
            && let Some(slot) = self.images.get_mut(number)
        {
            *slot = image;
            return number;
        }
        let number = self.images.len();
        self.images.push(image);
        self.known.insert(identity, number);
        number
    }

    /// How many files were gone before they were read.
    pub(crate) fn unread(&self) -> u64 {
        self.images.iter().filter(|image| !image.is_found).count() as u64
    }

    /// The id of a file.
    pub(crate) fn id(&self, number: FileNumber) -> ImageId {
        self.images.get(number).map_or(ImageId::UNKNOWN, |image| image.id)
    }

    /// Whether so many files are known that all of them are to be forgotten.
    pub(crate) fn is_full(&self) -> bool {
        self.images.len() >= MOST_FILES
    }

    /// Takes the names that were found since the last time.
    pub(crate) fn take_names(&mut self) -> Vec<(ImageId, PathBuf)> {
        std::mem::take(&mut self.named)
    }

    /// What a file's code says; `None`: it cannot be read, or is no ELF file.
    pub(crate) fn code(&mut self, number: FileNumber, met: Met) -> Option<&ElfCode> {
        let image = self.images.get(number)?;
        if matches!(image.code, Reading::Unread) {
            let file = self.open(number, met)?;
            let code = elf::code(&file);
            let bytes = code.as_ref().map_or(0, ElfCode::bytes);
            self.make_room(bytes);
            let image = self.images.get_mut(number)?;
            image.code = code.map_or(Reading::Nothing, Reading::Read);
            image.bytes += bytes;
            self.bytes += bytes;
        }
        match &self.images.get(number)?.code {
            Reading::Read(code) => Some(code),
            _ => None,
        }
    }

    /// How a frame is left whose code stands at an address of the file.
    pub(crate) fn row(&mut self, number: FileNumber, address: u64, met: Met) -> Option<Arc<Row>> {
        if let Some(row) = self.images.get(number)?.rows.get(&address) {
            return row.clone();
        }
        let row =
            self.code(number, met)?.frames.as_ref().and_then(|frames| frames.row(address)).map(Arc::new);
        let image = self.images.get_mut(number)?;
        if image.rows.len() >= MOST_ROWS {
            image.rows.clear();
        }
        image.rows.insert(address, row.clone());
        row
    }

    /// The code around an address of the file: what stands before it, and from it on.
    pub(crate) fn text(&mut self, number: FileNumber, address: u64, met: Met) -> Option<(&[u8], &[u8])> {
        if matches!(self.images.get(number)?.text, Reading::Unread) {
            self.read_text(number, met);
        }
        let Reading::Read(parts) = &self.images.get(number)?.text else { return None };
        let (segment, bytes) = parts.iter().find(|(segment, _)| segment.holds(address))?;
        bytes.split_at_checked(usize::try_from(address - segment.address).ok()?)
    }

    fn read_text(&mut self, number: FileNumber, met: Met) {
        let segments = self.code(number, met).map(|code| code.segments.clone()).unwrap_or_default();
        let Some(file) = self.open(number, met) else { return };
        let read = |segment: &Segment| Some((*segment, elf::text(&file, segment)?));
        let parts: Vec<(Segment, Vec<u8>)> = segments.iter().filter_map(read).collect();
        let bytes = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        self.make_room(bytes);
        let Some(image) = self.images.get_mut(number) else { return };
        image.text = if parts.is_empty() { Reading::Nothing } else { Reading::Read(parts) };
        image.bytes += bytes;
        self.bytes += bytes;
    }

    /// The first address of the function that an address is of, where the file's symbols say it.
    pub(crate) fn function(&mut self, number: FileNumber, address: u64, met: Met) -> Option<u64> {
        if matches!(self.images.get(number)?.functions, Reading::Unread) {
            let functions = elf::functions(&self.open(number, met)?);
            let bytes = size_of_val(functions.as_slice());
            self.make_room(bytes);
            let image = self.images.get_mut(number)?;
            image.functions = if functions.is_empty() { Reading::Nothing } else { Reading::Read(functions) };
            image.bytes += bytes;
            self.bytes += bytes;
        }
        let Reading::Read(functions) = &self.images.get(number)?.functions else { return None };
        let after = functions.partition_point(|function| function.address <= address);
        let function = functions.get(after.checked_sub(1)?)?;
        (address - function.address < function.bytes).then_some(function.address)
    }

    /// Opens a file, unless it was looked for often enough.
    fn open(&mut self, number: FileNumber, met: Met) -> Option<File> {
        let image = self.images.get_mut(number)?;
        if image.tries >= MOST_TRIES {
            return None;
        }
        let file = files::open(&image.identity, image.path.as_deref(), met);
        image.tries = if file.is_some() { 0 } else { image.tries + 1 };
        file
    }

    /// Forgets all code when with so many bytes more it would be too much; it is read again where it is needed.
    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes <= MOST_BYTES {
            return;
        }
        for image in self.images.iter_mut().filter(|image| image.bytes > 0) {
            (image.code, image.text, image.functions) = (Reading::Unread, Reading::Unread, Reading::Unread);
            image.bytes = 0;
        }
        self.bytes = 0;
    }
}

impl Image {
    /// A file, by its content where it is found.
    fn identify(identity: FileIdentity, path: Option<PathBuf>, met: Met) -> Self {
        let path = path.or_else(|| met.name());
        let file = files::open(&identity, path.as_deref(), met);
        let id = file.as_ref().and_then(id_of).unwrap_or_else(|| id_of_unread(&identity));
        let (code, text, functions) = (Reading::Unread, Reading::Unread, Reading::Unread);
        let rows = HashMap::new();
        Self { identity, id, path, is_found: file.is_some(), tries: 0, code, text, functions, rows, bytes: 0 }
    }
}

/// The id of a file: by its build id, or else by what it is in the file system.
fn id_of(file: &File) -> Option<ImageId> {
    if let Some(build_id) = elf::build_id(file) {
        return Some(ImageId::of_build_id(&build_id));
    }
    let metadata = file.metadata().ok()?;
    let ctime_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
    Some(ImageId::of_file(metadata.dev(), metadata.ino(), ctime_ns, metadata.size()))
}

/// The id of a file that cannot be read: by what the kernel said of it.
fn id_of_unread(identity: &FileIdentity) -> ImageId {
    let ctime_ns = i128::from(identity.ctime_s) * 1_000_000_000 + i128::from(identity.ctime_ns);
    let device = rustix::fs::makedev(identity.device.0, identity.device.1);
    ImageId::of_file(device, identity.inode, ctime_ns, identity.size_bytes)
}

/// A path in words.
pub(crate) fn words(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
