//! Attacks on a domain from outside: on its name, its descriptors, its limits, and by copies of its clients.

#![allow(unsafe_code, reason = "a test forks")]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use regrow_memory::{
    Backing, Domain, DomainError, Mode, RemoteClient, Service, ServiceError, ServiceOptions,
};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What does not happen by then does not happen.
const LIMIT: Duration = Duration::from_secs(30);
/// The clients that a domain has room for.
const MOST: usize = 256;
/// The services that want one name. Three are enough that exchange names at once; of so many there are three.
const WANTED_BY: usize = 12;
/// Those who come nevertheless.
const TOO_MANY: usize = 300;

/// One test at a time: descriptors and limits are the whole process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn service() -> Service {
    let options = ServiceOptions {
        chunks: 4,
        zones: 1,
        grow_by: 1,
        backing: Backing::Memfd,
        ..ServiceOptions::default()
    };
    Service::new(&options).expect("a range")
}

/// The connection of somebody who says nothing.
fn knock(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    connect(&socket, &SocketAddrUnix::new(path).expect("a short path")).expect("somebody listens");
    socket
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("a list").count()
}

fn is_in_use(opened: &Result<Domain, DomainError>) -> bool {
    let number = rustix::io::Errno::ADDRINUSE.raw_os_error();
    matches!(opened, Err(DomainError::Socket { source, .. }) if source.raw_os_error() == Some(number))
}

#[test]
fn what_is_no_socket_is_never_replaced() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "somebody's work").expect("room");
    fs::create_dir(at("folder")).expect("room");
    symlink(at("file"), at("link")).expect("room");
    symlink(at("nowhere"), at("dangling")).expect("room");
    for name in ["file", "folder", "link", "dangling"] {
        let opened = Domain::open(&service(), &at(name));
        assert!(is_in_use(&opened), "{name}: {opened:?}");
        assert!(opened.expect_err("refused").to_string().contains(name));
    }
    assert_eq!(fs::read_to_string(at("file")).expect("it is there"), "somebody's work");
    assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 4, "nothing is left behind");
}

#[test]
fn of_services_that_want_a_deserted_name_one_has_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memory");
    for _ in 0..50 {
        // As a process leaves it that is killed.
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("a socket");
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).expect("a short path")).expect("a new name");
        drop(socket);
        let start = Barrier::new(WANTED_BY);
        let opened: Vec<_> = thread::scope(|scope| {
            let open = || {
                let service = service();
                start.wait();
                Domain::open(&service, &path)
            };
            let threads: Vec<_> = (0..WANTED_BY).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        assert!(opened.iter().all(|one| one.is_ok() || is_in_use(one)), "{opened:?}");
        assert_eq!(opened.iter().filter(|one| one.is_ok()).count(), 1, "{opened:?}");
        assert!(RemoteClient::connect(&path).is_ok(), "it is the one that listens");
        drop(opened);
        assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 0, "nothing is left behind");
    }
}

#[test]
fn of_services_whose_calls_take_long_one_has_a_deserted_name() -> io::Result<()> {
    // Whoever is followed stops at each call: what happens between two of them takes long enough that it meets what others do.
    let mut followed = Command::new("strace");
    followed.args(["-f", "-o", "/dev/null", "-e", "trace=renameat2,linkat,connect,unlink"]);
    by_itself("of_services_that_want_a_deserted_name_one_has_it", followed)
}

#[test]
fn a_domain_that_ends_leaves_its_successor_the_name() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memory");
    let first = Domain::open(&service(), &path).expect("a new name");
    fs::remove_file(&path).expect("it is there");
    let _second = Domain::open(&service(), &path).expect("a new name again");
    drop(first);
    assert!(RemoteClient::connect(&path).is_ok());
}

#[test]
fn clients_that_are_refused_take_no_descriptors() {
    let _alone = alone();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard one");
    let folder = tempfile::tempdir().expect("a folder");
    let domain = Domain::open(&service(), &folder.path().join("memory")).expect("a new name");
    let let_in: Vec<_> = (0..MOST).map(|_| knock(domain.path())).collect();
    wait_until("all are let in", || domain.state().clients == MOST as u64);
    let before = descriptors();
    let refused: Vec<_> = (0..TOO_MANY).map(|_| knock(domain.path())).collect();
    wait_until("the domain closes its side", || descriptors() == before + TOO_MANY);
    // Each is told why, and that it is over.
    for socket in &refused {
        let mut bytes = [0; 64];
        assert_eq!(recv(socket, &mut bytes, RecvFlags::empty()).expect("a message").0, 48);
        assert_eq!(recv(socket, &mut bytes, RecvFlags::empty()).expect("an end").0, 0);
    }
    let error = RemoteClient::connect(domain.path()).expect_err("there is no room");
    assert!(matches!(error, DomainError::Full { most: MOST }), "{error:?}");
    drop(let_in);
    wait_until("all have gone", || domain.state().clients == 0);
    assert!(RemoteClient::connect(domain.path()).is_ok());
    setrlimit(Resource::Nofile, limit).expect("down again");
}

#[test]
fn a_folder_that_others_have_locked_is_an_error_and_costs_no_name() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memory");
    let first = Domain::open(&service(), &path).expect("a new name");
    let lock = fs::File::open(folder.path()).expect("it can be read");
    flock(&lock, FlockOperation::LockExclusive).expect("nobody has it");
    let refused = Domain::open(&service(), &path).expect_err("it is locked");
    let number = rustix::io::Errno::WOULDBLOCK.raw_os_error();
    assert!(
        matches!(&refused, DomainError::Socket { source, .. } if source.raw_os_error() == Some(number)),
        "{refused:?}"
    );
    assert!(RemoteClient::connect(&path).is_ok(), "who is there goes on");
    drop(first);
    assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 1, "its file alone stays");
    drop(lock);
    let second = Domain::open(&service(), &path).expect("the name is deserted");
    assert!(RemoteClient::connect(&path).is_ok());
    drop(second);
    assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 0, "nothing is left behind");
}

/// Executes one of these tests in a process of its own.
fn by_itself(name: &str, mut before: Command) -> io::Result<()> {
    before.arg(std::env::current_exe()?).args(["--exact", name, "--include-ignored"]);
    let output = before.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{:?} {text}", output.status);
    Ok(())
}

#[test]
fn who_is_short_of_descriptors_says_so_and_the_domain_goes_on() -> io::Result<()> {
    // The keeper of a service that has ended gives its descriptors back a little later: there is none in this one.
    by_itself("under_a_limit_for_descriptors", Command::new("env"))
}

#[test]
#[ignore = "it is executed by a test"]
fn under_a_limit_for_descriptors() {
    let folder = tempfile::tempdir().expect("a folder");
    let domain = Domain::open(&service(), &folder.path().join("memory")).expect("a new name");
    let (before, limit) = (descriptors(), getrlimit(Resource::Nofile));
    // The client's socket, the domain's, the client's lane, and what the client is sent: three files.
    for left in 2..=6 {
        wait_until("the client before is gone", || descriptors() == before);
        let free: Vec<_> = (0..left).map(|_| fs::File::open("/dev/null").expect("room")).collect();
        let last = free.iter().map(AsRawFd::as_raw_fd).max().expect("some");
        drop(free);
        let current = Some(u64::try_from(last).expect("a number") + 1);
        setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("lower");
        let answer = RemoteClient::connect(domain.path());
        setrlimit(Resource::Nofile, limit).expect("as before");
        let number = rustix::io::Errno::MFILE.raw_os_error();
        let as_expected = match &answer {
            Err(DomainError::Short { source }) => left == 2 && source.raw_os_error() == Some(number),
            Err(DomainError::OutOfDescriptors) => (3..6).contains(&left),
            Ok(_) => left == 6,
            Err(_) => false,
        };
        assert!(as_expected, "{left}: {:?}", answer.err());
        assert!(RemoteClient::connect(domain.path()).is_ok(), "{left}");
    }
}

#[test]
fn a_forked_copy_gives_nothing_back() -> io::Result<()> {
    let _alone = alone();
    let folder = tempfile::tempdir()?;
    let domain = Domain::open(&service(), &folder.path().join("memory")).expect("a new name");
    let mut client = RemoteClient::connect(domain.path()).expect("there is room");
    let mut block = Some(client.alloc(4, Mode::Immediate).expect("memory"));
    assert_eq!(domain.state().lent_pages, 4);
    let mut command = Command::new("/bin/true");
    // SAFETY: what the copy drops allocates nothing, and takes no lock.
    unsafe {
        command.pre_exec(move || {
            drop(block.take());
            Ok(())
        });
    }
    assert!(command.status()?.success());
    // What comes behind it in the lane is carried out after it.
    drop(client.alloc(1, Mode::Immediate).expect("memory"));
    wait_until("the second block is back", || domain.state().lent_pages <= 4);
    assert_eq!(domain.state().lent_pages, 4);
    drop(command);
    wait_until("the first block is back", || domain.state().lent_pages == 0);
    assert_eq!(domain.state().not_taken, 0);
    Ok(())
}

#[test]
fn a_limit_for_files_is_an_error_and_no_signal() -> io::Result<()> {
    let mut limited = Command::new("prlimit");
    limited.arg("--fsize=1048576");
    by_itself("under_a_limit_for_files", limited)
}

#[test]
#[ignore = "it is executed by a test"]
fn under_a_limit_for_files() {
    let options = ServiceOptions { chunks: 4, backing: Backing::Memfd, ..ServiceOptions::default() };
    let error = Service::new(&options).expect_err("a file that is too large");
    let number = rustix::io::Errno::FBIG.raw_os_error();
    assert!(
        matches!(&error, ServiceError::System { source, .. } if source.raw_os_error() == Some(number)),
        "{error:?}"
    );
}
