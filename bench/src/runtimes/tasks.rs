//! What OpenMP constructs cost with each runtime: every row of `workloads/taskcost`. The runtimes take turns.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::way::Way;
use super::{Field, Line};
use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::rounds::in_turns;
use crate::stats::median;
use crate::verdict::Outcome;

/// Options of `cox-bench tasks`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Rows (all)
    #[arg(value_name = "ROW", value_parser = ROWS.map(|row| row.0))]
    rows: Vec<String>,
    /// Rounds; each runs every row once with every runtime
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    #[command(flatten)]
    common: Common,
}

/// The rows of `workloads/taskcost`: the name of each, and how many OpenMP constructs are timed for it.
const ROWS: [(&str, u32); 16] = [
    ("by-one", 100_000),
    ("by-all", 100_000),
    ("depend-1", 50_000),
    ("depend-2", 50_000),
    ("depend-3", 50_000),
    ("if-0", 100_000),
    ("taskwait", 50_000),
    ("taskgroup", 50_000),
    ("tree", 100_000),
    ("loop", 100_000),
    ("grain", 2000),
    ("grain-100", 500),
    ("barrier", 50_000),
    ("region", 20_000),
    ("for", 50_000),
    ("single", 50_000),
];
const WAYS: [Way; 4] = [Way::Gomp(1), Way::Omp(1), Way::Off, Way::Bpf];

/// Limit of a row, as (factor, constant): `factor × time of the faster peer (libgomp or libomp) + constant`, ns per construct.
const ROW_LIMIT: (f64, f64) = (1.15, 5.0);

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// Nanoseconds per construct, by runtime (in the order of [`WAYS`]) and round; empty if the runtime cannot be measured here.
    ns: Vec<Vec<f64>>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    ways: Vec<String>,
    rows: Vec<Row>,
}

impl Row {
    fn median(&self, way: usize) -> Option<f64> {
        (!self.ns[way].is_empty()).then(|| median(&self.ns[way]))
    }

    /// Returns the median time per construct of libgomp or libomp, whichever is faster.
    fn better(&self) -> Option<f64> {
        self.median(0).into_iter().chain(self.median(1)).reduce(f64::min)
    }

    /// Returns whether our runtime keeps the limit of this row ([`ROW_LIMIT`]). `way` is the index of its settings in [`WAYS`]. Returns `None` if
    /// these settings, or both libgomp and libomp, were not measured.
    fn keeps(&self, way: usize) -> Option<bool> {
        let limit = self.better()? * ROW_LIMIT.0 + ROW_LIMIT.1;
        Some(self.median(way)? <= limit)
    }
}

/// Measures all rows and prints the results. Returns the exit code: 1 if a limit was missed.
///
/// # Errors
/// When a row cannot be measured, or the results cannot be written.
pub fn tasks(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let field = Field::new(tools, None, interrupt)?;
    let mut report = Report {
        header: json::Header::new("tasks")?,
        ways: WAYS.iter().map(|way| way.name()).collect(),
        rows: Vec::new(),
    };
    let heading = format!(
        "ns per construct, {} threads, medians of {} rounds\n{:12}{:>11}{:>11}{:>11}{:>11}   cox / the faster peer",
        field.cpus(),
        options.runs,
        "",
        "libgomp",
        "libomp",
        "off",
        "bpf"
    );
    options.common.print(&heading)?;
    for (name, count) in ROWS.iter().filter(|row| options.rows.is_empty() || options.rows.iter().any(|r| r == row.0)) {
        let row = measure(&field, name, *count, options.runs.into())?;
        options.common.print(&line(&row))?;
        report.rows.push(row);
    }
    let (told, outcome) = judge(&report.rows);
    options.common.print(&told)?;
    options.common.write(&report)?;
    Ok(u8::from(outcome == Outcome::Fail))
}

fn measure(field: &Field<'_>, name: &str, count: u32, rounds: usize) -> Result<Row> {
    let (row, grain) = name.split_once('-').filter(|(row, _)| *row == "grain").unwrap_or((name, "10"));
    let words = ["--row", row, "--count", &count.to_string(), "--repeats", "3", "--grain-us", grain].map(str::to_owned);
    let line = Line::new("taskcost", words.to_vec());
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| field.lacks(*way).is_none()).collect();
    let measured = in_turns(ways.len(), rounds, |at| field.run(ways[at], &line)?.most("ns_each"))?;
    let mut ns = vec![Vec::new(); WAYS.len()];
    for (way, values) in ways.into_iter().zip(measured) {
        WAYS.iter().position(|one| *one == way).into_iter().for_each(|at| ns[at].clone_from(&values));
    }
    Ok(Row { name: name.to_owned(), ns })
}

fn line(row: &Row) -> String {
    let mut text = format!("{:12}", row.name);
    for way in 0..WAYS.len() {
        match row.median(way) {
            Some(ns) => write!(text, "{ns:11.1}"),
            None => write!(text, "{:>11}", "–"),
        }
        .unwrap_or_default();
    }
    for way in [2, 3] {
        if let Some((ours, better)) = row.median(way).zip(row.better()) {
            let mark = if row.keeps(way) == Some(false) { "!" } else { " " };
            write!(text, "   {:.2}{mark}", ours / better).unwrap_or_default();
        }
    }
    text
}

/// Returns the text of the verdicts on our runtime, and the outcome. The text has the geometric mean over the rows, and names the rows beyond their
/// limit.
fn judge(rows: &[Row]) -> (String, Outcome) {
    let mut text = String::new();
    let mut outcome = Outcome::Pass;
    for (way, name) in [(2, "off"), (3, "bpf")] {
        let ratios: Vec<f64> = rows.iter().filter_map(|row| Some(row.median(way)? / row.better()?)).collect();
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
        let beyond: Vec<&str> =
            rows.iter().filter(|row| row.keeps(way) == Some(false)).map(|row| row.name.as_str()).collect();
        let passes = mean <= 1.0 && beyond.is_empty();
        outcome = if passes { outcome } else { Outcome::Fail };
        let beyond = if beyond.is_empty() { "none".to_owned() } else { beyond.join(", ") };
        writeln!(
            text,
            "{name}: times relative to the faster peer (libgomp or libomp): geometric mean {mean:.2} (limit 1.00); rows slower than 1.15 times the \
             peer plus 5 ns: {beyond} … {verdict}",
            verdict = if passes { "PASS" } else { "FAIL" }
        )
        .unwrap_or_default();
    }
    (text.trim_end().to_owned(), outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ns: [f64; 4]) -> Row {
        Row { name: name.into(), ns: ns.map(|ns| vec![ns]).to_vec() }
    }

    #[test]
    fn the_better_peer_counts() {
        let rows = [row("a", [100.0, 50.0, 62.0, 63.0]), row("b", [100.0, 500.0, 50.0, 50.0])];
        // 50 x 1.15 + 5 = 62.5.
        assert_eq!((rows[0].keeps(2), rows[0].keeps(3)), (Some(true), Some(false)));
        let (text, outcome) = judge(&rows);
        assert_eq!(outcome, Outcome::Fail);
        assert!(
            text.contains("off: times relative to the faster peer (libgomp or libomp): geometric mean 0.79")
                && text.contains("ns: a … FAIL"),
            "{text}"
        );
        assert_eq!(judge(&rows[1..]).1, Outcome::Pass);
    }

    #[test]
    fn a_peer_that_is_not_there_is_not_the_better_one() {
        let alone = Row { name: "a".into(), ns: vec![vec![10.0], Vec::new(), vec![9.0], vec![9.0]] };
        assert_eq!(alone.better(), Some(10.0));
        assert!(line(&alone).contains('–'));
    }
}
