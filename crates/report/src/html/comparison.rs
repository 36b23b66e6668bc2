//! Groups of runs side by side, as a page. It begins with a table of colours if one was requested. Then it has the sentences of `cox compare` with
//! pictures: changes with their intervals (`changes`), and each run (`runs`). The numbers of both are in the page and can be downloaded.

mod changes;
mod runs;

use advise::numbers::counted;

use super::frame::{self, Script};
use super::{plot, table};
use crate::comparison::Comparison;
use crate::heat::Heat;
use crate::markup::{Markup, Safe, unbroken};
use crate::matrix::Place;
use crate::style::Style;

/// Returns the page of one comparison.
#[must_use]
pub fn compared(comparison: &Comparison) -> String {
    let title = comparison.title();
    page(&title, &comparison.cox_version, |out| frame::section(out, "changes", "Figures", |out| write(out, comparison)))
}

/// Returns the page of a table of colours, with a comparison for each of its applications ([`Heat::comparisons`]).
#[must_use]
pub fn tabled(cox_version: &str, heat: &Heat, applications: &[(String, Comparison)]) -> String {
    let ids: Vec<String> = (1..=applications.len()).map(|at| format!("application-{at}")).collect();
    page(&format!("{} by application and setting", heat.title()), cox_version, |out| {
        let links = ids.iter().zip(applications).map(|(id, (name, _))| (id.as_str(), name.as_str()));
        frame::links(out, [("table", "table")].into_iter().chain(links));
        frame::section(out, "table", "Applications × settings", |out| coloured(out, heat, applications.len()));
        for (id, (name, comparison)) in ids.iter().zip(applications) {
            frame::section(out, id, name, |out| {
                writeln!(out, "<p>{}</p>", Safe(comparison.title()));
                write(out, comparison);
            });
        }
    })
}

/// Returns a page with the content that `write` produces.
fn page(title: &str, version: &str, write: impl FnOnce(&mut Markup)) -> String {
    let mut out = Markup::default();
    frame::open(&mut out, title, Script::None);
    writeln!(out, "<header><h1>{}</h1></header>", Safe(title));
    write(&mut out);
    frame::close(&mut out, version, "how changes are judged: cox explain compare.", Script::None);
    out.0
}

fn coloured(out: &mut Markup, heat: &Heat, applications: usize) {
    let title = heat.title();
    plot::warnings(out, &heat.warnings);
    plot::caption(
        out,
        "Medians",
        &format!("In each cell: the median of {title} over its runs, and below it the median of wall time."),
    );
    writeln!(out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">", Safe(&title));
    out.push_str(&heat.drawn(Place::Page));
    out.push_str("</div>\n");
    if let Some((least, most)) = heat.ends().filter(|(least, most)| least != most) {
        plot::legend(out, &[("q1", format!("{least} (smallest)")), ("q8", format!("{most} (largest)"))]);
    }
    out.push_str("</figure>\n");
    if applications > 1 {
        writeln!(
            out,
            "<p class=\"detail\">Below, each of {} is judged separately: its settings are compared with its first setting. \
             If nothing has changed, at most one comparison in twenty-five reports a change.</p>",
            counted(applications as u64, "application")
        );
    }
}

/// Writes the warnings, tables and pictures of a comparison.
fn write(out: &mut Markup, comparison: &Comparison) {
    let style = Style::default();
    plot::warnings(out, &comparison.warnings);
    for line in comparison.differing() {
        writeln!(out, "<p>{}</p>", Safe(line));
    }
    if comparison.groups.len() < 2 {
        table::write(out, &comparison.alone(&style), "compared");
    }
    for other in 1..comparison.groups.len() {
        let beside = comparison.beside(&style, other);
        if let Some(answer) = &beside.answer {
            writeln!(out, "<p class=\"headline\">{}</p>", Safe(unbroken(answer)));
        }
        changes::write(out, comparison, other);
        table::write_parts(out, &beside.table, "compared", &beside.parts);
    }
    if let Some(note) = comparison.few_runs() {
        writeln!(out, "<p class=\"detail\">{note}</p>");
    }
    runs::write(out, comparison);
    downloads(out, comparison);
}

/// Writes links to the same numbers as files. The links contain the data, so no server is needed.
fn downloads(out: &mut Markup, comparison: &Comparison) {
    out.push_str("<p>As CSV, without rounding:");
    for (name, file, csv) in
        [("medians and changes", "changes.csv", comparison.csv()), ("every run", "runs.csv", comparison.csv_of_runs())]
    {
        write!(
            out,
            "{} <a download=\"{file}\" href=\"data:text/csv;charset=utf-8,",
            if file == "changes.csv" { "" } else { " ·" }
        );
        for byte in csv.bytes() {
            match byte {
                _ if byte.is_ascii_alphanumeric() || b".,_-".contains(&byte) => write!(out, "{}", char::from(byte)),
                _ => write!(out, "%{byte:02X}"),
            }
        }
        write!(out, "\">{name}</a>");
    }
    out.push_str("</p>\n");
}
