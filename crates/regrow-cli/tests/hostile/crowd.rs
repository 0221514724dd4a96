//! Attacks by how many there are, and by what is left undone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use regrow_daemon::wire::{Question, ToClient, ToDaemon};
use regrow_sys::strings::Strings;
use regrow_testkit::left;

use crate::line::Line;
use crate::messages::{Given, answered, message};
use crate::random::Random;
use crate::service::{LIMIT, eventually, lives};
use crate::siege::Siege;
use crate::{MAX_CLIENTS, MAX_RUNS};

/// Clients that connect and do nothing for as long as the siege goes on.
const IDLE: usize = 300;
/// Connections of the largest attack, and how many of them are there at a time: more than the daemon holds.
const CONNECTIONS: usize = 10_000;
const AT_A_TIME: usize = MAX_CLIENTS + 188;
/// Clients that do not read.
const UNREAD: usize = 10;
/// Orders that such a client gives at most.
const UNREAD_ORDERS: usize = 100;
/// Orders whose client does not wait for the end.
const ABANDONED: usize = 300;
/// Orders with long names.
const LONG_NAMES: usize = 600;
/// Programs that nobody has asked for before.
const PROGRAMS: usize = 900;

/// Connections over which nothing is said.
pub(crate) struct Idle(Vec<Line>);

pub(crate) fn idle(siege: &Siege) -> Idle {
    Idle((0..IDLE).map(|_| Line::to(&siege.service)).collect())
}

impl Idle {
    pub(crate) fn end(self) -> String {
        format!("{} clients that say nothing", self.0.len())
    }
}

/// More connections than the daemon holds: those that have been idle for longest make room.
pub(crate) fn connections(siege: &Siege, _: &mut Random) -> String {
    let mut made = 0;
    let mut closed = 0;
    while made < CONNECTIONS {
        let count = AT_A_TIME.min(CONNECTIONS - made);
        let lines: Vec<Line> = (0..count).map(|_| Line::to(&siege.service)).collect();
        made += count;
        eventually("the latest is served", || {
            lines.last().is_some_and(Line::is_served) || made % AT_A_TIME != 0
        });
        closed += lines.iter().filter(|line| line.has_something(Duration::ZERO)).count();
    }
    assert!(closed >= AT_A_TIME - MAX_CLIENTS, "{closed} of {made} were closed");
    format!("{made} connections, {AT_A_TIME} at a time")
}

/// Clients that ask and do not read the answers: they are left.
pub(crate) fn unread(siege: &Siege, _: &mut Random) -> String {
    let question = ToDaemon::Ask(Question::Status).to_bytes();
    let mut asked = 0;
    for _ in 0..UNREAD {
        let line = Line::to(&siege.service);
        let deadline = Instant::now() + LIMIT;
        loop {
            match line.try_send_with(&question, &[]) {
                Ok(()) => asked += 1,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    assert!(Instant::now() < deadline, "a client that does not read is still there");
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => break,
            }
        }
    }
    format!("{asked} questions of {UNREAD} clients that do not read")
}

/// Clients that have runs started and do not take the descriptors of them.
pub(crate) fn unread_runs(siege: &Siege, _: &mut Random) -> String {
    let order = message(siege.order("true", &[]));
    let mut ordered = 0;
    let mut lines: Vec<Line> = (0..UNREAD).map(|_| Line::to(&siege.service)).collect();
    for _ in 0..UNREAD_ORDERS {
        // An order while a run goes on ends the connection.
        lines.retain(|line| line.try_send_with(&order, &Given::new().all()).is_ok());
        ordered += lines.len();
        std::thread::sleep(Duration::from_millis(10));
    }
    siege.others_are_served();
    format!("{ordered} orders of {UNREAD} clients that do not read")
}

/// The children of the daemon that sleep for so long.
fn sleepers(siege: &Siege, seconds: &str) -> usize {
    let line = format!("sleep\0{seconds}\0").into_bytes();
    let children = left::children(siege.daemon.cast_unsigned()).unwrap();
    let sleeps = |pid: &&String| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == line)
            && lives(pid.parse().unwrap())
    };
    children.iter().filter(sleeps).count()
}

/// Clients that order and leave, at once or a little later. Their runs are killed.
pub(crate) fn orders_and_closes(siege: &Siege, random: &mut Random) -> String {
    for _ in 0..ABANDONED {
        let mut order = siege.order("sleep", &["600"]);
        order.end_only = random.below(2) == 0;
        let line = Line::to(&siege.service);
        if line.send_with(&message(order), &Given::new().all()).is_err() {
            continue;
        }
        match random.below(4) {
            0 => {}
            1 => std::thread::sleep(Duration::from_micros(random.below(500))),
            2 => drop(line.has_something(Duration::from_millis(2))),
            // A second order, which ends the connection.
            _ => drop(line.send_with(&message(siege.order("true", &[])), &Given::new().all())),
        }
    }
    eventually("the end of the runs that nobody waits for", || sleepers(siege, "600") == 0);
    format!("{ABANDONED} clients that order and leave")
}

/// Clients that take all runs that there may be: others execute their programs themselves.
pub(crate) fn all_runs(siege: &Siege, _: &mut Random) -> String {
    let order = message(siege.order("sleep", &["601"]));
    let mut sleeping = Vec::new();
    let mut declined = 0;
    eventually("a run too many", || {
        let line = Line::to(&siege.service);
        if line.send_with(&order, &Given::new().all()).is_err() {
            return false;
        }
        match line.receive() {
            Some(ToClient::Started { .. }) => sleeping.push(line),
            Some(ToClient::Declined { .. }) => declined += 1,
            _ => {}
        }
        declined > 2 * MAX_RUNS || sleeping.len() == MAX_RUNS
    });
    assert!(!sleeping.is_empty(), "none was started, {declined} declined");
    siege.others_are_served();
    let count = sleeping.len();
    drop(sleeping);
    eventually("the end of all runs", || sleepers(siege, "601") == 0);
    format!("{count} runs of {MAX_RUNS} taken")
}

/// An environment with an entry before all others.
fn first(entry: &str, env: &Strings) -> Strings {
    let mut strings = Strings::new();
    strings.push(&[entry.as_bytes()]).unwrap();
    strings.append(env);
    strings
}

/// A new image each time: no more is kept than the limits allow.
pub(crate) fn many_programs(siege: &Siege, random: &mut Random) -> String {
    for number in 0..PROGRAMS {
        let mut order = siege.order("true", &[]);
        let unique = format!("{:x}", random.next());
        match number % 3 {
            0 => order.arg0 = Some(unique.into_bytes()),
            1 => {
                order.program = b"bin/true".to_vec();
                order.directory = format!("/proc/self/root/{}", "./".repeat(number)).into_bytes();
            }
            _ => {
                let path = format!("PATH=/nonexistent/{unique}:/usr/bin:/bin");
                order.env = first(&path, &order.env);
            }
        }
        let last = answered(siege, &message(order), &Given::new().all());
        let is_right = match &last {
            Some(ToClient::Ended { status }) => *status == 0,
            Some(ToClient::Declined { .. }) | None => true,
            Some(_) => false,
        };
        assert!(is_right, "{last:?}");
    }
    siege.others_are_served();
    format!("{PROGRAMS} programs that are new")
}

/// Names of programs as long as a message allows, and search paths of many folders.
pub(crate) fn long_names(siege: &Siege, random: &mut Random) -> String {
    for number in 0..LONG_NAMES {
        let mut order = siege.order("true", &[]);
        let unique = format!("{:x}", random.next());
        match number % 3 {
            0 => order.program = format!("{unique}{}", "x".repeat(90_000)).into_bytes(),
            1 => order.arg0 = Some(format!("{unique}{}", "x".repeat(90_000)).into_bytes()),
            _ => {
                let path = format!("PATH=/{unique}{}:/usr/bin:/bin", ":/usr".repeat(15_000));
                order.env = first(&path, &order.env);
            }
        }
        let last = answered(siege, &message(order), &Given::new().all());
        assert!(matches!(last, None | Some(ToClient::Declined { .. })), "{last:?}");
    }
    siege.others_are_served();
    format!("{LONG_NAMES} long names")
}

/// Makes files that are no ordinary programs.
fn strange_files(folder: &Path) -> Vec<PathBuf> {
    use rustix::fs::{CWD, FileType, Mode};
    fs::create_dir(folder).unwrap();
    let at = |name: &str| folder.join(name);
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    rustix::fs::mknodat(CWD, at("socket"), FileType::Socket, Mode::RWXU, 0).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let program = |name: &str, content: &[u8]| {
        regrow_testkit::program::write(&at(name), content).unwrap();
    };
    program("empty", b"");
    program("itself", format!("#!{}\n", at("itself").display()).as_bytes());
    program("by-fifo", format!("#!{}\n", at("fifo").display()).as_bytes());
    program("huge", b"\x7fELF");
    fs::File::options().write(true).open(at("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut elf = fs::read("/bin/true").unwrap();
    elf.iter_mut().skip(24).step_by(7).for_each(|byte| *byte ^= 0xff);
    program("broken", &elf);
    std::os::unix::fs::symlink(at("circle"), at("circle")).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.extend(
        ["/dev/tty", "/dev/zero", "/proc/self/mem", "/proc/self/fd/3", "/proc/kmsg"].map(PathBuf::from),
    );
    files
}

/// Programs that are no programs, or of which reading does not end.
pub(crate) fn strange_programs(siege: &Siege, random: &mut Random) -> String {
    let files = strange_files(&siege.service.folder().join(format!("strange-{:x}", random.next())));
    for _ in 0..3 {
        for file in &files {
            let order = siege.order(file.to_str().unwrap(), &[]);
            let last = answered(siege, &message(order), &Given::new().all());
            assert!(matches!(last, None | Some(ToClient::Declined { .. })), "{}: {last:?}", file.display());
        }
        siege.others_are_served();
    }
    format!("{} files that are no programs", files.len())
}
