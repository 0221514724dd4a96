//! The control area's protocol, played by both sides in one process.

use std::os::fd::AsFd;
use std::thread;

use regrow_abi::CONTROL_BYTES;

use super::*;

/// A control area as a body has it, and the page as the agent sees it.
fn area() -> (ControlArea, Arc<SharedMapping>) {
    let fd = raw::memfd("regrow-test", CONTROL_BYTES as u64).expect("a memfd");
    let area = ControlArea::new(SharedMapping::new(fd.as_fd(), CONTROL_BYTES).expect("memory"));
    let agent = Arc::new(SharedMapping::new(fd.as_fd(), CONTROL_BYTES).expect("memory"));
    (area, agent)
}

fn control(agent: &SharedMapping) -> &Control {
    // SAFETY: the mapping has `CONTROL_BYTES` bytes, in which every bit pattern is a valid `Control`.
    unsafe { &*agent.as_ptr().cast::<Control>() }
}

#[test]
fn only_an_armed_process_is_taken_and_only_once() {
    let (area, agent) = area();
    for state in [State::Starting, State::Arming, State::Running, State::Resetting, State::Broken] {
        control(&agent).state.store(state as u32, SeqCst);
        assert!(!area.take(), "{state:?}");
        assert_eq!(area.state(), Some(state));
    }
    control(&agent).state.store(State::Armed as u32, SeqCst);
    assert!(area.take());
    assert_eq!(area.state(), Some(State::Taken));
    assert!(!area.take());
}

#[test]
fn of_many_who_take_one_gets_it() {
    let (area, agent) = area();
    control(&agent).state.store(State::Armed as u32, SeqCst);
    let taken = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| area.take())).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).filter(|&taken| taken).count()
    });
    assert_eq!(taken, 1);
}

#[test]
fn a_state_changes_only_from_what_is_expected() {
    let (area, agent) = area();
    control(&agent).state.store(State::Clean as u32, SeqCst);
    assert!(!area.swap(State::Armed, State::Arming));
    assert_eq!(area.state(), Some(State::Clean));
    assert!(area.swap(State::Clean, State::Arming));
    assert_eq!(area.state(), Some(State::Arming));
}

#[test]
fn a_word_that_is_no_state_is_told_as_none() {
    let (area, agent) = area();
    control(&agent).state.store(4711, SeqCst);
    assert_eq!(area.state(), None);
    assert_eq!(area.wait_until(Duration::ZERO, |state| state.is_some()), None);
}

#[test]
fn waiting_ends_with_the_state_or_with_the_time() {
    let (area, agent) = area();
    assert_eq!(area.wait_until(Duration::ZERO, |_| false), Some(State::Starting));
    control(&agent).state.store(State::Armed as u32, SeqCst);
    let is_armed = |state| state == Some(State::Armed);
    assert_eq!(area.wait_until(Duration::from_secs(60), is_armed), Some(State::Armed));
}

#[test]
fn who_waits_is_woken_by_the_other_side() {
    let (area, agent) = area();
    let waker = thread::spawn(move || {
        let control = control(&agent);
        // As the agent does: it wakes only whom it knows to sleep.
        while control.waiters.load(SeqCst) == 0 {
            thread::yield_now();
        }
        control.state.store(State::Armed as u32, SeqCst);
        if control.waiters.swap(0, SeqCst) != 0 {
            raw::futex_wake(&control.state);
        }
    });
    let state = area.wait_until(Duration::from_secs(60), |state| state == Some(State::Armed));
    assert_eq!(state, Some(State::Armed));
    waker.join().expect("it ends");
}

#[test]
fn a_ring_raises_the_bell_and_a_run_is_over_when_it_is_said_to_be() {
    let (area, agent) = area();
    let (ours, _theirs) = regrow_sys::raw::agent_socket().expect("a socket");
    let line = Arc::new(Line::new(ours));
    let bell = area.bell(&line, RunOf { serial: 3, ..RunOf::default() });
    bell.ring();
    bell.clone().ring();
    assert_eq!(control(&agent).bell.load(SeqCst), 2);
    assert!(!line.is_over(3));
    bell.run_is_over();
    assert!(line.is_over(3) && !line.is_over(4) && !line.has_left());
    let own = rustix::process::getpgrp().as_raw_pid();
    area.bell(&line, RunOf { serial: 4, group: own, ..RunOf::default() }).run_is_over();
    assert!(line.is_over(4) && line.has_left(), "this process is in the group");
}

#[test]
fn what_a_run_writes_to_the_control_area_is_no_refusal() {
    let (area, agent) = area();
    let (ours, theirs) = regrow_sys::raw::agent_socket().expect("a socket");
    let line = Arc::new(Line::new(ours));
    let bell = area.bell(&line, RunOf { serial: 1, ..RunOf::default() });
    for byte in [0, 1, 10, 42, 0xff] {
        // SAFETY: the page is mapped to be written; any bytes are a control area.
        unsafe { std::ptr::write_bytes(agent.as_ptr(), byte, 96) };
        assert!(!bell.was_refused(regrow_abi::REFUSED_STATUS));
        assert_eq!(line.waits(), None);
    }
    let refused = regrow_abi::Report::Refused { serial: 1, step: regrow_abi::Refused::Nice, errno: 1 };
    let bytes: Vec<u8> = refused.to_words().into_iter().flat_map(u32::to_ne_bytes).collect();
    rustix::net::send(&theirs, &bytes, rustix::net::SendFlags::empty()).expect("sent");
    assert!(!bell.was_refused(0), "a refusal ends otherwise");
    assert!(bell.was_refused(regrow_abi::REFUSED_STATUS));
}

#[test]
fn a_reason_of_no_number_is_none() {
    let (area, agent) = area();
    control(&agent).broken.store(4711, SeqCst);
    assert_eq!(area.broken(), None);
    control(&agent).broken.store(Broken::Died as u32, SeqCst);
    assert_eq!(area.broken(), Some((Broken::Died, 0)));
}

#[test]
fn what_a_run_has_set_is_set_again_with_the_next_order() {
    let (area, agent) = area();
    area.set_sessions(true);
    let control = control(&agent);
    control.sessions.store(0, SeqCst);
    control.fault.store(5, SeqCst);
    control.command.store(command::BREAK_UP, SeqCst);
    area.write_settings();
    let words = [&control.sessions, &control.fault, &control.command];
    assert_eq!(words.map(|word| word.load(SeqCst)), [1, 0, command::NONE]);
}

#[test]
fn arguments_are_written_where_the_agent_finds_them_or_refused() {
    let (area, agent) = area();
    assert!(area.write_args(3, b"words"));
    // SAFETY: the arg area lies in the mapping.
    let found = unsafe { std::slice::from_raw_parts(agent.as_ptr().add(ARG_AREA_OFFSET), 10) };
    assert_eq!(found, b"\0\0\0words\0\0");
    assert!(area.write_args(ARG_AREA_BYTES - 1, b"x"));
    assert!(!area.write_args(ARG_AREA_BYTES, b"x"));
    assert!(!area.write_args(usize::MAX, b"x"));
    assert!(!area.write_args(0, &vec![0; ARG_AREA_BYTES + 1]));
}

#[test]
fn settings_are_seen_by_the_agent() {
    let (area, agent) = area();
    area.set_verify(true);
    area.set_sessions(true);
    area.set_fault(regrow_abi::fault::ARMED_DIES);
    area.set_command(regrow_abi::command::TRIM);
    let control = control(&agent);
    let words = [&control.verify, &control.sessions, &control.command, &control.fault];
    assert_eq!(words.map(|word| word.load(SeqCst)), [1, 1, regrow_abi::command::TRIM, 4]);
}

#[test]
fn the_name_of_a_task_is_the_last_part_of_its_path_in_fifteen_bytes() {
    assert_eq!(&comm(b"/usr/bin/env"), b"env\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(&comm(b"a-very-long-name-of-a-program"), b"a-very-long-nam\0");
    assert_eq!(comm(b"/"), [0; 16]);
}
