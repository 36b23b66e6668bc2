//! A roofline (Williams, Waterman and Patterson, CACM 52(4), 2009): performance over operational intensity, both with logarithmic scales. The roofs
//! are what the machine can reach; the points are what programs reach.

use super::plot;
use crate::markup::{Markup, Safe};

const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;
const RIGHT: f64 = 20.0;

/// The picture.
#[derive(Clone, Debug, Default)]
pub struct Roofline {
    /// Its title.
    pub title: String,
    /// What it shows.
    pub note: String,
    /// Memory bandwidth, bytes per second.
    pub bytes_per_s: f64,
    /// Horizontal roofs: a name, and operations per second. The first one is the lowest.
    pub roofs: Vec<(String, f64)>,
    /// The programs.
    pub points: Vec<Point>,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// Operations per byte; `None` for a program that moves no data: it stands at the right edge.
    pub intensity: Option<f64>,
    /// Operations per second.
    pub operations_per_s: f64,
}

/// Powers of ten that a scale covers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decades {
    from: i32,
    until: i32,
}

impl Decades {
    /// Covers all values that are above 0.
    fn around(values: impl Iterator<Item = f64>) -> Decades {
        let logs = values.filter(|value| *value > 0.0 && value.is_finite()).map(f64::log10);
        let (least, most) =
            logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), log| (least.min(log), most.max(log)));
        if least > most {
            return Decades { from: 0, until: 1 };
        }
        let (from, until) = (least.floor() as i32, most.ceil() as i32);
        Decades { from, until: until.max(from + 1) }
    }

    /// Returns the place of a value, from 0 to 1.
    fn place(self, value: f64) -> f64 {
        ((value.log10() - f64::from(self.from)) / f64::from(self.until - self.from)).clamp(0.0, 1.0)
    }

    fn marks(self) -> impl Iterator<Item = f64> {
        (self.from..=self.until).map(|power| 10f64.powi(power))
    }
}

impl Roofline {
    pub(super) fn write(&self, out: &mut Markup) {
        plot::caption(out, &self.title, &self.note);
        // The ridge of each roof is visible, with room to its right.
        let ridges = self.roofs.iter().map(|(_, roof)| roof / self.bytes_per_s);
        let intensities = self.points.iter().filter_map(|point| point.intensity);
        let across = Decades::around(intensities.chain(ridges.map(|ridge| ridge * 5.0)).chain([0.05]));
        let reached = self.points.iter().map(|point| point.operations_per_s);
        let up = Decades::around(reached.chain(self.roofs.iter().map(|(_, roof)| roof * 1.2)));
        let x = |intensity: f64| LEFT + across.place(intensity) * (WIDTH - LEFT - RIGHT);
        let y = |rate: f64| HEIGHT - BOTTOM - up.place(rate) * (HEIGHT - TOP - BOTTOM);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        writeln!(
            out,
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><g class=\"axis\">",
            Safe(&self.title)
        );
        for mark in across.marks() {
            write!(
                out,
                "<path class=\"grid\" d=\"M{0:.1} {TOP}V{bottom}\"/><text x=\"{0:.1}\" y=\"{1}\">{mark}</text>",
                x(mark),
                bottom + 17.0
            );
        }
        for mark in up.marks() {
            write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{right}\"/><text class=\"left\" x=\"{1}\" y=\"{2:.1}\">{3}</text>",
                y(mark),
                LEFT - 6.0,
                y(mark) + 4.0,
                rate(mark)
            );
        }
        let middle = (LEFT + right) / 2.0;
        writeln!(out, "<text x=\"{middle}\" y=\"{}\">operations per byte</text></g>", HEIGHT - 8.0);
        for (at, (name, roof)) in self.roofs.iter().enumerate() {
            let from = 10f64.powi(across.from).max(10f64.powi(up.from) / self.bytes_per_s);
            let ridge = roof / self.bytes_per_s;
            // The slope is the same for all roofs: the highest one has all of it.
            let begin = if at + 1 == self.roofs.len() {
                format!("M{:.1} {:.1}L{:.1} {:.1}", x(from), y(from * self.bytes_per_s), x(ridge), y(*roof))
            } else {
                format!("M{:.1} {:.1}", x(ridge), y(*roof))
            };
            write!(out, "<path class=\"limit\" d=\"{begin}H{right}\"/>");
            writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}: {}</text>",
                right - 4.0,
                y(*roof) - 6.0,
                Safe(name),
                rate(*roof)
            );
        }
        for (at, point) in self.points.iter().enumerate() {
            let (cx, cy) = (point.intensity.map_or(right - 8.0, &x), y(point.operations_per_s));
            writeln!(
                out,
                "<circle class=\"t{}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"6\"><title>{}: {}</title></circle>",
                at % 7,
                Safe(&point.name),
                rate(point.operations_per_s)
            );
        }
        out.push_str("</svg></div>\n");
        let entries: Vec<(String, String)> =
            self.points.iter().enumerate().map(|(at, point)| (format!("t{}", at % 7), point.words())).collect();
        plot::legend(out, &entries);
        out.push_str("</figure>\n");
    }
}

impl Point {
    fn words(&self) -> String {
        let at = match self.intensity {
            Some(intensity) => format!("{intensity:.2} operations per byte"),
            None => "moves no data".to_owned(),
        };
        format!("{}: {}, {at}", self.name, rate(self.operations_per_s))
    }
}

/// Formats operations per second.
fn rate(per_s: f64) -> String {
    match per_s {
        1e9.. => format!("{} Gop/s", rounded(per_s / 1e9)),
        _ => format!("{} Mop/s", rounded(per_s / 1e6)),
    }
}

/// Three digits, and no zeros at the end of round numbers.
fn rounded(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. if value.fract() != 0.0 => format!("{value:.1}"),
        _ if value.fract() != 0.0 && value >= 0.1 => format!("{value:.2}"),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_decades_around_all_values() {
        let around = |values: &[f64]| Decades::around(values.iter().copied());
        assert_eq!(around(&[0.083, 25.0]), Decades { from: -2, until: 2 });
        assert_eq!(around(&[1.0]), Decades { from: 0, until: 1 });
        assert_eq!(around(&[0.0, f64::INFINITY]), Decades { from: 0, until: 1 });
        let decades = Decades { from: -1, until: 1 };
        assert_eq!([0.1, 1.0, 10.0, 1000.0].map(|value| decades.place(value)), [0.0, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn points_stand_below_their_roofs() {
        let roofline = Roofline {
            title: "Roofline".into(),
            note: String::new(),
            bytes_per_s: 1e10,
            roofs: vec![("scalar".into(), 1e10), ("vector".into(), 1e11)],
            points: vec![
                Point { name: "triad".into(), intensity: Some(0.1), operations_per_s: 1e9 },
                Point { name: "mandelbrot".into(), intensity: None, operations_per_s: 5e9 },
            ],
        };
        let mut out = Markup::default();
        roofline.write(&mut out);
        let svg = out.0;
        // Across from 0.01 to 100: triad is a quarter of the way. Up from 1 Gop/s to 1000 Gop/s.
        let place = |share: f64| LEFT + share * (WIDTH - LEFT - RIGHT);
        let triad = format!("cx=\"{:.1}\" cy=\"{:.1}\"", place(0.25), HEIGHT - BOTTOM);
        assert!(svg.contains(&triad), "{triad} in {svg}");
        assert!(svg.contains(&format!("cx=\"{:.1}\"", WIDTH - RIGHT - 8.0)), "{svg}");
        // The slope ends where the highest roof begins, at 10 operations per byte.
        let ridge = format!("L{:.1} {:.1}H", place(0.75), HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * 2.0 / 3.0);
        assert!(svg.contains(&ridge), "{ridge} in {svg}");
        assert!(
            svg.contains("mandelbrot: 5 Gop/s, moves no data")
                && svg.contains("triad: 1 Gop/s, 0.10 operations per byte")
        );
    }
}
