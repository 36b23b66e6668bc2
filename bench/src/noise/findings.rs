//! What a part has found.

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::common::Common;
use crate::json;
use crate::tools::in_path;
use crate::verdict::{Outcome, Verdict};

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    parts: Vec<(String, Findings)>,
}

/// Measures parts of an experiment (none named: all), prints each, and writes all. Returns the exit code: 1 if a criterion is not met.
///
/// # Errors
/// When a part cannot be measured, or the results cannot be written.
pub fn measure<P: ValueEnum>(
    experiment: &'static str,
    parts: &[P],
    common: &Common,
    mut of: impl FnMut(&P) -> Result<Findings>,
) -> Result<u8> {
    let mut report = Report { header: json::Header::new(experiment)?, parts: Vec::new() };
    for part in if parts.is_empty() { P::value_variants() } else { parts } {
        let findings = of(part)?;
        let name = part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        findings.print(&name, common)?;
        report.parts.push((name, findings));
    }
    common.write(&report)?;
    let has_failed = report.parts.iter().flat_map(|(_, part)| &part.verdicts).any(|v| v.outcome == Outcome::Fail);
    Ok(u8::from(has_failed))
}

/// What a part has found.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    /// Lines of its table.
    pub lines: Vec<String>,
    /// Its criteria.
    pub verdicts: Vec<Verdict>,
}

impl Findings {
    /// Prints everything under the name of the part.
    ///
    /// # Errors
    /// When it cannot be printed.
    fn print(&self, name: &str, common: &Common) -> Result<()> {
        common.print(&format!("{name}\n"))?;
        self.lines.iter().try_for_each(|line| common.print(&format!("  {line}")))?;
        let verdicts = self.verdicts.iter().map(|v| format!("{}  {}", v.outcome.word(), v.text));
        verdicts.into_iter().try_for_each(|line| common.print(&line))?;
        common.print("")
    }

    /// Adds a line of the table.
    pub fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    /// Adds a criterion.
    pub fn judge(&mut self, outcome: Outcome, text: impl Into<String>) {
        self.verdicts.push(Verdict { outcome, text: text.into() });
    }

    /// Returns whether a program is installed. If not, adds that the part was not measured.
    pub fn has(&mut self, program: &str) -> bool {
        let is_there = in_path(program).is_some();
        if !is_there {
            self.judge(Outcome::NotMeasured, format!("{program} is not installed"));
        }
        is_there
    }

    /// Adds a criterion that single figures decide.
    pub fn require(&mut self, is_kept: bool, text: impl Into<String>) {
        self.judge(if is_kept { Outcome::Pass } else { Outcome::Fail }, text);
    }
}
