//! What is expected of a process: the histograms of its chain of keys, blended.
//!
//! ```text
//!   weight of a key  =  n / (n + 1)  of what the more special keys have left,  n: the runs that count in its histogram
//! ```
//!
//! So the runs of the site itself decide after a few, and before them those of what is most like it. What no key has a say in is as where
//! nothing is known. (Hierarchical shrinkage; in language models, interpolated back-off: Jelinek and Mercer, 1980.)

use super::chain::Chain;
use super::distribution::{Distribution, UNKNOWN};
use super::histogram::Histogram;
use super::level::Level;
use super::node::Runs;
use super::tree::{ROOT, Tree};

/// So many runs of a key weigh as much as all that is more general.
const EVEN: f32 = 1.0;
/// Keys of both chains, and the root.
const MOST_KEYS: usize = 16;
/// A process is short when so large a share of the runs is within the limit.
const SHORT_SHARE: f32 = 0.9;
/// And when so much of what is said rests on processes like it.
const ENOUGH: f32 = 0.5;

/// What is expected of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Its processor time, in microseconds.
    pub cpu_us: Distribution,
    /// Its life, in microseconds.
    pub life_us: Distribution,
    /// The most memory that it has at a time, in KiB; `None`: no run has told.
    pub peak_kib: Option<Distribution>,
    /// The share of its life before `main`, between 0 and 1; `None`: no run has told.
    pub startup_share: Option<f32>,
    /// How much of this rests on runs that have more in common with it than that they are processes: 0 where nothing is known, one half after
    /// one run, near 1 after many.
    pub confidence: f32,
    /// What the runs have in common with it that weigh most.
    pub level: Level,
    /// How many runs those are, old ones counting less.
    pub runs: u32,
}

impl Prediction {
    /// Whether it will hardly use more processor time than this. Of what nothing is known this is not said.
    #[must_use]
    pub fn is_short(&self, limit_us: u64) -> bool {
        self.confidence >= ENOUGH && self.cpu_us.share_within(limit_us) >= SHORT_SHARE
    }

    /// Whether it will use more processor time than this in nine cases of ten. Of what nothing is known this is not said.
    #[must_use]
    pub fn is_long(&self, limit_us: u64) -> bool {
        self.confidence >= ENOUGH && self.cpu_us.share_within(limit_us) <= 1.0 - SHORT_SHARE
    }
}

/// The keys that a prediction rests on, from general to specific.
struct Keys<'a> {
    tree: &'a Tree,
    slots: [u16; MOST_KEYS],
    length: usize,
}

impl<'a> Keys<'a> {
    /// The keys of a chain: what says nothing of the child, then what begins with the child, then what says both.
    fn of(tree: &'a Tree, chain: &Chain, here: &[u16], child: &[u16], is_own: bool) -> Keys<'a> {
        let mut keys = Keys { tree, slots: [ROOT; MOST_KEYS], length: 1 };
        // The last key of the place is the site's own if it has seen nothing else, whatever its level.
        let is_general = |at: usize| {
            let is_last = at + 1 == here.len();
            tree.node(here[at]).level.is_of_place() && !(is_last && is_own && chain.call.is_known())
        };
        let generals = (0..here.len()).take_while(|&at| is_general(at)).count();
        for &slot in here[..generals].iter().chain(child).chain(&here[generals..]) {
            keys.slots[keys.length] = slot;
            keys.length += 1;
        }
        keys
    }

    /// From specific to general, with the weight of each by the histogram that is chosen. Returns what is left.
    fn weigh<const N: usize>(
        &self,
        choose: impl Fn(&Runs) -> &Histogram<N>,
        mut take: impl FnMut(u16, &Histogram<N>, f32),
    ) -> f32 {
        let mut left = 1.0;
        for &slot in self.slots[..self.length].iter().rev() {
            let histogram = choose(&self.tree.node(slot).runs);
            let own = runs(histogram.total());
            let weight = left * own / (own + EVEN);
            left -= weight;
            if weight > 0.0 {
                take(slot, histogram, weight);
            }
        }
        left
    }

    /// The histograms blended; and the weight that none of them has.
    fn blend<const N: usize>(&self, choose: impl Fn(&Runs) -> &Histogram<N>) -> (Distribution, f32) {
        let mut blended = Distribution::empty();
        let left = self.weigh(choose, |_, histogram, weight| {
            let each = weight / runs(histogram.total());
            histogram.points().for_each(|(position, count)| blended.add(position, each * f32::from(count)));
        });
        (blended, left)
    }
}

#[expect(clippy::cast_precision_loss, reason = "some hundreds")]
fn runs(total: u32) -> f32 {
    total as f32
}

/// What is expected of a process with these keys.
pub(super) fn predict(tree: &Tree, chain: &Chain) -> Prediction {
    let here = tree.path(chain.here.as_slice(), chain.identity, &chain.call);
    let child = tree.path(chain.child.as_slice(), chain.child_identity, &chain.call);
    let keys = Keys::of(tree, chain, here.as_slice(), child.as_slice(), here.is_own);
    let (mut cpu_us, left) = keys.blend(|runs| &runs.cpu);
    cpu_us.add_all(&UNKNOWN, left);
    let (mut life_us, left) = keys.blend(|runs| &runs.life);
    life_us.add_all(&UNKNOWN, left);
    let (mut peak_kib, left) = keys.blend(|runs| &runs.peak);
    let peak_kib = (left < 1.0).then(|| {
        peak_kib.scale_from(1.0 - left);
        peak_kib
    });
    let (mut confidence, mut level, mut most) = (0.0, Level::Everything, 0.0);
    let mut count = tree.node(ROOT).runs.total();
    keys.weigh(
        |runs| &runs.cpu,
        |slot, histogram, weight| {
            if slot == ROOT {
                return;
            }
            confidence += weight;
            if weight > most {
                most = weight;
                count = histogram.total();
                level = level_of(tree, chain, slot, here.as_slice(), here.is_own);
            }
        },
    );
    let startup_share = blended_share(&keys);
    Prediction { cpu_us, life_us, peak_kib, startup_share, confidence, level, runs: count }
}

/// The level of a key; of the site's own key that of the site.
fn level_of(tree: &Tree, chain: &Chain, slot: u16, here: &[u16], is_own: bool) -> Level {
    if is_own && here.last() == Some(&slot) {
        let last = chain.here.as_slice().last();
        last.map_or(Level::Everything, |part| part.level)
    } else {
        tree.node(slot).level
    }
}

/// The mean share of a life before `main`.
fn blended_share(keys: &Keys<'_>) -> Option<f32> {
    let mut sum = 0.0;
    let left = keys.weigh(
        |runs| &runs.startup,
        |_, histogram, weight| sum += weight * histogram.mean().unwrap_or(0.0) / 255.0,
    );
    (left < 1.0).then(|| sum / (1.0 - left))
}
