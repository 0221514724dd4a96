//! What the client of one page (`client/`) shares with daemon and command, which are programs with a standard library: the numbers of the
//! messages of `docs/protocol.md`, and how the client hands over to the full command.

/// The first four bytes of each message.
pub const MAGIC: [u8; 4] = *b"RGRW";
/// Raised by every change of a message.
pub const VERSION: u16 = 9;
/// The longest message.
pub const MAX_MESSAGE: usize = 128 * 1024;
/// Most descriptors that a message carries.
pub const MAX_FDS: usize = 64;
/// Most descriptors that a run is given: the message carries the ticket as well.
pub const MAX_TARGETS: usize = MAX_FDS - 1;

/// Bytes of the daemon's secret.
pub const PROOF_BYTES: usize = 24;
/// The numbers of which the secret's memfd has the first in the daemon that was free.
pub const PROOF_NUMBERS: core::ops::RangeInclusive<i32> = 30..=93;

/// The numbers of the kinds of messages that the client sends or understands.
pub mod kind {
    /// One order, with all that a daemon must know of its client.
    pub const ONCE: u16 = 9;
    /// The run is there.
    pub const STARTED: u16 = 65;
    /// The client is to execute the program.
    pub const DECLINED: u16 = 66;
    /// The run has ended.
    pub const ENDED: u16 = 69;
}

/// How many words [`kind::ONCE`] has of what the client says of itself: device, inode and mount of the root directory, scheduling policy and
/// flags, I/O priority, timer slack, personality, securebits.
pub const SAID_WORDS: usize = 9;

/// The name of the command. A file of every other name is a launcher.
pub const COMMAND: &[u8] = b"regrow";

/// What the path of a folder holds in which `regrow env` has launchers for gcc.
pub const COMPILERS: &[u8] = b"/cc/";
/// How the path of a folder ends in which `regrow env` has its launchers. A shell that expands it as a pattern makes `/bin/` of it.
pub const ENV_FOLDER: &[u8] = b"/[b]in/";

/// The first argument by which the client tells the full command that it hands over. The next one says what:
///
/// | second argument | the others | meaning |
/// |---|---|---|
/// | `NAME` | `argv[0]` and arguments of the program | be the launcher of that name, which has no `/` |
/// | `/SOCKET/TICKET/PIDFD/PID/MASK` + path | the same | take over a run that was asked for: descriptors, number and signal mask in hexadecimal (`-` for none), then the program's path |
pub const HANDED_OVER: &[u8] = b"%client";

/// The note by which launchers and commands know one another: name, content, as an ELF note has them.
#[repr(C, align(4))]
pub struct LauncherMark {
    name_bytes: u32,
    content_bytes: u32,
    kind: u32,
    name: [u8; 8],
    content: [u8; 8],
}

/// Bytes of the mark.
pub const MARK_BYTES: usize = size_of::<LauncherMark>();
/// How many bytes of a file are searched for the mark. Notes stand behind the program headers.
pub const MARK_SEARCHED: usize = 4096;

impl LauncherMark {
    /// The mark.
    pub const MARK: LauncherMark = LauncherMark {
        name_bytes: 7,
        content_bytes: 8,
        kind: 1,
        name: *b"Regrow\0\0",
        content: *b"launcher",
    };

    /// The mark as bytes, in the order of this machine.
    #[must_use]
    pub fn bytes(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        let numbers = [self.name_bytes, self.content_bytes, self.kind];
        for (at, number) in numbers.into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bytes[12..20].copy_from_slice(&self.name);
        bytes[20..].copy_from_slice(&self.content);
        bytes
    }
}

/// What stands in the client's file before the path of the full command, which `regrow link` writes there.
pub const SETTINGS_MAGIC: [u8; 16] = *b"regrow-settings\0";
/// Bytes for the path of the full command, with its NUL.
pub const COMMAND_PATH_BYTES: usize = 1024;
