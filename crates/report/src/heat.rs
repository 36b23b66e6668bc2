//! Experiments as a table of colours: applications × settings, as in studies of schedulers. Plain SVG that stands by
//! itself; its text is grey or on a cell, so that it reads on light and on dark pages.

use compare::stats::median;

use crate::comparison::{Run, shown};

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

    /// The drawing.
    pub fn svg(&self) -> String {
        let (width, height) = (LEFT + CELL.0 * self.columns.len() + 10, TOP + CELL.1 * self.rows.len() + 34);
        let text = |x: usize, y: usize, anchor: &str, fill: &str, text: &str| {
            format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{}</text>\n", escaped(text))
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        );
        svg.push_str(&text(10, 24, "start", "#808080", &format!("{} (wall time below)", shown(&self.figure).0)));
        for (at, name) in self.columns.iter().enumerate() {
            svg.push_str(&text(LEFT + CELL.0 * at + CELL.0 / 2, TOP - 12, "middle", "#808080", name));
        }
        for (row, name) in self.rows.iter().enumerate() {
            let y = TOP + CELL.1 * row;
            svg.push_str(&text(LEFT - 10, y + CELL.1 / 2 + 5, "end", "#808080", name));
            for column in 0..self.columns.len() {
                let x = LEFT + CELL.0 * column;
                let (fill, ink, lines) = match self.cell(row, column) {
                    Some(cell) => {
                        let (fill, ink) = colour(self.heat(cell.median));
                        let wall = cell.wall_ns.map(|wall| format!("({})", (shown("wall_ns").1)(wall)));
                        (fill, ink, [Some((shown(&self.figure).1)(cell.median)), wall])
                    }
                    None => ("none".to_owned(), "#808080", [Some("no runs".to_owned()), None]),
                };
                let dashed = if fill == "none" { " stroke=\"#808080\" stroke-dasharray=\"4\"" } else { "" };
                let (w, h) = (CELL.0 - 4, CELL.1 - 4);
                svg.push_str(&format!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"3\" fill=\"{fill}\"{dashed}/>\n"
                ));
                for (line, words) in lines.iter().flatten().enumerate() {
                    svg.push_str(&text(x + w / 2, y + 21 + 18 * line, "middle", ink, words));
                }
            }
        }
        svg + "</svg>\n"
    }

    /// Where a value is between the least and the most of the table, from 0 to 1.
    fn heat(&self, value: f64) -> f64 {
        let values = || self.cells.iter().map(|cell| cell.median);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        if most > least { (value - least) / (most - least) } else { 0.0 }
    }
}

/// From pale to dark, with ink that can be read on it.
fn colour(heat: f64) -> (String, &'static str) {
    let (pale, dark) = ([254.0, 240.0, 217.0], [153.0, 0.0, 13.0]);
    let part = |at: usize| (pale[at] + (dark[at] - pale[at]) * heat).round() as u8;
    (format!("#{:02x}{:02x}{:02x}", part(0), part(1), part(2)), if heat > 0.5 { "#ffffff" } else { "#202020" })
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

fn escaped(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control()).collect::<String>();
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
