//! Another version of the protocol, another user, a sandbox on one side, and something at the socket that is no daemon.

use std::io::{BufRead, BufReader, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use regrow_daemon::wire::{MAX_MESSAGE, ToClient, ToDaemon, VERSION};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, sendmsg,
};

use crate::service::{Said, Service, text};

/// A user without rights.
const NOBODY: u32 = 65534;
/// Where the version stands in a message.
const VERSION_AT: usize = 4;

/// Enters a Landlock domain, which forbids nothing but to make character devices, and executes its arguments there. With the status 77
/// where the kernel has no Landlock, or this user may not. It needs no `no_new_privs` of root, so that nothing else tells the domain.
const IN_LANDLOCK: &str = "
    my $rules = pack('Q', 1 << 6);
    my $domain = syscall(444, $rules, length $rules, 0);
    $domain >= 0 && syscall(446, $domain, 0) == 0 or exit 77;
    exec @ARGV or die;
";
/// How `IN_LANDLOCK` says that there is none.
const NO_LANDLOCK: i32 = 77;

fn socket() -> OwnedFd {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn connected(service: &Service) -> OwnedFd {
    let socket = socket();
    rustix::net::connect(&socket, &SocketAddrUnix::new(service.place().socket()).unwrap()).unwrap();
    socket
}

fn send(socket: &OwnedFd, bytes: &[u8]) {
    let mut none = rustix::net::SendAncillaryBuffer::default();
    sendmsg(socket, &[IoSlice::new(bytes)], &mut none, SendFlags::NOSIGNAL).unwrap();
}

fn receive(socket: &OwnedFd) -> Vec<u8> {
    let mut buffer = vec![0; MAX_MESSAGE];
    let (got, _) = recv(socket.as_fd(), buffer.as_mut_slice(), RecvFlags::empty()).unwrap();
    buffer.truncate(got);
    buffer
}

#[test]
fn a_client_of_another_version_is_told_both_versions() {
    let service = Service::start();
    let socket = connected(&service);
    let mut message = ToDaemon::Stop.to_bytes();
    let other = VERSION + 1;
    message[VERSION_AT..VERSION_AT + 2].copy_from_slice(&other.to_le_bytes());
    send(&socket, &message);
    let ToClient::Failed { text: why } = ToClient::from_bytes(&receive(&socket)).unwrap() else {
        panic!("it is refused")
    };
    let why = text(&why);
    assert!(
        why.contains(&format!("version {other}")) && why.contains(&format!("version {VERSION}")),
        "{why}"
    );
    assert_eq!(receive(&socket), b"", "the connection is closed");
    service.warm(&["true"]);
}

/// A daemon of another version, in a thread of this test.
#[test]
fn a_command_that_finds_a_daemon_of_another_version_executes_the_program() {
    let service = Service::empty();
    let listener = socket();
    rustix::net::bind(&listener, &SocketAddrUnix::new(service.place().socket()).unwrap()).unwrap();
    rustix::net::listen(&listener, 4).unwrap();
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let client = rustix::net::accept(&listener).unwrap();
            assert!(!receive(&client).is_empty());
            let mut answer = ToClient::Done.to_bytes();
            answer[VERSION_AT..VERSION_AT + 2].copy_from_slice(&(VERSION + 7).to_le_bytes());
            send(&client, &answer);
        }
    });
    let output =
        service.regrow().args(["--log", "info", "run", "sh", "-c", "echo right; exit 3"]).output().unwrap();
    let said = Said::read(&output.stderr);
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("right\n", Some(3)));
    assert!(said.why.unwrap_or_default().contains(&format!("version {}", VERSION + 7)));
    let stop = service.regrow().arg("stop").output().unwrap();
    assert!(!stop.status.success());
    assert!(text(&stop.stderr).contains(&format!("version {}", VERSION + 7)), "{}", text(&stop.stderr));
    answers.join().unwrap();
}

/// Nobody listens, or somebody who speaks of something else.
#[test]
fn what_stands_at_the_socket_and_is_no_daemon_does_not_stop_a_command() {
    let service = Service::empty();
    let right = |service: &Service| {
        let output = service.regrow().args(["run", "sh", "-c", "echo right; exit 3"]).output().unwrap();
        assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("right\n", Some(3)));
        assert_eq!(text(&output.stderr), "");
    };
    let path = service.place().socket();
    std::fs::write(&path, "a file").unwrap();
    right(&service);
    crate::service::eventually("a daemon in the file's place", || {
        regrow_daemon::client::Client::connect(&service.place()).is_ok()
    });
    assert!(service.regrow().arg("stop").status().unwrap().success());
    let answers: [&[u8]; 3] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"RGRW"];
    for answer in answers {
        let listener = socket();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 4).unwrap();
        let answers = std::thread::spawn(move || {
            let client = rustix::net::accept(&listener).unwrap();
            receive(&client);
            if !answer.is_empty() {
                send(&client, answer);
            }
        });
        right(&service);
        answers.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

/// Needs root, who can be somebody else.
#[test]
fn a_client_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: it needs root");
        return;
    }
    let service = Service::start();
    // As if the folder's owner had been careless.
    std::fs::set_permissions(service.folder(), std::fs::Permissions::from_mode(0o711)).unwrap();
    std::fs::set_permissions(service.place().socket(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let message = ToDaemon::Stop.to_bytes();
    let message: String = message.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    let program = format!(
        "use Socket; socket(S, AF_UNIX, SOCK_SEQPACKET, 0) or die; connect(S, sockaddr_un($ARGV[0])) or die \"$!\"; \
         send(S, \"{message}\", MSG_NOSIGNAL); my $all = ''; while (1) {{ my $part = ''; \
         defined recv(S, $part, 65536, 0) or last; last if $part eq ''; $all .= $part }} print $all"
    );
    let mut command = std::process::Command::new("perl");
    command.args(["-e", &program]).arg(service.place().socket()).uid(NOBODY).gid(NOBODY).current_dir("/");
    let output = command.output().unwrap();
    let ToClient::Failed { text: why } = ToClient::from_bytes(&output.stdout).unwrap() else {
        panic!("it is refused: {output:?}")
    };
    assert!(text(&why).contains("another user"), "{}", text(&why));
    // What it has asked for is not done.
    service.warm(&["true"]);
    // Nor does a command of that user take part: it executes the program itself, and starts no daemon there.
    let own = service.folder().join("regrow");
    regrow_testkit::program::copy(env!("CARGO_BIN_EXE_regrow").as_ref(), &own).unwrap();
    let mut command = std::process::Command::new(&own);
    command
        .args(["--log", "info", "run", "--no-tty", "sh", "-c", "id -u; exit 3"])
        .env("XDG_RUNTIME_DIR", service.folder());
    let output = command.uid(NOBODY).gid(NOBODY).current_dir("/").output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("65534\n", Some(3)), "{output:?}");
    assert!(Said::read(&output.stderr).why.unwrap_or_default().contains("another user's"));
}

/// `regrow` in a Landlock domain of its own.
fn in_landlock(service: &Service) -> Command {
    let mut command = service.plain("perl");
    command.args(["-e", IN_LANDLOCK, env!("CARGO_BIN_EXE_regrow")]);
    command
}

/// Whether this user can enter a Landlock domain and have everything else as before. It needs root, and Landlock.
fn has_landlock() -> bool {
    let status = Command::new("perl").args(["-e", IN_LANDLOCK, "true"]).status().unwrap();
    assert!(matches!(status.code(), Some(0 | NO_LANDLOCK)), "{status}");
    status.success() || {
        println!("left out: it needs root, and Landlock");
        false
    }
}

/// Runs a program with such a command, which must execute it itself, because of what the kernel says of it.
fn is_declined(mut command: Command) {
    let output = command.args(["--log", "info", "run", "sh", "-c", "echo right; exit 3"]).output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("right\n", Some(3)), "{output:?}");
    let why = Said::read(&output.stderr).why.unwrap_or_default();
    assert!(why.contains("caller_changed") && why.contains("sandbox"), "{why}");
}

#[test]
fn a_client_in_a_sandbox_that_the_daemon_is_not_in_executes_its_program_itself() {
    if !has_landlock() {
        return;
    }
    let service = Service::start();
    service.warm(&["sh", "-c", "echo right; exit 3"]);
    for _ in 0..3 {
        is_declined(in_landlock(&service));
    }
    // Nor may it tell the daemon what to do.
    let mut stop = in_landlock(&service);
    let stop = stop.arg("stop").output().unwrap();
    assert!(!stop.status.success() && text(&stop.stderr).contains("security domain"), "{stop:?}");
    service.warm(&["sh", "-c", "echo right; exit 3"]);
}

#[test]
fn a_daemon_in_a_sandbox_serves_who_is_in_it_and_nobody_else() {
    if !has_landlock() {
        return;
    }
    let service = Service::empty();
    // Daemon and commands are in one domain. The commands go on until one of them is recycled.
    let script = "
        \"$0\" daemon --idle 120 & daemon=$!
        until \"$0\" --log info run true 2>&1 | grep -q 'how=.*recycled'; do sleep 0.01; done
        echo recycled; wait $daemon
    ";
    let mut domain = service.plain("perl");
    domain.args(["-e", IN_LANDLOCK, "sh", "-c", script, env!("CARGO_BIN_EXE_regrow")]);
    let mut domain = domain.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(domain.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "recycled\n");
    for _ in 0..3 {
        is_declined(service.regrow());
    }
    let daemon = rustix::process::Pid::from_raw(service.daemon()).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::TERM).unwrap();
    assert!(domain.wait().unwrap().success());
}

#[test]
fn a_client_with_other_rights_than_the_daemon_executes_its_program_itself() {
    let service = Service::start();
    service.warm(&["sh", "-c", "echo right; exit 3"]);
    let mut command = service.plain("setpriv");
    command.args(["--no-new-privs", env!("CARGO_BIN_EXE_regrow")]);
    is_declined(command);
}
