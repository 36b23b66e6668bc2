//! Wording that the text and the HTML page have in common: how many CPUs were in use for how long, and POP's metrics.

use advise::efficiency::{Base, Efficiency};
use advise::evidence::Evidence;
use advise::numbers::counted;
use ledger::Program;

use crate::json::Document;
use crate::round::{percent, permille};

/// Maximum number of bars with one number of CPUs each. If there are more numbers, the bars stand for 0, 1, 2–3, 4–7, 8–15, … CPUs.
const MOST_NUMBERS: usize = 9;

/// A bar: the wall time in which a certain number of CPUs was busy.
pub(crate) struct Bar {
    /// The number of busy CPUs for which the bar stands: one number, such as `2`, or a range of numbers, such as
    /// `4–7`.
    pub cpus: String,
    /// Part of the wall time, in tenths of a percent. All bars together are 100.0 %.
    pub permille: u64,
}

/// Returns the bars for 0, 1, 2, … CPUs that were busy with the program; no bars if this is not known.
pub(crate) fn bars(program: &Program) -> Vec<Bar> {
    let times = program.busy_cpus_ns.as_deref().unwrap_or_default();
    let ends = std::iter::successors(Some(1usize), |end| end.checked_mul(2));
    let ends: Vec<usize> = match times.len() > MOST_NUMBERS {
        true => ends.take_while(|end| *end < times.len()).chain([times.len()]).collect(),
        false => (1..=times.len()).collect(),
    };
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let ranges: Vec<_> = starts.zip(&ends).map(|(start, end)| start..*end).collect();
    let sums: Vec<u64> =
        ranges.iter().map(|range| times[range.clone()].iter().copied().fold(0, u64::saturating_add)).collect();
    let name = |range: &std::ops::Range<usize>| match range.len() {
        1 => range.start.to_string(),
        _ => format!("{}–{}", range.start, range.end - 1),
    };
    ranges.iter().zip(permille(&sums)).map(|(range, permille)| Bar { cpus: name(range), permille }).collect()
}

/// Returns `CPUs in use: 0 for 1.2 % of the time, 1 for 98.8 %`. Numbers of CPUs whose part would be printed as 0.0 % are left out.
pub(crate) fn in_use(program: &Program) -> Option<String> {
    let bars = bars(program).into_iter().filter(|bar| bar.permille > 0);
    let words: Vec<String> = bars.map(|bar| format!("{} for {}", bar.cpus, percent(bar.permille))).collect();
    let (first, others) = words.split_first()?;
    let others: String = others.iter().map(|word| format!(", {word}")).collect();
    Some(format!("CPUs in use: {first} of the time{others}"))
}

/// Returns `Parallel efficiency: 68 % of 3 worker threads (load balance 81 %, serialisation 84 %)`.
pub(crate) fn efficiency(document: &Document) -> Option<String> {
    let efficiency = Efficiency::of(&Evidence::new(&document.account, &document.facts))?;
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let of = match efficiency.of {
        Base::Cpus(cpus) => counted(cpus as u64, "CPU"),
        Base::Threads { threads, balance, serialisation } => format!(
            "{} (load balance {}, serialisation {})",
            counted(threads as u64, "worker thread"),
            percent(balance),
            percent(serialisation)
        ),
    };
    Some(format!("Parallel efficiency: {} of {of}", percent(efficiency.parallel)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(busy_cpus_ns: &[u64]) -> Program {
        Program { busy_cpus_ns: Some(busy_cpus_ns.to_vec()), ..Program::default() }
    }

    #[test]
    fn many_numbers_are_shown_by_powers_of_two() {
        let line = in_use(&program(&[1; 13])).expect("a line");
        assert_eq!(
            line,
            "CPUs in use: 0 for 7.7 % of the time, 1 for 7.7 %, 2–3 for 15.4 %, 4–7 for 30.8 %, 8–12 for 38.4 %"
        );
        let bars = bars(&program(&[0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]));
        let shown: Vec<(&str, u64)> = bars.iter().map(|bar| (bar.cpus.as_str(), bar.permille)).collect();
        assert_eq!(shown, [("0", 0), ("1", 0), ("2–3", 500), ("4–7", 0), ("8–15", 0), ("16", 500)]);
    }

    #[test]
    fn what_is_not_known_or_no_time_is_no_line() {
        assert_eq!(in_use(&Program::default()), None);
        assert_eq!(in_use(&program(&[0, 0])), None);
        assert_eq!(in_use(&program(&[0, 0, 7])), Some("CPUs in use: 2 for 100.0 % of the time".to_owned()));
    }
}
