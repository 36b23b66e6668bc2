//! Who waits for whom: threads whose blocks were ended by others, as arcs and as a table.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};

use advise::numbers::{count, duration};
use ledger::WokenBy;

use super::View;
use super::plot;
use crate::markup::Safe;
use crate::round::{percent, permille};
use crate::style::shortened;

/// Nodes of the picture.
const NODES: usize = 30;
/// Arcs of the picture, and rows of the table.
const EDGES: usize = 60;

/// One waits for the other.
struct Edge {
    sleeper: u32,
    waker: u32,
    times: u64,
    ns: u64,
}

pub(super) fn write(out: &mut String, view: &View) -> fmt::Result {
    let (edges, names) = edges(view);
    let all_ns: u64 = edges.iter().fold(0, |sum, edge| sum.saturating_add(edge.ns));
    plot::caption(
        out,
        "Blocked threads, and those that woke them",
        "An arrow goes from a thread that was blocked to the one that ended it; the thicker, the longer it was blocked by then.",
    )?;
    if edges.is_empty() {
        out.push_str("<p class=\"none\">Nobody was seen to end another’s block.</p></figure>\n");
        return Ok(());
    }
    let nodes = nodes(&edges);
    let drawn: Vec<&Edge> = edges
        .iter()
        .filter(|edge| edge.waker != edge.sleeper && nodes.contains(&edge.waker) && nodes.contains(&edge.sleeper))
        .take(EDGES)
        .collect();
    arcs(out, &nodes, &drawn, &names)?;
    let drawn_ns = drawn.iter().fold(0u64, |sum, edge| sum.saturating_add(edge.ns));
    plot::legend(out, &[("a-down", "waits for one below"), ("a-up", "waits for one above")])?;
    if drawn.len() < edges.len() {
        let share = permille(&[drawn_ns, all_ns.saturating_sub(drawn_ns)])[0];
        writeln!(
            out,
            "<p>Drawn are {} of {} pairs, with {} of the time.</p>",
            drawn.len(),
            count(edges.len() as u64),
            percent(share)
        )?;
    }
    out.push_str("</figure>\n");
    tabled(out, &edges, all_ns, &names)
}

/// Set in the key of a thread outside the container.
const OUTSIDE: u32 = 1 << 31;
/// The key of all threads of other users, which have a name and no id.
const ANOTHER_USERS: u32 = u32::MAX;

/// All pairs, longest first, and what those in them are called.
fn edges(view: &View) -> (Vec<Edge>, HashMap<u32, String>) {
    let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    let mut names: HashMap<u32, String> = HashMap::from([(0, "interrupt or timer".to_owned())]);
    for thread in ledger::summary::threads(&view.document.account) {
        for WokenBy { tid, host_tid, comm, count, blocked_ns } in &thread.woken_by {
            // No thread inside has such an id.
            let waker = match (host_tid, comm) {
                (Some(host), _) => host | OUTSIDE,
                (None, Some(_)) if *tid == 0 => ANOTHER_USERS,
                _ => *tid,
            };
            let sum = sums.entry((thread.tid, waker)).or_default();
            *sum = (sum.0.saturating_add(*count), sum.1.saturating_add(*blocked_ns));
            names.entry(thread.tid).or_insert_with(|| view.name(thread.tid));
            let name = || match (comm, host_tid) {
                (Some(comm), _) if *tid == 0 => comm.clone(),
                (Some(comm), _) => format!("{tid} {comm}"),
                (None, None) => format!("{tid} (not ours)"),
                (None, Some(host)) => format!("host {host} (outside)"),
            };
            names.entry(waker).or_insert_with(name);
        }
    }
    let edge = |((sleeper, waker), (times, ns))| Edge { sleeper, waker, times, ns };
    let mut edges: Vec<Edge> = sums.into_iter().map(edge).filter(|edge| edge.ns > 0).collect();
    edges.sort_by_key(|edge| (std::cmp::Reverse(edge.ns), edge.sleeper, edge.waker));
    (edges, names)
}

/// Those of the longest waits, in order of their ids; interrupts last, they wait for nobody.
fn nodes(edges: &[Edge]) -> Vec<u32> {
    let mut nodes: Vec<u32> = Vec::new();
    for edge in edges {
        let new: Vec<u32> = [edge.sleeper, edge.waker].into_iter().filter(|tid| !nodes.contains(tid)).collect();
        if nodes.len() + new.len() <= NODES {
            nodes.extend(new);
        }
    }
    nodes.sort_by_key(|tid| (*tid == 0, *tid));
    nodes.dedup();
    nodes
}

fn arcs(out: &mut String, nodes: &[u32], drawn: &[&Edge], names: &HashMap<u32, String>) -> fmt::Result {
    let (row, left, top) = (24, 190, 14);
    let place = |tid: u32| nodes.iter().position(|node| *node == tid).unwrap_or(0) as i64 * row + top;
    let farthest = drawn.iter().map(|edge| (place(edge.sleeper) - place(edge.waker)).abs()).max().unwrap_or(row);
    // As wide as high, but never so wide that it does not fit.
    let reach = |distance: i64| 24 + distance * 300 / farthest.max(300);
    let (width, height) = (left + 370, nodes.len() as i64 * row + 8);
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"who waits for whom\"><svg class=\"arcs\" style=\"width:{width}px\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"who waits for whom; the table below says the same\">"
    )?;
    let most = drawn.iter().map(|edge| edge.ns).max().unwrap_or(1).max(1) as f64;
    // Many thick ones would cover one another.
    let thickest = if drawn.len() > 20 { 2.5 } else { 6.0 };
    for edge in drawn {
        let (from, to) = (place(edge.sleeper), place(edge.waker));
        // Each direction has its own bend, so that two who wait for one another are two arcs.
        let (class, marker, bend) = if to > from { ("down", "tip-down", 0) } else { ("up", "tip-up", 26) };
        let x = left + reach((to - from).abs()) + bend;
        let thick = 1.0 + thickest * (edge.ns as f64 / most).sqrt();
        writeln!(
            out,
            "<path class=\"arc {class}\" stroke-width=\"{thick:.1}\" marker-end=\"url(#{marker})\" d=\"M{0} {from}C{x} {from} {x} {to} {1} {to}\"><title>{2} waits for {3}: {4} times, {5}</title></path>",
            left + 5,
            left + 9,
            Safe(&names[&edge.sleeper]),
            Safe(&names[&edge.waker]),
            count(edge.times),
            duration(edge.ns)
        )?;
    }
    for tid in nodes {
        let y = place(*tid);
        let name = &names[tid];
        writeln!(
            out,
            "<circle class=\"node\" cx=\"{left}\" cy=\"{y}\" r=\"4\"/><text class=\"name\" x=\"{}\" y=\"{y}\">{}<title>{}</title></text>",
            left - 10,
            Safe(shortened(name, 24, "…")),
            Safe(name)
        )?;
    }
    out.push_str("</svg></div>\n");
    Ok(())
}

fn tabled(out: &mut String, edges: &[Edge], all_ns: u64, names: &HashMap<u32, String>) -> fmt::Result {
    let listed = &edges[..edges.len().min(EDGES)];
    let rest = listed.iter().fold(all_ns, |rest, edge| rest.saturating_sub(edge.ns));
    let parts: Vec<u64> = listed.iter().map(|edge| edge.ns).chain([rest]).collect();
    let shares = permille(&parts);
    out.push_str("<details><summary>The same as a table</summary><div class=\"scroll\"><table class=\"sortable\"><thead><tr><th scope=\"col\">thread</th><th scope=\"col\">waits for</th><th scope=\"col\" class=\"n\">times</th><th scope=\"col\" class=\"n\">blocked by then</th><th scope=\"col\" class=\"n\">of all</th></tr></thead><tbody>\n");
    for (edge, share) in listed.iter().zip(&shares) {
        writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\" data-v=\"{}\">{}</td><td class=\"n\">{}</td></tr>",
            Safe(&names[&edge.sleeper]),
            Safe(&names[&edge.waker]),
            count(edge.times),
            edge.ns,
            duration(edge.ns),
            percent(*share)
        )?;
    }
    out.push_str("</tbody></table></div>");
    if edges.len() > listed.len() {
        let more = count((edges.len() - listed.len()) as u64);
        writeln!(out, "<p>{more} more pairs have {} of the time.</p>", percent(shares[listed.len()]))?;
    }
    out.push_str("</details>\n");
    Ok(())
}
