//! A text report that is being written.

use crate::json::Document;
use crate::style::Style;

/// The lines of a report that is being written.
pub(crate) struct Page<'d> {
    pub document: &'d Document,
    pub style: &'d Style,
    pub(super) lines: Vec<String>,
}

impl Page<'_> {
    pub(super) fn add(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Adds a text, broken into lines.
    pub(super) fn paragraph(&mut self, text: &str) {
        self.lines.extend(self.style.wrapped(text, "  ", "    "));
    }

    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = String>) {
        self.lines.extend(lines);
    }

    /// Separates two blocks by one empty line.
    pub(super) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }
}
