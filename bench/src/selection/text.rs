//! The tables.

use std::fmt::Write;

use super::judge::Judged;
use super::tables::{Mean, Table};
use crate::stats::{median, quartiles, shown};

/// Returns the table of a loop.
pub fn table(table: &Table, instances: u32) -> String {
    let heading = format!("{}: {}, {} threads, {instances} instances", table.program.name(), table.name, table.threads);
    let mut text =
        format!("{heading}\n  {:16}{:>12}{:>22}   / best single (95 %)\n", "us per instance", "median", "quartiles");
    for row in &table.rows {
        let us: Vec<f64> = row.times.ns.iter().map(|ns| ns / 1e3).collect();
        let (first, third) = quartiles(&us);
        let quartiles = format!("{first:.1} .. {third:.1}");
        let _ = write!(text, "  {:16}{:12.1}{quartiles:>22}   {}", row.times.name, median(&us), judged(&row.judged));
        let selected: Vec<String> = row.selected.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if !selected.is_empty() {
            let _ = write!(text, "   {}", selected.join(", "));
        }
        text.push('\n');
    }
    if !table.excluded.is_empty() {
        let _ = writeln!(text, "  not measured after the first round: {}", table.excluded.join(", "));
    }
    text
}

/// Returns the line of a mean.
pub fn mean(mean: &Mean) -> String {
    format!("{} threads, mean of all loops: auto / {} {}\n", mean.threads, mean.peer, judged(&mean.judged))
}

fn judged(judged: &Judged) -> String {
    let ratio = shown(&judged.ratio, 3);
    match (judged.limit, judged.outcome) {
        (Some(limit), Some(outcome)) => format!("{ratio}   limit {limit}: {}", outcome.word()),
        _ => ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::{Times, judge};
    use super::super::tables::Row;
    use super::*;
    use crate::study::App;

    #[test]
    fn a_row_says_what_its_limit_says_to_it_and_what_was_selected() {
        let times = Times { name: "auto".to_owned(), ns: vec![106e3; 9] };
        let judged = judge(&[1.06; 9], Some(1.05));
        let row =
            Row { times, judged: judged.clone(), selected: vec![("fac2".to_owned(), 8), ("static".to_owned(), 1)] };
        let excluded = vec!["ss".to_owned()];
        let name = "forces".to_owned();
        let shown = table(&Table { program: App::Sedov, threads: 2, name, rows: vec![row], excluded }, 200);
        assert!(shown.contains("106.0") && shown.contains("1.060 (1.060 to 1.060)   limit 1.05: FAIL"), "{shown}");
        assert!(shown.contains("fac2 8, static 1"), "{shown}");
        assert!(shown.contains("not measured after the first round: ss"), "{shown}");
        let shown = mean(&Mean { threads: 2, peer: "expert", judged });
        assert!(shown.contains("auto / expert 1.060") && shown.contains("FAIL"), "{shown}");
    }
}
