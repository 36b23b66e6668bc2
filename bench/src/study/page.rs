//! The maps as a page.

use report::html::roofline::{self as drawn, Roofline};
use report::html::sheet::{Drawing, Section, Sheet, sheet};
use report::matrix::{Cell, Matrix, Row};

use super::ceilings::Ceilings;
use super::map::{Map, Scale, Value};
use super::roofline::Point;

/// Width of the place for the names of rows, pixels.
const LEFT: usize = 226;

/// The sections: id, title, and the beginnings of the ids of their maps.
const SECTIONS: [(&str, &str, &str); 5] = [
    ("alone", "One program", "-alone"),
    ("together", "Two programs at the same time", "-together"),
    ("pairs", "Two programs with different schedules", "pairs-"),
    ("observing", "Cost of observing", "overhead-"),
    ("percentages", "The study's percentages", "study-"),
];

/// Returns the page. `about` are lines below the title; `legend` explains the marks.
pub fn page(about: &[String], legend: &str, maps: &[Map], points: &[Point], ceilings: &Ceilings) -> String {
    let mut sections = vec![Section {
        id: "roofline".to_owned(),
        title: "What limits the programs".to_owned(),
        text: Vec::new(),
        drawings: vec![Drawing::Roofline(roofline(points, ceilings))],
    }];
    for (id, title, part) in SECTIONS {
        let drawings: Vec<Drawing> = maps.iter().filter(|map| map.id.contains(part)).map(drawing).collect();
        if !drawings.is_empty() {
            sections.push(Section {
                id: id.to_owned(),
                title: title.to_owned(),
                text: vec![legend.to_owned()],
                drawings,
            });
        }
    }
    sheet(&Sheet {
        title: "Loop schedules and the kernel's scheduler".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        about: about.to_vec(),
        sections,
        pages: "how to read each map: docs/study.md.".to_owned(),
    })
}

fn roofline(points: &[Point], ceilings: &Ceilings) -> Roofline {
    let point = |point: &Point| drawn::Point {
        name: point.name(),
        intensity: point.intensity,
        operations_per_s: point.operations_per_s,
    };
    Roofline {
        title: "Roofline (figure 4.1 of the study)".to_owned(),
        note: format!(
            "Operations and bytes as the programs count them from their source code; ceilings measured in this run. Memory: {:.1} GB/s.",
            ceilings.bytes_per_s / 1e9
        ),
        bytes_per_s: ceilings.bytes_per_s,
        roofs: ceilings.roofs.clone(),
        points: points.iter().map(point).collect(),
    }
}

fn drawing(map: &Map) -> Drawing {
    let figure = map.figure.map_or(String::new(), |figure| format!(" (figure {figure} of the study)"));
    let row = |row: &super::map::Row| Row {
        name: row.name.clone(),
        cells: row.cells.iter().map(|value| cell(map, row, value.as_ref())).collect(),
    };
    let matrix = Matrix {
        title: format!("{}{figure}", map.title),
        left: LEFT,
        columns: map.columns.clone(),
        rows: map.rows.iter().map(row).collect(),
    };
    let below = if map.rows.iter().flat_map(|row| &row.cells).flatten().any(|value| value.time_s.is_some())
        && !map.id.starts_with("time")
    {
        " In brackets: the median time of the program."
    } else {
        ""
    };
    let medians = || map.rows.iter().flat_map(|row| &row.cells).flatten().map(|value| value.median);
    let (least, most) = (medians().fold(f64::INFINITY, f64::min), medians().fold(f64::NEG_INFINITY, f64::max));
    // Colours that compare a row have no values of their own.
    let ends = (map.scale == Scale::Map && least < most).then(|| (map.unit.text(least), map.unit.text(most)));
    let colours = if map.scale == Scale::Row { " Colours compare the cells of a row." } else { "" };
    let mut about = map.about.clone();
    if let Some(first) = about.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Drawing::Colours { matrix, note: format!("{about}.{below}{colours}"), ends }
}

fn cell(map: &Map, row: &super::map::Row, value: Option<&Value>) -> Cell {
    let Some(value) = value else { return Cell { lines: vec!["not measured".to_owned()], ..Cell::default() } };
    let mark = if value.is_noise { " ~" } else { "" };
    let (low, high) = value.quartiles;
    let time = value.time_s.filter(|_| !map.id.starts_with("time")).map(|time| format!("({time:.3} s)"));
    let noise = if value.is_noise { "; cannot be told from what it is compared with" } else { "" };
    Cell {
        heat: Some(map.heat(row, value.median)),
        lines: [Some(format!("{}{mark}", map.unit.text(value.median))), time].into_iter().flatten().collect(),
        says: Some(format!(
            "{}: quartiles {} and {}, {} runs{noise}",
            row.name,
            map.unit.text(low),
            map.unit.text(high),
            value.runs
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::map::Unit;

    #[test]
    fn maps_are_in_their_sections_with_marks_and_times() {
        let runs = |figures: [f64; 3]| figures.map(|figure| (figure, Some(0.5))).to_vec();
        let rows = vec![crate::study::map::Row::new(
            "triad, 2 threads",
            &[runs([0.1, 0.1, 0.2]), runs([0.1, 0.3, 0.3]), vec![]],
        )];
        let map = Map {
            id: "idle-alone".into(),
            title: "Idle CPUs".into(),
            figure: Some("4.6"),
            about: "idle time".into(),
            unit: Unit::Share,
            scale: Scale::Map,
            columns: ["static", "fac2", "af"].map(str::to_owned).to_vec(),
            rows,
        };
        let ceilings = Ceilings { bytes_per_s: 1e10, roofs: vec![("scalar".into(), 1e10)] };
        let page = page(&["on 2 CPUs".to_owned()], "~: noise", &[map], &[], &ceilings);
        for wanted in [
            "<section id=\"roofline\">",
            "<section id=\"alone\"><h2>One program</h2>\n<p>~: noise</p>",
            "<h3>Idle CPUs (figure 4.6 of the study)</h3><p>Idle time. In brackets: the median time of the program.</p>",
            ">10.0 %<title>triad, 2 threads: quartiles 10.0 % and 15.0 %, 3 runs</title>",
            ">30.0 % ~<title>",
            "(0.500 s)",
            "not measured",
            "10.0 % (smallest)",
        ] {
            assert!(page.contains(wanted), "{wanted} in {page}");
        }
        assert!(!page.contains("<section id=\"pairs\">"), "no map, no section");
    }
}
