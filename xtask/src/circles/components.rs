//! Strongly connected components of a small directed graph.

use std::collections::BTreeMap;

/// Returns the strongly connected components that have at least two nodes, sorted. `edges` maps a node to its successors.
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

/// Returns the nodes that can be reached from `from`, sorted. `from` itself is included only if it lies on a cycle.
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
