//! What a part has found.

use anyhow::Result;
use serde::Serialize;

use crate::common::Common;
use crate::verdict::{Outcome, Verdict};

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
    pub fn print(&self, name: &str, common: &Common) -> Result<()> {
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

    /// Adds a criterion that single figures decide.
    pub fn require(&mut self, is_kept: bool, text: impl Into<String>) {
        self.judge(if is_kept { Outcome::Pass } else { Outcome::Fail }, text);
    }
}
