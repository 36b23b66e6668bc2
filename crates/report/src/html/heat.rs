//! Heat maps: rows × columns in shades.

use advise::numbers::{count, duration};
use ledger::timeline::{Cell, Row};

use super::asleep;
use super::plot::{self, LEFT, PLOT, Plot};
use super::scale::{self, SHADES};
use super::view::View;
use crate::markup::{Markup, Safe};

/// The content of a heat map.
pub(super) struct Heat<'s> {
    pub title: &'s str,
    pub note: &'s str,
    /// The text that is shown when the user points at a cell; `{}` stands for the cell's number.
    pub says: &'s str,
    pub kind: Kind,
}

/// The unit of a cell's value.
pub(super) enum Kind {
    /// A share of the row's thread time within the column's interval.
    Share(fn(&Cell) -> u64),
    /// A count, per thread and column.
    Count(fn(&Cell) -> u64),
}

/// Returns the height of a row, pixels. Rows are taller if there are few.
fn row_height(rows: usize) -> u64 {
    match rows {
        0..=4 => 26,
        5..=12 => 20,
        13..=30 => 15,
        _ => 13,
    }
}

impl Heat<'_> {
    /// Returns the values of a row by column: thousandths, or a count.
    fn values(&self, view: &View, row: &Row) -> Vec<u64> {
        let threads = view.row_threads(row);
        let value = |(column, cell): (usize, &Cell)| match self.kind {
            Kind::Share(part) => {
                let whole = u128::from(view.timeline.span.width_ns(column)) * u128::from(threads);
                (u128::from(part(cell)) * 1000).div_ceil(whole.max(1)).min(1000) as u64
            }
            // If the row stands for several threads, the value is their mean, rounded to the nearest number.
            Kind::Count(number) => number(cell).saturating_add(threads / 2) / threads,
        };
        row.cells.iter().enumerate().map(value).collect()
    }

    pub(super) fn write(&self, out: &mut Markup, view: &View) {
        let valued = |rows: Vec<&'_ Row>| rows.into_iter().map(|row| self.values(view, row)).collect::<Vec<_>>();
        let (rows, folded) = view.rows();
        let (values, folded_values) = (valued(rows.clone()), valued(folded.clone()));
        let most = values.iter().chain(&folded_values).flatten().copied().max().unwrap_or(0);
        plot::caption(out, self.title, self.note);
        if most == 0 {
            out.push_str("<p class=\"none\">None.</p></figure>\n");
            return;
        }
        plot::warnings(out, view.holes());
        self.rows(out, view, &rows, &values, most);
        if !folded.is_empty() {
            let threads = folded.iter().fold(0, |sum, row| sum + view.row_threads(row));
            writeln!(out, "<details class=\"asleep\"><summary>{}</summary>", asleep::headline(threads));
            self.rows(out, view, &folded, &folded_values, most);
            out.push_str("</details>\n");
        }
        self.legend(out, view, most);
        out.push_str("</figure>\n");
    }

    /// Writes a picture of these rows.
    fn rows(&self, out: &mut Markup, view: &View, rows: &[&Row], values: &[Vec<u64>], most: u64) {
        let height = row_height(rows.len());
        let plot = Plot { timeline: view.timeline, height: height * rows.len() as u64 };
        plot.open(out, self.title);
        for (y, row) in (0..).step_by(height as usize).zip(rows) {
            plot.name(out, y, height, &view.row_name(row));
        }
        plot.columns(out);
        for shade in 1..=SHADES {
            let cells = values.iter().map(|values| values.iter().map(|value| self.shade(*value, most) == shade));
            let path = path(cells, height);
            if !path.is_empty() {
                writeln!(out, "<path class=\"q{shade}\" d=\"{path}\"/>");
            }
        }
        Plot::columns_end(out);
        self.pointed(out, view, rows, values, height);
        plot.close(out);
    }

    fn shade(&self, value: u64, most: u64) -> u64 {
        match self.kind {
            Kind::Share(_) => scale::of_share(value),
            Kind::Count(_) => scale::of_count(value, most),
        }
    }

    /// Writes the areas that show a cell's number when the user points at them. Without JavaScript they show the row's name.
    fn pointed(&self, out: &mut Markup, view: &View, rows: &[&Row], values: &[Vec<u64>], height: u64) {
        let tenths = if matches!(self.kind, Kind::Share(_)) { " data-tenths=\"1\"" } else { "" };
        writeln!(out, "<g class=\"pointed\" data-says=\"{}\"{tenths}>", Safe(self.says));
        for (y, (row, values)) in (0..).step_by(height as usize).zip(rows.iter().zip(values)) {
            write!(out, "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{PLOT}\" height=\"{height}\" data-v=\"");
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                // Zeros, which are most values, are left empty.
                if *value > 0 {
                    write!(out, "{value}");
                }
            }
            writeln!(out, "\"><title>{}</title></rect>", Safe(view.row_name(row)));
        }
        out.push_str("</g>\n");
    }

    fn legend(&self, out: &mut Markup, view: &View, most: u64) {
        let column = duration(view.timeline.span.width_ns(0));
        match self.kind {
            Kind::Share(_) => {
                let words = |shade: u64| match (shade, 100.0 * shade as f64 / SHADES as f64) {
                    (1, until) => format!("up to {until} % of a column ({column})"),
                    (_, until) => format!("{until} %"),
                };
                let entries: Vec<_> = (1..=SHADES).map(|shade| (format!("q{shade}"), words(shade))).collect();
                plot::legend(out, &entries);
            }
            Kind::Count(_) => plot::shades(out, most, |first, next| match (first, next) {
                (1, _) => format!("at least 1 per column ({column})"),
                (_, None) if first < most => format!("{} to {}", count(first), count(most)),
                _ => count(first),
            }),
        }
    }
}

/// Returns the outline of the cells that are true, with neighbours joined in one rectangle. Each row has the height `height`, with a line between
/// rows.
fn path(rows: impl Iterator<Item = impl Iterator<Item = bool>>, height: u64) -> String {
    let mut path = Markup::default();
    let inner = height - 1;
    for (y, row) in (0..).step_by(height as usize).zip(rows) {
        let mut begun = None;
        for (x, is) in row.chain([false]).enumerate() {
            match (begun, is) {
                (None, true) => begun = Some(x),
                (Some(from), false) => {
                    let run = x - from;
                    write!(path, "M{from} {y}h{run}v{inner}h-{run}z");
                    begun = None;
                }
                _ => {}
            }
        }
    }
    path.0
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn neighbours_are_one_rectangle() {
        let rows = [[true, true, false, true], [false, false, false, true]];
        assert_eq!(path(rows.into_iter().map(IntoIterator::into_iter), 12), "M0 0h2v11h-2zM3 0h1v11h-1zM3 12h1v11h-1z");
    }
}
