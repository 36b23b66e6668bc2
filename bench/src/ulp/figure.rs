//! The source's figure: what a turn costs by the number of members, for each kind. Both axes are logarithmic.

use std::fmt::Write;

/// Size of the picture and of its margins, pixels: left, right, top, bottom.
const SIZE: (f64, f64) = (760.0, 460.0);
const MARGINS: [f64; 4] = [70.0, 220.0, 40.0, 50.0];
/// Least distance of two labels, pixels.
const LABELS: f64 = 16.0;
/// Colours of the lines; labels are black.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#a07000"];
/// Shorter times are drawn as this, ns: a logarithmic axis has no 0.
const LEAST_NS: f64 = 0.01;

/// The values of one kind: number of members, and ns for one turn.
pub(super) struct Line<'a> {
    pub name: &'a str,
    pub points: Vec<(u64, f64)>,
}

/// Returns the figure as SVG.
pub(super) fn svg(lines: &[Line<'_>]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = |of: &dyn Fn(&(u64, f64)) -> f64| {
        let values = points().map(of);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (fewest, most) = ends(&|point| (point.0 as f64).log10());
    let (low, high) = ends(&|point| point.1.max(LEAST_NS).log10());
    let (low, high) = (low.floor(), high.ceil());
    let [left, right, top, bottom] = MARGINS;
    let (right, bottom) = (SIZE.0 - right, SIZE.1 - bottom);
    let x = |count: u64| left + ((count as f64).log10() - fewest) / (most - fewest).max(0.1) * (right - left);
    let y = |ns: f64| bottom - (ns.max(LEAST_NS).log10() - low) / (high - low).max(1.0) * (bottom - top);

    let (width, height) = SIZE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"22\" font-size=\"14\">Time for one turn on one CPU, ns, by the number of members</text>\n"
    );
    for power in low as i32..=high as i32 {
        let ns = 10f64.powi(power);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{end}\" y=\"{text:.1}\" text-anchor=\"end\">{ns}</text>",
            at = y(ns),
            end = left - 8.0,
            text = y(ns) + 4.0,
        );
    }
    let mut counts: Vec<u64> = points().map(|point| point.0).collect();
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let _ =
            writeln!(svg, "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{count}</text>", x(count), bottom + 20.0);
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">members</text>",
        f64::midpoint(left, right),
        bottom + 40.0
    );
    for (line, (colour, label)) in lines.iter().zip(COLOURS.iter().cycle().zip(labels(lines, &y))) {
        let path: Vec<String> =
            line.points.iter().map(|(count, ns)| format!("{:.1} {:.1}", x(*count), y(*ns))).collect();
        let _ = writeln!(svg, "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", path.join("L"));
        for (count, ns) in &line.points {
            let _ = writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>", x(*count), y(*ns));
        }
        let _ = writeln!(svg, "<text x=\"{}\" y=\"{label:.1}\">{}</text>", right + 12.0, line.name);
    }
    svg + "</svg>\n"
}

/// Returns where the lines' labels are: beside their last points, but not on one another.
fn labels(lines: &[Line<'_>], y: &dyn Fn(f64) -> f64) -> Vec<f64> {
    let mut places = vec![0.0; lines.len()];
    let mut wanted: Vec<(f64, usize)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        wanted.push((line.points.last().map_or(0.0, |point| y(point.1) + 4.0), index));
    }
    wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = f64::NEG_INFINITY;
    for (at, index) in wanted {
        places[index] = at.max(least);
        least = places[index] + LABELS;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_line_and_a_label_of_its_own() {
        let line = |name, ns: [f64; 2]| Line { name, points: vec![(2, ns[0]), (300, ns[1])] };
        let lines = [line("ULPs", [12.0, 100.0]), line("threads", [900.0, 1000.0]), line("processes", [950.0, 1001.0])];
        let svg = svg(&lines);
        assert_eq!((svg.matches("<circle").count(), svg.matches("stroke-width").count()), (6, 3));
        assert!(svg.contains(">10</text>") && svg.contains(">10000</text>") && svg.contains(">300</text>"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        let places = labels(&lines, &|ns| -ns);
        assert!((places[1] - places[2]).abs() >= LABELS && places[0] > places[1], "{places:?}");
    }
}
