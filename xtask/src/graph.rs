//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// The groups of two nodes and more in which each reaches every other; groups and nodes in order.
pub(crate) fn circles<N: Ord + Copy>(arrows: &BTreeMap<N, BTreeSet<N>>) -> Vec<Vec<N>> {
    let reached: BTreeMap<N, BTreeSet<N>> = arrows.keys().map(|&node| (node, reach(node, arrows))).collect();
    let leads = |from: N, to: N| reached.get(&from).is_some_and(|nodes| nodes.contains(&to));
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for &node in arrows.keys() {
        if done.contains(&node) {
            continue;
        }
        let circle: Vec<N> = reached[&node].iter().copied().filter(|&other| leads(other, node)).collect();
        if circle.len() > 1 {
            done.extend(circle.iter().copied());
            circles.push(circle);
        }
    }
    circles
}

/// All nodes that `start` leads to.
fn reach<N: Ord + Copy>(start: N, arrows: &BTreeMap<N, BTreeSet<N>>) -> BTreeSet<N> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        let next = arrows.get(&node).into_iter().flatten();
        open.extend(next.copied().filter(|&node| reached.insert(node)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(arrows: &[(u8, u8)]) -> Vec<Vec<u8>> {
        let mut graph: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        for &(from, to) in arrows {
            graph.entry(from).or_default().insert(to);
        }
        circles(&graph)
    }

    #[test]
    fn circles_are_found_whole_and_apart() {
        assert_eq!(found(&[(1, 2), (2, 3), (1, 3)]), Vec::<Vec<u8>>::new());
        assert_eq!(
            found(&[(1, 2), (2, 1), (2, 3), (3, 4), (4, 5), (5, 3), (0, 1)]),
            [vec![1, 2], vec![3, 4, 5]]
        );
        assert_eq!(found(&[(1, 2), (2, 3), (3, 1), (3, 4), (4, 3)]), [vec![1, 2, 3, 4]]);
        assert_eq!(found(&[(1, 1)]), Vec::<Vec<u8>>::new());
    }
}
