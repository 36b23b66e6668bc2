//! Strongly connected components of a small directed graph.

use std::collections::BTreeMap;

/// The groups of two or more nodes of which each can be reached from each, sorted. `edges`: from a node to others.
pub fn of<N: Ord + Copy>(edges: &BTreeMap<N, Vec<N>>) -> Vec<Vec<N>> {
    let reached: BTreeMap<N, Vec<N>> = edges.keys().map(|from| (*from, reached_from(*from, edges))).collect();
    let reaches = |from: N, to: N| reached.get(&from).is_some_and(|nodes| nodes.binary_search(&to).is_ok());
    let mut groups: Vec<Vec<N>> = Vec::new();
    for &node in edges.keys() {
        let group: Vec<N> =
            edges.keys().copied().filter(|&other| reaches(node, other) && reaches(other, node)).collect();
        if group.len() > 1 && group[0] == node {
            groups.push(group);
        }
    }
    groups
}

/// Sorted; with `from` itself only if a way leads back to it.
fn reached_from<N: Ord + Copy>(from: N, edges: &BTreeMap<N, Vec<N>>) -> Vec<N> {
    let mut reached = Vec::new();
    let mut ahead = vec![from];
    while let Some(node) = ahead.pop() {
        for &next in edges.get(&node).into_iter().flatten() {
            if let Err(place) = reached.binary_search(&next) {
                reached.insert(place, next);
                ahead.push(next);
            }
        }
    }
    reached
}
