//! The image in a file: what a program without the library does not tell.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use regrow_sites::ImageId;

/// An executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Executable {
    /// The image.
    pub(super) id: ImageId,
    /// A loader links it, which loads preloaded libraries.
    pub(super) is_dynamic: bool,
}

impl Executable {
    /// The one in a file; `None` where there is none, or none that can be read.
    pub(super) fn read(path: &Path) -> Option<Executable> {
        let metadata = path.metadata().ok().filter(Metadata::is_file)?;
        let file = ReadCache::new(File::open(path).ok()?);
        let (build_id, is_dynamic) = look_at_headers(&file).ok()?;
        let id = build_id.map_or_else(|| id_of_file(&metadata), ImageId::of_build_id);
        Some(Executable { id, is_dynamic })
    }
}

fn id_of_file(metadata: &Metadata) -> ImageId {
    let changed_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
    ImageId::of_file(metadata.dev(), metadata.ino(), changed_ns, metadata.size())
}

/// The build id, and whether a loader is named.
fn look_at_headers<'a, R: ReadRef<'a>>(file: R) -> object::Result<(Option<&'a [u8]>, bool)> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let mut build_id = None;
    let mut is_dynamic = false;
    for part in header.program_headers(endian, file)? {
        is_dynamic |= part.p_type(endian) == PT_INTERP;
        if let Some(mut notes) = part.notes(endian, file)? {
            while let Some(note) = notes.next()? {
                if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                    build_id = build_id.or(Some(note.desc()));
                }
            }
        }
    }
    Ok((build_id, is_dynamic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_an_executable_and_a_text_is_none() {
        let own = std::env::current_exe().expect("a path");
        let read = Executable::read(&own).expect("it is one");
        assert!(read.is_dynamic);
        assert_eq!(Executable::read(&own), Some(read));
        assert_eq!(Executable::read(Path::new(file!())), None);
        assert_eq!(Executable::read(Path::new("/")), None);
        assert_eq!(Executable::read(Path::new("/nowhere")), None);
    }

    #[test]
    fn an_image_has_the_same_id_for_the_library_and_for_the_model() {
        use regrow_abi::sites::{image_of_build_id, image_of_file};
        assert_eq!(ImageId::of_build_id(&[7; 20]).0, image_of_build_id(&[7; 20]));
        assert_eq!(ImageId::of_file(1, 2, 3 << 70, 4).0, image_of_file(1, 2, 3 << 70, 4));
    }
}
