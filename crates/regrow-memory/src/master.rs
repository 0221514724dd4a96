//! The master: which zone serves a client, and which chunks move from one zone to another.
//!
//! It goes by *estimated* loads: the share of a zone's pages that are in use, or will be when its server has answered what lies in its ring. A
//! client stays with its zone; the master is asked at its first request, and when its zone has no room. So it is on no hot way.
//!
//! The rules are the paper's (section 3, "load balancing policy"): below `low` the zone of the least load is taken, which spreads the work; when all
//! have more, the *most* loaded one below `high`, so that what is free stays together in the others and large blocks can be given.

/// What the master knows of a zone, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Pages of its chunks.
    pub own: u64,
    /// Those in use.
    pub used: u64,
    /// Those that requests ask for which its server has not answered.
    pub asked: u64,
}

impl Load {
    /// The share of its pages that is in use soon, from 0 on; more than 1 where more is asked for than there is. A zone without pages is full.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "there are fewer pages than 2^52")]
    pub fn estimated(&self) -> f64 {
        if self.own == 0 { 1.0 } else { self.used.saturating_add(self.asked) as f64 / self.own as f64 }
    }
}

/// How clients are spread over zones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Routing {
    /// One after the other, whatever their loads are.
    RoundRobin,
    /// By estimated load.
    Balanced {
        /// Up to this load (`LowMem`) a zone has plenty.
        low: f64,
        /// From this load on (`HighMem`) it is short.
        high: f64,
    },
}

impl Routing {
    /// What is taken where nobody says anything else.
    pub const DEFAULT: Routing = Routing::Balanced { low: 0.6, high: 0.9 };

    /// The load from which on a zone is short of pages.
    fn high(self) -> f64 {
        match self {
            Routing::RoundRobin => 1.0,
            Routing::Balanced { high, .. } => high,
        }
    }
}

/// Chunks that are to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The zone that gives them up, as far as it has free ones.
    pub from: usize,
    /// The zone that gets them.
    pub to: usize,
    /// How many.
    pub chunks: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Master {
    routing: Routing,
    /// How many clients were routed.
    routed: usize,
}

impl Master {
    /// A master that routes so.
    #[must_use]
    pub fn new(routing: Routing) -> Master {
        Master { routing, routed: 0 }
    }

    /// The zone for a client; `None` where there are no zones.
    pub fn route(&mut self, loads: &[Load]) -> Option<usize> {
        let turn = self.routed.checked_rem(loads.len())?;
        self.routed = self.routed.wrapping_add(1);
        let Routing::Balanced { low, high } = self.routing else { return Some(turn) };
        // Of zones of the same load each has its turn.
        let in_turn = || (turn..loads.len()).chain(0..turn);
        let estimated = || in_turn().filter_map(|number| Some((number, loads.get(number)?.estimated())));
        let least = estimated().min_by(|one, other| one.1.total_cmp(&other.1))?;
        if least.1 < low {
            return Some(least.0);
        }
        let most =
            estimated().filter(|&(_, load)| load < high).max_by(|one, other| one.1.total_cmp(&other.1));
        // All are short: the least loaded one is so last.
        Some(most.unwrap_or(least).0)
    }

    /// What is to move into a zone that has no room for a block of so many chunks: from the zone with the lowest load, half of what it has more than this one,
    /// and as much as the block needs at least. `None` where no zone has a chunk too many.
    #[must_use]
    pub fn balance(&self, loads: &[Load], to: usize, needed: u64) -> Option<Move> {
        const CHUNK_PAGES: u64 = crate::units::CHUNK_PAGES as u64;
        let of = loads.get(to)?;
        let free = |load: &Load| load.own.saturating_sub(load.used.saturating_add(load.asked)) / CHUNK_PAGES;
        let others = loads.iter().enumerate().filter(|&(number, load)| number != to && free(load) > 0);
        let (from, donor) = others.min_by(|one, other| one.1.estimated().total_cmp(&other.1.estimated()))?;
        let evenly = free(donor).saturating_sub(free(of)) / 2;
        let chunks = evenly.max(needed).min(free(donor));
        (chunks > 0 && donor.estimated() < self.routing.high()).then_some(Move { from, to, chunks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Routing = Routing::Balanced { low: 0.5, high: 0.9 };

    fn loads<const N: usize>(used: [u64; N]) -> [Load; N] {
        used.map(|used| Load { own: 51_200, used: used * 512, asked: 0 })
    }

    #[test]
    fn below_low_the_least_loaded_zone_is_taken_and_then_the_most_loaded_one_below_high() {
        let mut master = Master::new(PAPER);
        let cases =
            [([40, 20, 30], 1), ([60, 55, 49], 2), ([60, 80, 70], 1), ([60, 95, 70], 2), ([91, 95, 93], 0)];
        for (used, zone) in cases {
            assert_eq!(master.route(&loads(used)), Some(zone), "{used:?}");
        }
        assert_eq!(master.route(&[]), None);
    }

    #[test]
    fn what_is_asked_for_counts_as_load_and_a_zone_without_pages_is_full() {
        let mut master = Master::new(PAPER);
        let mut of = loads([10, 20]);
        of[0].asked = 20 * 512;
        assert_eq!(master.route(&of), Some(1));
        of[1] = Load::default();
        assert_eq!(master.route(&of), Some(0));
        assert!(of[1].estimated() >= 1.0);
        of[0].asked = u64::MAX;
        assert!(of[0].estimated() > 1.0);
    }

    #[test]
    fn zones_of_the_same_load_have_their_turn() {
        let mut master = Master::new(PAPER);
        let routed: Vec<_> = (0..4).filter_map(|_| master.route(&loads([10, 10, 30]))).collect();
        assert_eq!(routed, [0, 1, 0, 0]);
    }

    #[test]
    fn round_robin_does_not_look_at_loads() {
        let mut master = Master::new(Routing::RoundRobin);
        let routed: Vec<_> =
            (0..5).map(|_| master.route(&loads([99, 0])).expect("there are zones")).collect();
        assert_eq!(routed, [0, 1, 0, 1, 0]);
    }

    #[test]
    fn chunks_move_from_where_most_is_free() {
        let master = Master::new(PAPER);
        assert_eq!(master.balance(&loads([95, 20, 50]), 0, 1), Some(Move { from: 1, to: 0, chunks: 37 }));
        assert_eq!(
            master.balance(&loads([95, 40]), 0, 50),
            Some(Move { from: 1, to: 0, chunks: 50 }),
            "the block needs them"
        );
        assert_eq!(master.balance(&loads([10, 20]), 0, 1), Some(Move { from: 1, to: 0, chunks: 1 }));
        assert_eq!(master.balance(&loads([95, 92]), 0, 1), None, "the other one is short itself");
        assert_eq!(master.balance(&loads([95, 100]), 0, 1), None);
        assert_eq!(master.balance(&loads([95]), 0, 1), None);
        assert_eq!(master.balance(&loads([95]), 7, 1), None, "there is no such zone");
    }
}
