//! Runs as a table of colours, applications × settings, as in scheduler studies.

mod drawing;

use compare::stats::median;

use crate::comparison::words::{amount, words};
use crate::comparison::{Comparison, Run, warnings_about};

/// A table of medians. Rows are applications and columns are settings, both in the order in which they were named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    figure: String,
    rows: Vec<String>,
    columns: Vec<String>,
    cells: Vec<Cell>,
    /// Warnings for readers who compare colours: backends that measure different things, runs that lost events or failed.
    pub warnings: Vec<String>,
}

/// A cell that has runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    row: usize,
    column: usize,
    value: Value,
    wall_ns: Option<f64>,
}

/// A cell's value of the figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Median(f64),
    /// The figure is a quotient whose divisor is 0 in `runs` of the cell's `of` runs.
    Undefined {
        runs: usize,
        of: usize,
    },
}

impl Heat {
    /// Builds the table from groups whose names have the form `APPLICATION/SETTING`.
    ///
    /// # Errors
    /// Names the first group whose name has another form, or in which a run lacks the figure.
    pub fn new(figure: &str, groups: &[(String, Vec<Run>)]) -> Result<Heat, String> {
        let warnings = warnings_about(figure, groups);
        let mut heat = Heat { figure: figure.to_owned(), warnings, ..Heat::default() };
        for (name, runs) in groups {
            let names = name.split_once('/').filter(|(row, column)| !row.is_empty() && !column.is_empty());
            let (row, column) =
                names.ok_or(format!("invalid name '{name}' for a cell of a table: use APPLICATION/SETTING=FILES"))?;
            let (row, column) = (place(&mut heat.rows, row), place(&mut heat.columns, column));
            if let Some(run) = runs.iter().find(|run| !run.knows(figure)) {
                return Err(unknown(figure, name, run));
            }
            let values = |figure: &str| runs.iter().filter_map(|run| run.figure(figure)).collect::<Vec<f64>>();
            let (defined, wall_ns) = (values(figure), values("wall_ns"));
            // If the divisor is 0 in some runs, there is no median: a median of the other runs alone would be biased.
            let value = match runs.len() - defined.len() {
                0 => Value::Median(median(&defined)),
                undefined => Value::Undefined { runs: undefined, of: runs.len() },
            };
            let wall_ns = (wall_ns.len() == runs.len()).then(|| median(&wall_ns));
            heat.cells.push(Cell { row, column, value, wall_ns });
        }
        Ok(heat)
    }

    fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.row, cell.column) == (row, column))
    }

    /// Compares, for each application, all settings with its first one. Applications and settings are in the order of the table.
    pub fn comparisons(&self, cox_version: &str, groups: &[(String, Vec<Run>)]) -> Vec<(String, Comparison)> {
        let each = |row: &String| {
            let of = |column: &String| {
                let name = format!("{row}/{column}");
                let runs = groups.iter().find(|(known, _)| *known == name).map(|(_, runs)| runs.clone())?;
                Some((column.clone(), runs))
            };
            let settings: Vec<(String, Vec<Run>)> = self.columns.iter().filter_map(of).collect();
            (row.clone(), Comparison::new(cox_version, &settings))
        };
        self.rows.iter().map(each).collect()
    }

    /// Returns the figure's name in words.
    pub(crate) fn title(&self) -> String {
        words(&self.figure)
    }

    /// Returns the smallest and the largest value of the table, formatted.
    pub(crate) fn ends(&self) -> Option<(String, String)> {
        let (least, most) = self.extremes()?;
        Some((amount(&self.figure, least), amount(&self.figure, most)))
    }

    fn extremes(&self) -> Option<(f64, f64)> {
        let medians = self.cells.iter().filter_map(|cell| match cell.value {
            Value::Median(median) => Some(median),
            Value::Undefined { .. } => None,
        });
        let of_both = |(least, most): (f64, f64), (other, same): (f64, f64)| (least.min(other), most.max(same));
        medians.map(|median| (median, median)).reduce(of_both)
    }

    /// Returns the position of a value between the smallest and the largest of the table, from 0 to 1.
    fn heat(&self, value: f64) -> f64 {
        match self.extremes() {
            Some((least, most)) if most > least => (value - least) / (most - least),
            _ => 0.0,
        }
    }
}

fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn unknown(figure: &str, group: &str, run: &Run) -> String {
    let known: Vec<&str> = run.names().collect();
    format!("'{group}' has no figure '{figure}'; known figures: {}; also A/B, the quotient of two", known.join(", "))
}

#[cfg(test)]
mod tests {
    use wire::Backend;

    use super::*;

    fn group(name: &str, wait_ns: f64) -> (String, Vec<Run>) {
        let figures = [("wait_ns", wait_ns), ("wall_ns", 2e9), ("thread_ns", 8e9)];
        let figures = figures.map(|(name, value)| (name.to_owned(), value)).to_vec();
        (name.to_owned(), vec![Run::with_figures(figures)])
    }

    #[test]
    fn rows_are_applications_and_missing_cells_are_marked() {
        let groups = [group("a<b/static", 8e8), group("a<b/guided", 1.6e9), group("c/static", 2.4e9)];
        let svg = Heat::new("wait_ns/thread_ns", &groups).unwrap().svg();
        for wanted in
            ["wait / thread (wall", "a&lt;b", "static", "guided", "10.0 %", "20.0 %", "30.0 %", "(2.00 s)", "no runs"]
        {
            assert!(svg.contains(wanted), "{wanted} in {svg}");
        }
        // The least is palest, the most darkest; three cells with runs, one without.
        assert!(svg.contains("#fef0d9") && svg.contains("#99000d"), "{svg}");
        assert_eq!((svg.matches("<rect").count(), svg.matches("stroke-dasharray").count()), (4, 1));
        assert!(svg.contains("role=\"img\"><title>wait / thread (wall time below)</title>"), "{svg}");
    }

    #[test]
    fn a_quotient_by_nothing_is_not_defined_and_that_is_not_an_unknown_figure() {
        let (name, mut runs) = group("a/idle", 0.0);
        runs.extend(group("", 1e9).1);
        let svg = Heat::new("thread_ns/wait_ns", &[(name, runs), group("a/busy", 4e9)]).unwrap().svg();
        let said = "not defined<title>thread / wait: not defined in 1 of 2 runs, because the divisor is 0</title>";
        assert!(svg.contains(said) && svg.contains("200.0 %") && svg.matches("(2.00 s)").count() == 2, "{svg}");
        assert_eq!((svg.matches("stroke-dasharray").count(), svg.matches("#fef0d9").count()), (1, 1));
        // Nothing is defined anywhere: a table without values.
        assert!(Heat::new("wait_ns/wait_ns", &[group("a/b", 0.0)]).unwrap().svg().contains("in the only run"));
    }

    #[test]
    fn colours_of_what_backends_mean_differently_come_with_a_warning() {
        let by = |name: &str, backend| {
            let (name, runs) = group(name, 8e8);
            (name, runs.into_iter().map(|run| run.by(backend)).collect())
        };
        let warned = |figure: &str, groups: &[(String, Vec<Run>)]| Heat::new(figure, groups).unwrap().warnings;
        let both = [by("a/b", Backend::Bpf), by("c/b", Backend::Proc)];
        let warning = "backends differ (bpf, proc): wait_ns/thread_ns does not mean the same with all backends";
        assert_eq!(warned("wait_ns/thread_ns", &both), [warning]);
        assert_eq!(warned("wall_ns", &both), [""; 0], "time on the wall is the same");
        assert_eq!(warned("wait_ns", &both[..1]), [""; 0]);
    }

    #[test]
    fn what_is_no_cell_is_named() {
        let refused = |figure, name| Heat::new(figure, &[group(name, 1.0)]).unwrap_err();
        assert!(refused("wait_ns", "static").contains("invalid name 'static' for a cell"));
        assert!(refused("nonsense", "a/b").contains("wall_ns"));
        assert!(refused("wait_ns/", "a/b").contains("no figure"));
    }
}
