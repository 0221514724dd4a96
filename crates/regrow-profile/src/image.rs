//! The id of a file, as collectors make it, and the way back: whether a file is the image that an id names.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use object::read::{ReadCache, ReadRef};
use object::{FileKind, Object};
use regrow_sites::ImageId;

/// The build id of an ELF file, if it has one.
fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let object = elf(&cache)?;
    object.build_id().ok().flatten().filter(|id| !id.is_empty()).map(<[u8]>::to_vec)
}

/// An ELF file; `None` for anything else.
pub(crate) fn elf<'data, R: ReadRef<'data>>(data: R) -> Option<object::File<'data, R>> {
    match FileKind::parse(data).ok()? {
        FileKind::Elf32 | FileKind::Elf64 => object::File::parse(data).ok(),
        _ => None,
    }
}

/// The id of an open file: of its build id, or of the file where it has none.
///
/// # Errors
/// What reading the file's metadata says.
pub fn id_of(file: &File) -> io::Result<ImageId> {
    let metadata = file.metadata()?;
    if let Some(build_id) = build_id(file).filter(|_| metadata.is_file()) {
        return Ok(ImageId::of_build_id(&build_id));
    }
    Ok(id_by_inode(&metadata, metadata.dev()))
}

fn id_by_inode(metadata: &std::fs::Metadata, device: u64) -> ImageId {
    let ctime_ns = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
    ImageId::of_file(device, metadata.ino(), ctime_ns, metadata.size())
}

/// Whether a file is the image that has this id. A collector in the kernel has a device number of another form than `stat`.
#[must_use]
pub fn is(file: &File, image: ImageId) -> bool {
    let Ok(id) = id_of(file) else { return false };
    if id == image {
        return true;
    }
    let Ok(metadata) = file.metadata() else { return false };
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let in_kernel = u64::from(major) << 20 | u64::from(minor);
    let in_statx = u64::from(major) << 32 | u64::from(minor);
    [in_kernel, in_statx].iter().any(|&device| id_by_inode(&metadata, device) == image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_id_of_its_build_and_another_file_that_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("sh");
        std::fs::copy("/bin/sh", &copy).unwrap();
        let (shell, copy) = (File::open("/bin/sh").unwrap(), File::open(copy).unwrap());
        assert_eq!(id_of(&shell).unwrap(), id_of(&copy).unwrap(), "one build");
        let texts = ["a", "b"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "no program").unwrap();
            File::open(path).unwrap()
        });
        let ids = texts.each_ref().map(|text| id_of(text).unwrap());
        assert_ne!(ids[0], ids[1]);
        assert!(is(&texts[0], ids[0]) && !is(&texts[0], ids[1]) && is(&shell, id_of(&shell).unwrap()));
        std::fs::write(folder.path().join("a"), "changed").unwrap();
        assert!(!is(&texts[0], ids[0]));
    }

    #[test]
    fn device_numbers_of_the_kernel_are_known_too() {
        let file = tempfile::tempfile().unwrap();
        let metadata = file.metadata().unwrap();
        let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        assert!(is(&file, id_by_inode(&metadata, u64::from(major) << 20 | u64::from(minor))));
        assert!(!is(&file, id_by_inode(&metadata, metadata.dev() + 1)));
    }
}
