//! Deliberate bugs, which the sanitizers find: so it is proved that they look at the blocks (`make sanitize`). Without a sanitizer there is nothing here.
//!
//! Each bug is a test of its own that this file starts as another process, which has to end with a report.

#![cfg(any(address_sanitizer, thread_sanitizer))]
#![allow(unsafe_code, reason = "bugs are made by address")]

use std::process::Command;

use regrow_memory::{Backing, Block, Client, Domain, Mode, RemoteClient, Service, ServiceOptions};

const PAGE: usize = regrow_memory::PAGE_BYTES;

/// An address that threads share, as a bug does.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: what is done with it is wrong, and is to be found.
unsafe impl Send for Address {}

impl Address {
    fn of(block: &mut Block) -> Address {
        Address(block.as_mut_ptr())
    }

    fn write(self) {
        // SAFETY: where the caller does not have the block alone, this is the bug.
        unsafe { self.0.write_volatile(1) };
    }

    fn read(self) -> u8 {
        // SAFETY: as above.
        unsafe { self.0.read_volatile() }
    }
}

fn service(backing: Backing) -> Service {
    let options = ServiceOptions { chunks: 2, zones: 1, backing, ..ServiceOptions::default() };
    Service::new(&options).expect("a range")
}

fn client() -> Client {
    service(Backing::Anonymous).client()
}

/// What a process says that runs a test of this file alone; whether it ended well.
fn said_by(test: &str) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    let ended = command.output().expect("it starts");
    (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

fn found(test: &str, report: &str) {
    let (is_well, said) = said_by(test);
    assert!(!is_well && said.contains(report), "{test} is not found:\n{said}");
}

#[test]
fn what_is_right_is_not_reported() {
    let (is_well, said) = said_by("right_use");
    assert!(is_well && !said.contains("Sanitizer"), "{said}");
}

#[test]
#[ignore = "another test starts it"]
fn right_use() {
    let mut client = client();
    for _ in 0..3 {
        let mut block = client.alloc(2, Mode::Immediate).expect("memory");
        let (first, last) = (Address::of(&mut block), Address(&raw mut block[2 * PAGE - 1]));
        std::thread::spawn(move || first.write()).join().expect("it does not panic");
        last.write();
        assert_eq!((first.read(), last.read()), (1, 1));
        client.free(block);
    }
}

#[cfg(address_sanitizer)]
mod by_address {
    use super::*;

    const REPORT: &str = "AddressSanitizer: use-after-poison";

    #[test]
    fn a_use_of_a_block_after_its_return_is_found_wherever_it_has_gone() {
        ["after_free", "after_drop", "after_free_by_address", "after_trim", "after_handing_over"]
            .into_iter()
            .for_each(|bug| found(&format!("by_address::{bug}"), REPORT));
    }

    #[test]
    fn a_use_of_a_byte_beyond_a_block_or_before_it_is_found() {
        ["a_byte_beyond", "a_byte_before"]
            .into_iter()
            .for_each(|bug| found(&format!("by_address::{bug}"), REPORT));
    }

    #[test]
    #[ignore = "another test starts it"]
    fn after_free() {
        let mut client = client();
        let mut block = client.alloc(1, Mode::Immediate).expect("memory");
        let address = Address::of(&mut block);
        client.free(block);
        address.write();
    }

    #[test]
    #[ignore = "another test starts it"]
    fn after_drop() {
        let mut client = client();
        let mut block = client.alloc(4, Mode::Delayed).expect("memory");
        let address = Address(&raw mut block[4 * PAGE - 1]);
        drop(block);
        address.read();
    }

    #[test]
    #[ignore = "another test starts it"]
    fn after_trim() {
        let mut client = client();
        let mut block = client.alloc(512, Mode::Immediate).expect("memory");
        let address = Address::of(&mut block);
        client.free(block);
        client.trim();
        address.write();
    }

    #[test]
    #[ignore = "another test starts it"]
    fn after_free_by_address() {
        let service = service(Backing::Anonymous);
        let client = service.raw_client();
        let address = client.alloc(3, Mode::Immediate, false).expect("memory").as_ptr();
        client.free(address).expect("a block");
        Address(address).write();
    }

    #[test]
    #[ignore = "another test starts it"]
    fn after_handing_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let domain =
            Domain::open(&service(Backing::Memfd), &folder.path().join("memory")).expect("a new path");
        let [mut giver, receiver] =
            [0, 1].map(|_| RemoteClient::connect(domain.path()).expect("there is room"));
        let mut block = giver.alloc(1, Mode::Immediate).expect("memory");
        let address = Address(block.as_mut_ptr());
        address.write();
        block.hand_to(receiver.peer()).expect("it is there");
        address.write();
    }

    #[test]
    #[ignore = "another test starts it"]
    fn a_byte_beyond() {
        let mut block = client().alloc(8, Mode::Immediate).expect("memory");
        let address = Address(block.as_mut_ptr().wrapping_add(8 * PAGE));
        address.write();
    }

    #[test]
    #[ignore = "another test starts it"]
    fn a_byte_before() {
        let service = service(Backing::Anonymous);
        let mut client = service.client();
        let first = client.alloc(1, Mode::Immediate).expect("memory");
        let mut second = client.alloc(1, Mode::Immediate).expect("memory");
        let before = Address(second.as_mut_ptr().wrapping_sub(1));
        drop(first);
        before.read();
    }
}

#[cfg(thread_sanitizer)]
mod by_thread {
    use super::*;

    #[test]
    fn two_that_write_to_a_block_at_the_same_time_are_found() {
        found("by_thread::two_writers", "ThreadSanitizer: data race");
        found("by_thread::a_writer_after_the_return", "ThreadSanitizer: data race");
    }

    #[test]
    #[ignore = "another test starts it"]
    fn two_writers() {
        let mut block = client().alloc(1, Mode::Immediate).expect("memory");
        let address = Address::of(&mut block);
        let other = std::thread::spawn(move || address.write());
        address.write();
        other.join().expect("it does not panic");
    }

    /// One thread writes to a block that it has given back, another one has it then.
    #[test]
    #[ignore = "another test starts it"]
    fn a_writer_after_the_return() {
        let service = service(Backing::Anonymous);
        let [mut one, mut other] = [service.client(), service.client()];
        let mut block = one.alloc(1, Mode::Immediate).expect("memory");
        let address = Address::of(&mut block);
        drop(block);
        let late = std::thread::spawn(move || address.write());
        let mut block = other.alloc(1, Mode::Immediate).expect("memory");
        assert_eq!(Address::of(&mut block).0, address.0, "it is hot");
        block.fill(2);
        late.join().expect("it does not panic");
        std::hint::black_box(&block);
    }
}
