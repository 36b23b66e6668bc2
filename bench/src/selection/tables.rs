//! What was measured of a loop, as a table with limits; and the mean of all loops.

use loops::selection::Method;
use serde::Serialize;

use super::judge::{Judged, Times, judge, means, ratios};
use super::measure::{FROM, Measured};
use crate::study::App;

/// Largest ratio of `auto` to the best single schedule.
const COLD: f64 = 1.05;
/// The same from the file that an earlier run has saved.
const SAVED: f64 = 1.02;

/// A row of a table.
#[derive(Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub times: Times,
    #[serde(flatten)]
    pub judged: Judged,
    /// The schedules of the last instances, with the number of rounds; empty for a single schedule.
    pub selected: Vec<(String, usize)>,
}

/// What was measured of a loop.
#[derive(Debug, Serialize)]
pub struct Table {
    pub program: App,
    pub threads: u32,
    pub name: String,
    pub rows: Vec<Row>,
    /// Schedules that the first round has excluded: in every loop of the program at least twice as slow as the best one.
    pub excluded: Vec<String>,
}

/// The mean of all loops.
#[derive(Debug, Serialize)]
pub struct Mean {
    pub threads: u32,
    pub peer: &'static str,
    #[serde(flatten)]
    pub judged: Judged,
}

/// Compares what was measured of a loop with the best single schedule.
pub fn table(measured: Measured, is_limited: bool) -> Table {
    let Measured { app, threads, name, singles, ways, selected, excluded } = measured;
    let row = |times: &Times, limit: Option<f64>, selected| {
        let judged = judge(&ratios(times, &singles), limit.filter(|_| is_limited));
        Row { times: times.clone(), judged, selected }
    };
    let mut rows: Vec<Row> = singles.iter().map(|times| row(times, None, Vec::new())).collect();
    for (times, selected) in ways.iter().zip(selected) {
        let limit = match times.name.as_str() {
            FROM => Some(SAVED),
            name => (name == Method::Auto.name()).then_some(COLD),
        };
        rows.push(row(times, limit, selected));
    }
    Table { program: app, threads, name, rows, excluded }
}

/// Compares `auto` with a peer in the mean over all loops.
pub fn mean(tables: &[Table], threads: u32, peer: &'static str, is_limited: bool) -> Mean {
    let of = |name: &str| -> Vec<&Times> {
        let rows = tables.iter().flat_map(|table| &table.rows);
        rows.map(|row| &row.times).filter(|times| times.name == name).collect()
    };
    let ratios = means(&of(Method::Auto.name()), &of(peer));
    Mean { threads, peer, judged: judge(&ratios, Some(1.0).filter(|_| is_limited)) }
}

#[cfg(test)]
mod tests {
    use super::super::measure::counted;
    use super::*;
    use crate::verdict::Outcome;

    fn times(name: &str, ns: f64) -> Times {
        Times { name: name.to_owned(), ns: vec![ns; 9] }
    }

    fn measured() -> Measured {
        Measured {
            app: App::Sedov,
            threads: 2,
            name: "forces".to_owned(),
            singles: vec![times("static", 150.0), times("fac2", 100.0)],
            ways: vec![times("auto", 106.0), times(FROM, 101.0), times("expert", 110.0), times("random", 103.0)],
            selected: vec![counted(&["fac2", "static", "fac2"].map(str::to_owned)), vec![], vec![], vec![]],
            excluded: vec!["ss".to_owned()],
        }
    }

    #[test]
    fn ways_have_limits_and_say_what_they_selected() {
        let found = table(measured(), true);
        let outcome = |name: &str| found.rows.iter().find(|row| row.times.name == name).unwrap().judged.outcome;
        assert_eq!((outcome("auto"), outcome(FROM)), (Some(Outcome::Fail), Some(Outcome::Pass)));
        assert_eq!((outcome("expert"), outcome("static")), (None, None));
        let tables = [found];
        let expert = mean(&tables, 2, "expert", true);
        assert_eq!(
            (expert.judged.outcome, mean(&tables, 2, "random", true).judged.outcome),
            (Some(Outcome::Pass), Some(Outcome::Fail))
        );
        // More threads than CPUs: for information.
        assert!(table(measured(), false).rows.iter().all(|row| row.judged.outcome.is_none()));
    }
}
