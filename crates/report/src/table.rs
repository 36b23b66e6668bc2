//! Tables of aligned text. If a table is too wide, it drops columns in a stated order.

use crate::style::{Style, columns, shortened};

/// How a column's text is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Aligned to the left: for names.
    Left,
    /// Aligned to the right: for numbers, so that their units are below one another.
    Right,
}

/// A column.
pub(crate) struct Column {
    pub heading: String,
    pub align: Align,
    /// Place in the order of dropping: if the table is too wide, columns with the largest value are dropped first. A column with 0 is never dropped.
    spare: u8,
    cells: Vec<String>,
}

/// A table: a heading and rows.
pub(crate) struct Table<'s> {
    style: &'s Style,
    pub columns: Vec<Column>,
    /// Names are cut to this many columns.
    widest_name: usize,
}

const INDENT: usize = 2;
const GAP: usize = 2;
/// Names are cut to this many columns before any figure is dropped.
const WIDEST_NAME: usize = 26;
/// Names are cut to this many columns if the table is still too wide after columns were dropped.
const NARROWEST_NAME: usize = 10;

impl<'s> Table<'s> {
    pub(crate) fn new(style: &'s Style) -> Table<'s> {
        Table { style, columns: Vec::new(), widest_name: WIDEST_NAME }
    }

    /// Cuts names to `columns` columns instead of [`WIDEST_NAME`].
    pub(crate) fn with_names_of(mut self, columns: usize) -> Table<'s> {
        self.widest_name = columns;
        self
    }

    /// Adds a column. `spare` is its place in the order of dropping: the largest is dropped first, and 0 never.
    pub(crate) fn column(&mut self, heading: &str, align: Align, spare: u8, cells: impl IntoIterator<Item = String>) {
        let fit = |text: String| {
            let clean = self.style.clean(&text);
            if align == Align::Left { shortened(&clean, self.widest_name, &self.style.clean("…")) } else { clean }
        };
        let cells = cells.into_iter().map(fit).collect();
        self.columns.push(Column { heading: self.style.clean(heading), align, spare, cells });
    }

    /// Adds a column of reasons, which are never cut or dropped.
    pub(crate) fn reasons(&mut self, heading: &str, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|text| self.style.clean(&text)).collect();
        self.columns.push(Column { heading: self.style.clean(heading), align: Align::Left, spare: 0, cells });
    }

    /// Returns the number of rows below the heading.
    pub(crate) fn rows(&self) -> usize {
        self.columns.iter().map(|column| column.cells.len()).max().unwrap_or(0)
    }

    /// Returns the lines, the heading first. They fit into `width` columns as far as columns can be dropped.
    pub(crate) fn lines(mut self, width: usize) -> Vec<String> {
        while self.width() > width {
            let Some(most) = self.columns.iter().map(|column| column.spare).max().filter(|spare| *spare > 0) else {
                break;
            };
            self.columns.retain(|column| column.spare != most);
        }
        self.shorten_names(width);
        let heading = self.line(|column| &column.heading);
        let mut lines = vec![self.style.heading(&heading)];
        lines.extend((0..self.rows()).map(|row| self.line(|column| column.cell(row))));
        lines
    }

    /// Cuts names if the table is still too wide after columns were dropped.
    fn shorten_names(&mut self, width: usize) {
        let excess = self.width().saturating_sub(width);
        let mark = self.style.clean("…");
        for column in self.columns.iter_mut().filter(|column| column.align == Align::Left).take(1) {
            let most = column.width().saturating_sub(excess).max(NARROWEST_NAME);
            column.cells.iter_mut().for_each(|cell| *cell = shortened(cell, most, &mark));
        }
    }

    /// Returns the table's width on the terminal, in columns.
    fn width(&self) -> usize {
        let text: usize = self.columns.iter().map(Column::width).sum();
        INDENT + text + GAP * self.columns.len().saturating_sub(1)
    }

    fn line<'t>(&'t self, cell: impl Fn(&'t Column) -> &'t str) -> String {
        let mut line = " ".repeat(INDENT);
        for (at, column) in self.columns.iter().enumerate() {
            if at > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let text = cell(column);
            let padding = " ".repeat(column.width().saturating_sub(columns(text)));
            match column.align {
                Align::Left => line.extend([text, &padding]),
                Align::Right => line.extend([&padding, text]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

impl Column {
    /// Returns the text of a row's cell; empty if the column has fewer rows.
    pub(crate) fn cell(&self, row: usize) -> &str {
        self.cells.get(row).map_or("", String::as_str)
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| columns(cell)).chain([columns(&self.heading)]).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(style: &Style) -> Table<'_> {
        let mut table = Table::new(style);
        table.column("thread", Align::Left, 0, ["4711 heat".to_owned(), "漢".to_owned()]);
        table.column("work", Align::Right, 0, ["5.41 s".to_owned(), "0.10 s".to_owned()]);
        table.column("CPUs", Align::Left, 1, ["0-1".to_owned(), "0".to_owned()]);
        table
    }

    #[test]
    fn names_left_numbers_right() {
        let style = Style::default();
        assert_eq!(
            table(&style).lines(100),
            ["  thread       work  CPUs", "  4711 heat  5.41 s  0-1", "  漢         0.10 s  0"]
        );
    }

    #[test]
    fn spare_columns_go_first() {
        let style = Style::default();
        assert_eq!(table(&style).lines(20)[0], "  thread       work");
    }
}
