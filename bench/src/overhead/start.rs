//! The fixed cost of starting and ending an observation, as a total compared with `perf record`, and divided into parts. This cost does not depend on
//! how long the program runs.
//!
//! perf's own fixed cost depends on its options and on the user: as root it describes all BPF programs and reads the kernel's symbols, as an ordinary
//! user it does not. Several ways to run perf are measured in the same rounds, and the limit refers to the cheapest of them.

mod parts;
mod ways;

use anyhow::Result;

use self::parts::Laps;
use self::ways::Way;
use super::case::{Bench, CONTROL, progress};
use crate::results::{Case, Column, Figure, Shown};
use crate::rounds::interleave;
use crate::stats::{median, quotient_of_additions};
use crate::table;
use crate::verdict::{Outcome, Verdict, at_most};

const ROUNDS: usize = 21;

/// A program to start, the cox commands that start it, and the limit for the time that cox adds.
struct Subject {
    name: &'static str,
    /// Heading of the figure that divides the time of the first command in `ours` into parts.
    by_part: &'static str,
    program: &'static [&'static str],
    /// Ways to start the program with cox. `limit` applies only to the first one.
    ours: &'static [Way],
    /// Largest permitted added time, as a multiple of the time that the cheapest perf command adds.
    limit: f64,
}

const RUN: Subject =
    Subject { name: "sleep 0.3", by_part: "cox run by part", program: &["sleep", "0.3"], ours: &ways::RUN, limit: 2.0 };
const PACK: Subject =
    Subject { name: "true", by_part: "cox pack by part", program: &["true"], ours: &ways::PACK, limit: 1.0 };

/// Measures the case `start`: the fixed cost of `cox run` and `cox pack`.
pub fn measure(bench: &Bench<'_>) -> Result<Case> {
    let rounds = bench.rounds(ROUNDS);
    let mut case = Case {
        name: "start",
        about: format!("wall time of whole commands whose program does nothing; {rounds} rounds"),
        figures: Vec::new(),
        notes: Vec::new(),
        verdicts: Vec::new(),
    };
    for subject in [&RUN, &PACK] {
        add(bench, subject, rounds, &mut case)?;
    }
    case.notes.push(
        "'by part': runs with eBPF, timed by cox itself; only 'exec of cox' and 'exit of cox' are timed by cox-bench"
            .into(),
    );
    Ok(case)
}

fn add(bench: &Bench<'_>, subject: &Subject, rounds: usize, case: &mut Case) -> Result<()> {
    let mut columns = vec![Column { name: CONTROL, impossible: None }];
    let mut possible = vec![Way::PLAIN];
    for way in subject.ours.iter().chain(&ways::PERF) {
        let tried = ways::once(bench, way, subject.program, None);
        bench.interrupt.check()?;
        let impossible = tried.err().map(|error| format!("{error:#}"));
        if impossible.is_none() {
            possible.push(*way);
        }
        columns.push(Column { name: way.name, impossible });
    }
    progress(&format!("start, {}: {rounds} rounds of {} runs", subject.name, 2 * possible.len()));
    let mut laps: Vec<Laps> = Vec::new();
    let all = interleave(possible.len(), rounds, |treatment| {
        bench.interrupt.check()?;
        let way = treatment.map_or(Way::PLAIN, |index| possible[index]);
        let watched = way.name == subject.ours[0].name;
        ways::once(bench, &way, subject.program, watched.then_some(&mut laps))
    })?;
    let wall = Figure::new(subject.name, Shown::Ms, &columns, all);
    case.verdicts.push(beside_perf(&wall, subject));
    case.figures.push(wall);
    if !laps.is_empty() {
        case.figures.push(Figure::parts(subject.by_part, Shown::Ms, parts::rows(&laps)));
    }
    Ok(())
}

/// Compares the time that the first cox command in `subject.ours` adds to the plain program with the time that the cheapest perf command adds.
fn beside_perf(wall: &Figure, subject: &Subject) -> Verdict {
    let ours = subject.ours[0].name;
    let criterion = format!(
        "{}: {ours} adds at most {} times as much time as the cheapest perf record",
        subject.name, subject.limit
    );
    let added = |name: &str| wall.brackets(name).map(|all| median(&all.iter().map(|b| b.added()).collect::<Vec<_>>()));
    let cheapest = ways::PERF
        .iter()
        .filter_map(|way| Some((way.name, added(way.name)?)))
        .min_by(|(_, one), (_, other)| one.total_cmp(other));
    let (Some(brackets), Some((cheapest, _))) = (wall.brackets(ours), cheapest) else {
        return Verdict { outcome: Outcome::NotMeasured, text: criterion };
    };
    match wall.brackets(cheapest).and_then(|theirs| quotient_of_additions(brackets, theirs)) {
        Some(quotient) => Verdict {
            outcome: at_most(&quotient, subject.limit),
            text: format!("{criterion}: {} ({cheapest})", table::ratio(&quotient)),
        },
        None => Verdict {
            outcome: Outcome::Undecided,
            text: format!("{criterion}: undecided, because perf added no significant time in this run"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Rounds;
    use crate::stats::Bracket;

    fn figure(of: &[(&'static str, f64)]) -> Figure {
        let columns: Vec<Column> = of.iter().map(|(name, _)| Column { name, impossible: None }).collect();
        let bracket = |added: f64| Bracket { before: 100.0, treated: 100.0 + added, after: 100.0 };
        let treated = of.iter().map(|(_, added)| vec![bracket(*added); 7]).collect();
        Figure::new("sleep 0.3", Shown::Ms, &columns, Rounds { plain: vec![100.0; 8], treated })
    }

    #[test]
    fn the_cheapest_perf_is_the_measure() {
        let [dear, cheap, _] = ways::PERF.map(|way| way.name);
        let ours = RUN.ours[0].name;
        let judged = |added: f64| beside_perf(&figure(&[(ours, added), (dear, 800.0), (cheap, 50.0)]), &RUN);
        assert_eq!(judged(90.0).outcome, Outcome::Pass);
        assert_eq!(judged(110.0).outcome, Outcome::Fail, "though it is a fraction of what the dear one adds");
        assert!(judged(90.0).text.ends_with(&format!("({cheap})")), "{}", judged(90.0).text);
        assert_eq!(beside_perf(&figure(&[(ours, 90.0)]), &RUN).outcome, Outcome::NotMeasured);
    }
}
