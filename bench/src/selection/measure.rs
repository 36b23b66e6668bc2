//! Measures every schedule of the portfolio and every way to select, once in each round and in an order that changes from round to round.

use std::ffi::OsString;

use anyhow::{Result, bail};
use loops::selection::{Method, PORTFOLIO};
use random::Random;

use super::judge::Times;
use super::program::{Runner, Took};
use crate::study::App;

/// The name of the rows that begin with the file of `auto`.
pub const FROM: &str = "from the file";

/// What selects: `auto` without and with what it has saved, and its peers.
pub const WAYS: [&str; 5] =
    [Method::Auto.name(), FROM, Method::Expert.name(), Method::Exhaustive.name(), Method::Random.name()];

/// A single schedule whose loops all take so many times as long as the best one in the first round is not measured again.
const HOPELESS: f64 = 2.0;

/// What was measured of a loop.
pub struct Measured {
    pub app: App,
    pub threads: u32,
    pub name: String,
    /// The schedules of the portfolio.
    pub singles: Vec<Times>,
    /// The ways to select, in the order of [`WAYS`].
    pub ways: Vec<Times>,
    /// What each way had selected at the end, with the number of rounds.
    pub selected: Vec<Vec<(String, usize)>>,
    /// Schedules that the first round has excluded.
    pub excluded: Vec<String>,
}

/// A schedule or a way, with the loops of its runs by round.
struct Treatment {
    name: &'static str,
    runs: Vec<Vec<Took>>,
}

/// Measures a program's loops.
///
/// # Errors
/// When a run fails, or has other loops than the one before.
pub fn measure(runner: &Runner<'_>, app: App, threads: u32, rounds: usize) -> Result<Vec<Measured>> {
    let names = PORTFOLIO.iter().map(|kind| kind.name()).chain(WAYS);
    let mut treatments: Vec<Treatment> = names.map(|name| Treatment { name, runs: Vec::new() }).collect();
    let mut excluded = Vec::new();
    let saved = runner.file("saved");
    let mut from = OsString::from("from:");
    from.push(&saved);
    for round in 0..rounds {
        // The file is made by the run of `auto` just before.
        let mut order: Vec<usize> = (0..treatments.len()).filter(|at| treatments[*at].name != FROM).collect();
        Random::new(round as u64).shuffle(&mut order);
        for at in order {
            let name = treatments[at].name;
            let is_auto = name == Method::Auto.name();
            let took = runner.run(app, threads, name.as_ref(), is_auto.then_some(&*saved))?;
            treatments[at].runs.push(took);
            if is_auto {
                let took = runner.run(app, threads, &from, None)?;
                treatments[at + 1].runs.push(took);
            }
        }
        eprintln!("cox-bench: selection: {}, {threads} threads: round {} of {rounds}", app.name(), round + 1);
        if round == 0 {
            exclude(&mut treatments, &mut excluded)?;
        }
    }
    let Some(first) = treatments.first().and_then(|one| one.runs.first()).cloned() else { bail!("no run") };
    let of_loop = |(place, one): (usize, &Took)| {
        let times = |treatment: &Treatment| Times {
            name: treatment.name.to_owned(),
            ns: treatment.runs.iter().map(|run| run[place].wall_ns / run[place].instances as f64).collect(),
        };
        let selected = |treatment: &Treatment| {
            counted(&treatment.runs.iter().map(|run| run[place].schedule.clone()).collect::<Vec<_>>())
        };
        let (singles, ways) = treatments.split_at(treatments.len() - WAYS.len());
        Measured {
            app,
            threads,
            name: one.name.clone(),
            singles: singles.iter().map(times).collect(),
            ways: ways.iter().map(times).collect(),
            selected: ways.iter().map(selected).collect(),
            excluded: excluded.clone(),
        }
    };
    Ok(first.iter().enumerate().map(of_loop).collect())
}

/// Checks that all runs have the same loops, and removes the hopeless schedules.
fn exclude(treatments: &mut Vec<Treatment>, excluded: &mut Vec<String>) -> Result<()> {
    let runs: Vec<&Vec<Took>> = treatments.iter().filter_map(|treatment| treatment.runs.first()).collect();
    let names = |run: &[Took]| run.iter().map(|took| took.name.clone()).collect::<Vec<_>>();
    let Some(first) = runs.first() else { return Ok(()) };
    if first.is_empty() || runs.iter().any(|run| names(run) != names(first)) {
        bail!("the runs have no loops, or not the same ones");
    }
    let each = |place: usize| runs.iter().map(move |run| run[place].wall_ns).fold(f64::INFINITY, f64::min);
    let best: Vec<f64> = (0..first.len()).map(each).collect();
    treatments.retain(|treatment| {
        let is_slow = |(took, best): (&Took, &f64)| took.wall_ns > HOPELESS * best;
        let is_hopeless = treatment.runs.iter().all(|run| run.iter().zip(&best).all(is_slow));
        let stays = !is_hopeless || WAYS.contains(&treatment.name);
        if !stays {
            excluded.push(treatment.name.to_owned());
        }
        stays
    });
    Ok(())
}

/// Returns how often each name occurs, the most frequent first.
pub fn counted(names: &[String]) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name.clone(), 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treatment(name: &'static str, ns: [f64; 2]) -> Treatment {
        let took =
            |name: &str, wall_ns| Took { name: name.to_owned(), instances: 1, wall_ns, schedule: "ss".to_owned() };
        Treatment { name, runs: vec![vec![took("a", ns[0]), took("b", ns[1])]] }
    }

    #[test]
    fn only_a_schedule_that_is_slow_in_all_loops_is_excluded() {
        let mut all = vec![
            treatment("fac2", [10.0, 10.0]),
            treatment("static", [50.0, 11.0]),
            treatment("ss", [50.0, 21.0]),
            treatment("auto", [50.0, 50.0]),
        ];
        let mut excluded = Vec::new();
        exclude(&mut all, &mut excluded).unwrap();
        assert_eq!(excluded, ["ss"]);
        assert_eq!(all.len(), 3, "a way to select stays");
        all[1].runs[0].pop();
        assert!(exclude(&mut all, &mut excluded).is_err());
    }
}
