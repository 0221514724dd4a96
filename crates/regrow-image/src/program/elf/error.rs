//! What can be wrong with an ELF file.

use std::io;

use super::ident::ElfIdent;

/// Why the facts of a file cannot be read. Offsets are in bytes from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The file does not begin with the ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// The file ends before something that it announces.
    #[error("ELF file is cut off: {what} at offset {offset} is not all there")]
    Truncated {
        /// What is missing.
        what: &'static str,
        /// Where it begins.
        offset: u64,
    },
    /// The file is for another machine, word size or byte order.
    #[error("ELF file is for another machine: {ident}")]
    WrongMachine {
        /// What it is for.
        ident: ElfIdent,
    },
    /// The file is neither an executable nor a shared object.
    #[error("ELF file of type {e_type} cannot be executed")]
    NotExecutable {
        /// The header's type field.
        e_type: u16,
    },
    /// A field has a value that the kernel or the loader does not take.
    #[error("ELF file is malformed: {what} at offset {offset}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where it is.
        offset: u64,
    },
    /// Something is larger than this reader is willing to read.
    #[error("ELF file has {size} bytes of {what}, more than {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        size: u64,
        /// The most that is read.
        limit: u64,
    },
    /// The file cannot be read.
    #[error("cannot read {what} of ELF file at offset {offset}: {kind}")]
    Read {
        /// What was to be read.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// The kind of failure.
        kind: io::ErrorKind,
    },
}
