//! Which thread waits for which: a matrix and a table of the threads that woke blocked threads.

use std::collections::{BTreeMap, HashMap};

use advise::numbers::{count, duration};
use ledger::WokenBy;

use super::view::View;
use super::{plot, scale};
use crate::markup::{Markup, Safe};
use crate::round::{percent, permille};

/// Maximum number of rows, and of columns, of the matrix.
const SIDE: usize = 30;
/// Maximum number of rows of the table.
const EDGES: usize = 60;

/// A pair of threads: the first one was woken by the second one.
struct Edge {
    sleeper: u32,
    waker: u32,
    times: u64,
    ns: u64,
}

pub(super) fn write(out: &mut Markup, view: &View) {
    let (edges, names) = edges(view);
    let all_ns: u64 = edges.iter().fold(0, |sum, edge| sum.saturating_add(edge.ns));
    plot::caption(
        out,
        "Blocked threads, and those that woke them",
        "Row: the blocked thread. Column: the thread that ended the block. The darker the cell, the longer the row’s thread was blocked. \
         Each shade starts at twice the time of the one before.",
    );
    if edges.is_empty() {
        out.push_str("<p class=\"none\">No wake-ups between threads were seen.</p></figure>\n");
        return;
    }
    let matrix = Matrix::of(&edges);
    matrix.write(out, &names);
    if matrix.cells.len() < edges.len() {
        let drawn_ns = matrix.cells.iter().fold(0u64, |sum, edge| sum.saturating_add(edge.ns));
        let share = permille(&[drawn_ns, all_ns.saturating_sub(drawn_ns)])[0];
        writeln!(
            out,
            "<p>The picture shows {} of {} pairs, which account for {} of the time.</p>",
            matrix.cells.len(),
            count(edges.len() as u64),
            percent(share)
        );
    }
    out.push_str("</figure>\n");
    tabled(out, &edges, all_ns, &names);
}

/// A thread's key is normally its thread id. This bit is set in the key of a thread outside the container.
const OUTSIDE: u32 = 1 << 31;
/// The common key of all threads of other users: cox knows a name for them, but no thread ids.
const ANOTHER_USERS: u32 = u32::MAX;

/// Returns all pairs, the longest wait first, and the names of their threads.
fn edges(view: &View) -> (Vec<Edge>, HashMap<u32, String>) {
    let mut sums: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    let mut names: HashMap<u32, String> = HashMap::from([(0, "interrupt or timer".to_owned())]);
    for thread in ledger::summary::threads(&view.document.account) {
        for WokenBy { tid, host_tid, comm, count, blocked_ns } in &thread.woken_by {
            // Ids of threads inside the container are smaller than `OUTSIDE`, so the keys cannot coincide.
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
                (None, None) => format!("{tid} (untracked)"),
                (None, Some(host)) => format!("host {host} (outside the container)"),
            };
            names.entry(waker).or_insert_with(name);
        }
    }
    let edge = |((sleeper, waker), (times, ns))| Edge { sleeper, waker, times, ns };
    let mut edges: Vec<Edge> = sums.into_iter().map(edge).filter(|edge| edge.ns > 0).collect();
    edges.sort_by_key(|edge| (std::cmp::Reverse(edge.ns), edge.sleeper, edge.waker));
    (edges, names)
}

/// The threads of the pairs with the longest waits, in the order of their ids, and all pairs among these threads.
struct Matrix<'e> {
    sleepers: Vec<u32>,
    wakers: Vec<u32>,
    cells: Vec<&'e Edge>,
}

impl Matrix<'_> {
    fn of(edges: &[Edge]) -> Matrix<'_> {
        let (mut sleepers, mut wakers): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for edge in edges {
            let (row, column) = (sleepers.contains(&edge.sleeper), wakers.contains(&edge.waker));
            if (row || sleepers.len() < SIDE) && (column || wakers.len() < SIDE) {
                sleepers.extend((!row).then_some(edge.sleeper));
                wakers.extend((!column).then_some(edge.waker));
            }
        }
        sleepers.sort_unstable();
        // Interrupts (id 0) are not a thread, so they come last.
        wakers.sort_unstable_by_key(|tid| (*tid == 0, *tid));
        let cells = edges.iter().filter(|edge| sleepers.contains(&edge.sleeper) && wakers.contains(&edge.waker));
        Matrix { cells: cells.collect(), sleepers, wakers }
    }

    fn write(&self, out: &mut Markup, names: &HashMap<u32, String>) {
        const LEFT: u64 = 166;
        const TOP: u64 = 128;
        let (rows, columns) = (self.sleepers.len() as u64, self.wakers.len() as u64);
        let size = (600 / rows.max(columns)).clamp(18, 40);
        // Leaves room to the right, because column names are slanted.
        let (width, height) = (LEFT + columns * size + 84, TOP + rows * size + 4);
        writeln!(
            out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"who waits for whom\"><svg class=\"matrix waits\" style=\"width:{width}px\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"who waits for whom; the table below says the same\">"
        );
        write!(
            out,
            "<g class=\"axis\"><text class=\"left\" x=\"{0}\" y=\"{1}\">blocked ↓ · woken by →</text></g>",
            LEFT - 8,
            TOP - 10
        );
        for (at, tid) in (0..).zip(&self.sleepers) {
            plot::name_in(out, (0, TOP + at * size, LEFT - 8, size), &names[tid]);
        }
        for (at, tid) in (0..).zip(&self.wakers) {
            write!(
                out,
                "<g class=\"up\" transform=\"translate({} {}) rotate(-55)\">",
                LEFT + at * size + size / 2,
                TOP - 6
            );
            plot::name_in(out, (0, 0, 140, 14), &names[tid]);
            out.push_str("</g>");
        }
        writeln!(
            out,
            "<rect class=\"ground\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
            columns * size,
            rows * size
        );
        // Grid lines. They help the reader to find the two names of a cell.
        out.push_str("<path class=\"lines\" d=\"");
        (1..rows).for_each(|at| write!(out, "M{LEFT} {}.5h{}", TOP + at * size - 1, columns * size));
        (1..columns).for_each(|at| write!(out, "M{}.5 {TOP}v{}", LEFT + at * size - 1, rows * size));
        out.push_str("\"/>\n");
        let most = self.cells.iter().map(|edge| edge.ns).max().unwrap_or(0);
        for edge in &self.cells {
            let place = |tids: &[u32], tid: u32| tids.iter().position(|of| *of == tid).unwrap_or(0) as u64 * size;
            writeln!(
                out,
                "<rect class=\"q{0}\" x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{3}\"><title>{4} waits for {5}: {6} times, {7}</title></rect>",
                scale::of_count(edge.ns, most),
                LEFT + place(&self.wakers, edge.waker),
                TOP + place(&self.sleepers, edge.sleeper),
                size - 1,
                Safe(&names[&edge.sleeper]),
                Safe(&names[&edge.waker]),
                count(edge.times),
                duration(edge.ns)
            );
        }
        out.push_str("</svg></div>\n");
        plot::shades(out, most, |first, next| match first {
            1 => format!("below {}", duration(next.unwrap_or(most))),
            _ => format!("from {}", duration(first)),
        });
    }
}

fn tabled(out: &mut Markup, edges: &[Edge], all_ns: u64, names: &HashMap<u32, String>) {
    let listed = &edges[..edges.len().min(EDGES)];
    let rest = listed.iter().fold(all_ns, |rest, edge| rest.saturating_sub(edge.ns));
    let parts: Vec<u64> = listed.iter().map(|edge| edge.ns).chain([rest]).collect();
    let shares = permille(&parts);
    out.push_str("<details open><summary>The same as a table</summary><div class=\"scroll\"><table class=\"sortable\"><thead><tr><th scope=\"col\">thread</th><th scope=\"col\">waits for</th><th scope=\"col\" class=\"n\">times</th><th scope=\"col\" class=\"n\">blocked for</th><th scope=\"col\" class=\"n\">of all</th></tr></thead><tbody>\n");
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
        );
    }
    out.push_str("</tbody></table></div>");
    if edges.len() > listed.len() {
        let more = count((edges.len() - listed.len()) as u64);
        writeln!(out, "<p>{more} more pairs together account for {} of the time.</p>", percent(shares[listed.len()]));
    }
    out.push_str("</details>\n");
}
