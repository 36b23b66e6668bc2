//! Experiments as a table of colours: applications × settings, as in studies of schedulers. Plain SVG that stands by
//! itself, its text being grey or on a cell, so that it reads on light and on dark pages; or a picture of a page.

use compare::stats::median;

use crate::comparison::{Comparison, Run, shown};
use crate::html::SHADES;
use crate::markup::Safe;

const CELL: (usize, usize) = (116, 52);
const LEFT: usize = 170;
const TOP: usize = 84;

/// A table: rows are applications, columns settings, both in the order in which they were named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    figure: String,
    rows: Vec<String>,
    columns: Vec<String>,
    cells: Vec<Cell>,
}

/// A cell with runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    row: usize,
    column: usize,
    median: f64,
    wall_ns: Option<f64>,
}

impl Heat {
    /// Of groups that are called `APPLICATION/SETTING`.
    ///
    /// # Errors
    /// Naming the group that is not, or that does not have the figure.
    pub fn new(figure: &str, groups: &[(String, Vec<Run>)]) -> Result<Heat, String> {
        let mut heat = Heat { figure: figure.to_owned(), ..Heat::default() };
        for (name, runs) in groups {
            let names = name.split_once('/').filter(|(row, column)| !row.is_empty() && !column.is_empty());
            let (row, column) =
                names.ok_or(format!("'{name}' is no cell of a table: name it APPLICATION/SETTING=FILES"))?;
            let (row, column) = (place(&mut heat.rows, row), place(&mut heat.columns, column));
            let values = |figure: &str| runs.iter().map(|run| run.figure(figure)).collect::<Option<Vec<f64>>>();
            let of_figure = values(figure).ok_or_else(|| unknown(figure, name, runs))?;
            let wall_ns = values("wall_ns").map(|wall| median(&wall));
            heat.cells.push(Cell { row, column, median: median(&of_figure), wall_ns });
        }
        Ok(heat)
    }

    fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.row, cell.column) == (row, column))
    }

    /// Each application by itself, its settings compared with the first of them, in the order of the table.
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

    /// What is in the cells, in words.
    pub(crate) fn title(&self) -> String {
        shown(&self.figure).0
    }

    /// The least and the most of the table.
    pub(crate) fn ends(&self) -> Option<(String, String)> {
        let (least, most) = self.extremes()?;
        Some(((shown(&self.figure).1)(least), (shown(&self.figure).1)(most)))
    }

    /// The drawing, as a file.
    pub fn svg(&self) -> String {
        self.drawn(Place::File)
    }

    pub(crate) fn drawn(&self, place: Place) -> String {
        let (width, height) = (LEFT + CELL.0 * self.columns.len() + 10, TOP + CELL.1 * self.rows.len() + 34);
        let text = |x: usize, y: usize, anchor: &str, ink: &str, text: &str| {
            format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\"{ink}>{}</text>\n", Safe(text))
        };
        let title = format!("{} (wall time below)", self.title());
        let mut svg = match place {
            Place::File => format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
                 viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
            ),
            Place::Page => {
                format!("<svg class=\"matrix\" style=\"width:{width}px\" viewBox=\"0 0 {width} {height}\">\n")
            }
        };
        svg.push_str(&text(10, 24, "start", place.plain(), &title));
        for (at, name) in self.columns.iter().enumerate() {
            svg.push_str(&text(LEFT + CELL.0 * at + CELL.0 / 2, TOP - 12, "middle", place.plain(), name));
        }
        for (row, name) in self.rows.iter().enumerate() {
            let y = TOP + CELL.1 * row;
            svg.push_str(&text(LEFT - 10, y + CELL.1 / 2 + 5, "end", place.plain(), name));
            for column in 0..self.columns.len() {
                let x = LEFT + CELL.0 * column;
                let ((fill, ink), lines) = match self.cell(row, column) {
                    Some(cell) => {
                        let wall = cell.wall_ns.map(|wall| format!("({})", (shown("wall_ns").1)(wall)));
                        (place.colour(self.heat(cell.median)), [Some((shown(&self.figure).1)(cell.median)), wall])
                    }
                    None => (place.none(), [Some("no runs".to_owned()), None]),
                };
                let (w, h) = (CELL.0 - 4, CELL.1 - 4);
                svg.push_str(&format!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"3\"{fill}/>\n"));
                for (line, words) in lines.iter().flatten().enumerate() {
                    svg.push_str(&text(x + w / 2, y + 21 + 18 * line, "middle", &ink, words));
                }
            }
        }
        svg + "</svg>\n"
    }

    fn extremes(&self) -> Option<(f64, f64)> {
        let medians = self.cells.iter().map(|cell| cell.median);
        medians.fold(None, |ends, of| {
            Some(ends.map_or((of, of), |(least, most): (f64, f64)| (least.min(of), most.max(of))))
        })
    }

    /// Where a value is between the least and the most of the table, from 0 to 1.
    fn heat(&self, value: f64) -> f64 {
        match self.extremes() {
            Some((least, most)) if most > least => (value - least) / (most - least),
            _ => 0.0,
        }
    }
}

/// Where the drawing is: a file has colours of its own, a page has them in its styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File,
    Page,
}

impl Place {
    /// Attributes of text beside cells.
    fn plain(self) -> &'static str {
        match self {
            Place::File => " fill=\"#808080\"",
            Place::Page => "",
        }
    }

    /// … of a cell without runs, and of its text.
    fn none(self) -> (String, String) {
        let dashed = match self {
            Place::File => " fill=\"none\" stroke=\"#808080\" stroke-dasharray=\"4\"",
            Place::Page => " class=\"empty\"",
        };
        (dashed.to_owned(), self.plain().to_owned())
    }

    /// … of a cell, from pale to dark, and of ink that can be read on it.
    fn colour(self, heat: f64) -> (String, String) {
        if self == Place::Page {
            let shade = 1 + (heat * (SHADES - 1) as f64).round() as u64;
            return (format!(" class=\"q{shade}\""), format!(" class=\"q{shade}-text\""));
        }
        let (pale, dark) = ([254.0, 240.0, 217.0], [153.0, 0.0, 13.0]);
        let part = |at: usize| (pale[at] + (dark[at] - pale[at]) * heat).round() as u8;
        let ink = if heat > 0.5 { "#ffffff" } else { "#202020" };
        (format!(" fill=\"#{:02x}{:02x}{:02x}\"", part(0), part(1), part(2)), format!(" fill=\"{ink}\""))
    }
}

fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn unknown(figure: &str, group: &str, runs: &[Run]) -> String {
    let known: Vec<&str> = runs.iter().take(1).flat_map(|run| &run.figures).map(|(name, _)| name.as_str()).collect();
    format!("'{group}' has no figure '{figure}'; there are {}, and quotients A/B of two", known.join(", "))
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn what_is_no_cell_is_named() {
        let refused = |figure, name| Heat::new(figure, &[group(name, 1.0)]).unwrap_err();
        assert!(refused("wait_ns", "static").contains("'static' is no cell"));
        assert!(refused("nonsense", "a/b").contains("wall_ns"));
        assert!(refused("wait_ns/", "a/b").contains("no figure"));
    }
}
