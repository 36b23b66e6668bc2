//! What packing gains: threads on fewer CPUs, compared with taskset, with fewer threads and with the PALM paper's rules.
//!
//! The experiment has seven parts, each of which can run alone. Treatments that are compared take turns, in an order that changes from round to
//! round.

mod ablation;
mod attach;
mod barriers;
mod catalogue;
mod controller;
pub mod field;
mod job;
mod judge;
mod kernels;
mod model;
mod output;
mod packages;
mod palm;
pub mod palm_live;
mod part;
mod ratio;
mod simulated;
mod text;

use anyhow::Result;
use catalogue::{KERNELS, Kernel};
use field::Field;
use part::{Part, progress};
use ratio::Ratio;
use serde::Serialize;
use simulated::Live;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json::Header;
use crate::verdict::Outcome;

/// Default ratios of threads to CPUs.
const RATIOS: &str = "3/2,5/2,7/2,4/2";

/// Measure what packing gains, compared with taskset and with fewer threads.
///
/// Treatments that are compared take turns, once a round, in an order that changes. Figures are medians with 95 % intervals, and all of them include
/// the controller's own time. Real figures need a quiet machine, and root.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  cox-bench pack --json pack.json\n  \
cox-bench pack --only kernels --kernels lu,cg --ratio 3/2 --rounds 3\n\n\
Exit codes: 0 no target was missed, 1 a target was missed, 2 bad command line, 125 a part could not be measured."
)]
pub struct Options {
    /// A subcommand that does something other than this experiment.
    #[command(subcommand)]
    pub what: Option<What>,
    /// Parts of the experiment (default: all)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<PartName>,
    /// Rounds; each measures every treatment once
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Threads/CPUs of the kernels; ablation, controller and packages use the first ratio
    #[arg(long, value_delimiter = ',', value_name = "RATIOS", default_value = RATIOS)]
    ratio: Vec<Ratio>,
    /// Kernels (default: all twelve)
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = catalogue::named)]
    kernels: Vec<&'static Kernel>,
    /// Rows of the `barriers` table to measure, by name (default: all)
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = barriers::named)]
    lines: Vec<barriers::Line>,
    /// Length of all runs relative to the default; with less than 1, the figures are not reliable
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    #[command(flatten)]
    common: Common,
}

/// Subcommands of `cox-bench pack`.
#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Run a program, packed by the rules of the PALM paper
    Palm(palm_live::Options),
}

fn scale(text: &str) -> Result<f64, String> {
    let part = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.01..=100.0).contains(&part) { Ok(part) } else { Err("from 0.01 to 100".to_owned()) }
}

/// The parts of the experiment, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PartName {
    /// Threads that wait for each other at barriers, with the acceptance targets
    Barriers,
    /// Twelve kernels, each run in five ways: taskset, fewer threads, static best, palm, cox
    Kernels,
    /// The PALM paper's rules without progress, without locality, and without period control
    Ablation,
    /// More CPUs than this machine has, in a simulator that is calibrated on this machine
    Simulated,
    /// Packing a program that already runs
    Attach,
    /// CPU time of cox itself
    Controller,
    /// Programs from Debian packages
    Packages,
}

const ALL: [PartName; 7] = [
    PartName::Barriers,
    PartName::Kernels,
    PartName::Ablation,
    PartName::Simulated,
    PartName::Attach,
    PartName::Controller,
    PartName::Packages,
];

impl PartName {
    fn word(self) -> &'static str {
        match self {
            PartName::Barriers => "barriers",
            PartName::Kernels => "kernels",
            PartName::Ablation => "ablation",
            PartName::Simulated => "simulated",
            PartName::Attach => "attach",
            PartName::Controller => "controller",
            PartName::Packages => "packages",
        }
    }
}

/// The results of the experiment.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    header: Header,
    rounds: u16,
    /// Length of runs relative to the default.
    scale: f64,
    parts: Vec<Part>,
}

impl Report {
    /// Returns whether a target was missed.
    pub fn misses(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.verdicts).any(|verdict| verdict.outcome == Outcome::Fail)
    }

    /// Returns whether a part could not be measured.
    pub fn lacks(&self) -> bool {
        self.parts.iter().any(|part| !part.is_measured())
    }
}

impl Options {
    fn parts(&self) -> Vec<PartName> {
        ALL.into_iter().filter(|part| self.only.is_empty() || self.only.contains(part)).collect()
    }

    fn kernels(&self) -> Vec<&'static Kernel> {
        if self.kernels.is_empty() { KERNELS.iter().collect() } else { self.kernels.clone() }
    }

    fn lines(&self) -> Vec<barriers::Line> {
        if self.lines.is_empty() { barriers::LINES.to_vec() } else { self.lines.clone() }
    }

    fn first_ratio(&self) -> Ratio {
        self.ratio.first().copied().unwrap_or(simulated::RATIO)
    }

    /// Returns whether other parts of the experiment measure all figures of real runs with which the part `simulated` compares the simulator.
    fn has_live_side(&self) -> bool {
        let parts = self.parts();
        parts.contains(&PartName::Barriers)
            && self.lines.is_empty()
            && parts.contains(&PartName::Kernels)
            && self.ratio.contains(&simulated::RATIO)
    }

    /// Returns the expected duration of a part, s.
    fn expected_s(&self, part: PartName) -> f64 {
        let (rounds, scale, kernels) = (usize::from(self.rounds), self.scale, self.kernels());
        match part {
            PartName::Barriers => barriers::expected_s(&self.lines(), rounds, scale),
            PartName::Kernels => kernels::expected_s(&kernels, self.ratio.len(), rounds, scale),
            PartName::Ablation => ablation::expected_s(&kernels, rounds, scale),
            PartName::Simulated => simulated::expected_s(&kernels, self.has_live_side(), scale),
            PartName::Attach => attach::expected_s(rounds, scale),
            PartName::Controller => controller::expected_s(self.first_ratio(), rounds, scale),
            PartName::Packages => packages::expected_s(rounds, scale),
        }
    }
}

/// Measures all parts and prints the results.
///
/// # Errors
/// When cox cannot pack here, or the results cannot be written. If a part of the experiment fails, no error is returned: the report says why the part
/// was not measured.
pub fn pack(options: &Options, interrupt: &Interrupt) -> Result<Report> {
    let parts = options.parts();
    let expected_s: f64 = parts.iter().map(|part| options.expected_s(*part)).sum();
    progress(&format!(
        "{} rounds of {}; expected time: {}",
        options.rounds,
        parts.iter().map(|part| part.word()).collect::<Vec<_>>().join(", "),
        text::duration(expected_s)
    ));
    let tools = options.common.tools()?;
    let field = Field::new(tools, options.scale, interrupt)?;
    let mut report =
        Report { header: Header::new("pack")?, rounds: options.rounds, scale: options.scale, parts: Vec::new() };
    let mut live = Live::default();
    let mut left_s = expected_s;
    for name in parts {
        progress(&format!("{}; remaining time: {}", name.word(), text::duration(left_s)));
        left_s -= options.expected_s(name);
        let outcome = measure(&field, options, name, &mut live);
        interrupt.check()?;
        let mut part = outcome.unwrap_or_else(|error| Part::new(name.word(), &format!("not measured: {error:#}")));
        for diagnostic in field.take_diagnostics() {
            part.note(diagnostic);
        }
        options.common.print(&part.text())?;
        report.parts.push(part);
    }
    options.common.write(&report)?;
    Ok(report)
}

fn measure(field: &Field<'_>, options: &Options, name: PartName, live: &mut Live) -> Result<Part> {
    let (rounds, ratio, kernels) = (usize::from(options.rounds), options.first_ratio(), options.kernels());
    match name {
        PartName::Barriers => {
            let (part, lines) = barriers::part(field, &options.lines(), rounds)?;
            live.lines = lines;
            Ok(part)
        }
        PartName::Kernels => {
            let (part, tables) = kernels::part(field, &kernels, &options.ratio, rounds)?;
            live.tables = tables;
            Ok(part)
        }
        PartName::Ablation => ablation::part(field, &kernels, ratio, rounds),
        PartName::Simulated => simulated::part(field, &kernels, std::mem::take(live)),
        PartName::Attach => attach::part(field, rounds),
        PartName::Controller => controller::part(field, ratio, rounds),
        PartName::Packages => packages::part(field, ratio, rounds),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &[&str]) -> Result<Options, clap::Error> {
        Line::try_parse_from(std::iter::once(&"pack").chain(words)).map(|line| line.options)
    }

    #[test]
    fn all_of_it_is_the_default() {
        let all = options(&[]).unwrap();
        assert_eq!(all.parts(), ALL);
        assert_eq!((all.rounds, all.kernels().len(), all.ratio.len()), (15, 12, 4));
        assert!(all.has_live_side());
    }

    #[test]
    fn parts_are_chosen_and_run_in_their_order() {
        let some = options(&["--only", "kernels,barriers", "--kernels", "lu,cg", "--ratio", "5/2"]).unwrap();
        assert_eq!(some.parts(), [PartName::Barriers, PartName::Kernels]);
        assert_eq!(some.kernels().iter().map(|kernel| kernel.name).collect::<Vec<_>>(), ["lu", "cg"]);
        assert!(!some.has_live_side(), "the simulator is held against 3/2");
        let lines = options(&["--lines", "3/2 spin-futex 10 ms,4/2 yield 1 ms"]).unwrap();
        assert_eq!(
            lines.lines().iter().map(barriers::Line::name).collect::<Vec<_>>(),
            ["3/2 spin-futex 10 ms", "4/2 yield 1 ms"]
        );
        assert!(!lines.has_live_side(), "the simulator wants all 3/2 lines");
        for bad in [
            &["--only", "nothing"][..],
            &["--kernels", "quicksort"],
            &["--ratio", "2/3"],
            &["--lines", "3/2 spin 11 ms"],
            &["--rounds", "0"],
            &["--scale", "0"],
            &["--scale", "NaN"],
        ] {
            assert!(options(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn estimates_grow_with_what_is_measured() {
        let total = |words: &[&str]| {
            let options = options(words).unwrap();
            options.parts().iter().map(|part| options.expected_s(*part)).sum::<f64>()
        };
        assert!(total(&["--rounds", "2"]) < total(&[]));
        assert!(total(&["--scale", "0.1"]) < total(&[]));
        assert!(total(&["--ratio", "3/2"]) < total(&[]));
        for part in ALL {
            assert!(total(&["--only", part.word()]) > 0.0, "{part:?}");
        }
    }

    #[test]
    fn what_is_missed_or_lacking_is_known() {
        let verdict = |outcome| crate::verdict::Verdict { outcome, text: String::new() };
        let report =
            |part: Part| Report { header: Header::new("pack").unwrap(), rounds: 1, scale: 1.0, parts: vec![part] };
        let measured = || Part::new("barriers", "").with_lines(&[1]).unwrap();
        assert!(report(measured().with_verdicts(vec![verdict(Outcome::Fail)])).misses());
        assert!(!report(measured().with_verdicts(vec![verdict(Outcome::Undecided)])).misses());
        assert!(!report(measured()).lacks());
        assert!(report(Part::new("barriers", "")).lacks());
    }
}
