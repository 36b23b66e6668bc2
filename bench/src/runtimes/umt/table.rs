//! The printed table: one line per point (an application, what blocks it, and a ratio of work to waiting).

use std::fmt::Write;

use serde::Serialize;

use super::super::way::{MANUAL, Way, serialize_name};
use super::bound::Bound;
use super::detail::Detail;
use crate::stats::{median, median_estimate};

/// The results of one application at one ratio of work to waiting, run with every runtime and its settings.
#[derive(Debug, Serialize)]
pub struct Point {
    pub app: &'static str,
    pub blocking: &'static str,
    /// Ratio of work to waiting.
    pub ratio: &'static str,
    #[serde(flatten)]
    pub bound: Bound,
    pub by_way: Vec<Runs>,
    /// Results of the traced runs.
    pub details: Vec<Detail>,
}

/// The times with one runtime and its settings (one `way`), by round.
#[derive(Debug, Serialize)]
pub struct Runs {
    #[serde(serialize_with = "serialize_name")]
    pub way: Way,
    pub seconds: Vec<f64>,
    /// CPU time of all processes, s.
    pub cpu_s: Vec<f64>,
}

const WIDTH: usize = 10;

impl Point {
    fn of(&self, way: Way) -> Option<&Runs> {
        self.by_way.iter().find(|runs| runs.way == way)
    }

    /// Returns the runs with the runtime and settings whose median time is shortest.
    fn best(&self, ways: impl Iterator<Item = Way>) -> Option<&Runs> {
        let runs = ways.filter_map(|way| self.of(way));
        runs.min_by(|a, b| median(&a.seconds).total_cmp(&median(&b.seconds)))
    }

    /// Returns the runs of libgomp or libomp with the number of threads per CPU whose median time is shortest; `None` unless several numbers were
    /// measured.
    pub fn best_manual(&self) -> Option<&Runs> {
        self.of(Way::Gomp(MANUAL[1]))?;
        self.best(MANUAL.into_iter().flat_map(|times| [Way::Gomp(times), Way::Omp(times)]))
    }

    /// Returns the efficiency as text: the lower bound of the time ÷ the measured time. If `says_times` is set, appends the number of threads per
    /// CPU.
    fn efficiency(&self, runs: Option<&Runs>, says_times: bool) -> String {
        let Some(runs) = runs else { return "–".to_owned() };
        let efficiency = self.bound.seconds() / median(&runs.seconds);
        match runs.way {
            Way::Gomp(times) | Way::Omp(times) if says_times => format!("{efficiency:.2} ({times}x)"),
            _ => format!("{efficiency:.2}"),
        }
    }

    /// Returns the speed-up of our runtime with BPF programs ([`Way::Bpf`]) over `other`: the median of the ratios of two runs of the same round.
    fn faster_than(&self, other: Option<&Runs>) -> String {
        let Some((ours, other)) = self.of(Way::Bpf).zip(other) else { return "–".to_owned() };
        let faster: Vec<f64> = other.seconds.iter().zip(&ours.seconds).map(|(other, ours)| other / ours).collect();
        let estimate = median_estimate(&faster);
        match estimate.interval {
            Some((low, high)) => format!("{:.2}x ({low:.2}–{high:.2})", estimate.median),
            None => format!("{:.2}x", estimate.median),
        }
    }
}

/// Returns the heading of the table.
pub fn heading(runs: u16, manual: bool) -> String {
    let mut text = format!(
        "efficiency (lower bound ÷ time), medians of {runs} runs; speed-ups of bpf, medians of the rounds (95 %)\n{:27}{:>7}{:>7}{:>7}",
        "", "work s", "disk s", "net s"
    );
    let peers = if manual { &["libgomp", "libomp", "best", "best"][..] } else { &["libgomp", "libomp"] };
    for name in peers.iter().map(ToString::to_string).chain(Way::OURS.map(Way::name)) {
        write!(text, "{name:>width$}", width = WIDTH.max(name.len() + 1)).unwrap_or_default();
    }
    text.push_str("   bpf over libgomp");
    text.push_str(if manual { "   bpf over the best manual" } else { "" });
    text
}

/// Returns the table line of a point, that is, of one application at one ratio of work to waiting.
pub fn line(point: &Point, manual: bool) -> String {
    let (name, bound) = (format!("{} {}", point.app, point.blocking), &point.bound);
    let mut text = format!("{name:19}{:8}{:7.2}{:7.2}{:7.2}", point.ratio, bound.work_s, bound.disk_s, bound.network_s);
    let mut cell = |text_of: String, name: &str| {
        write!(text, "{text_of:>width$}", width = WIDTH.max(name.len() + 1)).unwrap_or_default();
    };
    for way in [Way::Gomp(1), Way::Omp(1)] {
        cell(point.efficiency(point.of(way), false), "");
    }
    if manual {
        cell(point.efficiency(point.best(MANUAL.into_iter().map(Way::Gomp)), true), "");
        cell(point.efficiency(point.best(MANUAL.into_iter().map(Way::Omp)), true), "");
    }
    for way in Way::OURS {
        cell(point.efficiency(point.of(way), false), &way.name());
    }
    write!(text, "   {}", point.faster_than(point.of(Way::Gomp(1)))).unwrap_or_default();
    if manual {
        write!(text, "   {}", point.faster_than(point.best_manual())).unwrap_or_default();
        point.best_manual().iter().for_each(|best| write!(text, " {}", best.way.name()).unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(by_way: &[(Way, f64)]) -> Point {
        let by_way =
            by_way.iter().map(|(way, s)| Runs { way: *way, seconds: vec![*s; 6], cpu_s: Vec::new() }).collect();
        let bound = Bound { work_s: 1.0, disk_s: 2.0, network_s: 0.0 };
        Point { app: "heat", blocking: "disk", ratio: "1:2", bound, by_way, details: Vec::new() }
    }

    #[test]
    fn the_best_manual_is_the_fastest_of_both_peers() {
        let all = [
            (Way::Gomp(1), 4.0),
            (Way::Gomp(2), 3.2),
            (Way::Gomp(4), 2.5),
            (Way::Gomp(8), 2.8),
            (Way::Omp(1), 4.2),
            (Way::Omp(2), 3.0),
            (Way::Bpf, 2.2),
        ];
        let measured = point(&all);
        assert_eq!(measured.best_manual().unwrap().way, Way::Gomp(4));
        let text = line(&measured, true);
        for part in ["0.50", "0.80 (4x)", "0.67 (2x)", "1.82x (1.82–1.82)", "1.14x (1.14–1.14) libgomp 4x", "–"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // One thread for each CPU is manual, too, where the others were measured.
        let slower = point(&[(Way::Gomp(1), 1.0), (Way::Gomp(2), 3.2), (Way::Bpf, 1.0)]);
        assert_eq!(slower.best_manual().unwrap().way, Way::Gomp(1));
        assert!(point(&[(Way::Gomp(1), 1.0), (Way::Bpf, 1.0)]).best_manual().is_none());
    }

    #[test]
    fn columns_are_below_their_heads() {
        let measured = point(&[(Way::Gomp(1), 4.0), (Way::StandbyIdle, 2.5), (Way::Bpf, 2.0)]);
        for manual in [false, true] {
            let heading = heading(6, manual);
            let heads = heading.lines().last().unwrap();
            let text = line(&measured, manual);
            let end_of = |head: &str| heads[..heads.find(head).unwrap() + head.len()].chars().count();
            for (head, value) in [("standby-idle", "0.80"), (" bpf", "1.00"), ("disk s", "2.00")] {
                let before: String = text.chars().take(end_of(head)).collect();
                assert!(before.ends_with(value), "{head}:\n{heads}\n{text}");
            }
        }
    }
}
