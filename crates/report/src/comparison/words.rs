//! The words for a figure and for its change.

use advise::numbers::{about_percent, count, counted};
use compare::judge::{Change, runs_needed};
use compare::{Verdict, stats::Estimate};

use super::{Row, is_a_time};

/// Formats the numbers of runs of two groups: `15 runs` if they are equal, otherwise `15 and 12 runs`.
pub(super) fn number([a, b]: [u64; 2]) -> String {
    if a == b { counted(a, "run") } else { format!("{a} and {b} runs") }
}

/// Formats the change of wall time as a sentence.
pub(super) fn sentence(wall: &Change, runs: [u64; 2]) -> String {
    let by = wall.change.map_or_else(String::new, |change| {
        let within = wall.interval.map_or_else(String::new, |ends| format!(" ({})", range(ends)));
        let size = if change < 1.0 { about_percent(change.abs()) } else { format!("a factor of {:.1}", 1.0 + change) };
        format!(" by {size}{within}")
    });
    match (wall.verdict, wall.visible_from) {
        (Verdict::Slower | Verdict::More, _) => format!("slower{by}"),
        (Verdict::Faster | Verdict::Less, _) => format!("faster{by}"),
        (Verdict::NoChange, None) => "no significant difference".to_owned(),
        (Verdict::NoChange, Some(seen)) => {
            format!("no significant difference (smallest detectable change: {})", about_percent(seen))
        }
        (Verdict::CannotTell, Some(seen)) => {
            format!("no significant difference ({}; smallest detectable change: {})", number(runs), size(seen))
        }
        (Verdict::CannotTell, None) => {
            let runs = number(runs);
            format!("undecided ({runs}; at least {} per group are needed)", runs_needed(wall.p_needed))
        }
    }
}

/// Relative changes below this fraction are too small to matter.
const TINY: f64 = 0.0005;

/// Formats a change's size: `2.1 %`, or a factor if the value at least doubled.
fn size(change: f64) -> String {
    if change < 1.0 { about_percent(change) } else { format!("{:.1}×", 1.0 + change) }
}

/// Formats a change for a table: the verdict, or the smallest change that would be detectable.
pub(super) fn short(change: &Change) -> String {
    match (change.verdict, change.visible_from) {
        (Verdict::Faster, _) => "faster".to_owned(),
        (Verdict::Slower, _) => "slower".to_owned(),
        (Verdict::More, _) => "more".to_owned(),
        (Verdict::Less, _) => "less".to_owned(),
        (_, Some(seen)) if seen >= TINY => format!("detectable from {}", size(seen)),
        (Verdict::CannotTell, None) if change.change.is_some() => {
            format!("{} runs needed", runs_needed(change.p_needed))
        }
        _ => String::new(),
    }
}

/// Formats a figure's name: `waiting_for_cpu_ns` → `waiting for cpu`; `blocked_by.disk` → `blocked by disk`.
pub(crate) fn words(figure: &str) -> String {
    let words = |name: &str| name.trim_end_matches("_ns").replace(['_', '.'], " ");
    figure.split('/').map(words).collect::<Vec<_>>().join(" / ")
}

pub(super) fn median(row: &Row, group: usize) -> String {
    row.medians.get(group).map_or_else(String::new, |of| amount(&row.figure, of.median))
}

pub(super) fn interval(row: &Row, group: usize) -> String {
    let ends = row.medians.get(group).and_then(|of: &Estimate| of.interval);
    ends.map_or_else(String::new, |(low, high)| format!("{}–{}", amount(&row.figure, low), amount(&row.figure, high)))
}

/// Formats a value with three digits, so that differences of a few percent are visible.
pub(crate) fn amount(figure: &str, value: f64) -> String {
    if figure.contains('/') {
        return format!("{:.1} %", 100.0 * value);
    }
    if !is_a_time(figure) {
        return count(value.round().max(0.0) as u64);
    }
    let (scaled, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "s"),
        value if value >= 1e6 => (value / 1e6, "ms"),
        value if value >= 1e3 => (value / 1e3, "µs"),
        value => (value, "ns"),
    };
    match scaled {
        _ if unit == "ns" => format!("{scaled:.0} {unit}"),
        scaled if scaled < 9.995 => format!("{scaled:.2} {unit}"),
        scaled if scaled < 99.95 => format!("{scaled:.1} {unit}"),
        _ => format!("{} {unit}", count(scaled.round() as u64)),
    }
}

/// Formats a change with its sign: `+3.1 %`, or a factor if the value at least doubled.
pub(crate) fn signed(change: f64) -> String {
    match change {
        change if change >= 99.0 => format!("{}×", count((1.0 + change).round() as u64)),
        change if change >= 1.0 => format!("{:.1}×", 1.0 + change),
        change => format!("{:+.1} %", 100.0 * change).replace('-', "−"),
    }
}

pub(crate) fn range((low, high): (f64, f64)) -> String {
    format!("{} to {}", signed(low), signed(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits_and_the_unit_that_suits() {
        let shown =
            [("wall_ns", 12.408e9, "12.4 s"), ("wall_ns", 9.99e6, "9.99 ms"), ("blocked_by.disk", 640.0, "640 ns")];
        let others = [("migrations", 1204.0, "1,204"), ("a_ns/b_ns", 0.0414, "4.1 %"), ("wall_ns", 1.5e13, "15,000 s")];
        for (figure, value, expected) in shown.into_iter().chain(others) {
            assert_eq!(amount(figure, value), expected);
        }
    }

    fn change(verdict: Verdict, change: f64, visible_from: Option<f64>) -> Change {
        let interval = Some((change - 0.01, change + 0.01));
        Change { change: Some(change), interval, p_value: 0.5, p_needed: 0.035, visible_from, verdict }
    }

    #[test]
    fn each_verdict_has_its_sentence() {
        let say = |verdict, size, seen| sentence(&change(verdict, size, seen), [15, 15]);
        assert_eq!(say(Verdict::Slower, 0.031, Some(0.02)), "slower by 3.1 % (+2.1 % to +4.1 %)");
        assert_eq!(say(Verdict::Faster, -0.5, Some(0.02)), "faster by 50 % (−51.0 % to −49.0 %)");
        assert_eq!(say(Verdict::Slower, 2.0, None), "slower by a factor of 3.0 (3.0× to 3.0×)");
        let none = "no significant difference (smallest detectable change: 2.0 %)";
        assert_eq!(say(Verdict::NoChange, 0.001, Some(0.02)), none);
        assert_eq!(
            say(Verdict::CannotTell, 0.1, Some(0.23)),
            "no significant difference (15 runs; smallest detectable change: 23 %)"
        );
        let few = sentence(&change(Verdict::CannotTell, 0.1, None), [3, 1]);
        assert_eq!(few, "undecided (3 and 1 runs; at least 4 per group are needed)");
    }
}
