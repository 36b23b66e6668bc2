//! A table of colours as SVG: either a file that stands alone, or a picture in a page. In a file, text outside cells is grey, so that it is readable on
//! light and dark backgrounds. A text that is wider than its place is cut, and shown whole when the user points at it.

use crate::html::SHADES;
use crate::markup::Safe;
use crate::style::{Style, columns};

const CELL: (usize, usize) = (116, 52);
/// Height of a line of text with the space around it, pixels.
const LINE: usize = 34;
/// Distance between names and the cells next to them, pixels.
const GAP: usize = 10;

/// A table of colours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// What the table shows.
    pub title: String,
    /// Width of the place for the names of rows, pixels.
    pub left: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// A cell of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// From 0, the palest colour, to 1, the darkest one; `None` for a cell without a value.
    pub heat: Option<f64>,
    /// Up to two lines of text.
    pub lines: Vec<String>,
    /// What is shown when the user points at the cell.
    pub says: Option<String>,
}

/// Whether the drawing is a file or part of a page. A file contains the drawing's colours; for a page, they are in the page's style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File,
    Page,
}

impl Matrix {
    /// Returns the drawing as a file.
    #[must_use]
    pub fn svg(&self) -> String {
        self.drawn(Place::File)
    }

    pub(crate) fn drawn(&self, place: Place) -> String {
        let cells = self.left + CELL.0 * self.columns.len();
        let (width, height) =
            (cells.max(pixels(&self.title)) + 2 * GAP, place.top() + CELL.1 * self.rows.len() + LINE / 2);
        let around = match place {
            Place::File => format!(
                "xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" \
                 font-size=\"13\""
            ),
            Place::Page => format!("class=\"matrix\" style=\"width:{width}px\""),
        };
        let title = Safe(&self.title);
        let mut svg = format!("<svg {around} viewBox=\"0 0 {width} {height}\" role=\"img\"><title>{title}</title>\n");
        let plain = place.plain();
        if place == Place::File {
            svg.push_str(&text((GAP, 24), "start", plain, &title.to_string()));
        }
        for (at, name) in self.columns.iter().enumerate() {
            let middle = (self.left + CELL.0 * at + CELL.0 / 2, place.top() - 12);
            svg.push_str(&text(middle, "middle", plain, &named(name, CELL.0 - GAP)));
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = place.top() + CELL.1 * at;
            let name = named(&row.name, self.left - 2 * GAP);
            svg.push_str(&text((self.left - GAP, y + CELL.1 / 2 + 5), "end", plain, &name));
            for (column, cell) in row.cells.iter().enumerate() {
                cell.draw(&mut svg, place, (self.left + CELL.0 * column, y));
            }
        }
        svg + "</svg>\n"
    }
}

impl Cell {
    fn draw(&self, svg: &mut String, place: Place, (x, y): (usize, usize)) {
        let (fill, ink) = self.heat.map_or_else(|| place.none(), |heat| place.colour(heat));
        let says = self.says.as_ref().map_or(String::new(), |says| format!("<title>{}</title>", Safe(says)));
        let (w, h) = (CELL.0 - 4, CELL.1 - 4);
        let rect = format!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"3\"{fill}");
        svg.push_str(&if says.is_empty() { format!("{rect}/>\n") } else { format!("{rect}>{says}</rect>\n") });
        for (line, markup) in self.lines.iter().enumerate() {
            let markup = format!("{}{says}", Safe(markup));
            svg.push_str(&text((x + w / 2, y + 21 + 18 * line), "middle", &ink, &markup));
        }
    }
}

/// Returns a text element. The caller must have escaped `markup`.
fn text((x, y): (usize, usize), anchor: &str, ink: &str, markup: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\"{ink}>{markup}</text>\n")
}

/// Cuts a name to `room` pixels, and adds the whole name as a tooltip.
fn named(name: &str, room: usize) -> String {
    // The width is measured on the cleaned name, in which unprintable characters are `?`.
    let name = Style::default().clean(name);
    let mut kept = name.clone();
    if pixels(&kept) > room {
        while pixels(&kept) + pixels("…") > room && kept.pop().is_some() {}
        kept.truncate(kept.trim_end().len());
        kept.push('…');
    }
    format!("{}<title>{}</title>", Safe(kept), Safe(name))
}

/// Returns an upper bound of a text's width, in pixels: its width in DejaVu Sans, the widest of the common sans-serif fonts.
fn pixels(text: &str) -> usize {
    let tenths = |c: char| match c {
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 130,
        'A'..='Z' | '=' | '+' | '<' | '>' | '#' | '~' | '&' => 110,
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | ' ' | ',' | '.' | ':' | ';' | '-' | '/' | '(' | ')' | '\'' => 55,
        c if c.is_ascii() => 83,
        // Any other letter, of any script; a combining character has width 0.
        c => 130 * columns(c.encode_utf8(&mut [0; 4])).min(1),
    };
    text.chars().map(tenths).sum::<usize>().div_ceil(10)
}

impl Place {
    /// Returns the vertical position of the first cell. The cell is higher up in a page, because there the caption is not part of the drawing.
    fn top(self) -> usize {
        match self {
            Place::File => LINE * 5 / 2,
            Place::Page => LINE,
        }
    }

    /// Returns the attributes of text outside cells.
    fn plain(self) -> &'static str {
        match self {
            Place::File => " fill=\"#808080\"",
            Place::Page => "",
        }
    }

    /// Returns the attributes of a cell without a value, and of its text.
    fn none(self) -> (String, String) {
        let dashed = match self {
            Place::File => " fill=\"none\" stroke=\"#808080\" stroke-dasharray=\"4\"",
            Place::Page => " class=\"empty\"",
        };
        (dashed.to_owned(), self.plain().to_owned())
    }

    /// Returns the attributes of a cell whose colour shows `heat` (0 is the palest, 1 the darkest), and of text that is readable on this colour.
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

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn names_fit_their_place_and_are_there_whole() {
        assert_eq!(named("guided", 106), "guided<title>guided</title>");
        let long = "dynamic,64 with numa_balancing=0";
        assert_eq!(named(long, 106), format!("dynamic,64…<title>{long}</title>"));
        assert_eq!(named("WWWWWWWWWW", 106), "WWWWWWW…<title>WWWWWWWWWW</title>");
        assert_eq!(named("漢字漢字漢字漢字漢字", 106), "漢字漢字漢字漢…<title>漢字漢字漢字漢字漢字</title>");
        // What cannot be seen is shown, and takes room.
        assert_eq!(named(&"\u{200b}".repeat(20), 106), format!("{}…<title>{}</title>", "?".repeat(11), "?".repeat(20)));
    }
}
