//! Programs that cannot gain from overlap: either no task blocks, or there is no other work to do meanwhile. Our runtime must not make them slower.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::super::throttle::Throttle;
use super::super::way::Way;
use super::super::{Field, Line};
use super::table::Runs;
use crate::rounds::in_turns;
use crate::stats::{Estimate, median, median_estimate};

/// A program that cannot gain from overlap, and the name of the result that says how long it took.
struct Case {
    name: &'static str,
    program: &'static str,
    arguments: &'static str,
    takes_ns: &'static str,
    /// Speed of the throttled disk, bytes/s; `None`: not throttled.
    disk: Option<u64>,
}

const HEAT: Case = Case { name: "", program: "heat", arguments: "", takes_ns: "elapsed_ns", disk: None };
const SYNC: Case = Case { name: "", program: "taskcost", arguments: "", takes_ns: "ns_each", disk: None };
const CASES: [Case; 8] = [
    // Writes go to the page cache, so no thread waits.
    Case { name: "buffered I/O", arguments: "--size 1024 --block 128 --steps 50 --every 5 --work 20", ..HEAT },
    // Writes 200 MB at 100 MB/s, which takes 2 s. The computation takes a quarter of this time.
    Case {
        name: "saturated disk",
        arguments: "--size 1024 --block 128 --steps 50 --every 2 --direct",
        disk: Some(100_000_000),
        ..HEAT
    },
    Case { name: "tasks, heat", arguments: "--size 1024 --block 128 --steps 50 --work 20", ..HEAT },
    Case { name: "tasks, fwi", program: "fwi", arguments: "--steps 48 --iof 0 --work 20", ..HEAT },
    Case { name: "sync, barrier", arguments: "--row barrier --count 50000 --repeats 3", ..SYNC },
    Case { name: "sync, for", arguments: "--row for --count 50000 --repeats 3", ..SYNC },
    Case { name: "sync, single", arguments: "--row single --count 50000 --repeats 3", ..SYNC },
    Case { name: "sync, region", arguments: "--row region --count 20000 --repeats 3", ..SYNC },
];

/// The times of one program, run with every runtime and its settings.
#[derive(Debug, Serialize)]
pub struct Nothing {
    name: &'static str,
    by_way: Vec<Runs>,
}

/// Measures all programs. `print` gets each line as soon as it is measured.
pub fn measure(
    field: &Field<'_>,
    throttle: &Throttle,
    ways: &[Way],
    runs: u16,
    print: impl Fn(&str) -> Result<()>,
) -> Result<Vec<Nothing>> {
    print(&heading(runs))?;
    let mut all = Vec::new();
    for case in &CASES {
        let mut line = Line::new(case.program, case.arguments.split(' ').map(str::to_owned).collect());
        if case.program != SYNC.program {
            line.arguments.extend(["--folder".to_owned(), field.scratch.path().display().to_string()]);
        }
        if let Some(speed) = case.disk {
            throttle.set(speed)?;
            line.within = throttle.words();
        }
        let seconds =
            in_turns(ways.len(), runs.into(), |at| Ok(field.run(ways[at], &line)?.most(case.takes_ns)? / 1e9))?;
        let by_way = ways.iter().zip(seconds).map(|(way, seconds)| Runs { way: *way, seconds, cpu_s: Vec::new() });
        let measured = Nothing { name: case.name, by_way: by_way.collect() };
        print(&measured.line())?;
        all.push(measured);
    }
    Ok(all)
}

const WIDTH: usize = 20;

fn heading(runs: u16) -> String {
    let mut text = format!(
        "programs that cannot gain from overlap: speed-up over libgomp, medians of {runs} rounds (95 %)\n{:16}{:>12}",
        "", "libgomp"
    );
    Way::OURS.iter().for_each(|way| write!(text, "{:>WIDTH$}", way.name()).unwrap_or_default());
    text
}

impl Nothing {
    fn of(&self, way: Way) -> Option<&Runs> {
        self.by_way.iter().find(|runs| runs.way == way)
    }

    /// Returns the speed-up over libgomp: the median of the ratios of two runs of the same round.
    fn speed(&self, way: Way) -> Option<Estimate> {
        let (theirs, ours) = self.of(Way::Gomp(1)).zip(self.of(way))?;
        let pairs = theirs.seconds.iter().zip(&ours.seconds);
        Some(median_estimate(&pairs.map(|(theirs, ours)| theirs / ours).collect::<Vec<_>>()))
    }

    fn line(&self) -> String {
        let plain = self.of(Way::Gomp(1)).map_or(f64::NAN, |runs| median(&runs.seconds));
        let plain = if plain < 1e-3 { format!("{:.2} us", plain * 1e6) } else { format!("{plain:.2} s") };
        let mut text = format!("{:16}{plain:>12}", self.name);
        for way in Way::OURS {
            let cell = match self.speed(way) {
                Some(Estimate { median, interval: Some((low, high)) }) => format!("{median:.2}x ({low:.2}–{high:.2})"),
                Some(Estimate { median, interval: None }) => format!("{median:.2}x"),
                None => "–".to_owned(),
            };
            write!(text, "{cell:>WIDTH$}").unwrap_or_default();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_that_of_pairs() {
        let runs = |way, seconds: &[f64]| Runs { way, seconds: seconds.to_vec(), cpu_s: Vec::new() };
        // The machine is twice as slow from the fourth round on.
        let by_way =
            vec![runs(Way::Gomp(1), &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), runs(Way::Bpf, &[0.8, 0.8, 0.8, 1.6, 1.6, 1.6])];
        let text = Nothing { name: "tasks", by_way }.line();
        assert!(text.contains("1.50 s") && text.ends_with("1.25x (1.25–1.25)"), "{text}");
        assert!(text.contains('–'), "ways that were not measured");
    }
}
