//! `regrow memory`: a service that programs share, and what is told of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use regrow_memory::{DomainError, Mode, RemoteClient};
use rustix::process::{Pid, Signal, kill_process};

fn regrow(words: &[&str], socket: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
    command.arg("memory").args(words).arg(socket).output().expect("the command starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("it is text")
}

#[test]
fn programs_share_a_service_and_anybody_of_the_user_sees_what_it_holds() {
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("memory.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
    command.args(["memory", "serve", "--mib", "64", "--zones", "2"]).arg(&socket).stdout(Stdio::piped());
    let mut served = command.spawn().expect("the command starts");
    let mut said = String::new();
    BufReader::new(served.stdout.take().expect("a pipe")).read_line(&mut said).expect("it says a line");
    assert_eq!(said, format!("{}: 64 MiB in 2 zones\n", socket.display()));

    let mut clients = [(); 2].map(|()| RemoteClient::connect(&socket).expect("it serves"));
    let mut block = clients[0].alloc(512, Mode::Immediate).expect("memory");
    block.fill(7);
    let told = text(&regrow(&["status"], &socket));
    assert!(told.contains("clients in other processes: 2, with 2.0 MiB"), "{told}");
    assert!(told.contains("zone 0     ") && told.contains('█'), "{told}");
    let json = text(&regrow(&["status", "--json"], &socket));
    assert!(json.contains("\"lent_pages\": 512") && json.contains("\"clients\": 2"), "{json}");
    let metrics = text(&regrow(&["status", "--metrics"], &socket));
    assert!(metrics.contains("regrow_memory_lent_pages 512"), "{metrics}");

    let pid = Pid::from_raw(i32::try_from(served.id()).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::TERM).expect("it is ours");
    assert_eq!(served.wait().expect("it ends").code(), Some(0));
    assert!(block.iter().all(|&byte| byte == 7), "a client keeps what it has");
    assert!(!socket.exists());
    assert!(matches!(RemoteClient::connect(&socket), Err(DomainError::Socket { .. })));
    let refused = regrow(&["status"], &socket);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && why.contains(&*socket.to_string_lossy()), "{why}");
}
