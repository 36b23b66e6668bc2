//! Histograms of quanta and steps: how often they took how much longer than the shortest one.

use std::collections::BTreeMap;

use advise::numbers::{count, counted, duration};

use super::super::plot;
use super::axis::{self, Axis};
use crate::markup::Markup;
use crate::noise::Cpu;

const WIDTH: u64 = 500;
const HEIGHT: u64 = 220;
const LEFT: u64 = 58;
const TOP: f64 = 8.0;
/// Width of the bars. The rest is room for the last mark's name.
const PLOT: u64 = WIDTH - LEFT - 26;
/// The count at which the logarithmic axis of counts begins: below 1, so that a single quantum has a bar.
const BEGIN: f64 = 0.5;

pub(super) fn write(out: &mut Markup, cpu: &Cpu) {
    let all = [
        ("Quanta", "quantum", "quanta", &cpu.quanta),
        ("Steps, with the barrier", "step", "steps", &cpu.steps),
        ("Work of the steps, up to the barrier", "step", "steps", &cpu.until_barrier),
    ];
    let known: Vec<_> =
        all.into_iter().filter_map(|(title, one, many, of)| Some((title, one, many, of.as_ref()?))).collect();
    if known.is_empty() {
        return;
    }
    writeln!(out, "<div class=\"{}\">", if known.len() == 1 { "pair one" } else { "pair" });
    for (title, one, many, histogram) in known {
        picture(out, title, (one, many), histogram);
    }
    out.push_str("</div>\n");
}

fn picture(out: &mut Markup, title: &str, (one, many): (&str, &str), histogram: &[(u64, u64)]) {
    let total: u64 = histogram.iter().map(|(_, number)| number).sum();
    let named = |number: u64| if number == 1 { counted(1, one) } else { format!("{} {many}", count(number)) };
    let (Some((shortest, _)), Some((longest, _))) = (histogram.first(), histogram.last()) else {
        plot::caption(out, title, "");
        writeln!(out, "<p class=\"none\">No {one} was measured.</p></figure>");
        return;
    };
    let median = quantile(histogram, total, 0.5);
    let note = format!(
        "{}: the shortest {}, half at most {} longer, the longest {}. The number is on a logarithmic scale.",
        named(total),
        length(*shortest),
        duration(median - shortest),
        length(*longest)
    );
    plot::caption(out, title, &note);
    let bottom = HEIGHT - 44;
    // Buckets become bars: a bar for each bin of the axis.
    let mut bars: BTreeMap<usize, u64> = BTreeMap::new();
    for (length_ns, number) in histogram {
        *bars.entry(axis::bin(length_ns - shortest)).or_default() += number;
    }
    let axis = Axis::new((1, longest - shortest), LEFT as f64, PLOT as f64);
    let most = bars.values().copied().max().unwrap_or(1) as f64;
    let height = |number: f64| (number / BEGIN).ln() / (most / BEGIN).ln() * (bottom as f64 - TOP);
    writeln!(
        out,
        "<svg class=\"spread\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"histogram: {title}\"><g class=\"axis\">"
    );
    let powers = (0..20).map(|power| 10_u64.pow(power)).take_while(|number| *number as f64 <= most);
    for number in powers {
        plot::line(out, (LEFT, PLOT), bottom as f64 - height(number as f64), &count(number));
    }
    axis.below(out, bottom);
    writeln!(out, "<text x=\"{}\" y=\"{}\">longer than the shortest {one}, by</text></g>", LEFT + PLOT / 2, HEIGHT - 6);
    for (bin, number) in &bars {
        let (x, width) = axis.bin(*bin);
        let bar = height(*number as f64);
        let from = if *bin == 0 { 0 } else { axis::first_ns(*bin) };
        writeln!(
            out,
            "<rect class=\"q5\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{bar:.1}\" data-count=\"{number}\"><title>{} to {} longer: {}</title></rect>",
            bottom as f64 - bar,
            width - 0.6,
            duration(from),
            duration(axis::first_ns(bin + 1)),
            named(*number)
        );
    }
    out.push_str("</svg></figure>\n");
}

/// Formats a length so that small differences are seen: `1,003.2 µs`.
fn length(ns: u64) -> String {
    format!("{}.{} µs", count(ns / 1_000), ns % 1_000 / 100)
}

/// Returns the shortest length of the bucket in which a part of all lengths ends.
fn quantile(histogram: &[(u64, u64)], total: u64, part: f64) -> u64 {
    let mut below = 0;
    for (length_ns, number) in histogram {
        below += number;
        if below as f64 >= total as f64 * part {
            return *length_ns;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_buckets() {
        let histogram = [(1_000, 3), (1_004, 1), (1_100, 4)];
        assert_eq!([0.1, 0.5, 0.51, 1.0].map(|part| quantile(&histogram, 8, part)), [1_000, 1_004, 1_100, 1_100]);
        assert_eq!(length(1_003_271), "1,003.2 µs");
    }
}
