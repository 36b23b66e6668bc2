//! The small loops of a function.
//!
//! 1. Find the strongly connected components of the flow graph: each is an outermost loop.
//! 2. A component's *headers* are its instructions that can be reached from outside it.
//! 3. Every edge inside the component to a header closes one loop: it consists of the instructions that reach that edge without passing the
//!    header. Loops that share a header are kept apart, because a waiting loop at the top of a time-step loop shares the step loop's
//!    header.
//! 4. Remove the headers and repeat the steps on the rest: this finds the inner loops.
//!
//! Dominators alone (natural loops) are not enough: at -O0 compilers enter a loop by a jump to its test, so the target of its backward
//! branch does not dominate it.

use super::code::Code;

/// One loop.
pub(super) struct Cycle {
    /// The instruction at which an iteration begins.
    pub header: u32,
    /// The loop's instructions, in ascending order.
    pub body: Vec<u32>,
}

/// Returns all loops of at most `limit` instructions.
pub(super) fn small_cycles(code: &Code, limit: usize) -> Vec<Cycle> {
    let count = u32::try_from(code.len()).unwrap_or(u32::MAX);
    let mut search = Search { code, member: vec![0; code.len()], region: 0 };
    let mut cycles = Vec::new();
    let mut pending = vec![(0..count).collect::<Vec<u32>>()];
    while let Some(region) = pending.pop() {
        for component in search.components(&region) {
            search.enclose(&component);
            let headers = search.headers(&component);
            for &header in &headers {
                for &from in code.predecessors(header) {
                    if search.inside(from)
                        && let Some(body) = search.body(header, from, limit)
                    {
                        cycles.push(Cycle { header, body });
                    }
                }
            }
            let inner: Vec<u32> = component.into_iter().filter(|node| !headers.contains(node)).collect();
            if !inner.is_empty() {
                pending.push(inner);
            }
        }
    }
    cycles
}

struct Search<'a> {
    code: &'a Code,
    /// For each instruction, the number of the last region that contained it. A region is a set of instructions within which the search looks for
    /// loops.
    member: Vec<u32>,
    /// The number of the region in which the search now looks for loops.
    region: u32,
}

impl Search<'_> {
    /// Makes `nodes` the current region: only loops within these instructions are searched.
    fn enclose(&mut self, nodes: &[u32]) {
        self.region += 1;
        for &node in nodes {
            self.member[node as usize] = self.region;
        }
    }

    fn inside(&self, node: u32) -> bool {
        self.member[node as usize] == self.region
    }

    /// Returns the components of `region` that are loops, by Kosaraju's algorithm. First, a depth-first search lists the instructions in the order in
    /// which it finishes them. Then the list is read backwards: the component of an instruction consists of all instructions that lead to it and are
    /// in no earlier component.
    fn components(&mut self, region: &[u32]) -> Vec<Vec<u32>> {
        self.enclose(region);
        let local = |node: u32| region.binary_search(&node).unwrap_or_default();
        let mut left = Vec::new();
        let mut seen = vec![false; region.len()];
        for &root in region {
            // The stack of the search. The flag of an instruction is true when the search of its successors is finished.
            let mut pending = vec![(root, false)];
            while let Some((node, is_searched)) = pending.pop() {
                if is_searched {
                    left.push(node);
                } else if !std::mem::replace(&mut seen[local(node)], true) {
                    pending.push((node, true));
                    let edges = self.code.successors(node).filter(|&to| self.inside(to));
                    pending.extend(edges.map(|to| (to, false)));
                }
            }
        }
        let mut found = Vec::new();
        let mut taken = vec![false; region.len()];
        for &last in left.iter().rev() {
            let (mut component, mut pending) = (Vec::new(), vec![last]);
            while let Some(node) = pending.pop() {
                if !std::mem::replace(&mut taken[local(node)], true) {
                    component.push(node);
                    pending.extend(self.code.predecessors(node).iter().filter(|&&from| self.inside(from)));
                }
            }
            if component.len() > 1 || component.iter().any(|&node| self.code.successors(node).any(|to| to == node)) {
                component.sort_unstable();
                found.push(component);
            }
        }
        found
    }

    /// Returns the headers of `component`, which is the current region: its instructions that can be reached from outside. If only an indirect jump
    /// leads into the component, none is found, and its first instruction is taken as the header.
    fn headers(&self, component: &[u32]) -> Vec<u32> {
        let entered = |node: u32| node == 0 || self.code.predecessors(node).iter().any(|&from| !self.inside(from));
        let headers: Vec<u32> = component.iter().copied().filter(|&node| entered(node)).collect();
        if headers.is_empty() { component.first().copied().into_iter().collect() } else { headers }
    }

    /// Returns the loop closed by the edge `from` → `header` within the current region; `None` if it has more than `limit` instructions.
    fn body(&self, header: u32, from: u32, limit: usize) -> Option<Vec<u32>> {
        let mut body = vec![header];
        let mut pending = vec![from];
        while let Some(node) = pending.pop() {
            if body.contains(&node) {
                continue;
            }
            if body.len() == limit {
                return None;
            }
            body.push(node);
            pending.extend(self.code.predecessors(node).iter().filter(|&&before| self.inside(before)));
        }
        body.sort_unstable();
        Some(body)
    }
}
