//! A simulator: clients that do the same again and again, each on a processor of its own, with the lock of an address space or with servers. No
//! clock, no system call, no chance: the same costs give the same rate.
//!
//! ```text
//!   client ── Run ──────────────> on its processor                                     (an interrupt of another one's `Exclusive` makes it longer)
//!          ── Exclusive ────────> one at a time, in the order in which they come; who follows another one waits for the lock's line to come
//!          ── Fault ────────────> on its processor; where the lock is held, the client sleeps, is woken by who had it, and has the lock as a reader until it is done
//!          ── Ask ──> server ───> one message at a time, in the order in which they come; then the answer
//!          ── Tell ─> server      nothing is waited for but room in the ring
//! ```
//!
//! A server gives the block that came home last, as a zone does: one that another client has had costs the asking one the zeroing.
//!
//! Left out: caches and memory channels that processors share, distances between processors, the host beneath, what the kernel's page allocator
//! does for many at once, and that an interrupt of more processors takes longer. All of it is in favour of Linux but the distances, which are
//! left out for the service's messages as well.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// What a client does next. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// It computes.
    Run(f64),
    /// It changes the address space, under the lock alone.
    Exclusive {
        /// How long it has the lock.
        ns: f64,
        /// How long each other client is interrupted that computes meanwhile.
        interrupts_ns: f64,
    },
    /// It touches a page that is not there.
    Fault(f64),
    /// It asks its server for a block, and waits.
    Ask {
        /// What the server does for it.
        server_ns: f64,
        /// What the client does where the block was another one's.
        zero_ns: f64,
    },
    /// It sends the block home.
    Tell {
        /// What the server does for it.
        server_ns: f64,
    },
}

/// What passes between processors, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Distances {
    /// A message to a server, or an answer.
    pub(super) message_ns: f64,
    /// The lock, from who had it to who waits for it.
    pub(super) handoff_ns: f64,
    /// A client that sleeps is woken, until it runs.
    pub(super) wake_ns: f64,
    /// What of that passes before who wakes it goes on.
    pub(super) waker_ns: f64,
}

/// Messages that a client has under way at most.
const RING: usize = 16;
/// Times that each client does its steps on the mean, before and while it is measured.
const BEFORE: usize = 24;
const MEASURED: usize = 40;

/// How often in a second all clients together do all their steps. Client `c` asks server `c % servers`; without a server nothing is asked.
pub(super) fn rate(distances: &Distances, clients: usize, servers: usize, steps: &[Step]) -> f64 {
    if clients == 0 || steps.is_empty() {
        return 0.0;
    }
    let mut world = World::new(*distances, clients, servers.max(1));
    let (from, to) = (clients * BEFORE, clients * (BEFORE + MEASURED));
    let (mut done, mut began) = (0, 0.0);
    while let Some(Reverse(Event { at, client })) = world.events.pop() {
        if world.is_interrupted(client, at) {
            continue;
        }
        if world.step(client, at, steps) {
            done += 1;
            if done == from {
                began = at;
            }
            if done == to {
                return float(to - from) / (at - began).max(f64::MIN_POSITIVE) * 1e9;
            }
        }
    }
    0.0
}

/// A client has done its step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    at: f64,
    client: usize,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        self.at.total_cmp(&other.at).then(self.client.cmp(&other.client))
    }
}

#[derive(Debug, Clone, Default)]
struct Client {
    next: usize,
    computes: bool,
    /// By how much interrupts make its step longer.
    interrupted_ns: f64,
    /// When each message that is under way will be done.
    told: VecDeque<f64>,
}

#[derive(Debug, Clone, Default)]
struct Server {
    free_at: f64,
    /// Who had the blocks that have come home.
    home: Vec<usize>,
}

#[derive(Debug)]
struct World {
    distances: Distances,
    events: BinaryHeap<Reverse<Event>>,
    clients: Vec<Client>,
    servers: Vec<Server>,
    /// Until when writers have the lock, who is the last of them, and until when readers have it.
    written_until: f64,
    writer: usize,
    read_until: f64,
}

impl World {
    fn new(distances: Distances, clients: usize, servers: usize) -> World {
        World {
            distances,
            events: (0..clients).map(|client| Reverse(Event { at: 0.0, client })).collect(),
            clients: vec![Client::default(); clients],
            servers: vec![Server::default(); servers],
            written_until: 0.0,
            writer: 0,
            read_until: 0.0,
        }
    }

    /// Puts the end of a client's step off by what has interrupted it.
    fn is_interrupted(&mut self, client: usize, at: f64) -> bool {
        let longer = std::mem::take(&mut self.clients[client].interrupted_ns);
        if longer > 0.0 {
            self.events.push(Reverse(Event { at: at + longer, client }));
        }
        longer > 0.0
    }

    /// Begins a client's next step. True where that is its first one again, and it has done something.
    fn step(&mut self, client: usize, at: f64, steps: &[Step]) -> bool {
        let number = self.clients[client].next;
        let is_again = number == steps.len();
        let number = if is_again { 0 } else { number };
        let step = steps[number];
        let end = match step {
            Step::Run(ns) => at + ns,
            Step::Exclusive { ns, interrupts_ns } => self.exclusive(client, at, ns, interrupts_ns),
            Step::Fault(ns) => self.fault(at, ns),
            Step::Ask { server_ns, zero_ns } => self.ask(client, at, server_ns, zero_ns),
            Step::Tell { server_ns } => self.tell(client, at, server_ns),
        };
        let of = &mut self.clients[client];
        of.next = number + 1;
        of.computes = matches!(step, Step::Run(_) | Step::Fault(_));
        self.events.push(Reverse(Event { at: end, client }));
        is_again
    }

    fn exclusive(&mut self, client: usize, at: f64, ns: f64, interrupts_ns: f64) -> f64 {
        let is_others = self.writer != client || self.read_until > at;
        let handoff = if is_others { self.distances.handoff_ns } else { 0.0 };
        let end = at.max(self.written_until).max(self.read_until) + handoff + ns;
        (self.written_until, self.writer) = (end, client);
        for (_, other) in self.clients.iter_mut().enumerate().filter(|&(number, _)| number != client) {
            if other.computes {
                other.interrupted_ns += interrupts_ns;
            }
        }
        end
    }

    fn fault(&mut self, at: f64, ns: f64) -> f64 {
        if self.written_until <= at {
            return at + ns;
        }
        self.clients[self.writer].interrupted_ns += self.distances.waker_ns;
        let end = self.written_until + self.distances.wake_ns + ns;
        self.read_until = self.read_until.max(end);
        end
    }

    fn ask(&mut self, client: usize, at: f64, server_ns: f64, zero_ns: f64) -> f64 {
        let message_ns = self.distances.message_ns;
        let server = self.server_of(client);
        let is_foreign = server.home.pop().is_some_and(|owner| owner != client);
        server.free_at = server.free_at.max(at + message_ns) + server_ns;
        server.free_at + message_ns + if is_foreign { zero_ns } else { 0.0 }
    }

    fn tell(&mut self, client: usize, at: f64, server_ns: f64) -> f64 {
        let of = &mut self.clients[client];
        let room_at = if of.told.len() < RING { at } else { of.told.pop_front().unwrap_or(at).max(at) };
        let message_ns = self.distances.message_ns;
        let server = self.server_of(client);
        server.home.push(client);
        server.free_at = server.free_at.max(room_at + message_ns) + server_ns;
        let done_at = server.free_at;
        self.clients[client].told.push_back(done_at);
        room_at
    }

    fn server_of(&mut self, client: usize) -> &mut Server {
        let number = client % self.servers.len();
        &mut self.servers[number]
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Distances =
        Distances { message_ns: 50.0, handoff_ns: 100.0, wake_ns: 10_000.0, waker_ns: 0.0 };

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} and not {expected}");
    }

    /// A pair by a server, with what the client does meanwhile.
    fn served(server_ns: f64, client_ns: f64) -> [Step; 3] {
        [Step::Ask { server_ns, zero_ns: 0.0 }, Step::Run(client_ns), Step::Tell { server_ns }]
    }

    /// A pair by the kernel.
    fn mapped(faults: usize) -> Vec<Step> {
        let mut steps = vec![Step::Exclusive { ns: 1_500.0, interrupts_ns: 0.0 }];
        steps.extend(vec![Step::Fault(1_000.0); faults]);
        steps.push(Step::Exclusive { ns: 3_000.0, interrupts_ns: 0.0 });
        steps
    }

    #[test]
    fn clients_that_meet_nobody_scale() {
        for clients in [1, 7, 128] {
            close(rate(&NEAR, clients, 0, &[Step::Run(400.0), Step::Run(100.0)]), 2e6 * float(clients));
        }
        assert!(rate(&NEAR, 0, 1, &[Step::Run(1.0)]) == 0.0 && rate(&NEAR, 1, 1, &[]) == 0.0);
    }

    #[test]
    fn one_client_waits_for_its_message_and_the_answer() {
        // The server is still at what went home before: 100. Then 50 + 100 + 50, and 300.
        close(rate(&NEAR, 1, 1, &served(100.0, 300.0)), 1e9 / 600.0);
    }

    #[test]
    fn one_server_saturates_at_one_through_its_service_time_and_more_servers_at_more() {
        let steps = served(100.0, 300.0);
        for clients in [8, 32, 128] {
            close(rate(&NEAR, clients, 1, &steps), 1e9 / 200.0);
        }
        close(rate(&NEAR, 128, 4, &steps), 4e9 / 200.0);
        close(rate(&NEAR, 4, 4, &steps), 4.0 * rate(&NEAR, 1, 1, &steps));
    }

    #[test]
    fn a_full_ring_holds_its_client_back_and_nobody_else() {
        let tell = [Step::Run(10.0), Step::Tell { server_ns: 100.0 }];
        close(rate(&NEAR, 1, 1, &tell), 1e9 / 100.0);
        close(rate(&NEAR, 2, 2, &tell), 2e9 / 100.0);
    }

    #[test]
    fn blocks_of_others_are_zeroed() {
        // Between its free and its next alloc others have their turn.
        let steps = |zero_ns| {
            let (ask, tell) = (Step::Ask { server_ns: 10.0, zero_ns }, Step::Tell { server_ns: 10.0 });
            [ask, Step::Run(1_000.0), tell, Step::Run(700.0)]
        };
        close(rate(&NEAR, 1, 1, &steps(5_000.0)), rate(&NEAR, 1, 1, &steps(0.0)));
        close(rate(&NEAR, 8, 8, &steps(5_000.0)), rate(&NEAR, 8, 8, &steps(0.0)));
        let (shared, alone) = (rate(&NEAR, 8, 1, &steps(5_000.0)), rate(&NEAR, 8, 8, &steps(5_000.0)));
        assert!(shared < 0.5 * alone, "{shared} {alone}");
    }

    #[test]
    fn a_lock_makes_linux_flat() {
        close(rate(&NEAR, 1, 0, &mapped(1)), 1e9 / 5_500.0);
        let [some, many] = [32, 128].map(|clients| rate(&NEAR, clients, 0, &mapped(1)));
        // Two sections and two handoffs, one after the other.
        assert!(many <= 1e9 / 4_700.0 && many < 1.1 * some, "{some} {many}");
    }

    #[test]
    fn who_touches_pages_for_long_scales_until_the_lock_is_full() {
        let rates = [1, 4, 128].map(|clients| rate(&NEAR, clients, 0, &mapped(512)));
        assert!(rates[1] > 3.0 * rates[0] && rates[2] < 128.0 * rates[0] / 2.0, "{rates:?}");
    }

    #[test]
    fn interrupts_and_wakes_cost_those_that_run() {
        let steps = |interrupts_ns| [Step::Exclusive { ns: 100.0, interrupts_ns }, Step::Run(10_000.0)];
        let (quiet, loud) = (rate(&NEAR, 4, 0, &steps(0.0)), rate(&NEAR, 4, 0, &steps(5_000.0)));
        assert!(loud < 0.5 * quiet, "three interrupts of half the work: {loud} {quiet}");
        close(rate(&NEAR, 1, 0, &steps(5_000.0)), 1e9 / 10_100.0);
        let far = Distances { wake_ns: 100_000.0, ..NEAR };
        assert!(rate(&far, 8, 0, &mapped(4)) < 0.5 * rate(&NEAR, 8, 0, &mapped(4)));
    }

    #[test]
    fn the_same_costs_give_the_same_rate() {
        let again = || rate(&NEAR, 24, 3, &served(77.0, 1_003.0)).to_bits();
        assert_eq!(again(), again());
    }
}
