//! What each level of quiet CPUs wins, as text and as JSON.

use advise::numbers::about_percent;
use compare::few::MANY;
use compare::paired;
use compare::stats::Estimate;
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pack::cpus_of;
use crate::round::apportion;
use crate::style::Style;
use crate::table::{Align, Table};

/// Version of the JSON schema of [`LevelsReport`].
pub const LEVELS_SCHEMA_VERSION: u32 = 1;

/// Stands for a stolen share of 0: less than any loop can see.
const SMALLEST: f64 = 1e-9;
/// Share of the steal clock from which it is worth a sentence.
const STEAL: f64 = 0.001;

/// The document of `cox quiet measure --json`. Shares are of the measured CPUs' time, medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelsReport {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// Where and when it was measured.
    pub provenance: Provenance,
    /// The quiet CPUs, as a list.
    pub cpus: String,
    /// The housekeeping CPU that was measured beside them; null if none was.
    pub housekeeping_cpu: Option<u32>,
    /// Rounds; in each one, every level was measured once, in an order of its own.
    pub rounds: u64,
    /// Length of a measurement, ns.
    pub length_ns: u64,
    /// Ranks of the program of the forecast.
    pub ranks: u64,
    /// Its work between two synchronisations, ns.
    pub work_ns: u64,
    /// The levels, from the least to the most.
    pub levels: Vec<AtLevel>,
}

/// One level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtLevel {
    /// The level: `pin` to `tickless`.
    pub level: String,
    /// What a thread that computes lost on the quiet CPUs.
    pub stolen: Estimate,
    /// The part of it in timer ticks: net time, by the kernel's events.
    pub ticks: Estimate,
    /// The part in which this kernel did something else: interrupts, other threads, work items, page faults. Net time,
    /// by the kernel's events.
    pub kernel: Estimate,
    /// The rest: without an event of this kernel, and entering and leaving it.
    pub rest: Estimate,
    /// The hypervisor's steal clock in that time. It is shown beside, never subtracted, and is not a part of `stolen`:
    /// it counts in ticks.
    pub steal: Estimate,
    /// How much less was stolen than at the level before, in the same round; null for the first level. A step wins or
    /// loses if the interval does not contain 0.
    pub gain: Option<Estimate>,
    /// Forecast slowdown of the program.
    pub slowdown: Option<Estimate>,
    /// Whether `slowdown` is a lower bound, because a round has no estimate: the median is then that of all rounds'
    /// bounds.
    #[serde(default)]
    pub slowdown_is_bound: bool,
    /// What a thread that computes lost on the housekeeping CPU meanwhile; null if that was not measured.
    pub housekeeping: Option<Estimate>,
    /// For each round the stolen share, its parts (ticks, this kernel otherwise, the rest), and the steal clock.
    pub values: Vec<[f64; 5]>,
}

impl AtLevel {
    /// Returns whether the step from the level before wins (true) or loses (false); `None` if it cannot be told from
    /// noise.
    #[must_use]
    pub fn wins(&self) -> Option<bool> {
        let (low, high) = self.gain?.interval?;
        if low > 0.0 { Some(true) } else { (high < 0.0).then_some(false) }
    }

    /// Returns the parts of what was stolen: ticks, this kernel otherwise, the rest. They add up to 1, or are all 0.
    /// Medians of the parts do not add up to the median of the whole, so these are the means of each round's shares.
    fn shares(&self) -> [f64; 3] {
        let mut sums = [0.0; 3];
        for [_, parts @ .., _] in &self.values {
            let whole: f64 = parts.iter().sum();
            if whole > 0.0 {
                sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part / whole);
            }
        }
        let all: f64 = sums.iter().sum();
        if all > 0.0 { sums.map(|sum| sum / all) } else { sums }
    }

    /// Divides this many steps among the parts, so that they add up.
    fn apportioned(&self, steps: u64) -> [u64; 3] {
        let parts = self.shares().map(|share| (share * 1e12) as u64);
        let mut divided = apportion(&parts, steps).into_iter();
        [(); 3].map(|()| divided.next().unwrap_or_default())
    }

    /// Returns the stolen shares of the rounds. None is 0, because their ratios are needed.
    fn stolen_by_round(&self) -> Vec<f64> {
        self.values.iter().map(|[stolen, ..]| stolen.max(SMALLEST)).collect()
    }
}

/// Returns the smallest difference that these rounds would have shown: half the width of the interval.
fn smallest_detectable(difference: &Estimate) -> Option<f64> {
    difference.interval.map(|(low, high)| (high - low) / 2.0)
}

impl LevelsReport {
    /// Formats the report for a terminal.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        let seconds = self.length_ns as f64 / 1e9;
        let title = format!(
            "cox: quiet {} · {} rounds of {seconds:.1} s at each level, in turns · medians",
            cpus_of(&self.cpus),
            self.rounds
        );
        let mut lines = style.wrapped(&title, "", "    ");
        lines.push(String::new());
        lines.extend(self.table(style));
        lines.push(String::new());
        for sentence in self.conclusion() {
            lines.extend(style.wrapped(&sentence, "  => ", "     "));
        }
        lines.into_iter().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    fn table(&self, style: &Style) -> Vec<String> {
        let mut table = Table::new(style);
        // In tenths of a µs/s, so that what is printed adds up.
        let tenths = |share: f64| (share * 1e7).round() as u64;
        let printed = |tenths: u64| format!("{}.{}", tenths / 10, tenths % 10);
        let part = |at: &AtLevel, which: usize| printed(at.apportioned(tenths(at.stolen.median))[which]);
        let each = |cell: &dyn Fn(&AtLevel) -> String| self.levels.iter().map(cell).collect::<Vec<String>>();
        table.column("level", Align::Left, 0, each(&|at| at.level.clone()));
        table.column("stolen µs/s", Align::Right, 0, each(&|at| printed(tenths(at.stolen.median))));
        table.column("ticks", Align::Right, 1, each(&|at| part(at, 0)));
        table.column("this kernel", Align::Right, 0, each(&|at| part(at, 1)));
        table.column("the rest", Align::Right, 1, each(&|at| part(at, 2)));
        table.column("the step takes away", Align::Right, 0, each(&|at| step(at)));
        let slowdown = |at: &AtLevel| {
            let bound = if at.slowdown_is_bound { "≥ " } else { "" };
            at.slowdown.map_or("–".to_owned(), |slowdown| format!("{bound}{:.3}", slowdown.median))
        };
        table.column(&format!("S({})", self.ranks), Align::Right, 2, each(&slowdown));
        if self.levels.iter().any(|at| at.housekeeping.is_some()) {
            let cell = |at: &AtLevel| at.housekeeping.map_or("–".to_owned(), |share| printed(tenths(share.median)));
            let heading = format!("CPU {}", self.housekeeping_cpu.unwrap_or_default());
            table.column(&heading, Align::Right, 3, each(&cell));
        }
        table.lines(style.columns())
    }

    fn conclusion(&self) -> Vec<String> {
        let (Some(first), Some(last)) = (self.levels.first(), self.levels.last()) else { return Vec::new() };
        let winning = self.levels.iter().filter(|at| at.wins() == Some(true));
        let best = winning.max_by(|one, two| {
            let gain = |at: &AtLevel| at.gain.map_or(0.0, |gain| gain.median);
            gain(one).total_cmp(&gain(two))
        });
        let mut sentences = vec![format!(
            "at {}, {:.3} % of the time is stolen, and at {} {:.3} %: {}",
            last.level,
            100.0 * last.stolen.median,
            first.level,
            100.0 * first.stolen.median,
            times_less(paired::ratio(&first.stolen_by_round(), &last.stolen_by_round()))
        )];
        sentences.extend(best.map(|best| format!("the step to {} wins most", best.level)));
        let unsure = |at: &AtLevel| {
            let seen = smallest_detectable(&at.gain?).filter(|_| at.wins().is_none())?;
            Some(format!("{} (smallest detectable change: {:.1} µs/s)", at.level, seen * 1e6))
        };
        let unsure: Vec<String> = self.levels.iter().filter_map(unsure).collect();
        if !unsure.is_empty() {
            sentences.push(format!("no significant difference by the step to {}", unsure.join(", ")));
        }
        let [ticks, kernel, rest] = last.apportioned(100);
        sentences.push(format!(
            "of what is left, ticks take {ticks} %, this kernel otherwise {kernel} %, and what comes from outside, with entering and leaving the kernel, {rest} %"
        ));
        let steal = self.levels.iter().map(|at| at.steal.median).fold(0.0, f64::max);
        if steal > STEAL {
            sentences.push(format!(
                "the hypervisor took up to {:.1} % of the CPU, by its steal clock: no level changes that",
                100.0 * steal
            ));
        }
        sentences
    }
}

/// Returns what the step from the level before takes away, for the table.
fn step(at: &AtLevel) -> String {
    match (at.gain, at.wins()) {
        (None, _) => "–".to_owned(),
        (Some(gain), Some(_)) => format!("{:.1} µs/s", gain.median * 1e6),
        (Some(Estimate { interval: Some(_), .. }), None) => "not significant".to_owned(),
        (Some(_), None) => format!("{MANY} rounds needed"),
    }
}

/// Formats how many times as much the first level takes as the last one.
fn times_less(ratio: Option<Estimate>) -> String {
    let Some(Estimate { median, interval: Some((low, high)) }) = ratio else {
        return "one round does not tell whether they differ".to_owned();
    };
    match () {
        () if low > 1.0 => format!("{median:.1} times less (95 %: {low:.1} to {high:.1})"),
        () if high < 1.0 => {
            format!("{:.1} times as much (95 %: {:.1} to {:.1})", 1.0 / median, 1.0 / high, 1.0 / low)
        }
        () => {
            let seen = (high / low).sqrt() - 1.0;
            let seen = if seen < 1.0 { about_percent(seen) } else { format!("{:.1}×", 1.0 + seen) };
            format!("no significant difference (smallest detectable change: {seen})")
        }
    }
}

#[cfg(test)]
mod tests {
    use compare::stats::median_estimate;

    use super::*;

    fn estimate(value: f64) -> Estimate {
        Estimate { median: value, interval: None }
    }

    /// A level whose rounds lost these shares, one tenth of it in ticks and three tenths in the kernel.
    fn level(name: &str, stolen: &[f64], gain: Option<&[f64]>) -> AtLevel {
        let of = |part: f64| median_estimate(&stolen.iter().map(|stolen| part * stolen).collect::<Vec<f64>>());
        AtLevel {
            level: name.into(),
            stolen: of(1.0),
            ticks: of(0.1),
            kernel: of(0.3),
            rest: of(0.6),
            steal: estimate(0.0),
            gain: gain.map(median_estimate),
            slowdown: Some(estimate(1.5)),
            slowdown_is_bound: false,
            housekeeping: None,
            values: stolen.iter().map(|stolen| [*stolen, 0.1 * stolen, 0.3 * stolen, 0.6 * stolen, 0.0]).collect(),
        }
    }

    const PIN: [f64; 7] = [0.12, 0.121, 0.119, 0.12, 0.122, 0.118, 0.12];
    const TENTH: [f64; 7] = [0.012, 0.011, 0.013, 0.012, 0.0125, 0.0115, 0.012];
    const SURE: [f64; 7] = [0.1, 0.11, 0.12, 0.1, 0.11, 0.12, 0.1];
    const UNSURE: [f64; 7] = [0.001, -0.002, 0.001, -0.001, 0.002, 0.0, 0.0];

    fn report(levels: Vec<AtLevel>) -> LevelsReport {
        LevelsReport {
            schema_version: LEVELS_SCHEMA_VERSION,
            cox_version: String::new(),
            provenance: Provenance::default(),
            cpus: "2-3".into(),
            housekeeping_cpu: None,
            rounds: 7,
            length_ns: 2_000_000_000,
            ranks: 4096,
            work_ns: 1_000_000,
            levels,
        }
    }

    /// Unwrapped, so that a sentence is one line.
    fn said(levels: Vec<AtLevel>) -> String {
        report(levels).text(&Style { width: 1000, ..Style::default() })
    }

    #[test]
    fn a_step_without_a_significant_difference_says_so() {
        let levels =
            vec![level("pin", &PIN, None), level("cgroup", &TENTH, Some(&SURE)), level("irq", &TENTH, Some(&UNSURE))];
        let text = said(levels);
        assert!(text.contains("110000.0 µs/s") && text.contains("not significant"), "{text}");
        assert!(text.contains("the step to cgroup wins most"), "{text}");
        // Half of -0.002 to 0.002.
        let sentence = "no significant difference by the step to irq (smallest detectable change: 2000.0 µs/s)";
        assert!(text.contains(sentence), "{text}");
        assert!(!text.contains("told from noise"), "{text}");
    }

    #[test]
    fn the_ratio_has_its_interval_and_says_when_it_is_none() {
        let of = |last: &[f64]| said(vec![level("pin", &PIN, None), level("full", last, Some(&UNSURE))]);
        let better = of(&TENTH);
        assert!(better.contains("at full, 1.200 % of the time is stolen, and at pin 12.000 %: 10.0 times less"));
        assert!(better.contains("times less (95 %: 9.") && better.contains(" to 10."), "{better}");
        let worse = of(&PIN.map(|share| 1.5 * share));
        assert!(worse.contains("18.000 %") && worse.contains("1.5 times as much (95 %: 1.5 to 1.5)"), "{worse}");
        let mut same = PIN;
        same.reverse();
        same[0] *= 1.02;
        let same = of(&same);
        assert!(same.contains(": no significant difference (smallest detectable change: "), "{same}");
        let once = said(vec![level("pin", &PIN[..1], None), level("full", &TENTH[..1], None)]);
        assert!(once.contains("one round does not tell"), "{once}");
    }

    #[test]
    fn parts_add_up() {
        // Rounds of which the medians of the parts are not the parts of the median.
        let mut odd = level("full", &TENTH, None);
        for (at, values) in odd.values.iter_mut().enumerate() {
            let stolen = values[0];
            let ticks = [0.0, 0.9, 0.1, 0.8, 0.2, 0.3, 0.3][at] * stolen;
            let kernel = (stolen - ticks) * [0.9, 0.1, 0.2, 0.8, 0.0, 0.3, 0.333][at];
            *values = [stolen, ticks, kernel, stolen - ticks - kernel, 0.0];
        }
        let of = |part: usize| median_estimate(&odd.values.iter().map(|values| values[part]).collect::<Vec<f64>>());
        (odd.ticks, odd.kernel, odd.rest) = (of(1), of(2), of(3));
        let medians = odd.ticks.median + odd.kernel.median + odd.rest.median;
        assert!((medians - odd.stolen.median).abs() > 1e-4, "this test can fail: {medians}");
        let text = said(vec![level("pin", &PIN, None), odd]);
        for name in ["pin", "full"] {
            let row = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            let numbers: Vec<f64> = row.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let sum = numbers[1..4].iter().sum::<f64>();
            assert!((numbers[0] - sum).abs() < 0.01, "{row}: {sum}");
        }
        let left = text.lines().find(|line| line.contains("of what is left")).unwrap();
        let percents = left.split(" %").filter_map(|part| part.rsplit(' ').next()?.parse::<u64>().ok());
        assert_eq!(percents.sum::<u64>(), 100, "{left}");
    }

    #[test]
    fn a_bound_is_marked() {
        let mut bound = level("full", &TENTH, None);
        bound.slowdown_is_bound = true;
        let text = said(vec![level("pin", &PIN, None), bound]);
        let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
        assert!(row("full").contains("≥ 1.500") && !row("pin").contains('≥'), "{text}");
    }

    #[test]
    fn with_too_few_rounds_no_step_wins() {
        let text = said(vec![level("pin", &PIN[..2], None), level("cgroup", &TENTH[..2], Some(&[0.1, 0.1]))]);
        assert!(text.contains("6 rounds needed") && !text.contains("wins"), "{text}");
    }

    #[test]
    fn lines_fit() {
        let levels = vec![
            level("pin", &PIN, None),
            level("no-balance", &TENTH, Some(&SURE)),
            level("full", &TENTH, Some(&UNSURE)),
        ];
        for width in [60, 80, 100] {
            let text = report(levels.clone()).text(&Style { width, ..Style::default() });
            let wide: Vec<&str> = text.lines().filter(|line| crate::style::columns(line) > width).collect();
            assert_eq!(wide, [] as [&str; 0]);
        }
    }
}
