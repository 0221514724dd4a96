//! Chooses what is killed, and kills it.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use regrow_daemon::client::Client;
use regrow_daemon::wire::Question;
use regrow_testkit::left;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::random::Random;
use crate::service::{LIMIT, lives};
use crate::{PAUSE, Storm};

/// How long it is believed what the children of a daemon are.
const FRESH: Duration = Duration::from_millis(100);
/// How long one of a kind is waited for, before another kind is chosen.
const PATIENCE_MS: usize = 50;

/// What can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The daemon.
    Daemon,
    /// What holds a body.
    Keeper,
    /// What holds an image.
    Seed,
    /// A process that waits in a body, or is traced on its way to become an image.
    Waiting,
    /// A run.
    Run,
    /// A command.
    Command,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Daemon => "daemons",
            Self::Keeper => "keepers",
            Self::Seed => "seeds",
            Self::Waiting => "waiting processes",
            Self::Run => "runs",
            Self::Command => "commands",
        })
    }
}

/// Kinds with their weights.
pub(crate) const ALL_BUT_DAEMON: &[(Kind, u64)] =
    &[(Kind::Keeper, 25), (Kind::Seed, 5), (Kind::Waiting, 20), (Kind::Run, 25), (Kind::Command, 25)];
/// The same with the daemon.
pub(crate) const ALL: &[(Kind, u64)] = &[
    (Kind::Daemon, 15),
    (Kind::Keeper, 20),
    (Kind::Seed, 5),
    (Kind::Waiting, 15),
    (Kind::Run, 25),
    (Kind::Command, 20),
];

/// Something that was killed.
#[derive(Debug)]
pub(crate) struct Kill {
    pub(crate) kind: Kind,
    pub(crate) pid: i32,
    /// A little before.
    pub(crate) at: Instant,
}

/// Kills so many, one after the other.
pub(crate) fn kill(storm: &Storm, kills: usize, kinds: &[(Kind, u64)], random: &mut Random) {
    let mut killer = Killer { storm, random, known: None };
    for _ in 0..kills {
        let deadline = Instant::now() + LIMIT;
        let mut kind = choose(kinds, killer.random);
        // One of this kind may be there in a moment.
        while !(0..PATIENCE_MS).any(|_| killer.kill_one(kind)) {
            assert!(Instant::now() < deadline, "there is nothing to be killed");
            kind = choose(kinds, killer.random);
        }
        let pause_us = u64::try_from(2 * PAUSE.as_micros()).unwrap();
        std::thread::sleep(Duration::from_micros(killer.random.below(pause_us)));
    }
}

fn choose(kinds: &[(Kind, u64)], random: &mut Random) -> Kind {
    let mut at = random.below(kinds.iter().map(|(_, weight)| weight).sum());
    for &(kind, weight) in kinds {
        if at < weight {
            return kind;
        }
        at -= weight;
    }
    unreachable!("the number is below the sum")
}

struct Killer<'a> {
    storm: &'a Storm,
    random: &'a mut Random,
    /// The children of the daemon that are no runs, as they were a little while ago.
    known: Option<Known>,
}

struct Known {
    at: Instant,
    daemon: i32,
    children: Vec<(i32, Kind)>,
}

impl Killer<'_> {
    /// Kills one of a kind. A little later false when there is none, or it is gone.
    fn kill_one(&mut self, kind: Kind) -> bool {
        self.try_kill(kind) || {
            std::thread::sleep(Duration::from_millis(1));
            false
        }
    }

    fn try_kill(&mut self, kind: Kind) -> bool {
        if kind == Kind::Command {
            return self.kill_command();
        }
        let Some(mut daemon) = Daemon::find(self.storm) else { return false };
        let victims = match kind {
            Kind::Daemon => vec![daemon.pid],
            Kind::Run => daemon.runs(),
            _ => self.known_of(&mut daemon, kind),
        };
        self.random.one_of(&victims).is_some_and(|&pid| self.kill_process(&daemon, kind, pid))
    }

    fn kill_command(&mut self) -> bool {
        let subjects = self.storm.nursery.subjects();
        self.random.one_of(&subjects).is_some_and(|subject| {
            self.storm.note(Kind::Command, subject.pid());
            subject.kill() || self.storm.forget_note()
        })
    }

    fn kill_process(&self, daemon: &Daemon, kind: Kind, pid: i32) -> bool {
        let Some(pidfd) = open(pid) else { return false };
        // The descriptor is of the process that was looked at, or of one that has ended since.
        let is_still = daemon.pid == pid || Stat::of(pid).is_some_and(|stat| stat.parent == daemon.pid);
        if !is_still || !lives(pid) || !daemon.is_there() {
            return false;
        }
        // Before, so that whoever sees the end of it finds the note.
        self.storm.note(kind, pid);
        rustix::process::pidfd_send_signal(pidfd.as_fd(), Signal::KILL).is_ok() || self.storm.forget_note()
    }

    /// The children of the daemon that are of this kind.
    fn known_of(&mut self, daemon: &mut Daemon, kind: Kind) -> Vec<i32> {
        let is_fresh = |known: &Known| known.daemon == daemon.pid && known.at.elapsed() < FRESH;
        let known = self.known.take().filter(is_fresh).unwrap_or_else(|| daemon.known());
        let known = self.known.insert(known);
        known.children.iter().filter(|child| child.1 == kind).map(|child| child.0).collect()
    }
}

fn open(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// What the kernel tells of a process.
struct Stat {
    parent: i32,
    group: i32,
}

impl Stat {
    fn of(pid: i32) -> Option<Stat> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
        Some(Stat { parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
    }
}

/// The daemon that serves, and a connection to it.
struct Daemon {
    pid: i32,
    client: Client,
}

impl Daemon {
    fn find(storm: &Storm) -> Option<Daemon> {
        let client = Client::connect(&storm.service.place()).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(client.as_fd()).ok()?;
        Some(Daemon { pid: peer.pid.as_raw_nonzero().get(), client })
    }

    /// Whether it has not closed the connection.
    fn is_there(&self) -> bool {
        let timeout = Timespec::default();
        poll(&mut [PollFd::new(&self.client, PollFlags::empty())], Some(&timeout))
            .is_ok_and(|count| count == 0)
    }

    fn children(&self) -> Vec<i32> {
        let children = left::children(self.pid.cast_unsigned()).unwrap_or_default();
        children.iter().filter_map(|pid| pid.parse().ok()).filter(|&pid| lives(pid)).collect()
    }

    /// A run leads a group of its own.
    fn runs(&self) -> Vec<i32> {
        let is_run = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.group == *pid);
        self.children().into_iter().filter(is_run).collect()
    }

    /// What its children are. The process that makes an image shares the daemon's memory: to kill it is to kill the daemon,
    /// so it is left out.
    fn known(&mut self) -> Known {
        let own = fs::read_link(format!("/proc/{}/exe", self.pid)).ok();
        let is_program = |pid| fs::read_link(format!("/proc/{pid}/exe")).ok() != own;
        let (seeds, keepers) = self.holders().unwrap_or_default();
        let runs = self.runs();
        let kind = |pid: i32| {
            if keepers.contains(&pid) {
                Kind::Keeper
            } else if seeds.contains(&pid) {
                Kind::Seed
            } else {
                Kind::Waiting
            }
        };
        let children = self.children().into_iter().filter(|pid| !runs.contains(pid) && is_program(*pid));
        let children = children.map(|pid| (pid, kind(pid))).collect();
        Known { at: Instant::now(), daemon: self.pid, children }
    }

    /// The processes that hold images, and those that hold bodies.
    fn holders(&mut self) -> Option<(HashSet<i32>, HashSet<i32>)> {
        let status = self.client.ask(Question::Status).ok()?;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        let images = status["images"].as_array()?;
        let seeds = images.iter().filter_map(|image| i32::try_from(image["seed"].as_i64()?).ok());
        let keepers = images.iter().filter_map(|image| image["keepers"].as_str());
        let keepers = keepers.flat_map(str::split_whitespace).filter_map(|pid| pid.parse().ok());
        Some((seeds.collect(), keepers.collect()))
    }
}
