//! The domain within one process: what other processes do to it, said by hand.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::*;
use crate::error::MessageError;
use crate::message::{Line, Pages, Request};
use crate::range::Backing;
use crate::request::{Mode, Want};
use crate::ring::Sender;
use crate::service::{Service, ServiceOptions};
use crate::shared::entry::Entry;
use crate::shared::inbox::Note;
use crate::shared::layout;
use crate::{PAGE_BYTES, ServiceError};

/// A service with a domain.
struct Scene {
    domain: Domain,
    service: Service,
}

fn scene(chunks: u32, zones: usize) -> Scene {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let options =
        ServiceOptions { chunks, zones, grow_by: 1, backing: Backing::Memfd, ..ServiceOptions::default() };
    let service = Service::new(&options).expect("a range");
    let name = format!("regrow-domain-{}-{number}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    Scene { domain: Domain::open(&service, &path).expect("a new path"), service }
}

impl Scene {
    fn client(&self) -> RemoteClient {
        RemoteClient::connect(self.domain.path()).expect("there is room")
    }

    /// Waits until something holds; each test has a limit.
    fn wait_until(&self, holds: impl Fn(DomainState) -> bool) {
        while !holds(self.domain.state()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn used_pages(&self) -> u64 {
        self.service.zones().iter().map(|zone| zone.own_pages - zone.free_pages).sum()
    }
}

/// Writes a line into the lane of a client, as no library does.
fn say(client: &RemoteClient, sender: &mut Sender, line: &Line) {
    let lane = &client.connection().lane;
    assert!(sender.push(&lane.requests, line), "there is room");
    sender.publish(&lane.requests);
    client.connection().shared.head().bell.insist(0);
}

#[test]
fn blocks_of_other_processes_come_and_go_home() {
    let scene = scene(4, 2);
    let [mut one, mut other] = [scene.client(), scene.client()];
    assert_eq!(one.peers(), [one.peer(), other.peer()]);
    let mut block = one.alloc(3, Mode::Immediate).expect("room");
    assert_eq!((block.len(), block.order()), (4 * PAGE_BYTES, 2));
    assert!(block.iter().all(|&byte| byte == 0));
    block.fill(7);
    let mut many = Vec::new();
    other.alloc_many(100, 1, Mode::Delayed, &mut many).expect("room");
    assert!(many.iter().all(|block| block.iter().all(|&byte| byte == 0)));
    many.iter_mut().for_each(|block| block.fill(8));
    assert!(block.iter().all(|&byte| byte == 7), "it is its client's alone");
    assert_eq!(scene.domain.state().lent_pages, 104);
    one.free(block);
    let again = one.alloc(4, Mode::Immediate).expect("room");
    assert!(again.iter().all(|&byte| byte == 7), "the client has kept it");
    drop(again);
    drop(many.split_off(50));
    other.free_many(many);
    one.trim();
    scene.wait_until(|state| state.lent_pages == 0);
    assert_eq!(scene.used_pages(), 0);
    assert!(matches!(
        one.alloc(1 << 40, Mode::Delayed),
        Err(DomainError::Refused(ServiceError::TooLarge { .. }))
    ));
    let mut all = Vec::new();
    let more = one.alloc_many(5000, 1, Mode::Delayed, &mut all);
    assert!(matches!(more, Err(DomainError::Refused(ServiceError::NoMemory { .. }))));
    assert_eq!(all.len(), 4 * 512, "the zone has grown by all there is, also by what the other one had");
    assert!(matches!(
        other.alloc(1, Mode::Delayed),
        Err(DomainError::Refused(ServiceError::NoMemory { .. }))
    ));
    drop(one);
    drop(all);
    scene.wait_until(|state| state.clients == 1);
    assert_eq!((scene.used_pages(), scene.domain.state().not_taken), (0, 0));
}

#[test]
fn a_block_is_handed_over_once_and_its_ticket_is_good_for_one() {
    let scene = scene(4, 1);
    let [mut giver, mut receiver, mut third] = [scene.client(), scene.client(), scene.client()];
    let mut block = giver.alloc(256, Mode::Immediate).expect("room");
    block.fill(1);
    let at = block.as_ptr().addr();
    let ticket = block.hand_to(receiver.peer()).expect("it is there");
    let ticket = Ticket::from_bytes(ticket.to_bytes());
    let number = ticket.receiver;
    let refused = |client: &mut RemoteClient, ticket: &Ticket| match client.accept(ticket) {
        Err(DomainError::Ticket(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut third, &ticket), TicketError::NotForThis { receiver: number });
    let mut forged = ticket.to_bytes();
    forged[0] ^= 1;
    assert_eq!(refused(&mut receiver, &Ticket::from_bytes(forged)), TicketError::Forged);
    let key = receiver.connection().key;
    let of_page = |page, order| Ticket::new(key, page, number, ticket.generation, order);
    assert_eq!(refused(&mut receiver, &of_page(9, 8)), TicketError::Used { page: 9 });
    assert_eq!(refused(&mut receiver, &of_page(ticket.page, 9)), TicketError::Used { page: ticket.page });
    assert_eq!(refused(&mut receiver, &of_page(1 << 30, 0)), TicketError::Forged);
    let block = receiver.accept(&ticket).expect("it is for this one");
    assert!(
        block.iter().all(|&byte| byte == 1) && block.as_ptr().addr() != at,
        "another mapping of the same"
    );
    assert_eq!(refused(&mut receiver, &ticket), TicketError::Used { page: ticket.page });
    // The next ticket for the same page is another one.
    block.send_to(giver.peer()).expect("it is there");
    let block = giver.receive(None).expect("a ticket").expect("it has come");
    assert_eq!(
        (block.as_ptr().addr(), giver.receive(Some(Duration::ZERO)).expect("nothing").is_none()),
        (at, true)
    );
    block.send_to(receiver.peer()).expect("it is there");
    assert_eq!(refused(&mut receiver, &ticket), TicketError::Used { page: ticket.page });
    drop(receiver.receive(None).expect("a ticket").expect("it has come"));
    scene.wait_until(|state| state.lent_pages == 0);
    // The zone gave it to the giver, and the receiver may have written to it.
    let again = giver.alloc(256, Mode::Immediate).expect("room");
    assert!(again.as_ptr().addr() == at && again.iter().all(|&byte| byte == 0));
}

#[test]
fn what_was_handed_to_a_client_that_ends_comes_back() {
    let scene = scene(4, 1);
    let [mut giver, receiver] = [scene.client(), scene.client()];
    let peer = receiver.peer();
    let block = giver.alloc(16, Mode::Immediate).expect("room");
    block.hand_to(peer).expect("it is there");
    drop(receiver);
    scene.wait_until(|state| state.clients == 1 && state.lent_pages == 0);
    assert_eq!((scene.domain.state().collected, scene.used_pages()), (1, 0));
    let mut block = giver.alloc(1, Mode::Immediate).expect("room");
    block.fill(3);
    let next = scene.client();
    assert_eq!(next.peer().to_bits() >> 32, peer.to_bits() >> 32, "it has the desk of the one that ended");
    let Err(HandError::Gone { block: Some(block), .. }) = block.hand_to(peer) else {
        panic!("nobody is there")
    };
    assert!(block.iter().all(|&byte| byte == 3));
    // A giver that ends after handing over takes nothing with it.
    let mut receiver = next;
    block.send_to(receiver.peer()).expect("it is there");
    drop(giver);
    scene.wait_until(|state| state.clients == 1);
    let block = receiver.receive(None).expect("a ticket").expect("it has come");
    assert!(block.iter().all(|&byte| byte == 3));
    let nobody = Peer::from_bits(u64::from(receiver.peer().desk) << 32);
    let gone =
        [nobody, Peer { desk: 9999, number: 1 }].into_iter().try_fold(*Box::new(block), |block, peer| {
            match block.hand_to(peer) {
                Err(HandError::Gone { block: Some(block), .. }) => Ok(*block),
                other => Err(other),
            }
        });
    assert!(gone.expect("each time the block is there").iter().all(|&byte| byte == 3));
}

#[test]
fn a_full_inbox_gives_the_block_back_and_what_is_no_ticket_is_passed_over() {
    let scene = scene(4, 1);
    let [mut giver, mut receiver] = [scene.client(), scene.client()];
    let mut blocks = Vec::new();
    giver.alloc_many(65, 1, Mode::Delayed, &mut blocks).expect("room");
    let last = blocks.pop().expect("there are 65");
    for block in blocks {
        block.send_to(receiver.peer()).expect("there is room");
    }
    let Err(HandError::Full { block: Some(last), .. }) = last.send_to(receiver.peer()) else {
        panic!("it is full")
    };
    for _ in 0..64 {
        drop(receiver.receive(None).expect("a ticket").expect("it has come"));
    }
    last.send_to(receiver.peer()).expect("there is room");
    assert!(receiver.receive(None).expect("a ticket").is_some());
    let connection = std::sync::Arc::clone(receiver.connection());
    let desk = connection.desk(receiver.peer()).expect("its desk");
    assert!(desk.inbox.put(Note { page: 77, generation: 3, order: 1 }));
    assert!(
        receiver.receive(Some(Duration::ZERO)).expect("the domain is there").is_none(),
        "it is passed over"
    );
    assert!(desk.inbox.put(Note { page: u32::MAX, generation: 3, order: 127 }));
    let mut next = Vec::new();
    giver.alloc_many(1, 1, Mode::Delayed, &mut next).expect("room");
    next.pop().expect("it has come").send_to(receiver.peer()).expect("there is room");
    assert!(receiver.receive(None).expect("a ticket").is_some(), "what comes behind it");
}

#[test]
fn a_line_that_is_no_message_cuts_its_client_off_and_nobody_else() {
    let scene = scene(4, 1);
    let [mut forger, mut other] = [scene.client(), scene.client()];
    let mut block = forger.alloc(8, Mode::Immediate).expect("room");
    block.fill(9);
    // The library has sent one request: it goes on behind it.
    let mut sender = Sender::default();
    assert!(sender.push(&forger.connection().lane.requests, &Line::default()));
    say(&forger, &mut sender, &[13, 0, 0, 0, 0, 0, 0, 0]);
    scene.wait_until(|state| state.cut_off == 1);
    assert_eq!(scene.domain.state().last_forged, Some(MessageError::Kind { kind: 13 }));
    assert!(matches!(forger.alloc(1, Mode::Delayed), Err(DomainError::CutOff)));
    assert!(other.alloc(1, Mode::Delayed).expect("others go on").iter().all(|&byte| byte == 0));
    assert_eq!(block[0], 9, "what it has stays with it until it ends");
    drop((block, forger));
    scene.wait_until(|state| state.clients == 1);
    let block = other.alloc(8, Mode::Immediate).expect("room");
    assert!(block.iter().all(|&byte| byte == 0));
}

#[test]
fn what_is_not_the_client_s_is_not_taken_back() {
    let scene = scene(4, 1);
    let [mut forger, mut other, third] = [scene.client(), scene.client(), scene.client()];
    let mut blocks = Vec::new();
    other.alloc_many(3, 1, Mode::Delayed, &mut blocks).expect("room");
    let page = blocks[0].page();
    let handed = blocks.pop().expect("there are 3").hand_to(third.peer()).expect("it is there");
    let local = scene.service.client().alloc(1, Mode::Delayed).expect("room");
    let mut pages = Pages::default();
    let wrong = [page, page + 1, handed.page, local.page(), 2047, 2048, u32::MAX];
    wrong.into_iter().for_each(|page| _ = pages.push(page));
    let mut sender = Sender::default();
    say(&forger, &mut sender, &Request::Return { tag: 5, pages }.write());
    scene.wait_until(|state| state.not_taken == 7);
    // Nor is what the forger makes its own in the entries: the books do not have it.
    let connection = std::sync::Arc::clone(forger.connection());
    let mut own = Pages::default();
    own.push(local.page());
    Entry::grant(connection.shared.entry(local.page()).expect("a page"), forger.peer().number, 0);
    say(&forger, &mut sender, &Request::Return { tag: 6, pages: own }.write());
    scene.wait_until(|state| state.not_taken == 8);
    assert_eq!(scene.domain.state().cut_off, 0);
    assert!(forger.receive(Some(Duration::ZERO)).expect("nothing").is_none());
    assert_eq!(scene.used_pages(), 4);
    drop(blocks);
    scene.wait_until(|state| state.lent_pages == 1);
    drop((third, local));
    scene.wait_until(|state| state.lent_pages == 0);
    assert_eq!(scene.used_pages(), 0);
}

#[test]
fn an_entry_that_somebody_has_spoiled_costs_its_block_alone() {
    let scene = scene(4, 1);
    let [mut one, mut other] = [scene.client(), scene.client()];
    let block = one.alloc(2, Mode::Delayed).expect("room");
    let page = block.page();
    Entry::grant(other.connection().shared.entry(page).expect("a page"), 4_000_000, 18);
    let Err(HandError::NotOwn { page: refused }) = block.hand_to(other.peer()) else {
        panic!("it is not its own")
    };
    assert_eq!(refused, page);
    let block = one.alloc(2, Mode::Delayed).expect("room");
    Entry::grant(other.connection().shared.entry(block.page()).expect("a page"), 4_000_000, 18);
    drop(block);
    scene.wait_until(|state| state.not_taken == 1);
    assert!(other.alloc(1, Mode::Delayed).is_ok() && one.alloc(1, Mode::Delayed).is_ok());
    assert_eq!(one.not_taken(), 1);
    drop(one);
    scene.wait_until(|state| state.clients == 1);
    drop(other);
    scene.wait_until(|state| state.clients == 0);
    assert_eq!((scene.used_pages(), scene.domain.state().lent_pages), (0, 0), "nobody has it who is there");
}

#[test]
fn a_client_that_takes_no_answers_holds_nobody_up() {
    let scene = scene(8, 1);
    let [mut silent, mut other] = [scene.client(), scene.client()];
    let want = Want { order: 0, owner: 0, mapped: false, zeroed: false };
    let lane = &silent.connection().lane;
    let mut sender = Sender::default();
    let ask = Request::Ask { tag: 9, count: 56, want }.write();
    let fills = |sender: &mut Sender| {
        while sender.push(&lane.requests, &ask) {}
        sender.publish(&lane.requests);
        silent.connection().shared.head().bell.insist(0);
    };
    (0..20).for_each(|_| {
        fills(&mut sender);
        drop(other.alloc(4, Mode::Immediate).expect("others go on"));
    });
    // The answer to one has 5 lines, and there is to be room for one more.
    scene.wait_until(|state| state.lent_pages == 3 * 56);
    let _ = silent.receive(Some(Duration::ZERO)).expect("nothing is there");
    drop(silent);
    scene.wait_until(|state| state.clients == 1 && state.lent_pages == 0);
    assert_eq!(scene.used_pages(), 0);
}

#[test]
fn a_domain_that_has_ended_says_so_and_its_socket_is_replaced() {
    let scene = scene(2, 1);
    let path = scene.domain.path().to_owned();
    let again = Domain::open(&scene.service, &path);
    assert!(matches!(again, Err(DomainError::Socket { .. })), "somebody listens there");
    let mode = std::os::unix::fs::MetadataExt::mode(&path.metadata().expect("its file"));
    assert_eq!(mode & 0o777, 0o600);
    let mut client = scene.client();
    let block = client.alloc(1, Mode::Immediate).expect("room");
    let Scene { domain, service } = scene;
    drop(domain);
    assert!(!path.exists());
    assert!(matches!(client.alloc(2, Mode::Immediate), Err(DomainError::Gone)));
    assert!(matches!(client.receive(None), Err(DomainError::Gone)));
    assert!(matches!(RemoteClient::connect(&path), Err(DomainError::Socket { .. })));
    drop(block);
    // A socket that nobody listens at is what a killed process leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("the path is free"));
    assert!(path.exists());
    let domain = Domain::open(&service, &path).expect("nobody listens there");
    RemoteClient::connect(domain.path()).expect("there is room");
    let alone =
        Service::new(&ServiceOptions { chunks: 1, zones: 1, ..ServiceOptions::default() }).expect("a range");
    assert!(matches!(Domain::open(&alone, &path), Err(DomainError::NotShared)));
}

#[test]
fn a_domain_has_room_for_so_many_clients() {
    let scene = scene(2, 1);
    let mut clients: Vec<_> = (0..layout::DESKS).map(|_| scene.client()).collect();
    let more = RemoteClient::connect(scene.domain.path());
    assert!(matches!(more, Err(DomainError::Full { most: layout::DESKS })));
    let last = clients.pop().expect("there are many");
    assert_eq!(
        last.connection().desk(last.peer()).map(|desk| desk.presence.number()),
        Some(last.peer().number)
    );
    drop(last);
    scene.wait_until(|state| state.clients == 255);
    scene.client().alloc(1, Mode::Delayed).expect("there is room again");
}

#[test]
fn who_asks_how_a_domain_is_counts_neither_itself_nor_who_has_asked_before() {
    let scene = scene(2, 1);
    let clients = [(); 2].map(|()| scene.client());
    for time in 0..500 {
        let told = DomainStatus::ask(scene.domain.path()).expect("it is there");
        assert_eq!(told.clients, clients.len() as u64, "time {time}");
    }
}
