//! What all cases share: the names of the treatments (the tools that observe the program), the rounds, and the noise check.

use std::io::{self, IsTerminal, Write};

use tempfile::TempDir;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::results::Figure;
use crate::table;
use crate::tools::Tools;

/// Name of the control: the plain program (without an observer), measured once more as if it were a treatment.
pub const CONTROL: &str = "plain again";
pub const COX: &str = "cox";
pub const PERF: &str = "perf sched record";
pub const TRACE: &str = "cox --trace";

/// Options for the number and length of measurements, and the options that all experiments share.
#[derive(Debug, clap::Args)]
pub struct Effort {
    /// Rounds per case; each round measures every treatment once (default: 5 to 60, depending on the case)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: Option<u16>,
    /// Six short rounds: only a check that everything works; the figures are not reliable
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub common: Common,
}

/// What a case needs: options, programs, and a temporary folder.
pub struct Bench<'a> {
    pub options: &'a Effort,
    pub interrupt: &'a Interrupt,
    pub tools: Tools,
    pub scratch: TempDir,
}

impl Bench<'_> {
    /// Returns the number of rounds: `usual`, unless the options say otherwise.
    pub fn rounds(&self, usual: usize) -> usize {
        // A confidence interval needs at least six values.
        let usual = if self.options.quick { 6 } else { usual };
        self.options.runs.map_or(usual, usize::from)
    }
}

/// Returns a warning if the control (a second plain measurement) differs so much from the plain measurements that a ratio of `limit` cannot be judged
/// on this machine.
pub fn noise(figure: &Figure, limit: f64) -> Option<String> {
    let control = figure.with(CONTROL)?.ratio?;
    let (low, high) = control.interval?;
    if (low..=high).contains(&1.0) && high - 1.0 <= limit - 1.0 && 1.0 - low <= limit - 1.0 {
        return None;
    }
    Some(format!(
        "NOISY: {}: '{CONTROL}' takes {} times as long as plain; this noise is too large to judge a limit of {limit}",
        figure.name,
        table::ratio(&control)
    ))
}

/// Prints progress if stderr is a terminal: an experiment takes minutes.
pub fn progress(text: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        // A failure to print progress must not stop the measurement.
        let _ = writeln!(stderr, "cox-bench: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Column, Shown};
    use crate::rounds::Rounds;
    use crate::stats::Bracket;

    fn control_at(treated: f64, spread: f64) -> Figure {
        let values = [-1.0, 0.0, 1.0].iter().cycle().take(21);
        let brackets: Vec<_> =
            values.map(|s| Bracket { before: 100.0, treated: treated + s * spread, after: 100.0 }).collect();
        let columns = [Column { name: CONTROL, impossible: None }];
        Figure::new("wall", Shown::Ms, &columns, Rounds { plain: vec![100.0; 22], treated: vec![brackets] })
    }

    #[test]
    fn a_control_that_is_off_or_wide_is_said() {
        assert_eq!(noise(&control_at(100.0, 0.5), 1.01), None);
        assert!(noise(&control_at(100.0, 2.0), 1.01).is_some(), "wider than the limit");
        assert_eq!(noise(&control_at(100.0, 2.0), 1.10), None);
        assert!(noise(&control_at(100.9, 0.1), 1.01).is_some(), "plain is not plain");
    }
}
