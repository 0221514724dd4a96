//! The message that asks for the run: what this process was given, as `docs/protocol.md` has it (`once`).
//!
//! ```text
//!   head          secret, what the client says of itself, program, argv[0]      in a buffer
//!   arguments     as the kernel has put them on the stack
//!   environment   the same
//!   tail          directory, attributes, descriptors                            in the same buffer
//! ```

use regrow_abi::client::{MAGIC, MAX_MESSAGE, MAX_TARGETS, PROOF_BYTES, SAID_WORDS, VERSION, kind};
use regrow_abi::task::LIMITS;

use crate::buffer::Buffer;
use crate::sys;

/// What is to run.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Its path, without NUL.
    pub path: &'a [u8],
    /// What it sees as `argv[0]`.
    pub arg0: &'a [u8],
    /// Its arguments, each with its NUL.
    pub args: &'a [u8],
    /// Its environment, each with its NUL.
    pub env: &'a [u8],
}

/// What is said of an order beside its program and descriptors.
pub struct About {
    /// The signals that the run blocks.
    pub blocked: u64,
    /// Those that it ignores; without them the daemon asks the kernel.
    pub ignored: Option<u64>,
    /// The connection is for further orders.
    pub stays: bool,
}

/// The descriptors that this process was given.
pub struct Given {
    numbers: [i32; MAX_TARGETS],
    count: usize,
}

impl Given {
    /// Looks which are open; nothing of the client's own is. One after the other, as long as the numbers are low: that is quicker than to
    /// have the kernel list them. `None` where there are more than a message carries, or the kernel does not tell how many there are (Linux
    /// before 6.2).
    pub fn look() -> Option<Given> {
        let count = sys::stat(c"/proc/self/fd".as_ptr().cast())?.size as usize;
        // A folder has a size on such a kernel, and an empty table has none.
        if count == 0 || count > MAX_TARGETS {
            return None;
        }
        let mut given = Given { numbers: [0; MAX_TARGETS], count };
        let mut number = 0;
        for slot in given.numbers.get_mut(..count)? {
            while !sys::is_open(number) {
                number += 1;
                if number > FAR {
                    return Given::inherited();
                }
            }
            *slot = number;
            number += 1;
        }
        Some(given)
    }
}

impl Given {
    /// Those that an execution passes on, in a process that has others of its own. `None` where there are more than a message carries, or
    /// the kernel does not tell.
    pub fn inherited() -> Option<Given> {
        const FOLDER: usize = 0o200_000;
        let folder = sys::open(c"/proc/self/fd".as_ptr().cast(), FOLDER) as i32;
        if folder < 0 {
            return None;
        }
        let mut given = Given { numbers: [0; MAX_TARGETS], count: 0 };
        let done = given.list(folder);
        sys::close(folder);
        done.map(|()| given)
    }

    /// Takes in what a folder of descriptors names. It names them in rising order.
    fn list(&mut self, folder: i32) -> Option<()> {
        loop {
            let mut entries = [0u64; 256];
            let bytes = usize::try_from(sys::entries(folder, &mut entries)).ok()?;
            if bytes == 0 {
                return Some(());
            }
            // SAFETY: so many bytes of the words were written.
            let mut rest = unsafe { core::slice::from_raw_parts(entries.as_ptr().cast::<u8>(), bytes) };
            // Of each entry: inode, offset, length of the entry, type, name with its NUL.
            while let Some(length) = rest.get(16..18).and_then(|two| two.first_chunk::<2>()) {
                let (entry, next) = rest.split_at_checked(usize::from(u16::from_ne_bytes(*length)))?;
                if let Some(number) = entry.get(19..).and_then(number_of)
                    && sys::is_inherited(number)
                {
                    *self.numbers.get_mut(self.count)? = number;
                    self.count += 1;
                }
                rest = next;
            }
        }
    }
}

/// The number that a name is, which ends at its NUL.
fn number_of(name: &[u8]) -> Option<i32> {
    let mut number = 0i32;
    for (at, &byte) in name.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(i32::from(byte - b'0'))?,
            0 if at > 0 => return Some(number),
            _ => return None,
        }
    }
    None
}

/// Numbers beyond this one are not looked for one by one.
const FAR: i32 = 24;

/// Room for what of a message stands nowhere yet.
pub type Room = Buffer<12_288>;

/// A message, ready to be sent.
pub struct Order<'a> {
    buffer: &'a Room,
    /// Where the head ends, and where the length of the environment does.
    ends: [usize; 2],
    program: Program<'a>,
    given: &'a Given,
}

/// Where the secret stands in the message.
const SECRET: usize = 12;

impl<'a> Order<'a> {
    /// Puts it together, but for the secret. `None` where it cannot be, or would be too long.
    pub fn new(
        program: Program<'a>,
        given: &'a Given,
        about: &About,
        buffer: &'a mut Room,
    ) -> Option<Order<'a>> {
        buffer.clear();
        buffer.put(&MAGIC);
        buffer.u16(VERSION);
        buffer.u16(kind::ONCE);
        buffer.counted(&[0; PROOF_BYTES]);
        let scheduling = sys::scheduling();
        for word in said(&scheduling) {
            buffer.u64(word);
        }
        buffer.u32(u32::from(about.stays));
        buffer.counted(program.path);
        let has_own_name = program.arg0 != program.path;
        buffer.u32(u32::from(has_own_name));
        buffer.counted(if has_own_name { program.arg0 } else { &[] });
        buffer.u32(program.args.len() as u32);
        let head = buffer.length();
        buffer.u32(program.env.len() as u32);
        let environment = buffer.length();
        put_directory(buffer)?;
        put_task(buffer, scheduling.nice, about);
        // Namespaces and control group: the daemon asks the kernel.
        buffer.counted(&[]);
        buffer.counted(&[]);
        buffer.u32(given.count as u32);
        for number in given.numbers.get(..given.count)? {
            buffer.put(&number.to_le_bytes());
        }
        // It is told of its start late, has no need for a body alone, and for no modules.
        buffer.u32(0);
        buffer.u32(0);
        buffer.u32(0);
        let order = Order { buffer, ends: [head, environment], program, given };
        let whole = order.buffer.length() + program.args.len() + program.env.len();
        (order.buffer.is_whole() && whole <= MAX_MESSAGE).then_some(order)
    }

    /// Sends it with the descriptors and the ticket.
    pub fn send(&self, socket: i32, secret: &[u8; PROOF_BYTES], ticket: i32) -> sys::Res {
        const SOCKET_RIGHTS: u64 = 1 << 32 | 1;
        const HEADER: usize = 16;
        let [head, environment] = self.ends;
        let pieces = [
            self.buffer.piece(0, SECRET),
            [secret.as_ptr() as usize, PROOF_BYTES],
            self.buffer.piece(SECRET + PROOF_BYTES, head),
            [self.program.args.as_ptr() as usize, self.program.args.len()],
            self.buffer.piece(head, environment),
            [self.program.env.as_ptr() as usize, self.program.env.len()],
            self.buffer.piece(environment, self.buffer.length()),
        ];
        let bytes = HEADER + (self.given.count + 1) * 4;
        let mut control = [0u64; 2 + MAX_TARGETS / 2 + 1];
        control[0] = bytes as u64;
        control[1] = SOCKET_RIGHTS;
        for at in 0..=self.given.count {
            let number = if at == self.given.count { ticket } else { self.given.numbers[at] };
            control[2 + at / 2] |= u64::from(number as u32) << (at % 2 * 32);
        }
        sys::send(socket, &pieces, &control, bytes.next_multiple_of(8))
    }
}

/// The working directory. `None` where there is none, or it lies outside the root.
fn put_directory(to: &mut Room) -> Option<()> {
    // The kernel writes behind the place of the length.
    let length_at = to.length();
    to.u32(0);
    let room = to.unfilled();
    let bytes = sys::current_directory(room);
    let directory = room.get(..bytes.max(0) as usize)?.strip_suffix(&[0])?;
    if directory.first() != Some(&b'/') {
        return None;
    }
    let length = directory.len();
    to.extend(length);
    to.put_at(length_at, &(length as u32).to_le_bytes());
    Some(())
}

/// What the daemon compares with its own and the kernel does not tell it cheaply.
fn said(scheduling: &regrow_abi::SchedAttr) -> [u64; SAID_WORDS] {
    const TIMER_SLACK: u32 = 30;
    const SECURE_BITS: u32 = 27;
    let [device, inode, mount] = sys::root();
    let number = |result: sys::Res| result as i64 as u64;
    [
        device,
        inode,
        mount,
        u64::from(scheduling.policy),
        scheduling.flags,
        number(sys::io_priority()),
        number(sys::prctl(TIMER_SLACK, 0)),
        number(sys::personality()),
        number(sys::prctl(SECURE_BITS, 0)),
    ]
}

/// The attributes of the run, in the order of the protocol. What is not set the daemon reads or has.
fn put_task<const N: usize>(to: &mut Buffer<N>, nice: i32, about: &About) {
    const NOT_SET: u32 = 0;
    const SET: u32 = 1;
    let umask = sys::umask(0o77);
    sys::umask(umask);
    to.u32(NOT_SET); // session
    to.u32(NOT_SET); // process group
    to.u32(SET);
    to.u32(umask & 0o777);
    to.u32(SET);
    to.put(&nice.to_le_bytes());
    to.u32((1 << LIMITS) - 1);
    for number in 0..LIMITS as u32 {
        for bound in sys::limit(number) {
            to.u64(bound);
        }
    }
    to.u32(u32::from(about.ignored.is_some()));
    if let Some(ignored) = about.ignored {
        to.u64(ignored);
    }
    to.u32(SET);
    to.u64(about.blocked);
    to.u32(SET);
    for word in sys::affinity() {
        to.u64(word);
    }
    to.u32(NOT_SET); // slice
}
