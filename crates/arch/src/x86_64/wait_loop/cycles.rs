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
    /// The number of the region into which each instruction was last put.
    member: Vec<u32>,
    /// The number of the current region.
    region: u32,
}

impl Search<'_> {
    /// Makes `nodes` the current region.
    fn enclose(&mut self, nodes: &[u32]) {
        self.region += 1;
        for &node in nodes {
            self.member[node as usize] = self.region;
        }
    }

    fn inside(&self, node: u32) -> bool {
        self.member[node as usize] == self.region
    }

    /// Returns the components of `region` that are loops, by Tarjan's algorithm without recursion.
    fn components(&mut self, region: &[u32]) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        self.enclose(region);
        let local = |node: u32| region.binary_search(&node).unwrap_or_default();
        let mut order = vec![UNSEEN; region.len()];
        let mut low = vec![0u32; region.len()];
        let mut on_stack = vec![false; region.len()];
        let (mut stack, mut found, mut clock) = (Vec::new(), Vec::new(), 0u32);
        for &root in region {
            if order[local(root)] != UNSEEN {
                continue;
            }
            let mut calls: Vec<(u32, Vec<u32>)> = Vec::new();
            let mut enter = Some(root);
            loop {
                if let Some(node) = enter.take() {
                    let at = local(node);
                    (order[at], low[at], on_stack[at]) = (clock, clock, true);
                    clock += 1;
                    stack.push(node);
                    calls.push((node, self.code.successors(node).filter(|&to| self.inside(to)).collect()));
                }
                let Some((node, edges)) = calls.last_mut() else { break };
                let at = local(*node);
                if let Some(to) = edges.pop() {
                    let to_at = local(to);
                    if order[to_at] == UNSEEN {
                        enter = Some(to);
                    } else if on_stack[to_at] {
                        low[at] = low[at].min(order[to_at]);
                    }
                    continue;
                }
                let node = *node;
                calls.pop();
                if let Some((parent, _)) = calls.last() {
                    let parent = local(*parent);
                    low[parent] = low[parent].min(low[at]);
                }
                if low[at] == order[at] {
                    let mut component = Vec::new();
                    while let Some(top) = stack.pop() {
                        on_stack[local(top)] = false;
                        component.push(top);
                        if top == node {
                            break;
                        }
                    }
                    if component.len() > 1 || self.code.successors(node).any(|to| to == node) {
                        component.sort_unstable();
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// Returns the headers of `component`, which is the current region. If only an indirect jump reaches the component, none is found, and
    /// its first instruction is taken as the header.
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
