//! The message that has a daemon start a run.

use regrow_abi::client::SAID_WORDS;
use regrow_abi::task::Task;
use regrow_sys::strings::Strings;

use super::codec::{MAX_TARGETS, Reader, WireError, Writer};
use super::{kind, task};

/// What a run is to be. Its descriptors come with the message, in the order of `targets`, and after them the ticket: an
/// eventfd that holds one. The daemon takes it right before it starts the run, so that a client whose daemon is gone can
/// tell, by taking it itself, that nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpawnMessage {
    /// The program, as it was named; without NUL.
    pub program: Vec<u8>,
    /// `argv[0]`, when it is not the program; without NUL.
    pub arg0: Option<Vec<u8>>,
    /// The arguments after `argv[0]`.
    pub args: Strings,
    /// The environment.
    pub env: Strings,
    /// The working directory; without NUL.
    pub directory: Vec<u8>,
    /// The attributes of the run: all that it has of its caller, but for session and process group.
    pub task: Task,
    /// What the client has of which a run has the daemon's (`regrow_sys::caller::Domain::fingerprint`).
    pub domain: Vec<u8>,
    /// The control group, which a daemon may be told to disregard.
    pub cgroup: Vec<u8>,
    /// The numbers that the descriptors get.
    pub targets: Vec<i32>,
    /// The client waits for the end alone: it is not told that the run has started, and gets no pidfd.
    pub end_only: bool,
    /// The run has its body alone.
    pub single_use: bool,
    /// The modules that an interpreter is to have imported, in UTF-8.
    pub preload: Strings,
}

/// One order with all that a daemon must know of its client, in one message: what a client without a libc sends (`client/`). Of `run` it leaves out what the
/// daemon asks the kernel: ids, capabilities, namespaces and control group of the client's process, and, where the client does not say them, the signals that it ignores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OnceMessage {
    /// The secret that a client can read which may look into the daemon.
    pub secret: Vec<u8>,
    /// What the client says of itself (`regrow_sys::caller::Domain::said`).
    pub said: [u64; SAID_WORDS],
    /// The connection is for further orders: the daemon does not close it when the run has ended or is declined.
    pub stays: bool,
    /// What is to run.
    pub run: SpawnMessage,
}

impl OnceMessage {
    pub(super) fn write(&self) -> Writer {
        let mut to = Writer::new(kind::ONCE);
        to.bytes(&self.secret);
        self.said.iter().for_each(|&word| to.u64(word));
        to.flag(self.stays);
        self.run.put(&mut to);
        to
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<OnceMessage, WireError> {
        let (secret, said, stays) = (from.bytes("secret")?, from.u64s("said")?, from.flag("stays")?);
        Ok(OnceMessage { secret, said, stays, run: SpawnMessage::read(from)? })
    }
}

impl SpawnMessage {
    pub(super) fn write(&self) -> Writer {
        self.write_as(kind::RUN)
    }

    pub(super) fn write_as(&self, kind: u16) -> Writer {
        let mut to = Writer::new(kind);
        self.put(&mut to);
        to
    }

    fn put(&self, to: &mut Writer) {
        to.bytes(&self.program);
        to.flag(self.arg0.is_some());
        to.bytes(self.arg0.as_deref().unwrap_or_default());
        to.bytes(self.args.as_bytes());
        to.bytes(self.env.as_bytes());
        to.bytes(&self.directory);
        task::write(&self.task, to);
        to.bytes(&self.domain);
        to.bytes(&self.cgroup);
        to.u32(u32::try_from(self.targets.len()).unwrap_or(u32::MAX));
        self.targets.iter().for_each(|&target| to.i32(target));
        to.flag(self.end_only);
        to.flag(self.single_use);
        to.bytes(self.preload.as_bytes());
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<SpawnMessage, WireError> {
        let program = from.string("program")?;
        let has_arg0 = from.flag("arg0")?;
        let arg0 = from.string("arg0")?;
        if !has_arg0 && !arg0.is_empty() {
            return Err(from.malformed("arg0"));
        }
        let mut message = SpawnMessage {
            program,
            arg0: has_arg0.then_some(arg0),
            args: from.strings("args")?,
            env: from.strings("env")?,
            directory: from.string("directory")?,
            task: task::read(from)?,
            domain: from.bytes("domain")?,
            cgroup: from.bytes("cgroup")?,
            ..SpawnMessage::default()
        };
        let count = from.u32("targets")?;
        if usize::try_from(count).map_or(true, |count| count > MAX_TARGETS) {
            return Err(from.malformed("targets"));
        }
        for _ in 0..count {
            message.targets.push(from.i32("targets")?);
        }
        message.end_only = from.flag("end_only")?;
        message.single_use = from.flag("single_use")?;
        message.preload = from.strings("preload")?;
        Ok(message)
    }
}
