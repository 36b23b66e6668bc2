//! The rows of a comparison, for the text and the page.

use advise::numbers::counted;
use compare::Verdict;

use super::words::{interval, median, number, range, sentence, short, signed, words};
use super::{Comparison, Difference, WALL};
use crate::style::Style;
use crate::table::{Align, Table};

/// The comparison of one group with the first one.
pub(crate) struct Beside<'s> {
    /// How wall time changed, as a sentence.
    pub answer: Option<String>,
    /// The figures, ordered by verdict.
    pub table: Table<'s>,
    /// The parts of the table, one for each kind of verdict: its heading and its number of rows. Parts without rows are left out.
    pub parts: Vec<(String, usize)>,
}

impl Comparison {
    /// Returns the title: `after (15 runs) compared with before (15 runs)`.
    pub(crate) fn title(&self) -> String {
        let names: Vec<String> =
            self.groups.iter().map(|of| format!("{} ({})", of.name, counted(of.runs, "run"))).collect();
        match names.split_first() {
            Some((first, [])) => first.clone(),
            Some((first, others)) => format!("{} compared with {first}", others.join(", ")),
            None => "nothing to compare".to_owned(),
        }
    }

    /// Returns the properties in which runs differ, one line each: `host: before node1; after node2, node3`.
    pub(crate) fn differing(&self) -> Vec<String> {
        let line = |of: &Difference| {
            let groups = self.groups.iter().zip(&of.by_group);
            let groups = groups.map(|(group, values)| format!("{} {}", group.name, values.join(", ")));
            format!("{}: {}", of.what, groups.collect::<Vec<_>>().join("; "))
        };
        self.differences.iter().map(line).collect()
    }

    /// Returns the table of a single group.
    pub(crate) fn alone<'s>(&self, style: &'s Style) -> Table<'s> {
        let mut table = Table::new(style);
        table.column("figure", Align::Left, 0, self.figures.iter().map(|row| words(&row.figure)));
        table.column("median", Align::Right, 0, self.figures.iter().map(|row| median(row, 0)));
        table.column("95 %", Align::Left, 1, self.figures.iter().map(|row| interval(row, 0)));
        table
    }

    /// Compares group `other` with the first one.
    pub(crate) fn beside<'s>(&self, style: &'s Style, other: usize) -> Beside<'s> {
        let runs = [self.groups[0].runs, self.groups[other].runs];
        let wall = self.figures.iter().find(|row| row.figure == WALL).and_then(|row| row.change(other));
        let answer = wall.map(|wall| format!("{}: {}.", self.groups[other].name, sentence(wall, runs)));
        let with = |of: &dyn Fn(Verdict) -> bool| {
            let rows = self.figures.iter().filter_map(|row| Some((row, row.change(other)?)));
            rows.filter(|(_, change)| of(change.verdict)).collect::<Vec<_>>()
        };
        let parts = [
            ("changed".to_owned(), with(&Verdict::is_a_change)),
            ("no significant difference".to_owned(), with(&|verdict| verdict == Verdict::NoChange)),
            (format!("undecided ({})", number(runs)), with(&|verdict| verdict == Verdict::CannotTell)),
        ];
        let mut table = Table::new(style);
        let all = || parts.iter().flat_map(|(_, rows)| rows);
        table.column("", Align::Left, 0, all().map(|(row, _)| words(&row.figure)));
        table.column(&self.groups[0].name, Align::Right, 0, all().map(|(row, _)| median(row, 0)));
        table.column("95 %", Align::Left, 2, all().map(|(row, _)| interval(row, 0)));
        table.column(&self.groups[other].name, Align::Right, 0, all().map(|(row, _)| median(row, other)));
        table.column("95 %", Align::Left, 2, all().map(|(row, _)| interval(row, other)));
        table.column("change", Align::Right, 0, all().map(|(_, of)| of.change.map_or_else(|| "-".into(), signed)));
        table.column("95 %", Align::Left, 0, all().map(|(_, of)| of.interval.map_or_else(String::new, range)));
        table.column("", Align::Left, 0, all().map(|(_, of)| short(of)));
        let parts = parts.into_iter().map(|(heading, rows)| (heading, rows.len())).filter(|(_, rows)| *rows > 0);
        Beside { answer, table, parts: parts.collect() }
    }

    /// Returns the reason why medians have no intervals, if they have none.
    pub(crate) fn few_runs(&self) -> Option<&'static str> {
        let few = self.groups.iter().any(|group| group.runs < 6);
        few.then_some("The interval of a median needs at least 6 runs.")
    }
}
