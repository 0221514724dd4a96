//! The tree of creations: a node is all processes that were created alike, from the command down.

use std::collections::HashMap;

use regrow_sites::Usage;

use super::sites::{Programs, SiteId};

/// Most nodes of the tree.
pub const MOST_NODES: usize = 200_000;

/// A node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The node above all others; no process is counted in it.
    pub const ORIGIN: NodeId = NodeId(0);
    /// All creations for which the tree had no room.
    const FURTHER: NodeId = NodeId(1);

    /// As a number, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a node differs from its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Its processes were there before the collector, or are the command itself.
    Found(Programs),
    /// Its processes were created at this site, by those of the parent node.
    Site(SiteId),
    /// The tree had no room for it.
    Further,
}

/// What is known of the processes of a node; those below it are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeTotals {
    /// How many there were.
    pub count: u64,
    /// How many of them live.
    pub alive: u64,
    /// Processor time of those that have ended, in microseconds.
    pub cpu_us: u64,
    /// From creation to end, of all that have ended, in microseconds.
    pub life_us: u64,
}

impl NodeTotals {
    pub(super) fn enter(&mut self) {
        self.count += 1;
        self.alive += 1;
    }

    pub(super) fn leave(&mut self) {
        self.count = self.count.saturating_sub(1);
        self.alive = self.alive.saturating_sub(1);
    }

    pub(super) fn abandon(&mut self) {
        self.alive = self.alive.saturating_sub(1);
    }

    pub(super) fn end(&mut self, usage: &Usage) {
        self.abandon();
        self.cpu_us = self.cpu_us.saturating_add(usage.cpu_us);
        self.life_us = self.life_us.saturating_add(usage.life_us);
    }
}

/// A node.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The node above it; that of the origin is itself.
    pub parent: NodeId,
    /// How it differs from that.
    pub step: Step,
    /// Its processes.
    pub totals: NodeTotals,
}

/// The nodes. The first is the origin, the second that of further creations.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    ids: HashMap<(NodeId, Step), NodeId>,
}

impl Default for Tree {
    fn default() -> Tree {
        let node = |step| Node { parent: NodeId::ORIGIN, step, totals: NodeTotals::default() };
        let ids = HashMap::from([((NodeId::ORIGIN, Step::Further), NodeId::FURTHER)]);
        Tree { nodes: vec![node(Step::Found(Programs::NONE)), node(Step::Further)], ids }
    }
}

impl Tree {
    /// The node below `parent` that a step leads to.
    pub(super) fn child(&mut self, parent: NodeId, step: Step) -> NodeId {
        if let Some(&id) = self.ids.get(&(parent, step)) {
            return id;
        }
        let Some(id) =
            u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < MOST_NODES).map(NodeId)
        else {
            return NodeId::FURTHER;
        };
        self.nodes.push(Node { parent, step, totals: NodeTotals::default() });
        self.ids.insert((parent, step), id);
        id
    }

    pub(super) fn totals(&mut self, id: NodeId) -> &mut NodeTotals {
        &mut self.nodes[id.index()].totals
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}
