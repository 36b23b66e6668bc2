//! One part of the experiment, as printed and as written by `--json`.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use crate::verdict::Verdict;

/// The results of one part of the experiment.
#[derive(Debug, Serialize)]
pub struct Part {
    /// Name on the command line.
    pub name: &'static str,
    about: String,
    /// The measurements with all single values, for JSON.
    lines: serde_json::Value,
    notes: Vec<String>,
    /// Criteria and outcomes.
    pub verdicts: Vec<Verdict>,
    #[serde(skip)]
    table: String,
}

impl Part {
    /// Makes a part of the experiment without results.
    pub fn new(name: &'static str, about: &str) -> Part {
        Part {
            name,
            about: about.to_owned(),
            lines: serde_json::Value::Null,
            notes: Vec::new(),
            verdicts: Vec::new(),
            table: String::new(),
        }
    }

    /// Sets the table that is printed.
    pub fn with_table(self, table: String) -> Part {
        Part { table, ..self }
    }

    /// Sets the measurements for JSON.
    ///
    /// # Errors
    /// When `lines` cannot be converted to JSON.
    pub fn with_lines(self, lines: &impl Serialize) -> Result<Part> {
        Ok(Part { lines: serde_json::to_value(lines)?, ..self })
    }

    /// Sets the remarks that qualify the figures.
    pub fn with_notes(self, notes: Vec<String>) -> Part {
        Part { notes, ..self }
    }

    /// Sets the criteria and their outcomes.
    pub fn with_verdicts(self, verdicts: Vec<Verdict>) -> Part {
        Part { verdicts, ..self }
    }

    /// Adds a remark.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Returns whether the part has measurements.
    pub fn is_measured(&self) -> bool {
        self.lines.as_array().is_some_and(|lines| !lines.is_empty())
    }

    /// Returns the printed text.
    pub fn text(&self) -> String {
        let mut text = format!("{} - {}\n", self.name, self.about);
        if !self.table.is_empty() {
            let _ = writeln!(text, "{}", self.table.trim_end());
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        for verdict in &self.verdicts {
            let _ = writeln!(text, "  {}  {}", verdict.outcome.word(), verdict.text);
        }
        text
    }
}

/// Prints progress to stderr: the experiment takes hours, and its log should show how far it is.
pub fn progress(text: &str) {
    use std::io::Write;
    // A failure to print progress must not stop the measurement.
    let _ = writeln!(std::io::stderr(), "cox-bench: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn a_part_shows_all_it_has() {
        let verdict = Verdict { outcome: Outcome::Pass, text: "good".into() };
        let mut part = Part::new("barriers", "meet")
            .with_table("a b\n".into())
            .with_lines(&[1])
            .unwrap()
            .with_notes(vec!["noisy".into()])
            .with_verdicts(vec![verdict]);
        part.note("late".into());
        assert_eq!(part.text(), "barriers - meet\na b\n  noisy\n  late\n  PASS  good\n");
        assert!(part.is_measured());
        assert!(!Part::new("x", "y").is_measured());
        let json = serde_json::to_value(&part).unwrap();
        assert_eq!((&json["name"], &json["lines"][0]), (&"barriers".into(), &1.into()));
        assert!(json.get("table").is_none());
    }
}
