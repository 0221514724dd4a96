//! A domain of real processes: they are killed and stopped at random moments under load, and strangers say what they like.
//!
//! The other processes are this test, executed once more for [`another_process`] alone.

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use regrow_memory::message::{Line, Pages, Request};
use regrow_memory::request::Want;
use regrow_memory::{
    Backing, Domain, DomainError, HandError, Mode, PAGE_BYTES, RemoteBlock, RemoteClient, Service,
    ServiceError, ServiceOptions,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

const PATH: &str = "REGROW_DOMAIN_TEST_PATH";
const SEED: &str = "REGROW_DOMAIN_TEST_SEED";
const KILLS: u64 = 200;
/// A process that does not end by then hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Small numbers, the same for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A folder for the socket, the service and its domain.
struct Scene {
    domain: Domain,
    service: Service,
    _folder: tempfile::TempDir,
}

fn scene(chunks: u32, zones: usize) -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let options =
        ServiceOptions { chunks, zones, grow_by: 1, backing: Backing::Memfd, ..ServiceOptions::default() };
    let service = Service::new(&options).expect("a range");
    let domain = Domain::open(&service, &folder.path().join("memory")).expect("a new path");
    Scene { domain, service, _folder: folder }
}

impl Scene {
    fn process(&self, seed: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "another_process", "--ignored", "--nocapture"]);
        command.env(PATH, self.domain.path()).env(SEED, seed.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts")
    }

    fn client(&self) -> RemoteClient {
        RemoteClient::connect(self.domain.path()).expect("there is room")
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Scene) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < LIMIT, "{what}: {:?}", self.domain.state());
            sleep(Duration::from_millis(1));
        }
    }

    fn used_pages(&self) -> u64 {
        self.service.zones().iter().map(|zone| zone.own_pages - zone.free_pages).sum()
    }

    /// Everybody has ended: everything is back.
    fn check_all_is_back(&self) {
        self.wait_until("clients end", |scene| scene.domain.state().clients == 0);
        assert_eq!((self.domain.state().lent_pages, self.used_pages()), (0, 0));
        assert_eq!((self.domain.state().not_taken, self.domain.state().cut_off), (0, 0));
        // No list is wrong: all of it can be had, and is zero.
        let mut client = self.service.client();
        let mut all = Vec::new();
        let pages: u64 = self.service.zones().iter().map(|zone| zone.own_pages).sum();
        while let Ok(block) = client.alloc(1, Mode::Delayed) {
            assert!(block.iter().all(|&byte| byte == 0), "somebody else's bytes");
            all.push(block);
        }
        assert!(all.len() as u64 >= pages);
    }
}

/// Writes to each page of a block whose it is.
fn stamp(block: &mut [u8], owner: u64, number: u64) {
    for page in block.chunks_exact_mut(PAGE_BYTES) {
        page[..8].copy_from_slice(&owner.to_ne_bytes());
        page[8..16].copy_from_slice(&number.to_ne_bytes());
        page[PAGE_BYTES - 8..].copy_from_slice(&owner.to_ne_bytes());
    }
}

fn word(page: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(page[at..at + 8].try_into().expect("8 bytes"))
}

/// Checks that a block has the stamp that it was given.
fn check(block: &[u8], owner: u64, number: u64) {
    for page in block.chunks_exact(PAGE_BYTES) {
        let found = (word(page, 0), word(page, 8), word(page, PAGE_BYTES - 8));
        assert_eq!(found, (owner, number, owner), "somebody else has written there");
    }
}

/// Checks that a block has no bytes of others: each page is zero, or was this one's.
fn check_unseen(block: &[u8], owner: u64) {
    for page in block.chunks_exact(PAGE_BYTES) {
        let found = (word(page, 0), word(page, PAGE_BYTES - 8));
        assert!(found == (0, 0) || found == (owner, owner), "bytes of {found:?} before {owner}");
    }
}

/// What a process does: asks for blocks, writes to them, hands some to others, takes what comes, gives back.
struct Load {
    client: RemoteClient,
    owner: u64,
    dice: Dice,
    blocks: Vec<(RemoteBlock, u64)>,
    number: u64,
}

impl Load {
    fn new(client: RemoteClient, seed: u64) -> Load {
        let owner = client.peer().to_bits();
        Load { client, owner, dice: Dice(seed | 1), blocks: Vec::new(), number: 0 }
    }

    fn step(&mut self) {
        match self.dice.below(10) {
            0..5 if self.blocks.len() < 20 => self.alloc(),
            5..7 if !self.blocks.is_empty() => self.hand_over(),
            7 => self.receive(),
            _ if !self.blocks.is_empty() => {
                let (block, number) = self.pick();
                check(&block, self.owner, number);
                if self.dice.below(2) == 0 { self.client.free(block) } else { drop(block) }
            }
            _ => {}
        }
    }

    fn pick(&mut self) -> (RemoteBlock, u64) {
        let at = self.dice.below(self.blocks.len() as u64);
        self.blocks.swap_remove(usize::try_from(at).expect("few"))
    }

    fn alloc(&mut self) {
        let pages = if self.dice.below(40) == 0 { self.dice.below(600) + 1 } else { self.dice.below(8) + 1 };
        let mode = if self.dice.below(2) == 0 { Mode::Immediate } else { Mode::Delayed };
        let mut got = Vec::new();
        let done = match self.dice.below(4) {
            0 => self.client.alloc_zeroed(pages, mode).map(|block| {
                assert!(block.iter().all(|&byte| byte == 0), "it is zero");
                got.push(block);
            }),
            1 if pages < 8 => self.client.alloc_many(15, pages, mode, &mut got),
            _ => self.client.alloc(pages, mode).map(|block| got.push(block)),
        };
        match done {
            Ok(()) => {}
            Err(DomainError::Refused(ServiceError::NoMemory { .. })) => self.client.trim(),
            Err(error) => panic!("{error}"),
        }
        for mut block in got {
            check_unseen(&block, self.owner);
            self.number += 1;
            stamp(&mut block, self.owner, self.number);
            self.blocks.push((block, self.number));
        }
    }

    fn hand_over(&mut self) {
        let peers = self.client.peers();
        let at = self.dice.below(peers.len().max(1) as u64);
        let Some(&peer) = peers.get(usize::try_from(at).expect("few")) else { return };
        let (block, number) = self.pick();
        check(&block, self.owner, number);
        match block.send_to(peer) {
            Ok(()) | Err(HandError::Gone { block: None, .. }) => {}
            Err(HandError::Gone { block: Some(block), .. } | HandError::Full { block: Some(block), .. }) => {
                check(&block, self.owner, number);
                self.blocks.push((*block, number));
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn receive(&mut self) {
        let Some(mut block) = self.client.receive(Some(Duration::ZERO)).expect("a ticket") else { return };
        let giver = word(&block, 0);
        check(&block, giver, word(&block, 8));
        assert_ne!(giver, 0, "the giver has written to it");
        self.number += 1;
        stamp(&mut block, self.owner, self.number);
        self.blocks.push((block, self.number));
    }
}

#[test]
#[ignore = "the other tests start it"]
fn another_process() {
    let path = PathBuf::from(std::env::var_os(PATH).expect("the other tests say where"));
    let seed: u64 = std::env::var(SEED).expect("the other tests say it").parse().expect("a number");
    let mut load = Load::new(RemoteClient::connect(&path).expect("there is room"), seed);
    let mut steps = 0u64;
    while !has_input_ended() {
        (0..50).for_each(|_| load.step());
        steps += 50;
    }
    assert!(steps > 0);
}

fn has_input_ended() -> bool {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("its input");
    !fds[0].revents().is_empty()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a process");
    kill_process(pid, signal).expect("it is there until it is waited for");
}

/// Ends a process that goes on, which must have found nothing wrong.
fn end(mut child: Child) {
    drop(child.stdin.take());
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
}

fn kill(mut child: Child) {
    signal(&child, Signal::KILL);
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "it found something wrong before: {status}");
}

#[test]
fn processes_that_are_killed_under_load_give_all_back_and_others_go_on() {
    let scene = scene(24, 2);
    let mut dice = Dice(0x5eed);
    let survivors = [scene.process(1), scene.process(2)];
    let mut own = Load::new(scene.client(), 3);
    let mut local = scene.service.client();
    let mut victims: Vec<Child> = Vec::new();
    for kill_number in 0..KILLS {
        victims.push(scene.process(100 + kill_number));
        for _ in 0..dice.below(60) {
            own.step();
            if let Ok(mut block) = local.alloc(2, Mode::Immediate) {
                check_unseen(&block, 7);
                stamp(&mut block, 7, 7);
                drop(block);
            }
        }
        sleep(Duration::from_micros(dice.below(12_000)));
        if victims.len() > 3 {
            let at = usize::try_from(dice.below(victims.len() as u64)).expect("few");
            kill(victims.swap_remove(at));
        }
    }
    victims.into_iter().for_each(kill);
    survivors.into_iter().for_each(end);
    (0..100).for_each(|_| own.step());
    drop((own, local));
    assert!(scene.domain.state().collected > 0, "some were killed when they had something");
    scene.check_all_is_back();
}

#[test]
fn a_process_that_is_stopped_holds_nobody_up() {
    let scene = scene(24, 1);
    let mut stopped: Vec<Child> = (0..4).map(|seed| scene.process(seed + 50)).collect();
    scene.wait_until("processes work", |scene| scene.domain.state().lent_pages > 100);
    let mut own = Load::new(scene.client(), 9);
    for child in &stopped {
        signal(child, Signal::STOP);
        (0..300).for_each(|_| own.step());
    }
    let first = stopped.remove(0);
    stopped.into_iter().for_each(kill);
    signal(&first, Signal::CONT);
    (0..300).for_each(|_| own.step());
    end(first);
    drop(own);
    scene.check_all_is_back();
}

/// Connects as no library does: the lane's file, and the socket that keeps the connection.
fn stranger(path: &Path) -> (std::fs::File, rustix::fd::OwnedFd) {
    use rustix::net;
    let family = net::AddressFamily::UNIX;
    let socket = net::socket(family, net::SocketType::SEQPACKET, None).expect("a socket");
    net::connect(&socket, &net::SocketAddrUnix::new(path).expect("a path")).expect("a domain");
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = net::RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 64];
    let mut slices = [std::io::IoSliceMut::new(&mut bytes)];
    net::recvmsg(&socket, &mut slices, &mut control, net::RecvFlags::empty()).expect("its hello");
    let mut files = Vec::new();
    for message in control.drain() {
        if let net::RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    (files.pop().expect("the lane comes last").into(), socket)
}

/// Where a lane has what a client writes: how many lines it has sent, and the lines.
const SENT: u64 = 0;
const LINES: u64 = 128;

fn say(lane: &std::fs::File, sent: u32, lines: &[Line]) {
    for (at, line) in (0..16).zip(lines) {
        let bytes: Vec<u8> = line.iter().flat_map(|word| word.to_ne_bytes()).collect();
        lane.write_all_at(&bytes, LINES + at * 64).expect("the lane is there");
    }
    lane.write_all_at(&sent.to_ne_bytes(), SENT).expect("the lane is there");
}

#[test]
fn whatever_strangers_write_into_their_lanes_no_list_is_wrong() {
    let scene = scene(24, 2);
    let processes = [scene.process(31), scene.process(32)];
    let mut own = Load::new(scene.client(), 33);
    let mut dice = Dice(77);
    for round in 0..300 {
        let (lane, socket) = stranger(scene.domain.path());
        let lines: Vec<Line> = (0..16)
            .map(|_| match round % 3 {
                0 => std::array::from_fn(|_| dice.below(u64::MAX)),
                1 => {
                    let mut pages = Pages::default();
                    (0..14).for_each(|_| {
                        _ = pages.push(u32::try_from(dice.below(24 * 512 + 9)).expect("small"));
                    });
                    Request::Return { tag: 1, pages }.write()
                }
                _ => {
                    let order = u8::try_from(dice.below(19)).expect("small");
                    let want = Want { order, owner: 3, mapped: false, zeroed: false };
                    Request::Ask { tag: 2, count: 20, want }.write()
                }
            })
            .collect();
        // Also positions that cannot be.
        let sent = if round % 7 == 0 { 1 << 20 } else { 16 };
        say(&lane, sent, &lines);
        if round % 3 == 0 {
            // All of the lane, the answers and the bell as well.
            let noise: Vec<u8> = (0..1216).map(|_| dice.below(256).to_le_bytes()[0]).collect();
            lane.write_all_at(&noise, 1152).expect("the lane is there");
        }
        // Nobody has rung for it: the porter looks because of others.
        (0..10).for_each(|_| own.step());
        drop(socket);
    }
    scene.wait_until("strangers have gone", |scene| scene.domain.state().clients == 3);
    processes.into_iter().for_each(end);
    drop(own);
    scene.wait_until("clients end", |scene| scene.domain.state().clients == 0);
    let state = scene.domain.state();
    assert!(state.cut_off > 0 && state.last_forged.is_some() && state.not_taken > 0, "{state:?}");
    assert_eq!((state.lent_pages, scene.used_pages()), (0, 0));
}
