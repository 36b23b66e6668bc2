//! Switches and migrations: thread × time, and from which CPU to which.

use std::collections::{BTreeMap, BTreeSet};

use advise::numbers::{count, counted};

use super::heat::{Heat, Kind};
use super::view::View;
use super::{plot, scale};
use crate::markup::Markup;

/// Maximum number of CPUs in the matrix. If there are more, those with most migrations are shown.
const CPUS: usize = 64;

pub(super) fn write(out: &mut Markup, view: &View) {
    Heat {
        title: "Thread × time: context switches",
        note: "How often each thread left its CPU. Each shade starts at twice the number of the one before.",
        says: "{} switches",
        kind: Kind::Count(|cell| cell.switches),
    }
    .write(out, view);
    Heat {
        title: "Thread × time: migrations",
        note: "How often each thread moved to another CPU. Each shade starts at twice the number of the one before.",
        says: "{} migrations",
        kind: Kind::Count(|cell| cell.migrations),
    }
    .write(out, view);
    matrix(out, view);
}

fn matrix(out: &mut Markup, view: &View) {
    let moves = &view.timeline.moves;
    let total: u64 = moves.values().sum();
    plot::caption(
        out,
        "CPU → CPU: migrations",
        &format!("{} in the window: the row is the old CPU, the column the new CPU.", counted(total, "migration")),
    );
    if total == 0 {
        out.push_str("<p class=\"none\">None.</p></figure>\n");
        return;
    }
    plot::warnings(out, view.holes());
    let cpus = cpus(moves);
    let most = moves.values().copied().max().unwrap_or(0);
    let size = (560 / cpus.len() as u64).clamp(9, 56);
    let (left, top) = (64, 40);
    let side = size * cpus.len() as u64;
    let (width, height) = (left + side + 4, top + side + 4);
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"migrations from CPU to CPU\"><svg class=\"matrix\" style=\"width:{width}px\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"migrations from CPU to CPU\">"
    );
    write!(
        out,
        "<g class=\"axis\"><text x=\"{}\" y=\"14\">to CPU</text><text transform=\"translate(14 {}) rotate(-90)\">from CPU</text>",
        left + side / 2,
        top + side / 2
    );
    // CPU numbers are written only where they fit.
    let every = 14u64.div_ceil(size) as usize;
    for (at, cpu) in cpus.iter().enumerate().step_by(every) {
        let middle = at as u64 * size + size / 2;
        write!(out, "<text x=\"{}\" y=\"{}\">{cpu}</text>", left + middle, top - 8);
        write!(out, "<text class=\"left\" x=\"{}\" y=\"{}\">{cpu}</text>", left - 8, top + middle + 4);
    }
    writeln!(out, "</g>\n<rect class=\"ground\" x=\"{left}\" y=\"{top}\" width=\"{side}\" height=\"{side}\"/>");
    for (row, from) in cpus.iter().enumerate() {
        for (column, to) in cpus.iter().enumerate() {
            let Some(number) = moves.get(&(*from, *to)) else { continue };
            let (x, y) = (left + column as u64 * size, top + row as u64 * size);
            let shade = scale::of_count(*number, most);
            write!(
                out,
                "<rect class=\"q{shade}\" x=\"{x}\" y=\"{y}\" width=\"{0}\" height=\"{0}\"><title>CPU {from} → CPU {to}: {1}</title></rect>",
                size - 1,
                count(*number)
            );
            if size >= 40 {
                writeln!(
                    out,
                    "<text class=\"in q{shade}-text\" x=\"{}\" y=\"{}\">{}</text>",
                    x + size / 2,
                    y + size / 2 + 4,
                    short(*number)
                );
            }
        }
    }
    out.push_str("</svg></div>\n");
    plot::shades(out, most, |first, _| if first == 1 { "from 1".to_owned() } else { count(first) });
    out.push_str("</figure>\n");
}

/// Returns the CPUs with migrations: all, or those with most if there are many.
fn cpus(moves: &BTreeMap<(u16, u16), u64>) -> Vec<u16> {
    let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
    for ((from, to), number) in moves {
        *sums.entry(*from).or_default() += number;
        *sums.entry(*to).or_default() += number;
    }
    let mut cpus: Vec<(u16, u64)> = sums.into_iter().collect();
    cpus.sort_by_key(|(cpu, sum)| (std::cmp::Reverse(*sum), *cpu));
    cpus.into_iter().take(CPUS).map(|(cpu, _)| cpu).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Formats a number so that it fits into a cell.
fn short(number: u64) -> String {
    match number {
        0..=9_999 => number.to_string(),
        10_000..=999_999 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}
