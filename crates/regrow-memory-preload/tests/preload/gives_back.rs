//! What a program needs no more goes back to the kernel, looked at from outside; and the program sees nothing of who gives it back:
//! `tests/keeper.c`.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use rustix::fs::Mode;

use crate::harness::{Place, compile, resident_kib, threads_of, wait_until};

const HOUR: [(&str, &str); 2] = [("REGROW_MEMORY_T1_MS", "3600000"), ("REGROW_MEMORY_T2_MS", "3600000")];
const AT_ONCE: [(&str, &str); 2] = [("REGROW_MEMORY_T1_MS", "30"), ("REGROW_MEMORY_T2_MS", "60")];

/// A part of the program with a keeper that stays, and without the library.
fn both(name: &str) {
    let place = Place::new();
    let program = compile(&place, "keeper.c");
    for with_library in [false, true] {
        let mut command = place.command(program.to_str().expect("plain text"), with_library);
        let output = command.arg(name).envs(HOUR).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}, {with_library}: {}: {said}", output.status);
        assert_eq!(output.stdout, b"all of it holds\n", "{name}, {with_library}");
    }
}

#[test]
fn the_c_library_knows_of_no_second_thread() {
    both("single");
}

#[test]
fn signals_come_to_the_programs_own_thread() {
    both("signals");
}

#[test]
fn no_descriptor_is_taken_or_kept() {
    both("descriptors");
}

#[test]
fn a_copy_of_a_process_is_made_of_one_thread_and_gives_back_too() {
    both("copies");
}

#[test]
fn namespaces_change_as_in_a_process_with_one_thread() {
    both("namespaces");
}

#[test]
fn no_thread_keeps_a_user_that_the_program_gives_up() {
    both("users");
}

#[test]
fn a_program_that_restricts_itself_has_no_thread_from_then_on() {
    both("restricted");
}

#[test]
fn threads_come_and_go_and_the_last_one_ends_the_process() {
    both("others");
}

#[test]
fn a_program_executes_another_one_while_it_gives_back() {
    both("executes");
}

/// Starts a command that frees much and then says so, and waits for that. It ends when its standard input does.
fn freed(place: &Place, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let mut command = place.command(program, true);
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it was asked for"));
    output.read_line(&mut line).expect("it says something");
    assert_eq!(line, "free\n");
    child
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("it is a child").success());
}

/// Its memory falls to so much, and then it has one thread.
fn falls_to(child: &Child, kib: u64) {
    wait_until("what it has freed goes back", || resident_kib(child.id()) < kib);
    wait_until("the keeper ends", || threads_of(child.id()) == 1);
}

#[test]
fn a_program_that_sleeps_has_given_back_what_it_has_freed() {
    let place = Place::new();
    let program = compile(&place, "keeper.c");
    let path = program.to_str().expect("plain text");
    let child = freed(&place, path, &["sleeps"], &AT_ONCE);
    falls_to(&child, 16 << 10);
    end(child);
    // By the periods that stand in the guide.
    let child = freed(&place, path, &["sleeps"], &[]);
    falls_to(&child, 16 << 10);
    end(child);
    let never = [("REGROW_MEMORY_T1_MS", "0"), ("REGROW_MEMORY_T2_MS", "0")];
    let child = freed(&place, path, &["sleeps"], &never);
    assert!(resident_kib(child.id()) > 50 << 10, "it needs what is given back above");
    assert_eq!(threads_of(child.id()), 1);
    end(child);
}

#[test]
fn all_that_is_idle_goes_when_somebody_says_that_memory_is_short() {
    let place = Place::new();
    let program = compile(&place, "keeper.c");
    let pipe = place.path("pressure");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe");
    let named = [HOUR[0], HOUR[1], ("REGROW_MEMORY_PRESSURE", pipe.to_str().expect("plain text"))];
    let child = freed(&place, program.to_str().expect("plain text"), &["sleeps"], &named);
    let full = resident_kib(child.id());
    assert!(full > 50 << 10 && threads_of(child.id()) == 2);
    let mut says = OpenOptions::new().write(true).open(&pipe).expect("the keeper reads it");
    says.write_all(b"short").expect("the keeper reads it");
    wait_until("all of it goes", || resident_kib(child.id()) < 16 << 10);
    end(child);
}

#[test]
fn python_gives_back_what_it_drops() {
    let place = Place::new();
    let drops = "import sys\nblocks = [b'x' * (8000 + n % 9 * 4096) for n in range(4000)]\ndel blocks\n\
                 print('free', flush=True)\nsys.stdin.read()";
    let child = freed(&place, "/usr/bin/python3", &["-c", drops], &AT_ONCE);
    falls_to(&child, 32 << 10);
    end(child);
    assert!(place.counts().of("malloc") >= 4000);
}
