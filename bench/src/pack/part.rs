//! One part of the experiment, as it is printed and as `--json` writes it.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use crate::verdict::Verdict;

/// A part.
#[derive(Debug, Serialize)]
pub struct Part {
    /// As on the command line.
    pub name: &'static str,
    about: String,
    /// What was measured, with each single value.
    lines: serde_json::Value,
    notes: Vec<String>,
    /// Criteria and answers.
    pub verdicts: Vec<Verdict>,
    #[serde(skip)]
    table: String,
}

impl Part {
    /// A part without anything in it.
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

    /// What people read.
    pub fn with_table(self, table: String) -> Part {
        Part { table, ..self }
    }

    /// What programs read.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn with_lines(self, lines: &impl Serialize) -> Result<Part> {
        Ok(Part { lines: serde_json::to_value(lines)?, ..self })
    }

    /// Remarks that qualify the figures.
    pub fn with_notes(self, notes: Vec<String>) -> Part {
        Part { notes, ..self }
    }

    /// Criteria and answers.
    pub fn with_verdicts(self, verdicts: Vec<Verdict>) -> Part {
        Part { verdicts, ..self }
    }

    /// One more remark.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Has it measured anything?
    pub fn is_measured(&self) -> bool {
        self.lines.as_array().is_some_and(|lines| !lines.is_empty())
    }

    /// For people.
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

/// Where the experiment is: it takes hours, and its log should say so.
pub fn progress(text: &str) {
    use std::io::Write;
    // Progress that cannot be shown is no reason to stop measuring.
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
