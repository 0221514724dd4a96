//! Attacks by what is sent.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use regrow_daemon::wire::{MAGIC, MAX_FDS, MAX_MESSAGE, Question, SpawnMessage, ToClient, ToDaemon, VERSION};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};

use crate::line::{Line, MOST_FDS};
use crate::random::Random;
use crate::service::LIMIT;
use crate::siege::Siege;

/// How many messages of each sort are sent.
const MESSAGES: usize = 1000;
/// How many connections one message may take.
const ATTEMPTS: usize = 100;
/// Bytes of a message before its fields.
const HEADER: usize = 8;

/// What an order's connection is given beside the order: standard descriptors, and a ticket that can be taken.
pub(crate) struct Given {
    null: File,
    ticket: OwnedFd,
}

impl Given {
    pub(crate) fn new() -> Given {
        let ticket = rustix::event::eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        Given { null: File::options().read(true).write(true).open("/dev/null").unwrap(), ticket }
    }

    pub(crate) fn all(&self) -> [BorrowedFd<'_>; 4] {
        let null = self.null.as_fd();
        [null, null, null, self.ticket.as_fd()]
    }
}

pub(crate) fn message(order: SpawnMessage) -> Vec<u8> {
    ToDaemon::Run(Box::new(order)).to_bytes()
}

fn number_below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(u64::try_from(end).unwrap())).unwrap()
}

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.next().to_le_bytes()[0]).collect()
}

/// Sends one message over a connection of its own, which must be refused.
fn refused(siege: &Siege, message: &[u8]) {
    // Beside many others, the daemon may close a connection to make room for another, before anything has been sent.
    let sent = (0..ATTEMPTS).map(|_| Line::to(&siege.service)).find(|line| line.send(message).is_ok());
    match sent.expect("a connection that stays until a message is sent").last_words() {
        None | Some(ToClient::Failed { .. }) => {}
        Some(other) => panic!("{other:?} to {message:?}"),
    }
}

/// Orders something over a connection of its own. Returns the last answer, when there is no run any more.
pub(crate) fn answered(siege: &Siege, message: &[u8], given: &[BorrowedFd<'_>]) -> Option<ToClient> {
    let line = Line::to(&siege.service);
    // The daemon may have closed it to make room for another.
    line.send_with(message, given).ok()?;
    loop {
        match line.receive() {
            Some(ToClient::Started { .. } | ToClient::Stopped { .. } | ToClient::Continued) => {}
            last => return last,
        }
    }
}

/// Bytes that are no message, and messages of kinds that do not exist.
pub(crate) fn garbage(siege: &Siege, random: &mut Random) -> String {
    for number in 0..MESSAGES {
        let mut message = Vec::new();
        if number % 2 == 0 {
            message.extend_from_slice(&MAGIC);
            message.extend_from_slice(&VERSION.to_le_bytes());
            // Not one of those that could be right by chance.
            let kind = [0, 1, 9, 65, 69, 300, u16::MAX][number % 7];
            message.extend_from_slice(&kind.to_le_bytes());
        }
        let count = number_below(random, 300);
        message.extend_from_slice(&bytes(random, count));
        refused(siege, &message);
    }
    format!("{MESSAGES} messages of garbage")
}

/// Orders in which a few bytes are others.
pub(crate) fn mutated(siege: &Siege, random: &mut Random) -> String {
    let right = message(siege.order("true", &["-x"]));
    let mut ended = 0;
    for _ in 0..MESSAGES {
        let mut message = right.clone();
        for _ in 0..=random.below(3) {
            let at = HEADER + number_below(random, message.len() - HEADER);
            *message.get_mut(at).unwrap() = random.next().to_le_bytes()[0];
        }
        let last = answered(siege, &message, &Given::new().all());
        ended += usize::from(matches!(last, Some(ToClient::Ended { .. })));
    }
    format!("{MESSAGES} changed orders ({ended} of them runs)")
}

/// Messages that end too early.
pub(crate) fn halves(siege: &Siege, random: &mut Random) -> String {
    let right = message(siege.order("true", &[]));
    for _ in 0..MESSAGES {
        let count = number_below(random, right.len());
        refused(siege, right.get(..count).unwrap());
    }
    format!("{MESSAGES} half messages")
}

/// Orders whose fields are said to be longer than the message.
pub(crate) fn lengths_that_lie(siege: &Siege, random: &mut Random) -> String {
    let right = message(siege.order("true", &[]));
    for _ in 0..MESSAGES {
        let mut message = right.clone();
        let at = HEADER + number_below(random, message.len() - HEADER - 4);
        let lie = [u32::MAX, u32::MAX >> 1, 1 << 30, u32::try_from(right.len()).unwrap()];
        let lie = random.one_of(&lie).unwrap();
        message.get_mut(at..at + 4).unwrap().copy_from_slice(&lie.to_le_bytes());
        let _ = answered(siege, &message, &Given::new().all());
    }
    format!("{MESSAGES} lies about lengths")
}

/// A message of exactly so many bytes that runs `sh` with a long argument, and the length of that argument.
fn of_size(siege: &Siege, size: usize) -> (Vec<u8>, usize) {
    let with =
        |length: usize| message(siege.order("sh", &["-c", "echo ${#1}; exit 5", "sh", &"x".repeat(length)]));
    let length = size - with(0).len();
    (with(length), length)
}

/// Messages at the limit and over it.
pub(crate) fn as_large_as_can_be(siege: &Siege, _: &mut Random) -> String {
    let mut runs = 0;
    for number in 0..MESSAGES / 10 {
        let size = [MAX_MESSAGE, MAX_MESSAGE / 3][number % 2];
        let (message, length) = of_size(siege, size);
        assert_eq!(message.len(), size);
        let (given, (mut from, to)) = (Given::new(), std::io::pipe().unwrap());
        let [null, _, _, ticket] = given.all();
        let last = answered(siege, &message, &[null, to.as_fd(), null, ticket]);
        drop(to);
        let mut said = String::new();
        from.read_to_string(&mut said).unwrap();
        match last {
            Some(ToClient::Ended { status }) => {
                assert_eq!((said, status), (format!("{length}\n"), 5 << 8));
                runs += 1;
            }
            None | Some(ToClient::Declined { .. }) => assert_eq!(said, ""),
            Some(other) => panic!("{other:?}"),
        }
        refused(siege, &of_size(siege, MAX_MESSAGE + 1 + number * 500).0);
    }
    format!("{} messages at the limit ({runs} of them runs), as many over it", MESSAGES / 10)
}

/// Descriptors that nobody has asked for: none of them stays with the daemon, though the connections stay.
pub(crate) fn descriptors(siege: &Siege, random: &mut Random) -> String {
    let (from, to) = std::io::pipe().unwrap();
    let mut lines = Vec::new();
    let mut passed = 0;
    for number in 0..MESSAGES / 5 {
        let count = [1, 4, 7, MAX_FDS - 1, MAX_FDS, MAX_FDS + 1, 100, MOST_FDS][number % 8];
        let message = match random.below(4) {
            0 => bytes(random, 20),
            1 => ToDaemon::Ask(Question::Status).to_bytes(),
            2 => message(siege.order("true", &[])),
            _ => message(SpawnMessage { targets: vec![0; 63], ..siege.order("cat", &[]) }),
        };
        let line = Line::to(&siege.service);
        if line.send_with(&message, &vec![to.as_fd(); count]).is_ok() {
            passed += count;
        }
        // Its answer stays unread.
        lines.push(line);
    }
    drop(to);
    let timeout = Timespec::try_from(LIMIT).unwrap();
    let hung_up = poll(&mut [PollFd::new(&from, PollFlags::empty())], Some(&timeout)).unwrap();
    assert_eq!(hung_up, 1, "a descriptor stays with the daemon");
    siege.others_are_served();
    format!("{passed} descriptors for nothing")
}

/// Tickets that are none, and descriptors of odd kinds.
pub(crate) fn strange_tickets(siege: &Siege, random: &mut Random) -> String {
    use rustix::fs::{Mode, OFlags};
    let fifo = siege.service.folder().join(format!("ticket-{:x}", random.next()));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let fifo = rustix::fs::open(&fifo, OFlags::RDWR, Mode::empty()).unwrap();
    let (empty, _to) = std::io::pipe().unwrap();
    let spent = rustix::event::eventfd(0, EventfdFlags::empty()).unwrap();
    let folder = rustix::fs::open("/", OFlags::RDONLY, Mode::empty()).unwrap();
    let path = rustix::fs::open("/bin/true", OFlags::PATH, Mode::empty()).unwrap();
    let other = Line::to(&siege.service);
    let strange = [fifo.as_fd(), empty.as_fd(), spent.as_fd(), folder.as_fd(), path.as_fd(), other.as_fd()];
    let order = message(siege.order("true", &[]));
    let given = Given::new();
    let [null, ..] = given.all();
    for _ in 0..MESSAGES / 50 {
        for ticket in strange {
            let last = answered(siege, &order, &[null, null, null, ticket]);
            assert!(matches!(last, None | Some(ToClient::Declined { .. })), "{last:?}");
        }
        for odd in strange {
            let given = Given::new();
            let last = answered(siege, &order, &[odd, odd, odd, given.all()[3]]);
            let is_right = match &last {
                Some(ToClient::Ended { status }) => *status == 0,
                Some(ToClient::Declined { .. }) | None => true,
                Some(_) => false,
            };
            assert!(is_right, "{last:?}");
        }
    }
    assert!(matches!(answered(siege, &order, &[null, null, null]), None | Some(ToClient::Declined { .. })));
    assert!(matches!(answered(siege, &order, &[]), None | Some(ToClient::Declined { .. })));
    format!("{} strange tickets and files", 2 * strange.len() * (MESSAGES / 50))
}
