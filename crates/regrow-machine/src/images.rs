//! The files whose code runs: their ids, and what their code says of frames.
//!
//! A file is identified when it is met first. Its code is read when a process is created by it, and forgotten again when more is read than
//! is worth the memory; what it said of single places is kept.

pub(crate) mod elf;
mod files;
mod go;

use std::collections::HashMap;
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

/// What was read of a file.
#[derive(Debug, Default)]
enum Reading<T> {
    /// It was not tried.
    #[default]
    Unread,
    /// It cannot be read, or is something else.
    Nothing,
    Read(T),
}

/// A file.
#[derive(Debug)]
struct Image {
    identity: FileIdentity,
    id: ImageId,
    path: Option<PathBuf>,
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
    /// Paths that the kernel's side has told, of files that are not known yet.
    told: HashMap<FileIdentity, PathBuf>,
    /// Names to tell.
    named: Vec<(ImageId, PathBuf)>,
    /// Bytes of all images together.
    bytes: usize,
    /// Files that were gone before they were read.
    pub(crate) unread: u64,
}

impl Images {
    /// A path that the kernel's side has told.
    pub(crate) fn tell_path(&mut self, identity: FileIdentity, path: PathBuf) {
        if self.told.len() < MOST_FILES {
            self.told.insert(identity, path);
        }
    }

    /// The number of a file.
    pub(crate) fn number(&mut self, identity: FileIdentity, met: Met) -> FileNumber {
        if let Some(number) = self.known.get(&identity) {
            return *number;
        }
        let number = self.images.len();
        let image = self.identify(identity, met);
        self.images.push(image);
        self.known.insert(identity, number);
        number
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

    fn identify(&mut self, identity: FileIdentity, met: Met) -> Image {
        let path = self.told.remove(&identity).or_else(|| met.name());
        let file = files::open(&identity, path.as_deref(), met);
        let id = match &file {
            Some(file) => elf::build_id(file).map(|id| ImageId::of_build_id(&id)).or_else(|| {
                let metadata = file.metadata().ok()?;
                let ctime_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
                Some(ImageId::of_file(metadata.dev(), metadata.ino(), ctime_ns, metadata.size()))
            }),
            None => {
                self.unread += 1;
                None
            }
        };
        let id = id.unwrap_or_else(|| id_of_unread(&identity));
        if let Some(path) = &path {
            self.named.push((id, path.clone()));
        }
        let (code, text, functions) = (Reading::Unread, Reading::Unread, Reading::Unread);
        Image { identity, id, path, code, text, functions, rows: HashMap::new(), bytes: 0 }
    }

    /// What a file's code says; `None`: it cannot be read, or is no ELF file.
    pub(crate) fn code(&mut self, number: FileNumber, met: Met) -> Option<&ElfCode> {
        let image = self.images.get(number)?;
        if matches!(image.code, Reading::Unread) {
            let code = image.open(met).and_then(|file| elf::code(&file));
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
        let row = self.code(number, met).and_then(|code| code.frames.as_ref()?.row(address)).map(Arc::new);
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
        let Some(image) = self.images.get(number) else { return };
        let file = image.open(met);
        let read = |segment: &Segment| Some((*segment, elf::text(file.as_ref()?, segment)?));
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
            let image = self.images.get(number)?;
            let functions = image.open(met).map(|file| elf::functions(&file)).unwrap_or_default();
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
    fn open(&self, met: Met) -> Option<std::fs::File> {
        files::open(&self.identity, self.path.as_deref(), met)
    }
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
