//! How long detours were: their number and their share of the stolen time, by length and class.

use advise::numbers::{count, counted, duration};

use super::super::plot;
use super::axis::{self, Axis};
use super::classes::{self, CLASSES, Class};
use crate::markup::Markup;
use crate::noise::{Cpu, NoiseReport};
use crate::round::{percent, permille};

const WIDTH: u64 = 500;
const HEIGHT: u64 = 220;
const LEFT: u64 = 58;
const TOP: f64 = 8.0;
/// Width of the bars. The rest is room for the last mark's name.
const PLOT: u64 = WIDTH - LEFT - 26;

/// What the detours of one class and of about the same length are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    count: u64,
    ns: u64,
}

/// The cells of all bins, with the classes in their order.
type Bins = Vec<[Cell; CLASSES.len()]>;

pub(super) fn write(out: &mut Markup, report: &NoiseReport, cpu: &Cpu) {
    let detours: Vec<(u64, Class)> = cpu
        .detours
        .iter()
        .map(|(_, length, cause)| (cpu.lost_ns(*length), classes::of(&report.causes, *cause)))
        .collect();
    let Some(least_ns) = detours.iter().map(|(ns, _)| *ns).min() else { return };
    let most_ns = detours.iter().map(|(ns, _)| *ns).max().unwrap_or(least_ns);
    let bins = bins(&detours);
    let axis = Axis::new((least_ns, most_ns), LEFT as f64, PLOT as f64);
    let used = classes::used(|class| detours.iter().any(|(_, of)| *of == class));
    let total = Cell { count: detours.len() as u64, ns: detours.iter().map(|(ns, _)| ns).sum() };
    let half = half_of_time(&bins, total.ns);
    out.push_str("<div class=\"pair\">");
    let note = format!("{}, by length and class of the cause.", counted(total.count, "detour"));
    picture(out, ("Number of detours by length", &note), &bins, axis, |cell| cell.count);
    let note = format!("{} were stolen; half of it by detours of {} or longer.", duration(total.ns), duration(half));
    picture(out, ("Stolen time by length of the detours", &note), &bins, axis, |cell| cell.ns);
    out.push_str("</div>\n");
    classes::legend(out, &used);
}

fn bins(detours: &[(u64, Class)]) -> Bins {
    let mut bins = Bins::new();
    for (ns, class) in detours {
        let bin = axis::bin(*ns);
        if bins.len() <= bin {
            bins.resize(bin + 1, [Cell::default(); CLASSES.len()]);
        }
        let cell = &mut bins[bin][classes::place(*class)];
        cell.count += 1;
        cell.ns += ns;
    }
    bins
}

/// Returns the length from which on detours account for half of the stolen time; a bin's begin.
fn half_of_time(bins: &Bins, total_ns: u64) -> u64 {
    let mut above = 0;
    for (bin, cells) in bins.iter().enumerate().rev() {
        above += cells.iter().map(|cell| cell.ns).sum::<u64>();
        if above * 2 >= total_ns {
            return axis::first_ns(bin);
        }
    }
    0
}

/// Draws one quantity of all cells as stacked bars. Shares are of the sum over all bars, and add up to 100 %.
fn picture(out: &mut Markup, (title, note): (&str, &str), bins: &Bins, axis: Axis, of: fn(&Cell) -> u64) {
    plot::caption(out, title, note);
    let sum = |cells: &[Cell; CLASSES.len()]| cells.iter().map(of).sum::<u64>();
    let most = bins.iter().map(sum).max().unwrap_or(1).max(1);
    let total = bins.iter().map(sum).sum::<u64>().max(1);
    let bottom = HEIGHT - 44;
    let height = |share: f64| share / (most as f64 / total as f64) * (bottom as f64 - TOP);
    writeln!(
        out,
        "<svg class=\"spread\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}, stacked by the class of the cause\"><g class=\"axis\">"
    );
    plot::shares(out, (LEFT, PLOT), most as f64 / total as f64, |share| bottom as f64 - height(share));
    axis.below(out, bottom);
    writeln!(out, "<text x=\"{}\" y=\"{}\">length of the detour</text></g>", LEFT + PLOT / 2, HEIGHT - 6);
    let flat: Vec<u64> = bins.iter().flatten().map(of).collect();
    let shares = permille(&flat);
    for (bin, (cells, shares)) in bins.iter().zip(shares.chunks(CLASSES.len())).enumerate() {
        let (x, width) = axis.bin(bin);
        let mut below = 0;
        for (cell, (share, class)) in cells.iter().zip(shares.iter().zip(CLASSES)).filter(|(cell, _)| cell.count > 0) {
            below += of(cell);
            let (top, own) = (height(below as f64 / total as f64), height(of(cell) as f64 / total as f64));
            writeln!(
                out,
                "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{own:.1}\" data-count=\"{}\" data-ns=\"{}\"><title>{}, {} to {}: {}, {}, together {}</title></rect>",
                class.css,
                bottom as f64 - top,
                (width - 0.6).max(0.4),
                cell.count,
                cell.ns,
                class.words,
                duration(axis::first_ns(bin)),
                duration(axis::first_ns(bin + 1)),
                count(cell.count),
                percent(*share),
                duration(cell.ns)
            );
        }
    }
    out.push_str("</svg></figure>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_detour_is_in_one_cell() {
        let (tick, thread) = (classes::named("tick"), classes::named("thread"));
        let detours: Vec<(u64, Class)> =
            (0..1_000).map(|at| (at * at, if at % 3 == 0 { thread } else { tick })).collect();
        let found = bins(&detours);
        let sum = |class: Class, of: fn(&Cell) -> u64| -> u64 {
            found.iter().map(|cells| of(&cells[classes::place(class)])).sum()
        };
        assert_eq!((sum(thread, |cell| cell.count), sum(tick, |cell| cell.count)), (334, 666));
        let all: u64 = detours.iter().map(|(ns, _)| ns).sum();
        assert_eq!(sum(thread, |cell| cell.ns) + sum(tick, |cell| cell.ns), all);
    }

    #[test]
    fn half_of_the_time_is_from_the_middle_on() {
        let tick = classes::named("tick");
        // 1,000 detours of 1 µs and one of 900 µs: the long one alone has less than half.
        let mut detours = vec![(1_000, tick); 1_000];
        detours.push((900_000, tick));
        assert_eq!(half_of_time(&bins(&detours), 1_900_000), 1_000);
        detours.push((900_000, tick));
        assert_eq!(half_of_time(&bins(&detours), 2_800_000), axis::first_ns(axis::bin(900_000)));
    }
}
