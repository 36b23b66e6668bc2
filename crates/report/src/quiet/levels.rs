//! What each level of quiet CPUs wins, as text and as JSON.

use compare::stats::Estimate;
use ledger::Provenance;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pack::cpus_of;
use crate::style::Style;
use crate::table::{Align, Table};

/// Version of the JSON schema of [`LevelsReport`].
pub const LEVELS_SCHEMA_VERSION: u32 = 1;

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
    /// The part in which this kernel did something else: interrupts, other threads, work items, page faults. Net time, by the kernel's events.
    pub kernel: Estimate,
    /// The rest: without an event of this kernel, and entering and leaving it.
    pub rest: Estimate,
    /// The hypervisor's steal clock in that time. It is shown beside, never subtracted, and is not a part of `stolen`: it counts in ticks.
    pub steal: Estimate,
    /// How much less was stolen than at the level before, in the same round; null for the first level. A step wins or loses if the interval does not
    /// contain 0.
    pub gain: Option<Estimate>,
    /// Forecast slowdown of the program, or the least that is known of it.
    pub slowdown: Option<Estimate>,
    /// What a thread that computes lost on the housekeeping CPU meanwhile; null if that was not measured.
    pub housekeeping: Option<Estimate>,
    /// For each round the stolen share, its parts (ticks, this kernel otherwise, the rest), and the steal clock.
    pub values: Vec<[f64; 5]>,
}

impl AtLevel {
    /// Returns whether the step from the level before wins (true) or loses (false); `None` if it cannot be told from noise.
    #[must_use]
    pub fn wins(&self) -> Option<bool> {
        let (low, high) = self.gain?.interval?;
        if low > 0.0 { Some(true) } else { (high < 0.0).then_some(false) }
    }
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
        let us = |share: f64| format!("{:.1}", share * 1e6);
        let each = |cell: &dyn Fn(&AtLevel) -> String| self.levels.iter().map(cell).collect::<Vec<String>>();
        table.column("level", Align::Left, 0, each(&|at| at.level.clone()));
        table.column("stolen µs/s", Align::Right, 0, each(&|at| us(at.stolen.median)));
        table.column("ticks", Align::Right, 1, each(&|at| us(at.ticks.median)));
        table.column("this kernel", Align::Right, 0, each(&|at| us(at.kernel.median)));
        table.column("the rest", Align::Right, 1, each(&|at| us(at.rest.median)));
        table.column("the step takes away", Align::Right, 0, each(&|at| self.step(at)));
        let slowdown =
            |at: &AtLevel| at.slowdown.map_or("–".to_owned(), |slowdown| format!("{:.3}", slowdown.median));
        table.column(&format!("S({})", self.ranks), Align::Right, 2, each(&slowdown));
        if self.levels.iter().any(|at| at.housekeeping.is_some()) {
            let cell = |at: &AtLevel| at.housekeeping.map_or("–".to_owned(), |share| us(share.median));
            let heading = format!("CPU {}", self.housekeeping_cpu.unwrap_or_default());
            table.column(&heading, Align::Right, 3, each(&cell));
        }
        table.lines(style.columns())
    }

    fn step(&self, at: &AtLevel) -> String {
        match (at.gain, at.wins()) {
            (None, _) => "–".to_owned(),
            (Some(gain), Some(_)) => format!("{:.1} µs/s", gain.median * 1e6),
            (Some(_), None) => "not told from noise".to_owned(),
        }
    }

    fn conclusion(&self) -> Vec<String> {
        let (Some(first), Some(last)) = (self.levels.first(), self.levels.last()) else { return Vec::new() };
        let least = self.levels.iter().filter(|at| at.wins() == Some(true));
        let best = least.max_by(|one, two| {
            let gain = |at: &AtLevel| at.gain.map_or(0.0, |gain| gain.median);
            gain(one).total_cmp(&gain(two))
        });
        let mut sentences = vec![format!(
            "{} takes {:.1} times less than {}: {:.3} % and {:.3} % of the time",
            last.level,
            first.stolen.median / last.stolen.median.max(f64::MIN_POSITIVE),
            first.level,
            100.0 * last.stolen.median,
            100.0 * first.stolen.median
        )];
        sentences.push(match best {
            Some(best) => format!("the step to {} wins most", best.level),
            None => "no step wins anything that can be told from noise".to_owned(),
        });
        sentences.push(format!(
            "of what is left, ticks take {:.0} %, this kernel otherwise {:.0} %, and what comes from outside, with entering and leaving the kernel, {:.0} %",
            100.0 * last.ticks.median / last.stolen.median.max(f64::MIN_POSITIVE),
            100.0 * last.kernel.median / last.stolen.median.max(f64::MIN_POSITIVE),
            100.0 * last.rest.median / last.stolen.median.max(f64::MIN_POSITIVE)
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

#[cfg(test)]
mod tests {
    use compare::stats::median_estimate;

    use super::*;

    fn estimate(value: f64) -> Estimate {
        Estimate { median: value, interval: None }
    }

    fn level(name: &str, stolen: f64, gain: Option<&[f64]>) -> AtLevel {
        AtLevel {
            level: name.into(),
            stolen: estimate(stolen),
            ticks: estimate(0.004),
            kernel: estimate(stolen - 0.005),
            rest: estimate(0.001),
            steal: estimate(0.0),
            gain: gain.map(median_estimate),
            slowdown: Some(estimate(1.5)),
            housekeeping: None,
            values: Vec::new(),
        }
    }

    fn report() -> LevelsReport {
        let sure = [0.1, 0.11, 0.12, 0.1, 0.11, 0.12, 0.1];
        let unsure = [0.001, -0.002, 0.001, -0.001, 0.002, 0.0, 0.0];
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
            levels: vec![
                level("pin", 0.12, None),
                level("cgroup", 0.01, Some(&sure)),
                level("irq", 0.01, Some(&unsure)),
            ],
        }
    }

    #[test]
    fn a_step_that_cannot_be_told_from_noise_says_so() {
        let text = report().text(&Style::default());
        assert!(text.contains("110000.0 µs/s") && text.contains("not told from noise"), "{text}");
        assert!(
            text.contains("irq takes 12.0 times less than pin") && text.contains("the step to cgroup wins"),
            "{text}"
        );
    }

    #[test]
    fn with_too_few_rounds_no_step_wins() {
        let few = LevelsReport {
            levels: vec![level("pin", 0.12, None), level("cgroup", 0.01, Some(&[0.1, 0.1]))],
            ..report()
        };
        let text = few.text(&Style::default());
        assert!(text.contains("no step wins anything that can be told"), "{text}");
    }
}
