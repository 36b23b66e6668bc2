//! The maps of the study, from the measured cells.
//!
//! - [`figures`]: figures of one program, alone (4.4 to 4.6) and in a co-run (4.7, 4.8)
//! - [`observing`]: what observers cost (4.2, 4.3), and the study's percentages
//! - here: the owner of idle time (A.1), and pairs of schedules

mod figures;
mod observing;

use super::cell::Observer;
use super::map::{Map, Row, Runs, Scale, Unit};
use super::results::Results;
use super::sample::{Divided, Idle, Sample};

/// Returns all maps that have values.
pub fn all(results: &Results) -> Vec<Map> {
    let mut maps = figures::alone(results);
    maps.extend(figures::together(results));
    maps.push(idle_of_both(results));
    maps.extend(pairs(results));
    maps.extend(observing::overheads(results));
    maps.extend(observing::percentages(results));
    maps.retain(Map::has_values);
    maps
}

/// To which program idle time belongs: A.1.
fn idle_of_both(results: &Results) -> Map {
    type Part = fn(&Divided) -> f64;
    let parts: [(&str, Part); 4] = [
        ("only mandelbrot", |idle| idle.first),
        ("only triad", |idle| idle.second),
        ("both", |idle| idle.both),
        ("neither", |idle| idle.neither),
    ];
    let rows = results.settings(true).into_iter().flat_map(|setting| {
        parts.map(|(name, part)| {
            let of = |sample: &Sample| {
                let Idle { divided, .. } = sample.idle?;
                divided.as_ref().map(part)
            };
            let runs = results.by_schedule(setting, 0, Observer::Cox, of);
            // The time below is that of mandelbrot, which is not the time of all these rows.
            let runs: Vec<Runs> =
                runs.into_iter().map(|runs| runs.into_iter().map(|(figure, _)| (figure, None)).collect()).collect();
            Row::new(format!("{name}, {}", setting.words()), &runs)
        })
    });
    Map {
        id: "idle-together".to_owned(),
        title: "Idle CPUs, mandelbrot beside triad".to_owned(),
        figure: Some("A.1"),
        about: "idle time of CPUs by the programs that were running and could have used them, as a share of the time of all CPUs".to_owned(),
        unit: Unit::Share,
        scale: Scale::Map,
        columns: results.schedules.clone(),
        rows: rows.collect(),
    }
}

/// Two programs with any pair of schedules: a map for each program and setting.
fn pairs(results: &Results) -> Vec<Map> {
    if !results.cells.iter().any(|measured| !measured.cell.is_same()) {
        return Vec::new();
    }
    let mut maps = Vec::new();
    for setting in results.settings(true) {
        for (program, app) in setting.programs.apps().iter().enumerate() {
            let row = |first: &String| {
                let of = |sample: &Sample| Some((sample.programs.get(program)?.elapsed_s, None));
                let runs =
                    |second| results.runs(setting, &[first, second], Observer::Cox).iter().filter_map(of).collect();
                let cells: Vec<Runs> = results.schedules.iter().map(runs).collect();
                Row::new(format!("mandelbrot: {first}"), &cells)
            };
            let bound = if setting.bound { "-bound" } else { "" };
            maps.push(Map {
                id: format!("pairs-{}-{}{bound}", app.name(), setting.threads),
                title: format!("Time of {} by both schedules, {}", app.name(), setting.words()),
                figure: None,
                about: format!("time of {}; rows: the schedule of mandelbrot, columns: that of triad", app.name()),
                unit: Unit::Seconds,
                scale: Scale::Map,
                columns: results.schedules.clone(),
                rows: results.schedules.iter().map(row).collect(),
            });
        }
    }
    maps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::cell::Cell;
    use crate::study::cell::Programs;
    use crate::study::percentages::{Percentages, Three};
    use crate::study::results::Measured;
    use crate::study::sample::{Observed, Program};

    /// Runs whose figures tell where they come from: the time is `10 × program + schedule`, in five rounds.
    fn results() -> Results {
        let schedules = ["static".to_owned(), "fac2".to_owned()];
        let mut cells = Vec::new();
        let mut add = |programs: Programs, schedules: Vec<String>, observer, base: f64| {
            let program = |at: usize| Program {
                elapsed_s: base + 10.0 * at as f64,
                checksum: None,
                operations: 0.0,
                bytes: 0.0,
                observed: (observer == Observer::Cox).then(|| Observed {
                    migrations_per_s: 7.0 + at as f64,
                    behind_the_other: programs.is_co_run().then_some(0.25),
                    ..Observed::default()
                }),
            };
            let divided = Divided { first: 0.1, second: 0.2, both: 0.3, neither: 0.0 };
            let sample = Sample {
                programs: (0..programs.apps().len()).map(program).collect(),
                idle: (observer == Observer::Cox)
                    .then(|| Idle { all: 0.6, divided: programs.is_co_run().then_some(divided) }),
                percentages: (observer == Observer::Perf).then_some(Percentages {
                    study: Three { migration: 1.0, switches: 2.0, idle: 3.0 },
                    cox: Three { migration: 4.0, switches: 5.0, idle: 6.0 },
                    blocked: 0.0,
                }),
            };
            let cell = Cell { programs, schedules, threads: 2, bound: false, observer };
            cells.push(Measured { cell, runs: vec![sample; 5] });
        };
        for (at, schedule) in schedules.iter().enumerate() {
            let base = 1.0 + at as f64;
            add(Programs::Triad, vec![schedule.clone()], Observer::Cox, base);
            add(Programs::Triad, vec![schedule.clone()], Observer::None, base / 2.0);
            add(Programs::Triad, vec![schedule.clone()], Observer::Perf, base * 2.0);
            add(Programs::Both, vec![schedule.clone(); 2], Observer::Cox, base);
        }
        add(Programs::Both, vec!["static".into(), "fac2".into()], Observer::Cox, 5.0);
        Results { schedules: schedules.to_vec(), cells }
    }

    fn medians(map: &Map) -> Vec<(String, Vec<Option<f64>>)> {
        let row = |row: &Row| (row.name.clone(), row.cells.iter().map(|cell| cell.map(|cell| cell.median)).collect());
        map.rows.iter().map(row).collect()
    }

    fn rows(name: &str, values: [Option<f64>; 2]) -> (String, Vec<Option<f64>>) {
        (name.to_owned(), values.to_vec())
    }

    #[test]
    fn each_map_takes_its_figure_from_its_cells() {
        let maps = all(&results());
        let map = |id: &str| medians(maps.iter().find(|map| map.id == id).unwrap());
        assert_eq!(map("time-alone"), [rows("triad, 2 threads", [Some(1.0), Some(2.0)])]);
        assert_eq!(
            map("time-together"),
            [
                rows("mandelbrot, 2 threads each", [Some(1.0), Some(2.0)]),
                rows("triad, 2 threads each", [Some(11.0), Some(12.0)])
            ]
        );
        assert_eq!(map("migrations-together")[1].1, [Some(8.0); 2]);
        assert_eq!(map("idle-alone")[0].1, [Some(0.6); 2]);
        let idle: Vec<Option<f64>> = map("idle-together").iter().map(|(_, values)| values[1]).collect();
        assert_eq!(idle, [Some(0.1), Some(0.2), Some(0.3), Some(0.0)]);
        assert_eq!(map("behind-together")[0].1, [Some(0.25); 2]);
        assert!(!maps.iter().any(|map| map.id == "behind-alone"), "a program alone has no other one");
    }

    #[test]
    fn pairs_are_rows_of_the_first_and_columns_of_the_second_program() {
        let maps = all(&results());
        let map = |id: &str| medians(maps.iter().find(|map| map.id == id).unwrap());
        assert_eq!(
            map("pairs-triad-2"),
            [rows("mandelbrot: static", [Some(11.0), Some(15.0)]), rows("mandelbrot: fac2", [None, Some(12.0)])]
        );
        assert_eq!(map("pairs-mandelbrot-2")[0].1, [Some(1.0), Some(5.0)]);
        let mut same = results();
        same.cells.pop();
        assert!(!all(&same).iter().any(|map| map.id.starts_with("pairs")));
    }

    #[test]
    fn observers_are_compared_with_no_observer() {
        let maps = all(&results());
        let overhead = maps.iter().find(|map| map.id == "overhead-triad").unwrap();
        assert_eq!(overhead.figure, Some("4.3"));
        assert_eq!(
            medians(overhead),
            [rows("cox, 2 threads", [Some(2.0); 2]), rows("perf, 2 threads", [Some(4.0); 2])]
        );
        assert_eq!(overhead.rows[1].cells[1].unwrap().time_s, Some(4.0));
        let switches = maps.iter().find(|map| map.id == "study-switches").unwrap();
        assert_eq!(
            medians(switches),
            [rows("study: triad, 2 threads", [Some(2.0); 2]), rows("cox: triad, 2 threads", [Some(5.0); 2])]
        );
    }

    #[test]
    fn another_result_under_another_schedule_is_wrong() {
        let mut results = results();
        assert!(results.wrong().is_empty());
        results.cells[0].runs[0].programs[0].checksum = Some("0x1".to_owned());
        results.cells[1].runs[0].programs[0].checksum = Some("0x1".to_owned());
        // The second program of a co-run is triad as well.
        results.cells[3].runs[1].programs[1].checksum = Some("0x2".to_owned());
        let wrong = results.wrong();
        assert!(wrong.len() == 1 && wrong[0].starts_with("triad has the checksum 0x2 instead of 0x1"), "{wrong:?}");
    }
}
