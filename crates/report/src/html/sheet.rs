//! The page of an experiment: sections of text, tables of colours and rooflines, in the frame of all pages.

use super::frame::{self, Script};
use super::plot;
use super::roofline::Roofline;
use crate::markup::{Markup, Safe};
use crate::matrix::{Matrix, Place};

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// Title of the page.
    pub title: String,
    /// Version of cox.
    pub version: String,
    /// Lines below the title.
    pub about: Vec<String>,
    /// The sections.
    pub sections: Vec<Section>,
    /// Says where the user guide explains the page.
    pub pages: String,
}

/// A section of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Target of links; must be of letters, digits and hyphens only.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Paragraphs at its beginning.
    pub text: Vec<String>,
    /// Its drawings.
    pub drawings: Vec<Drawing>,
}

/// A drawing of a section.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// A table of colours.
    Colours {
        /// The table.
        matrix: Matrix,
        /// What a cell contains.
        note: String,
        /// The values of the palest and of the darkest colour; `None` if there is nothing to compare.
        ends: Option<(String, String)>,
    },
    /// A roofline.
    Roofline(Roofline),
}

/// Returns the page.
#[must_use]
pub fn sheet(sheet: &Sheet) -> String {
    let mut out = Markup::default();
    frame::open(&mut out, &sheet.title, Script::None);
    writeln!(out, "<header><h1>{}</h1>", Safe(&sheet.title));
    sheet.about.iter().for_each(|line| writeln!(out, "<p>{}</p>", Safe(line)));
    out.push_str("</header>\n");
    frame::links(&mut out, sheet.sections.iter().map(|section| (section.id.as_str(), section.title.as_str())));
    for section in &sheet.sections {
        frame::section(&mut out, &section.id, &section.title, |out| {
            section.text.iter().for_each(|line| writeln!(out, "<p>{}</p>", Safe(line)));
            section.drawings.iter().for_each(|drawing| drawing.write(out));
        });
    }
    frame::close(&mut out, &sheet.version, &sheet.pages, Script::None);
    out.0
}

impl Drawing {
    fn write(&self, out: &mut Markup) {
        match self {
            Drawing::Roofline(roofline) => roofline.write(out),
            Drawing::Colours { matrix, note, ends } => {
                plot::caption(out, &matrix.title, note);
                let title = Safe(&matrix.title);
                writeln!(out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\">");
                out.push_str(&matrix.drawn(Place::Page));
                out.push_str("</div>\n");
                if let Some((least, most)) = ends {
                    plot::legend(out, &[("q1", format!("{least} (smallest)")), ("q8", format!("{most} (largest)"))]);
                }
                out.push_str("</figure>\n");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Cell, Row};

    #[test]
    fn a_page_has_its_sections_and_harmless_names() {
        let cells = vec![
            Cell { heat: Some(0.0), lines: vec!["1 s".into(), "(<2>)".into()], says: Some("3 runs".into()) },
            Cell { heat: None, lines: vec!["-".into()], says: None },
        ];
        let matrix = Matrix {
            title: "Time".into(),
            left: 200,
            columns: vec!["static".into(), "<b>".into()],
            rows: vec![Row { name: "a&b".into(), cells }],
        };
        let colours = Drawing::Colours { matrix, note: "seconds".into(), ends: Some(("1 s".into(), "2 s".into())) };
        let section =
            Section { id: "time".into(), title: "Time".into(), text: vec!["<i>".into()], drawings: vec![colours] };
        let page = sheet(&Sheet {
            title: "Study <1>".into(),
            version: "1.2".into(),
            about: vec!["about".into()],
            sections: vec![section],
            pages: "see docs".into(),
        });
        for wanted in [
            "<title>cox: Study &lt;1&gt;</title>",
            "<a href=\"#time\">Time</a>",
            "<section id=\"time\"><h2>Time</h2>\n<p>&lt;i&gt;</p>",
            "class=\"q1\"><title>3 runs</title></rect>",
            "class=\"q1-text\">(&lt;2&gt;)<title>3 runs</title></text>",
            "class=\"empty\"/>",
            "&lt;b&gt;<title>&lt;b&gt;</title>",
            "a&amp;b<title>",
            "1 s (smallest)",
            "Coxswain 1.2. What each figure means: cox explain figures; see docs</footer>",
        ] {
            assert!(page.contains(wanted), "{wanted} in {page}");
        }
        assert!(!page.contains("<script") && !page.contains("http://www.w3.org"), "{page}");
    }
}
