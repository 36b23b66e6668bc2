//! Comparisons as text.

use super::Comparison;
use super::rows::Beside;
use crate::style::Style;

impl Comparison {
    /// Formats the comparison for a terminal.
    #[must_use]
    pub fn text(&self, style: &Style) -> String {
        let title = style.wrapped(&format!("cox: {}", self.title()), "", "     ");
        let mut lines: Vec<String> = title.iter().map(|line| style.title(line)).collect();
        for warning in &self.warnings {
            lines.push(style.warning(&style.clean(&format!("  {warning}"))));
        }
        for line in self.differing() {
            lines.extend(style.wrapped(&line, "  ", "    "));
        }
        if self.groups.len() < 2 {
            lines.push(String::new());
            lines.extend(self.alone(style).lines(style.columns()));
        }
        for other in 1..self.groups.len() {
            lines.push(String::new());
            lines.extend(beside(self.beside(style, other), style));
        }
        lines.extend(self.few_runs().map(|note| format!("  {note}")));
        lines.into_iter().map(|line| line + "\n").collect()
    }
}

/// Formats the comparison of one group with the first: a sentence about wall time, then the figures: those that changed, those without significant
/// difference, and those that are undecided.
fn beside(of: Beside, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(answer) = of.answer {
        lines.push(style.clean(&format!("  {answer}")));
        lines.push(String::new());
    }
    let mut rows = of.table.lines(style.columns()).into_iter();
    lines.extend(rows.next());
    for (heading, number) in of.parts {
        lines.push(style.heading(&format!("  {heading}")));
        lines.extend(rows.by_ref().take(number));
    }
    lines
}
