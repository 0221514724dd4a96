//! The messages between a daemon and its clients, as bytes.
//!
//! Every message is one packet of a `SOCK_SEQPACKET` socket: a header of eight bytes (magic, version, kind), then the
//! fields of the kind, in the order of the struct's definition. Numbers are little-endian; a string or list begins with
//! its length as a `u32`. `docs/protocol.md` is the specification, and this module its only implementation.
//!
//! Invariants: decoding allocates no more than the message is long, never panics, and takes a message only if every
//! byte of it is used.

use std::fmt;

/// The first four bytes of each message.
pub const MAGIC: [u8; 4] = *b"RGRW";
/// Raised by every change of a message.
pub const VERSION: u16 = 2;
/// The longest message.
pub const MAX_MESSAGE: usize = 128 * 1024;
/// Most descriptors that a message carries.
pub const MAX_FDS: usize = 64;
/// Most descriptors that a run is given by an order: the message carries the ticket as well.
pub const MAX_TARGETS: usize = MAX_FDS - 1;
/// Resource limits that an order names.
pub const LIMITS: usize = 16;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It does not begin as a message does.
    #[error("{length} bytes that do not begin with a message's magic")]
    NoMessage {
        /// Its length.
        length: usize,
    },
    /// The other side is of another version.
    #[error("the other side speaks version {theirs} of the protocol, this one version {VERSION}")]
    Version {
        /// The version of the message.
        theirs: u16,
    },
    /// There is no such kind.
    #[error("message of kind {kind}, which does not exist")]
    Kind {
        /// The number.
        kind: u16,
    },
    /// A field ends after the message, or is not what it must be.
    #[error("field {field} of message of kind {kind} is malformed")]
    Field {
        /// The kind.
        kind: u16,
        /// The name of the field.
        field: &'static str,
    },
    /// There are bytes after the last field.
    #[error("{bytes} bytes after the last field of message of kind {kind}")]
    Trailing {
        /// The kind.
        kind: u16,
        /// How many.
        bytes: usize,
    },
}

/// A list of NUL-terminated strings in one piece.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Strings(pub Vec<u8>);

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// What a run is to be. Its descriptors come with the message, in the order of `targets`, and after them the ticket: an
/// eventfd that holds one. The daemon takes it right before it starts the run, so that a client whose daemon is gone can
/// tell, by taking it itself, that nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Order {
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
    /// The file mode creation mask.
    pub umask: u32,
    /// The niceness.
    pub nice: i32,
    /// Soft and hard limits, by number.
    pub limits: [[u64; 2]; LIMITS],
    /// Ignored signals; bit 0 is signal 1.
    pub ignored: u64,
    /// Blocked signals; bit 0 is signal 1.
    pub blocked: u64,
    /// Processors that may be used, the first 1,024.
    pub affinity: [u64; 16],
    /// What the client has of which a run has the daemon's (`regrow_sys::caller::Domain::fingerprint`).
    pub domain: Vec<u8>,
    /// The control group, which a daemon may be told to disregard.
    pub cgroup: Vec<u8>,
    /// The numbers that the descriptors get.
    pub targets: Vec<i32>,
    /// The client waits for the end alone: it is not told that the run has started, and gets no pidfd.
    pub end_only: bool,
    /// The modules that an interpreter is to have imported, in UTF-8.
    pub preload: Strings,
}

/// What a client may ask of the daemon itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The state of the pool, as JSON.
    Status,
    /// The names below a path of the resource tree, as JSON.
    List(Vec<u8>),
    /// What stands at a path of the resource tree, as JSON.
    Show(Vec<u8>),
}

/// A message to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToDaemon {
    /// Start a run.
    Run(Box<Order>),
    /// Answer a question.
    Ask(Question),
    /// Drop everything that is kept.
    Clear,
    /// Take no further runs, and leave when those that are there have ended.
    Stop,
    /// Keep at most so many bytes that are in no use.
    Budget(u64),
}

/// A message from the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToClient {
    /// The run is there; its pidfd comes with the message.
    Started {
        /// Its number.
        pid: i32,
        /// The name of how it was created.
        how: Vec<u8>,
    },
    /// The client is to execute the program itself; nothing of it has run.
    Declined {
        /// The name of the reason.
        reason: Vec<u8>,
        /// The reason in words.
        detail: Vec<u8>,
    },
    /// The run was stopped by a signal.
    Stopped {
        /// The signal.
        signal: i32,
    },
    /// The run goes on.
    Continued,
    /// The run has ended.
    Ended {
        /// Its wait status.
        status: i32,
    },
    /// A part of an answer.
    Answer {
        /// Whether more follows.
        more: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// What was asked for is done.
    Done,
    /// What was asked for cannot be done.
    Failed {
        /// Why.
        text: Vec<u8>,
    },
}

mod kind {
    pub(super) const RUN: u16 = 1;
    pub(super) const STATUS: u16 = 2;
    pub(super) const LIST: u16 = 3;
    pub(super) const SHOW: u16 = 4;
    pub(super) const CLEAR: u16 = 5;
    pub(super) const STOP: u16 = 6;
    pub(super) const BUDGET: u16 = 7;
    pub(super) const STARTED: u16 = 65;
    pub(super) const DECLINED: u16 = 66;
    pub(super) const STOPPED: u16 = 67;
    pub(super) const CONTINUED: u16 = 68;
    pub(super) const ENDED: u16 = 69;
    pub(super) const ANSWER: u16 = 70;
    pub(super) const DONE: u16 = 71;
    pub(super) const FAILED: u16 = 72;
}

/// Puts a message together.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u16) -> Writer {
        let mut bytes = Vec::with_capacity(4096);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        Writer(bytes)
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(value);
    }
}

/// Takes a message apart.
struct Reader<'a> {
    kind: u16,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(message: &'a [u8]) -> Result<Reader<'a>, WireError> {
        let no_message = || WireError::NoMessage { length: message.len() };
        let (magic, rest) = message.split_first_chunk::<4>().ok_or_else(no_message)?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(no_message)?;
        let (kind, rest) = rest.split_first_chunk::<2>().ok_or_else(no_message)?;
        if *magic != MAGIC {
            return Err(no_message());
        }
        let theirs = u16::from_le_bytes(*version);
        if theirs != VERSION {
            return Err(WireError::Version { theirs });
        }
        Ok(Reader { kind: u16::from_le_bytes(*kind), rest })
    }

    fn malformed(&self, field: &'static str) -> WireError {
        WireError::Field { kind: self.kind, field }
    }

    fn chunk<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.malformed(field))?;
        self.rest = rest;
        Ok(*chunk)
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, WireError> {
        self.chunk(field).map(u32::from_le_bytes)
    }

    fn i32(&mut self, field: &'static str) -> Result<i32, WireError> {
        self.chunk(field).map(i32::from_le_bytes)
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, WireError> {
        self.chunk(field).map(u64::from_le_bytes)
    }

    fn u64s<const N: usize>(&mut self, field: &'static str) -> Result<[u64; N], WireError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64(field)?;
        }
        Ok(words)
    }

    fn bytes(&mut self, field: &'static str) -> Result<Vec<u8>, WireError> {
        let length = usize::try_from(self.u32(field)?).map_err(|_| self.malformed(field))?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.malformed(field))?;
        self.rest = rest;
        Ok(bytes.to_vec())
    }

    /// A string without NUL.
    fn string(&mut self, field: &'static str) -> Result<Vec<u8>, WireError> {
        let bytes = self.bytes(field)?;
        if bytes.contains(&0) { Err(self.malformed(field)) } else { Ok(bytes) }
    }

    /// NUL-terminated strings.
    fn strings(&mut self, field: &'static str) -> Result<Strings, WireError> {
        let bytes = self.bytes(field)?;
        if bytes.last().is_some_and(|&last| last != 0) {
            Err(self.malformed(field))
        } else {
            Ok(Strings(bytes))
        }
    }

    fn end<T>(&self, message: T) -> Result<T, WireError> {
        if self.rest.is_empty() {
            Ok(message)
        } else {
            Err(WireError::Trailing { kind: self.kind, bytes: self.rest.len() })
        }
    }
}

impl Order {
    fn write(&self) -> Writer {
        let mut to = Writer::new(kind::RUN);
        to.bytes(&self.program);
        to.u32(u32::from(self.arg0.is_some()));
        to.bytes(self.arg0.as_deref().unwrap_or_default());
        to.bytes(&self.args.0);
        to.bytes(&self.env.0);
        to.bytes(&self.directory);
        to.u32(self.umask);
        to.i32(self.nice);
        self.limits.iter().flatten().for_each(|&value| to.u64(value));
        to.u64(self.ignored);
        to.u64(self.blocked);
        self.affinity.iter().for_each(|&word| to.u64(word));
        to.bytes(&self.domain);
        to.bytes(&self.cgroup);
        to.u32(u32::try_from(self.targets.len()).unwrap_or(u32::MAX));
        self.targets.iter().for_each(|&target| to.i32(target));
        to.u32(u32::from(self.end_only));
        to.bytes(&self.preload.0);
        to
    }

    fn read(from: &mut Reader<'_>) -> Result<Order, WireError> {
        let program = from.string("program")?;
        let has_arg0 = from.u32("arg0")?;
        let arg0 = from.string("arg0")?;
        if has_arg0 > 1 || (has_arg0 == 0 && !arg0.is_empty()) {
            return Err(from.malformed("arg0"));
        }
        let mut order = Order {
            program,
            arg0: (has_arg0 == 1).then_some(arg0),
            args: from.strings("args")?,
            env: from.strings("env")?,
            directory: from.string("directory")?,
            umask: from.u32("umask")?,
            nice: from.i32("nice")?,
            ..Order::default()
        };
        let limits: [u64; 2 * LIMITS] = from.u64s("limits")?;
        for (pair, values) in order.limits.iter_mut().zip(limits.chunks_exact(2)) {
            pair.copy_from_slice(values);
        }
        order.ignored = from.u64("ignored")?;
        order.blocked = from.u64("blocked")?;
        order.affinity = from.u64s("affinity")?;
        order.domain = from.bytes("domain")?;
        order.cgroup = from.bytes("cgroup")?;
        let count = from.u32("targets")?;
        if usize::try_from(count).map_or(true, |count| count > MAX_TARGETS) {
            return Err(from.malformed("targets"));
        }
        for _ in 0..count {
            order.targets.push(from.i32("targets")?);
        }
        order.end_only = match from.u32("end_only")? {
            0 => false,
            1 => true,
            _ => return Err(from.malformed("end_only")),
        };
        order.preload = from.strings("preload")?;
        Ok(order)
    }
}

impl ToDaemon {
    /// The message as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let path = |kind: u16, path: &[u8]| {
            let mut to = Writer::new(kind);
            to.bytes(path);
            to
        };
        let writer = match self {
            Self::Run(order) => order.write(),
            Self::Ask(Question::Status) => Writer::new(kind::STATUS),
            Self::Ask(Question::List(at)) => path(kind::LIST, at),
            Self::Ask(Question::Show(at)) => path(kind::SHOW, at),
            Self::Clear => Writer::new(kind::CLEAR),
            Self::Stop => Writer::new(kind::STOP),
            Self::Budget(bytes) => {
                let mut to = Writer::new(kind::BUDGET);
                to.u64(*bytes);
                to
            }
        };
        writer.0
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn from_bytes(message: &[u8]) -> Result<ToDaemon, WireError> {
        let mut from = Reader::new(message)?;
        let message = match from.kind {
            kind::RUN => Self::Run(Box::new(Order::read(&mut from)?)),
            kind::STATUS => Self::Ask(Question::Status),
            kind::LIST => Self::Ask(Question::List(from.string("path")?)),
            kind::SHOW => Self::Ask(Question::Show(from.string("path")?)),
            kind::CLEAR => Self::Clear,
            kind::STOP => Self::Stop,
            kind::BUDGET => Self::Budget(from.u64("bytes")?),
            kind => return Err(WireError::Kind { kind }),
        };
        from.end(message)
    }
}

impl ToClient {
    /// The message as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = |kind: u16, number: i32| {
            let mut to = Writer::new(kind);
            to.i32(number);
            to
        };
        let mut writer = match self {
            Self::Started { pid, .. } => number(kind::STARTED, *pid),
            Self::Declined { .. } => Writer::new(kind::DECLINED),
            Self::Stopped { signal } => number(kind::STOPPED, *signal),
            Self::Continued => Writer::new(kind::CONTINUED),
            Self::Ended { status } => number(kind::ENDED, *status),
            Self::Answer { more, .. } => number(kind::ANSWER, i32::from(*more)),
            Self::Done => Writer::new(kind::DONE),
            Self::Failed { .. } => Writer::new(kind::FAILED),
        };
        match self {
            Self::Started { how, .. } => writer.bytes(how),
            Self::Declined { reason, detail } => {
                writer.bytes(reason);
                writer.bytes(detail);
            }
            Self::Answer { text, .. } | Self::Failed { text } => writer.bytes(text),
            Self::Stopped { .. } | Self::Continued | Self::Ended { .. } | Self::Done => {}
        }
        writer.0
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn from_bytes(message: &[u8]) -> Result<ToClient, WireError> {
        let mut from = Reader::new(message)?;
        let message = match from.kind {
            kind::STARTED => Self::Started { pid: from.i32("pid")?, how: from.bytes("how")? },
            kind::DECLINED => Self::Declined { reason: from.bytes("reason")?, detail: from.bytes("detail")? },
            kind::STOPPED => Self::Stopped { signal: from.i32("signal")? },
            kind::CONTINUED => Self::Continued,
            kind::ENDED => Self::Ended { status: from.i32("status")? },
            kind::ANSWER => {
                let more = from.i32("more")?;
                if !(0..=1).contains(&more) {
                    return Err(from.malformed("more"));
                }
                Self::Answer { more: more == 1, text: from.bytes("text")? }
            }
            kind::DONE => Self::Done,
            kind::FAILED => Self::Failed { text: from.bytes("text")? },
            kind => return Err(WireError::Kind { kind }),
        };
        from.end(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order() -> Order {
        Order {
            program: b"sh".to_vec(),
            arg0: Some(b"-sh".to_vec()),
            args: Strings(b"-c\0:\0".to_vec()),
            env: Strings(b"A=1\0".to_vec()),
            directory: b"/".to_vec(),
            umask: 0o22,
            nice: -3,
            limits: [[7, u64::MAX]; LIMITS],
            ignored: 1 << 12,
            blocked: 3,
            affinity: [5; 16],
            domain: vec![1, 2, 3],
            cgroup: b"0::/\n".to_vec(),
            targets: vec![0, 1, 2, 9],
            end_only: true,
            preload: Strings(b"json\0".to_vec()),
        }
    }

    #[test]
    fn every_message_comes_back() {
        let to_daemon = [
            ToDaemon::Run(Box::new(order())),
            ToDaemon::Run(Box::default()),
            ToDaemon::Ask(Question::Status),
            ToDaemon::Ask(Question::List(b"/".to_vec())),
            ToDaemon::Ask(Question::Show(b"/host/body/7".to_vec())),
            ToDaemon::Clear,
            ToDaemon::Stop,
            ToDaemon::Budget(u64::MAX - 7),
        ];
        for message in to_daemon {
            assert_eq!(ToDaemon::from_bytes(&message.to_bytes()), Ok(message));
        }
        let to_client = [
            ToClient::Started { pid: 7, how: b"recycled".to_vec() },
            ToClient::Declined { reason: b"first_run".to_vec(), detail: b"why".to_vec() },
            ToClient::Stopped { signal: 20 },
            ToClient::Continued,
            ToClient::Ended { status: -1 },
            ToClient::Answer { more: true, text: b"{}".to_vec() },
            ToClient::Done,
            ToClient::Failed { text: b"no".to_vec() },
        ];
        for message in to_client {
            assert_eq!(ToClient::from_bytes(&message.to_bytes()), Ok(message));
        }
    }

    #[test]
    fn another_version_is_told() {
        let mut bytes = ToDaemon::Stop.to_bytes();
        bytes[4] += 1;
        assert_eq!(ToDaemon::from_bytes(&bytes), Err(WireError::Version { theirs: VERSION + 1 }));
    }

    #[test]
    fn a_message_that_is_cut_or_too_long_is_refused_wherever_it_is_cut() {
        let whole = ToDaemon::Run(Box::new(order())).to_bytes();
        for length in 0..whole.len() {
            assert!(ToDaemon::from_bytes(&whole[..length]).is_err(), "{length} bytes");
        }
        let mut long = whole;
        long.push(0);
        assert!(matches!(ToDaemon::from_bytes(&long), Err(WireError::Trailing { bytes: 1, .. })));
    }

    #[test]
    fn strings_must_end_and_names_must_not_hold_nul() {
        let with = |change: fn(&mut Order)| {
            let mut order = order();
            change(&mut order);
            ToDaemon::from_bytes(&ToDaemon::Run(Box::new(order)).to_bytes())
        };
        let field = |field| Err(WireError::Field { kind: kind::RUN, field });
        assert_eq!(with(|order| order.program = b"a\0b".to_vec()), field("program"));
        assert_eq!(with(|order| order.args = Strings(b"a".to_vec())), field("args"));
        assert_eq!(with(|order| order.env = Strings(b"A=1\0B".to_vec())), field("env"));
        assert_eq!(with(|order| order.targets = vec![0; MAX_TARGETS + 1]), field("targets"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(kind in 0u16..80, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&VERSION.to_le_bytes());
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&body);
            if let Ok(message) = ToDaemon::from_bytes(&bytes) {
                prop_assert_eq!(message.to_bytes(), bytes.clone());
            }
            if let Ok(message) = ToClient::from_bytes(&bytes) {
                prop_assert_eq!(message.to_bytes(), bytes);
            }
        }
    }
}
