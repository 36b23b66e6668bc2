//! The maps of the study, from the measured cells.

use super::cell::{Observer, Programs};
use super::map::{Map, Row, Runs, Scale, Unit};
use super::percentages::{Percentages, Three};
use super::results::{Results, Setting};
use super::sample::{Divided, Idle, Observed, Sample};

/// Returns all maps that have values.
pub fn all(results: &Results) -> Vec<Map> {
    let mut maps = alone(results);
    maps.extend(together(results));
    maps.push(idle_of_both(results));
    maps.extend(pairs(results));
    maps.extend(overheads(results));
    maps.extend(percentages(results));
    maps.retain(Map::has_values);
    maps
}

/// A figure of one program.
struct Figure {
    id: &'static str,
    title: &'static str,
    /// The study's figure for one program, and for two.
    numbers: [Option<&'static str>; 2],
    about: &'static str,
    unit: Unit,
    scale: Scale,
    of: fn(&Sample, usize) -> Option<f64>,
}

fn observed(sample: &Sample, program: usize, figure: fn(&Observed) -> f64) -> Option<f64> {
    sample.programs.get(program)?.observed.as_ref().map(figure)
}

const FIGURES: [Figure; 6] = [
    Figure {
        id: "time",
        title: "Time",
        numbers: [None; 2],
        about: "time of the program's loops, by its own clock",
        unit: Unit::Seconds,
        scale: Scale::Row,
        of: |sample, program| Some(sample.programs.get(program)?.elapsed_s),
    },
    Figure {
        id: "migrations",
        title: "Thread migration",
        numbers: [Some("4.4"), Some("4.7")],
        about: "migrations per second of the run",
        unit: Unit::PerSecond,
        scale: Scale::Map,
        of: |sample, program| observed(sample, program, |observed| observed.migrations_per_s),
    },
    Figure {
        id: "waiting",
        title: "Waiting for a CPU",
        numbers: [Some("4.5"), Some("4.8")],
        about: "wake delay and preempt wait, as a share of thread time: what context switches cost the program",
        unit: Unit::Share,
        scale: Scale::Map,
        of: |sample, program| observed(sample, program, |observed| observed.waiting_for_cpu),
    },
    Figure {
        id: "switches",
        title: "Context switches",
        numbers: [Some("4.5"), Some("4.8")],
        about: "context switches per second of the run",
        unit: Unit::PerSecond,
        scale: Scale::Map,
        of: |sample, program| observed(sample, program, |observed| observed.switches_per_s),
    },
    Figure {
        id: "imbalance",
        title: "Waiting for other threads",
        numbers: [None; 2],
        about: "spinning and asleep at barriers, as a share of thread time: the load imbalance that is left",
        unit: Unit::Share,
        scale: Scale::Map,
        of: |sample, program| observed(sample, program, |observed| observed.waiting_for_threads),
    },
    Figure {
        id: "behind",
        title: "Waiting behind the other program",
        numbers: [None; 2],
        about: "the part of thread time in which the other program had the CPU that this one waited for",
        unit: Unit::Share,
        scale: Scale::Map,
        of: |sample, program| sample.programs.get(program)?.observed.as_ref()?.behind_the_other,
    },
];

/// Programs alone: 4.4, 4.5 and 4.6.
fn alone(results: &Results) -> Vec<Map> {
    let settings = results.settings(false);
    let mut maps: Vec<Map> = FIGURES
        .iter()
        .map(|figure| {
            let row = |setting: &Setting| {
                let runs = results.by_schedule(*setting, 0, Observer::Cox, |sample| (figure.of)(sample, 0));
                Row::new(format!("{}, {}", setting.programs.apps()[0].name(), configuration(*setting)), &runs)
            };
            figure.map("alone", figure.numbers[0], results, settings.iter().map(row).collect())
        })
        .collect();
    let row = |setting: &Setting| {
        let runs = results.by_schedule(*setting, 0, Observer::Cox, |sample| Some(sample.idle?.all));
        Row::new(format!("{}, {}", setting.programs.apps()[0].name(), configuration(*setting)), &runs)
    };
    maps.push(Map {
        id: "idle-alone".to_owned(),
        title: "Idle CPUs".to_owned(),
        figure: Some("4.6"),
        about: "idle time of all CPUs, as a share of their time".to_owned(),
        unit: Unit::Share,
        scale: Scale::Map,
        columns: results.schedules.clone(),
        rows: settings.iter().map(row).collect(),
    });
    maps
}

/// Two programs with the same schedule: 4.7 and 4.8.
fn together(results: &Results) -> Vec<Map> {
    let settings = results.settings(true);
    let maps = FIGURES.iter().map(|figure| {
        let rows = settings.iter().flat_map(|setting| {
            setting.programs.apps().iter().enumerate().map(move |(program, app)| {
                let runs = results.by_schedule(*setting, program, Observer::Cox, |sample| (figure.of)(sample, program));
                Row::new(format!("{}, {}", app.name(), configuration(*setting)), &runs)
            })
        });
        figure.map("together", figure.numbers[1], results, rows.collect())
    });
    maps.collect()
}

impl Figure {
    fn map(&self, where_: &str, number: Option<&'static str>, results: &Results, rows: Vec<Row>) -> Map {
        Map {
            id: format!("{}-{where_}", self.id),
            title: if where_ == "together" { format!("{}, mandelbrot beside triad", self.title) } else { self.title.to_owned() },
            figure: number,
            about: self.about.to_owned(),
            unit: self.unit,
            scale: self.scale,
            columns: results.schedules.clone(),
            rows,
        }
    }
}

fn configuration(setting: Setting) -> String {
    let Setting { programs, threads, bound } = setting;
    super::cell::configuration(programs, threads, bound)
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
            Row::new(format!("{name}, {}", configuration(setting)), &runs)
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
                let runs = |second| results.runs(setting, &[first, second], Observer::Cox).iter().filter_map(of).collect();
                let cells: Vec<Runs> = results.schedules.iter().map(runs).collect();
                Row::new(format!("mandelbrot: {first}"), &cells)
            };
            let bound = if setting.bound { "-bound" } else { "" };
            maps.push(Map {
                id: format!("pairs-{}-{}{bound}", app.name(), setting.threads),
                title: format!("Time of {} by both schedules, {}", app.name(), configuration(setting)),
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

/// What observing costs: 4.2 and 4.3.
fn overheads(results: &Results) -> Vec<Map> {
    let mut settings = results.settings(false);
    settings.extend(results.settings(true));
    let mut maps = Vec::new();
    for programs in [Programs::Mandelbrot, Programs::Triad, Programs::Sedov] {
        let app = programs.apps()[0];
        let settings = settings.iter().filter(|setting| setting.programs == programs);
        let rows = settings.flat_map(|setting| {
            [Observer::Cox, Observer::Perf].map(|observer| {
                let times = |schedule, observer| {
                    let runs = results.same(*setting, schedule, observer);
                    runs.iter().filter_map(|sample| Some(sample.programs.first()?.elapsed_s)).collect::<Vec<f64>>()
                };
                let pair = |schedule| (times(schedule, observer), times(schedule, Observer::None));
                let pairs: Vec<_> = results.schedules.iter().map(pair).collect();
                Row::ratios(format!("{}, {}", observer.name(), configuration(*setting)), &pairs)
            })
        });
        let rows: Vec<Row> = rows.filter(|row| row.cells.iter().any(Option::is_some)).collect();
        maps.push(Map {
            id: format!("overhead-{}", app.name()),
            title: format!("Cost of observing {}", app.name()),
            figure: match programs {
                Programs::Mandelbrot => Some("4.2"),
                Programs::Triad => Some("4.3"),
                _ => None,
            },
            about: "time with the observer ÷ time without, by the program's own clock; below it, the time with the observer".to_owned(),
            unit: Unit::Ratio,
            scale: Scale::Map,
            columns: results.schedules.clone(),
            rows,
        });
    }
    maps
}

/// The study's percentages beside those of cox, from the same recordings of perf: 4.4 to 4.8, as the study computes them.
fn percentages(results: &Results) -> Vec<Map> {
    type Part = fn(&Three) -> f64;
    let parts: [(&str, &str, &str, Part); 3] = [
        ("migration", "4.4, 4.7", "threads that migrated while they waited", |three| three.migration),
        ("switches", "4.5, 4.8", "context switches (study: wait time + sch delay, which contains all sleep; cox: waiting for a CPU)", |three| three.switches),
        ("idle", "4.6, A.1", "idle CPUs", |three| three.idle),
    ];
    let whose: [(&str, fn(&Percentages) -> Three); 2] =
        [("study", |percentages| percentages.study), ("cox", |percentages| percentages.cox)];
    let mut settings = results.settings(false);
    settings.extend(results.settings(true));
    let map = |(id, figure, about, part): (&str, &'static str, &str, Part)| {
        let rows = settings.iter().flat_map(|setting| {
            whose.map(|(name, three)| {
                let of = |sample: &Sample| sample.percentages.as_ref().map(|percentages| part(&three(percentages)));
                let runs = results.by_schedule(*setting, 0, Observer::Perf, of);
                let programs = if setting.programs.is_co_run() { "both" } else { setting.programs.apps()[0].name() };
                Row::new(format!("{name}: {programs}, {}", configuration(*setting)), &runs)
            })
        });
        Map {
            id: format!("study-{id}"),
            title: format!("The study's percentage beside that of cox: {id}"),
            figure: Some(figure),
            about: format!("{about}; percent of the execution time, summed over threads and CPUs, from perf's recording"),
            unit: Unit::Percent,
            scale: Scale::Row,
            columns: results.schedules.clone(),
            rows: rows.filter(|row| row.cells.iter().any(Option::is_some)).collect(),
        }
    };
    parts.map(map).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::cell::Cell;
    use crate::study::results::Measured;
    use crate::study::sample::Program;

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
                observed: (observer == Observer::Cox)
                    .then(|| Observed { migrations_per_s: 7.0 + at as f64, behind_the_other: programs.is_co_run().then_some(0.25), ..Observed::default() }),
            };
            let divided = Divided { first: 0.1, second: 0.2, both: 0.3, neither: 0.0 };
            let sample = Sample {
                programs: (0..programs.apps().len()).map(program).collect(),
                idle: (observer == Observer::Cox)
                    .then(|| Idle { all: 0.6, divided: programs.is_co_run().then_some(divided) }),
                percentages: (observer == Observer::Perf).then(|| Percentages {
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
