//! The interrupts of a CPU with one computing thread, beside a load on all CPUs: with taskset, and under `cox quiet`.
//! The kernel's counters say it, not cox.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use machine::Root;
use quiet::{Census, Level};

use super::place::{Place, Under, load};
use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::median;

const UNDER: [Under; 2] = [Under::Taskset, Under::Quiet(Level::Full)];
/// How long the thread computes, s; when it is counted, after its start.
const COMPUTES_S: &str = "5";
const COUNTED_FROM: Duration = Duration::from_secs(1);
const COUNTED_FOR: Duration = Duration::from_secs(3);

/// A smaller rate would be printed as 0.0, per second.
const SHOWN: f64 = 0.05;

/// Interrupts per second by row and description.
type Rates = BTreeMap<(String, String), f64>;

pub fn interrupts(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    if !found.has("stress-ng") {
        return Ok(found);
    }
    let place = Place::chosen()?;
    let load = load(field)?;
    let all = in_turns(UNDER.len(), runs.into(), |at| rates(field, &place, UNDER[at]))?;
    drop(load);
    let [pinned, quiet] = [&all[0], &all[1]].map(|rounds| medians(rounds));
    found.line(format!(
        "CPU {}, interrupts per second, medians of {runs} rounds: with taskset | under cox quiet",
        place.cpu
    ));
    let mut rows: Vec<_> = pinned.iter().chain(&quiet).map(|(row, _)| row).collect();
    rows.sort_unstable();
    rows.dedup();
    let rate = |rates: &Rates, row| rates.get(row).copied().unwrap_or(0.0);
    rows.retain(|row| rate(&pinned, *row).max(rate(&quiet, *row)) >= SHOWN);
    rows.sort_by(|a, b| rate(&pinned, *b).total_cmp(&rate(&pinned, *a)));
    for row in rows {
        found.line(format!("{:>10.1} | {:>8.1}  {} ({})", rate(&pinned, row), rate(&quiet, row), row.0, row.1));
    }
    let besides = |rounds: &[Rates]| {
        let of = |rates: &Rates| rates.iter().filter(|(row, _)| row.0 != "LOC").map(|(_, rate)| rate).sum::<f64>();
        median(&rounds.iter().map(of).collect::<Vec<f64>>())
    };
    found.line(format!("{:>10.1} | {:>8.1}  all but the timer's (LOC)", besides(&all[0]), besides(&all[1])));
    Ok(found)
}

fn rates(field: &Field<'_>, place: &Place, under: Under) -> Result<Rates> {
    let root = Root::live();
    let mut command = under.command(field, place);
    let computing = field.spawn(command.arg(field.workload("hog")).args(["--seconds", COMPUTES_S]))?;
    thread::sleep(COUNTED_FROM);
    let (before, start) = (Census::take(&root)?, Instant::now());
    thread::sleep(COUNTED_FOR);
    let (after, length) = (Census::take(&root)?, start.elapsed());
    computing.finish()?;
    field.check()?;
    let counts = after.since(&before, &[place.cpu].into_iter().collect()).into_iter();
    Ok(counts.map(|one| ((one.row, one.what), one.count as f64 / length.as_secs_f64())).collect())
}

/// The median of each row. A row that is missing in a round has the rate 0 there.
fn medians(rounds: &[Rates]) -> Rates {
    let rows = rounds.iter().flat_map(BTreeMap::keys).cloned();
    let of = |row: &(String, String)| -> Vec<f64> {
        rounds.iter().map(|rates| rates.get(row).copied().unwrap_or(0.0)).collect()
    };
    rows.map(|row| (row.clone(), median(&of(&row)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_a_round_lacks_counts_as_none() {
        let row = |name: &str| (name.to_owned(), String::new());
        let rounds: [Rates; 3] = [
            [(row("LOC"), 250.0), (row("RES"), 9.0)].into(),
            [(row("LOC"), 252.0)].into(),
            [(row("LOC"), 251.0)].into(),
        ];
        assert_eq!(medians(&rounds), [(row("LOC"), 251.0), (row("RES"), 0.0)].into());
    }
}
