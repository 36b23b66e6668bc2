//! The cost of observing in addition to overlap or packing. The ping-pong runs with the BPF programs of overlap or packing, and again with the same
//! BPF programs and those of the observer.
//!
//! A separate process loads the BPF programs (`hold`), so the BPF programs of another build can be measured in the same rounds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::case::{Bench, CONTROL, noise, progress};
use super::cpus::{Elsewhere, last_allowed_cpu};
use super::hold::Holder;
use super::pingpong::{Game, SLICE_LIMIT_S};
use super::slices::Active;
use crate::results::{Case, Column, Figure, Shown};
use crate::rounds::interleave;
use crate::stats::{Bracket, median_estimate, quotient_of_additions};
use crate::table;
use crate::verdict::{Outcome, Verdict, at_most};

const ROUNDS: usize = 30;

/// Limit for `time that observing adds with this build ÷ time that it adds with the build that --beside names`, per round trip, while overlap or
/// packing is active.
const SHARE_LIMIT: f64 = 0.75;
/// Limit for `time to load the BPF programs with this build ÷ the same time with the build that --beside names`.
const LOAD_LIMIT: f64 = 1.2;
/// Limit for `time that observing adds with this build ÷ time that it adds with the build that --beside names`, per round trip, without overlap and
/// packing.
const ALONE_LIMIT: f64 = 1.0;

/// Parts of cox's BPF programs that are loaded at the same time, and the names of their two table rows: one for this build, one for the build that
/// `--beside` names.
struct LoadedParts {
    parts: &'static str,
    names: [&'static str; 2],
}

static LOADED_PARTS: [LoadedParts; 5] = [
    LoadedParts { parts: "observe", names: ["observed", "other: observed"] },
    LoadedParts { parts: "overlap", names: ["overlap", "other: overlap"] },
    LoadedParts { parts: "observe,overlap", names: ["overlap, observed", "other: overlap, observed"] },
    LoadedParts { parts: "pack", names: ["packing", "other: packing"] },
    LoadedParts { parts: "observe,pack", names: ["packing, observed", "other: packing, observed"] },
];
/// Pairs of indices into [`LOADED_PARTS`]: overlap or packing alone, and the same with the observer in addition.
static PAIRS: [(&str, usize, usize); 2] = [("overlap", 1, 2), ("packing", 3, 4)];

/// Time of a round trip of ping-pong, and the time to load the BPF programs.
#[derive(Clone, Copy)]
struct Measured {
    wall_ns: f64,
    loaded_ns: f64,
}

/// Measures the case `together`. `beside` is a cox-bench of another build, to compare this build with.
pub fn measure(bench: &Bench<'_>, beside: Option<&Path>) -> Result<Case> {
    let slice = Duration::from_millis(if bench.options.quick { 50 } else { 150 });
    let rounds = bench.rounds(ROUNDS);
    let own = std::env::current_exe().context("finding cox-bench")?;
    let programs: Vec<PathBuf> = std::iter::once(own).chain(beside.map(Path::to_owned)).collect();
    let treatments: Vec<Option<(usize, &LoadedParts)>> = std::iter::once(None)
        .chain((0..programs.len()).flat_map(|build| LOADED_PARTS.iter().map(move |held| Some((build, held)))))
        .collect();
    let names = treatments.iter().map(|treatment| treatment.map_or(CONTROL, |(build, held)| held.names[build]));
    let columns: Vec<Column> = names.map(|name| Column { name, impossible: None }).collect();
    let cpu = last_allowed_cpu()?;
    let mut game = Game::start(bench, cpu, (rounds + 2) * 2 * treatments.len() * SLICE_LIMIT_S)?;
    let elsewhere = Elsewhere::than(cpu)?;
    progress(&format!("together: {rounds} rounds of {} slices", 2 * treatments.len()));
    let all = interleave(treatments.len(), rounds, |treatment| {
        bench.interrupt.check()?;
        let held = treatment.and_then(|index| treatments[index]);
        let holder =
            held.map(|(build, held)| Holder::start(&programs[build], held.parts, &game.players)).transpose()?;
        let loaded_ns = holder.as_ref().map_or(0, |holder| holder.loaded_ns) as f64;
        let measured = game.slice_under(holder.map_or(Active::Nothing, Active::Held), slice)?;
        Ok(Measured { wall_ns: measured.wall_ns, loaded_ns })
    })?;
    drop((game, elsewhere));

    let loads = columns.iter().skip(1).zip(all.treated.iter().skip(1));
    let loads = loads.map(|(column, brackets)| (column.name, brackets.iter().map(|b| b.treated.loaded_ns).collect()));
    let loading = Figure::parts("loading", Shown::Ms, loads.collect());
    let wall = Figure::new("round trip", Shown::Ns, &columns, all.figure(|measured| measured.wall_ns));
    let mut verdicts = Vec::new();
    if beside.is_some() {
        verdicts.push(alone(&wall));
        verdicts.extend(PAIRS.iter().map(|pair| added(&wall, pair)));
        verdicts.extend(LOADED_PARTS.iter().map(|held| loaded(&loading, held.names)));
    }
    Ok(Case {
        name: "together",
        about: format!(
            "two processes on CPU {cpu}, {rounds} rounds of slices of {} ms, all in one run",
            slice.as_millis()
        ),
        notes: noise(&wall, 1.02).into_iter().chain(PAIRS.iter().filter_map(|pair| note(&wall, pair))).collect(),
        verdicts,
        figures: vec![wall, loading],
    })
}

/// Returns, for each round, the time that one pair of [`PAIRS`] adds to a round trip: `before` and `after` with overlap (or packing) alone, `treated`
/// with overlap (or packing) and the observer. The difference is what observing adds. `build`: 0 for this build, 1 for the other one.
fn additions(wall: &Figure, (_, alone, both): &(&str, usize, usize), build: usize) -> Option<Vec<Bracket<f64>>> {
    let of = |held: usize| wall.brackets(LOADED_PARTS[held].names[build]);
    let pair = of(*alone)?.iter().zip(of(*both)?);
    let bracket = |(alone, both): (&Bracket<f64>, &Bracket<f64>)| Bracket {
        before: alone.added(),
        treated: both.added(),
        after: alone.added(),
    };
    Some(pair.map(bracket).collect())
}

fn note(wall: &Figure, pair: &(&str, usize, usize)) -> Option<String> {
    let said = |build| {
        let added: Vec<f64> = additions(wall, pair, build)?.iter().map(Bracket::added).collect();
        Some(format!("{} ns", table::addition(&median_estimate(&added), Shown::Ns)))
    };
    let (part, ours) = (pair.0, said(0)?);
    Some(match said(1) {
        Some(other) => format!("time that observing adds to {part}: {ours}; in the other build: {other}"),
        None => format!("time that observing adds to {part}: {ours}"),
    })
}

fn added(wall: &Figure, pair: &(&str, usize, usize)) -> Verdict {
    let criterion =
        format!("observing adds to {} at most {SHARE_LIMIT} times as much time as in the other build", pair.0);
    judged(criterion, additions(wall, pair, 0).zip(additions(wall, pair, 1)), SHARE_LIMIT)
}

fn alone(wall: &Figure) -> Verdict {
    let [ours, other] = LOADED_PARTS[0].names;
    let criterion = format!("observing alone adds at most {ALONE_LIMIT} times as much time as in the other build");
    let both = wall.brackets(ours).zip(wall.brackets(other));
    judged(criterion, both.map(|(ours, other)| (ours.to_vec(), other.to_vec())), ALONE_LIMIT)
}

/// Compares the loading time of this build with the other build's, by round.
fn loaded(loading: &Figure, [ours, other]: [&'static str; 2]) -> Verdict {
    let criterion = format!("loading for {ours} takes at most {LOAD_LIMIT} times as long as in the other build");
    let brackets = |name: &str| {
        let values = &loading.rows.iter().find(|row| row.with == name)?.measured.as_ref()?.values_ns;
        Some(values.iter().map(|value| Bracket { before: 0.0, treated: *value, after: 0.0 }).collect::<Vec<_>>())
    };
    judged(criterion, brackets(ours).zip(brackets(other)), LOAD_LIMIT)
}

/// The measurements of this build and of the other one, by round; each has the plain measurements just before and after it.
type Both = (Vec<Bracket<f64>>, Vec<Bracket<f64>>);

fn judged(criterion: String, both: Option<Both>, limit: f64) -> Verdict {
    match both.and_then(|(ours, other)| quotient_of_additions(&ours, &other)) {
        Some(quotient) => {
            Verdict { outcome: at_most(&quotient, limit), text: format!("{criterion}: {}", table::ratio(&quotient)) }
        }
        None => Verdict { outcome: Outcome::NotMeasured, text: criterion },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Rounds;

    /// A round trip of so many ns with each of the parts, by build.
    fn figure(ns: [[f64; 5]; 2]) -> Figure {
        let names = (0..2).flat_map(|build| LOADED_PARTS.iter().map(move |held| held.names[build]));
        let columns: Vec<Column> = names.map(|name| Column { name, impossible: None }).collect();
        let bracket = |treated: &f64| vec![Bracket { before: 2000.0, treated: *treated, after: 2000.0 }; 9];
        let treated = ns.iter().flatten().map(bracket).collect();
        Figure::new("round trip", Shown::Ns, &columns, Rounds { plain: vec![2000.0; 91], treated })
    }

    #[test]
    fn what_observing_adds_is_compared_and_not_what_the_parts_cost() {
        // 100 ns where the other build adds 140, although overlap itself is dearer here.
        let wall = figure([[2200.0, 2300.0, 2400.0, 2100.0, 2250.0], [2200.0, 2100.0, 2240.0, 2100.0, 2290.0]]);
        assert_eq!(added(&wall, &PAIRS[0]).outcome, Outcome::Pass, "100 of 140");
        assert_eq!(added(&wall, &PAIRS[1]).outcome, Outcome::Fail, "150 of 190");
        assert_eq!(alone(&wall).outcome, Outcome::Pass);
        assert!(note(&wall, &PAIRS[0]).unwrap().starts_with("time that observing adds to overlap: +100"));
        let slower = figure([[2210.0; 5], [2200.0; 5]]);
        assert_eq!(alone(&slower).outcome, Outcome::Fail);
        assert_eq!(added(&slower, &PAIRS[0]).outcome, Outcome::NotMeasured, "the other adds nothing");
    }
}
