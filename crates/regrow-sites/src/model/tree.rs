//! The tree of keys: nodes in a table of fixed size, found by their parent and their part.
//!
//! ```text
//!   everything      has seen many sites: split
//!     make          has seen two places: split
//!       job_exec    has seen one site: what there is to know of it stands here, and nothing below it
//!       func_shell  …
//! ```
//!
//! A run is counted in each key of its chain down to the first that has seen no other site. So most sites take one node, not one for each part. A
//! key that meets a second site is split: what it has counted is kept below it as the first one's, in a node without a part, since the parts
//! of that one are not remembered. When the first site comes again, that node takes its place in the chain.
//!
//! When the table is full, a leaf makes room: one of an image that has more than its share of the table, else one that has
//! come once or twice, else the one with the fewest runs, those of long ago counting less. A program that creates children from a million places takes room from itself.

use super::chain::{Call, Chain, Identity, Part};
use super::index::{Index, MOST_SLOTS};
use super::level::Level;
use super::node::{NO_PARENT, NO_PART, Node, Sample};
use super::stored::StoredKey;
use crate::hash;

/// An image may have this part of the table before it has to make room for others.
const QUOTA: usize = 8;
/// Leaves that are compared when one must go.
const CANDIDATES: u32 = 16;
/// Nodes that are picked for them at most.
const PICKED: u32 = 256;
/// Runs that make an epoch, as a power of two.
const EPOCH_BITS: u32 = 12;
/// In so many epochs without use, a node's runs lose half of their worth.
const HALF_LIFE: u8 = 8;

/// A key of so many runs is proven: what comes once or twice takes room from its like.
const PROVEN: u32 = 3;

/// The root.
pub(super) const ROOT: u16 = 0;

/// Which keys make room first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A child in an image: mostly known by its place there too. For such a key nothing of another rank makes room.
    Besides,
    /// It has come once or twice.
    Seldom,
    /// It has come often.
    Proven,
}

/// All keys.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    most: usize,
    index: Index,
    /// Nodes that were picked to make room.
    picked: u64,
    /// Images that have more than their share.
    greedy: u16,
    /// A node that is on its way to another place; the root: none.
    carried: u16,
    /// Runs that were counted.
    runs: u64,
    /// Keys that were not made for want of room.
    pub(super) refused: u64,
    /// Keys that made room.
    pub(super) evicted: u64,
}

/// The keys of a chain that are there, and how the last one fits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Path {
    slots: [u16; 10],
    length: usize,
    /// The last key has seen this very site alone, or is its last.
    pub(super) is_own: bool,
}

impl Path {
    pub(super) fn as_slice(&self) -> &[u16] {
        &self.slots[..self.length]
    }

    fn push(&mut self, slot: u16) {
        self.slots[self.length] = slot;
        self.length += 1;
    }
}

impl Tree {
    /// How many bytes a tree of so many keys takes.
    pub(super) const fn bytes_for(most: usize) -> usize {
        most * size_of::<Node>() + Index::bytes_for(most)
    }

    /// How many keys fit into so many bytes.
    pub(super) const fn most_in(bytes: usize) -> usize {
        let mut most = bytes / size_of::<Node>();
        while most > 1 && (Tree::bytes_for(most) > bytes || most > MOST_SLOTS) {
            most -= 1;
        }
        most
    }

    pub(super) fn new(most: usize) -> Tree {
        let mut nodes = Vec::with_capacity(most);
        nodes.push(Node::new(NO_PARENT, Level::Everything, NO_PART, Identity::default()));
        Tree {
            nodes,
            most,
            index: Index::new(most),
            picked: 0,
            greedy: 0,
            carried: ROOT,
            runs: 0,
            refused: 0,
            evicted: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.index.bytes()
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, slot: u16) -> &Node {
        &self.nodes[usize::from(slot)]
    }

    pub(super) fn node_mut(&mut self, slot: u16) -> &mut Node {
        &mut self.nodes[usize::from(slot)]
    }

    /// Counts a run in all keys of its chain.
    pub(super) fn count(&mut self, chain: &Chain, sample: &Sample) {
        self.runs += 1;
        self.touch(ROOT, sample);
        self.count_along(chain.here.as_slice(), chain.identity, sample, Level::Image);
        self.count_along(chain.child.as_slice(), chain.child_identity, sample, Level::Child);
    }

    /// Counts a run in those keys of its chain alone that say what the child executed: in the others its process is counted already.
    pub(super) fn count_call(&mut self, chain: &Chain, sample: &Sample) {
        self.runs += 1;
        self.count_along(chain.here.as_slice(), chain.identity, sample, Level::ChildHere);
        self.count_along(chain.child.as_slice(), chain.child_identity, sample, Level::Child);
    }

    /// Counts a run along a chain, from a level on.
    fn count_along(&mut self, parts: &[Part], identity: Identity, sample: &Sample, from: Level) {
        let mut at = ROOT;
        self.carried = ROOT;
        for part in parts {
            let known = self.find_or_rename(at, part);
            let known = known.or_else(|| self.place_carried(at, part));
            let Some(slot) = known.or_else(|| self.create(at, part.level, part.named, identity)) else {
                return;
            };
            if !self.node(slot).is_split && self.node(slot).identity != identity {
                self.split(slot);
            }
            if part.level >= from {
                self.touch(slot, sample);
            }
            if !self.node(slot).is_split {
                return;
            }
            if let Some(own) = self.own_below(slot).filter(|&own| self.node(own).identity == identity) {
                self.carried = own;
            }
            at = slot;
        }
    }

    /// A key that has seen one site meets a second one: what it has counted is kept as the first one's.
    fn split(&mut self, slot: u16) {
        let node = *self.node(slot);
        self.node_mut(slot).is_split = true;
        if let Some(own) = self.create(slot, node.level, NO_PART, node.identity) {
            let own = self.node_mut(own);
            (own.runs, own.epoch) = (node.runs, node.epoch);
        }
    }

    /// The node of the first site of a key that is split, while it has no part.
    fn own_below(&self, slot: u16) -> Option<u16> {
        self.find(slot, self.node(slot).level, NO_PART)
    }

    /// Puts the node that was the site's own without a part, if there is one, into its place in the chain.
    fn place_carried(&mut self, parent: u16, part: &Part) -> Option<u16> {
        let slot = std::mem::replace(&mut self.carried, ROOT);
        if slot == ROOT {
            return None;
        }
        self.unlink(slot);
        self.count_child(slot, false);
        let node = self.node_mut(slot);
        (node.parent, node.level, node.part) = (parent, part.level, part.named);
        self.index.insert(hash_of(parent, part.level, part.named), slot);
        self.count_child(slot, true);
        Some(slot)
    }

    fn touch(&mut self, slot: u16, sample: &Sample) {
        let (epoch, number) = (self.epoch(), self.runs);
        let node = self.node_mut(slot);
        node.epoch = epoch;
        node.runs.add(sample, number);
    }

    /// The keys of a chain that are there, from general to specific; of a call that may be known in part.
    pub(super) fn path(&self, parts: &[Part], identity: Identity, call: &Call) -> Path {
        let mut path = Path::default();
        let mut at = ROOT;
        let is_same = |node: &Node| node.identity.is_that_of(&identity, call);
        for (index, part) in parts.iter().enumerate() {
            let Some(slot) = self.find_part(at, part) else { return path };
            path.push(slot);
            let node = self.node(slot);
            if !node.is_split {
                path.is_own = is_same(node);
                return path;
            }
            path.is_own = index + 1 == parts.len();
            // Of a site that is known in part, what lies in its place counts before the first site that may be it.
            let has_next = || parts.get(index + 1).is_some_and(|next| self.find_part(slot, next).is_some());
            let is_first = |own: &u16| {
                let own = self.node(*own);
                own.identity == identity || is_same(own) && !has_next()
            };
            if let Some(own) = self.own_below(slot).filter(|own| !path.is_own && is_first(own)) {
                path.push(own);
                path.is_own = true;
                return path;
            }
            at = slot;
        }
        path
    }

    /// All keys, each behind the one that it is more special than.
    pub(super) fn stored(&self) -> Vec<StoredKey> {
        let mut order: Vec<u16> = (0..u16::MAX).take(self.nodes.len()).collect();
        order.sort_by_key(|&slot| (self.node(slot).level, self.node(slot).part == NO_PART));
        let mut numbers = vec![0; self.nodes.len()];
        for (number, &slot) in (0..u16::MAX).zip(&order) {
            numbers[usize::from(slot)] = number;
        }
        let stored = |slot: u16| {
            let node = self.node(slot);
            let parent = numbers.get(usize::from(node.parent)).copied().unwrap_or(0);
            StoredKey::new(node, parent, self.epoch().wrapping_sub(node.epoch))
        };
        order.into_iter().map(stored).collect()
    }

    /// Takes in keys that were stored. What has no room is left out, with all that is more special.
    pub(super) fn absorb(&mut self, keys: &[StoredKey]) {
        // Where each key stands, and which key stands in each slot.
        let mut slots: Vec<Option<u16>> = vec![None; keys.len()];
        let mut numbers: Vec<Option<usize>> = vec![None; self.most];
        for (number, key) in keys.iter().enumerate() {
            let parent = slots.get(usize::from(key.parent)).copied().flatten();
            let slot = if key.is_root() {
                Some(ROOT)
            } else {
                parent.and_then(|parent| self.absorb_key(key, parent))
            };
            let Some(slot) = slot else { continue };
            if let Some(gone) = numbers[usize::from(slot)].replace(number) {
                slots[gone] = None;
            }
            slots[number] = Some(slot);
            self.join(slot, key);
        }
    }

    /// The slot of a key that was stored, which is made if it is not there.
    fn absorb_key(&mut self, key: &StoredKey, parent: u16) -> Option<u16> {
        if let Some(slot) = self.find(parent, key.level(), key.part) {
            return Some(slot);
        }
        let slot = self.create(parent, key.level(), key.part, key.identity())?;
        let epoch = self.epoch();
        let node = self.node_mut(slot);
        node.epoch = epoch.wrapping_sub(key.age);
        node.is_split = key.is_split;
        Some(slot)
    }

    /// Takes what a key has counted that was stored into the one that is here.
    fn join(&mut self, slot: u16, key: &StoredKey) {
        let node = self.node(slot);
        let is_other = node.identity != key.identity();
        if slot != ROOT && !node.is_split && (key.is_split || is_other) {
            self.split(slot);
        }
        if slot != ROOT && self.node(slot).is_split && !key.is_split {
            self.join_below(slot, key);
        }
        let epoch = self.epoch();
        let node = self.node_mut(slot);
        let age = epoch.wrapping_sub(node.epoch).min(key.age);
        node.epoch = epoch.wrapping_sub(age);
        node.runs.join(&key.runs);
    }

    /// A key that was stored has seen one site, and the one here is split: what it has counted is the site's own, if that has no other node.
    fn join_below(&mut self, slot: u16, key: &StoredKey) {
        let known = self.own_below(slot);
        let own = known.or_else(|| self.create(slot, key.level(), NO_PART, key.identity()));
        if let Some(own) = own.filter(|&own| self.node(own).identity == key.identity()) {
            self.node_mut(own).runs.join(&key.runs);
        }
    }

    /// The key below another one.
    pub(super) fn find(&self, parent: u16, level: Level, part: u32) -> Option<u16> {
        self.index.find(hash_of(parent, level, part), |slot| {
            let node = self.node(slot);
            (node.parent, node.level, node.part) == (parent, level, part)
        })
    }

    /// The same, by either name.
    fn find_part(&self, parent: u16, part: &Part) -> Option<u16> {
        self.find(parent, part.level, part.named).or_else(|| self.find(parent, part.level, part.raw))
    }

    /// The same; a key that was made before its name was known gets it.
    fn find_or_rename(&mut self, parent: u16, part: &Part) -> Option<u16> {
        if let Some(slot) = self.find(parent, part.level, part.named) {
            return Some(slot);
        }
        let slot = (part.raw != part.named).then(|| self.find(parent, part.level, part.raw)).flatten()?;
        self.unlink(slot);
        self.node_mut(slot).part = part.named;
        self.index.insert(hash_of(parent, part.level, part.named), slot);
        Some(slot)
    }

    /// Makes a key; `None` when there is no room for it.
    fn create(&mut self, parent: u16, level: Level, part: u32, identity: Identity) -> Option<u16> {
        let mut node = Node::new(parent, level, part, identity);
        node.epoch = self.epoch();
        let slot = if self.nodes.len() < self.most {
            self.nodes.push(node);
            u16::try_from(self.nodes.len() - 1).ok()?
        } else if let Some(slot) = self.make_room(parent, level) {
            *self.node_mut(slot) = node;
            slot
        } else {
            self.refused += 1;
            return None;
        };
        self.index.insert(hash_of(parent, level, part), slot);
        self.count_child(slot, true);
        Some(slot)
    }

    /// Takes out a leaf that is worth little, so that a key of this level below `parent` has room: one of an image with more than its share, if
    /// there is one.
    fn make_room(&mut self, parent: u16, level: Level) -> Option<u16> {
        let mut least: Option<((Rank, u32), u16)> = None;
        let mut compared = 0;
        for _ in 0..PICKED {
            let slot = self.pick();
            if [ROOT, parent, self.carried].contains(&slot) || self.node(slot).children > 0 {
                continue;
            }
            if self.greedy > 0 && !self.image_of(slot).is_some_and(|image| self.is_greedy(image)) {
                continue;
            }
            let worth = self.worth(slot);
            if least.is_none_or(|(least, _)| worth < least) {
                least = Some((worth, slot));
            }
            compared += 1;
            if compared == CANDIDATES {
                break;
            }
        }
        let ((rank, _), slot) = least?;
        if level == Level::ChildOfImage && rank > Rank::Besides && self.greedy == 0 {
            return None;
        }
        self.unlink(slot);
        self.count_child(slot, false);
        self.evicted += 1;
        Some(slot)
    }

    /// Some node, each as often as any other.
    fn pick(&mut self) -> u16 {
        self.picked += 1;
        let slot = hash::mixed(self.picked) % self.nodes.len() as u64;
        u16::try_from(slot).unwrap_or(ROOT)
    }

    /// What a node is worth: its rank, then its runs, those of long ago counting less.
    fn worth(&self, slot: u16) -> (Rank, u32) {
        let node = self.node(slot);
        let age = self.epoch().wrapping_sub(node.epoch);
        let runs = node.runs.total();
        let rank = match node.level {
            Level::ChildOfImage => Rank::Besides,
            _ if runs < PROVEN => Rank::Seldom,
            _ => Rank::Proven,
        };
        (rank, (runs << 8) >> (age / HALF_LIFE).min(31))
    }

    fn epoch(&self) -> u8 {
        (self.runs >> EPOCH_BITS).to_le_bytes()[0]
    }

    /// Takes a node out of the index.
    fn unlink(&mut self, slot: u16) {
        let node = self.node(slot);
        let (hash, nodes) = (hash_of(node.parent, node.level, node.part), &self.nodes);
        self.index.remove(hash, slot, |slot| {
            let node = &nodes[usize::from(slot)];
            hash_of(node.parent, node.level, node.part)
        });
    }

    /// Counts a node with its parent, and with its image.
    fn count_child(&mut self, slot: u16, is_more: bool) {
        let parent = self.node(slot).parent;
        let image = self.image_of(parent);
        let was_greedy = image.is_some_and(|image| self.is_greedy(image));
        for counted in [Some(parent), image.filter(|&image| image != parent)].into_iter().flatten() {
            let children = &mut self.node_mut(counted).children;
            *children = if is_more { children.saturating_add(1) } else { children.saturating_sub(1) };
        }
        match (was_greedy, image.is_some_and(|image| self.is_greedy(image))) {
            (false, true) => self.greedy += 1,
            (true, false) => self.greedy -= 1,
            _ => {}
        }
    }

    /// The node of the image that a key is of; `None` for a key that begins with the child.
    fn image_of(&self, slot: u16) -> Option<u16> {
        let mut at = slot;
        loop {
            let node = self.nodes.get(usize::from(at))?;
            if node.level == Level::Image {
                return Some(at);
            }
            at = node.parent;
        }
    }

    /// Whether an image has more than its share.
    fn is_greedy(&self, image: u16) -> bool {
        usize::from(self.node(image).children) > self.most / QUOTA
    }
}

fn hash_of(parent: u16, level: Level, part: u32) -> u64 {
    hash::mixed(u64::from(level as u8) << 48 | u64::from(parent) << 32 | u64::from(part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::chain::Place;
    use crate::model::names::Names;

    fn sample(cpu: u8) -> Sample {
        Sample { cpu, life: cpu, peak: None, startup: None }
    }

    fn chain(image: u32, frame: u32, script: u32, child: u32) -> Chain {
        let place = Place { image, frames: [frame, 0, 0], script };
        Chain::new(&place, &Call { image: child, class: 0, magnitude: 0 }, &Names::new(4, 4))
    }

    fn own(tree: &Tree, chain: &Chain) -> Option<(Level, u32)> {
        let path = tree.path(chain.here.as_slice(), chain.identity, &chain.call);
        let node = tree.node(*path.as_slice().last()?);
        path.is_own.then(|| (node.level, node.runs.total()))
    }

    /// Each node is found, its parent is there, and the counts of children are right.
    fn check(tree: &Tree) {
        let mut children = vec![0; tree.len()];
        for slot in 1..u16::try_from(tree.len()).unwrap() {
            let node = tree.node(slot);
            assert_eq!(tree.find(node.parent, node.level, node.part), Some(slot));
            let parent = tree.node(node.parent);
            let is_without_part = node.part == NO_PART && node.level == parent.level && node.children == 0;
            assert!(is_without_part || node.level.may_follow(parent.level), "{parent:?}, {node:?}");
            children[usize::from(node.parent)] += 1;
            let image = tree.image_of(node.parent).filter(|&image| image != node.parent);
            image.into_iter().for_each(|image| children[usize::from(image)] += 1);
        }
        for (slot, children) in children.into_iter().enumerate() {
            assert_eq!(tree.nodes[slot].children, children, "{slot}");
        }
        let is_greedy =
            |node: &&Node| node.level == Level::Image && usize::from(node.children) > tree.most / QUOTA;
        assert_eq!(usize::from(tree.greedy), tree.nodes.iter().filter(is_greedy).count());
    }

    #[test]
    fn a_site_takes_one_key_until_there_is_a_second_like_it() {
        let mut tree = Tree::new(64);
        let (first, second) = (chain(5, 6, 7, 0), chain(5, 6, 8, 0));
        (0..3).for_each(|_| tree.count(&first, &sample(10)));
        assert_eq!((tree.len(), own(&tree, &first)), (2, Some((Level::Image, 3))));
        assert_eq!(own(&tree, &second), None);
        tree.count(&second, &sample(200));
        assert_eq!(own(&tree, &second), Some((Level::Frame1, 1)));
        assert_eq!(own(&tree, &first), Some((Level::Image, 3)), "what it has counted it keeps");
        tree.count(&first, &sample(10));
        tree.count(&second, &sample(200));
        assert_eq!(
            (own(&tree, &first), own(&tree, &second)),
            (Some((Level::Script, 4)), Some((Level::Script, 2)))
        );
        assert_eq!(tree.len(), 5);
        check(&tree);
    }

    #[test]
    fn an_image_with_more_than_its_share_makes_room_for_others_first() {
        let mut tree = Tree::new(256);
        let others: Vec<Chain> = (0..40).map(|image| chain(1000 + image, 1, 0, 0)).collect();
        for chain in &others {
            (0..2).for_each(|_| tree.count(chain, &sample(9)));
        }
        for place in 0..100_000 {
            tree.count(&chain(5, 10 + place, 0, 0), &sample(90));
            tree.count(&chain(5, 10 + place, 0, 0), &sample(90));
            tree.count(&chain(5, 10 + place, 0, 0), &sample(90));
        }
        assert_eq!(tree.len(), 256);
        assert!(others.iter().all(|chain| own(&tree, chain) == Some((Level::Image, 2))));
        (0..60).for_each(|image| tree.count(&chain(2000 + image, 1, 0, 0), &sample(9)));
        assert!(others.iter().all(|chain| own(&tree, chain) == Some((Level::Image, 2))));
        assert!((0..60).all(|image| own(&tree, &chain(2000 + image, 1, 0, 0)).is_some()));
        check(&tree);
    }

    #[test]
    fn what_was_seen_once_makes_room_before_what_was_seen_often() {
        let mut tree = Tree::new(128);
        let often: Vec<Chain> = (0..50).map(|image| chain(1000 + image, 1, 0, 0)).collect();
        for _ in 0..5 {
            often.iter().for_each(|chain| tree.count(chain, &sample(9)));
        }
        (0..20_000).for_each(|image| tree.count(&chain(5000 + image, 1, 0, 0), &sample(9)));
        let kept = often.iter().filter(|chain| own(&tree, chain).is_some()).count();
        assert!(kept >= 45, "{kept} of 50");
        check(&tree);
    }

    proptest! {
        #[test]
        fn it_keeps_its_order_whatever_comes(
            runs in prop::collection::vec((2_u32..6, 0_u32..5, 0_u32..4, 0_u32..4, any::<u8>()), 1..400),
            most in 8_usize..60,
        ) {
            let mut tree = Tree::new(most);
            for (image, frame, script, child, cpu) in runs {
                let chain = chain(image, frame, script, child);
                tree.count(&chain, &sample(cpu));
                prop_assert!(tree.len() <= most);
                let path = tree.path(chain.here.as_slice(), chain.identity, &chain.call);
                for (slot, part) in path.as_slice().iter().zip(chain.here.as_slice()) {
                    let node = tree.node(*slot);
                    prop_assert!(node.level == part.level || node.part == NO_PART);
                }
            }
            check(&tree);
            prop_assert_eq!(tree.bytes(), Tree::bytes_for(most));
        }
    }
}
