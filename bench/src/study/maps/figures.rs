//! Figures of one program: alone, and of each program of a co-run.

use crate::study::cell::Observer;
use crate::study::map::{Map, Row, Scale, Unit};
use crate::study::results::{Results, Setting};
use crate::study::sample::{Observed, Sample};

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
pub fn alone(results: &Results) -> Vec<Map> {
    let settings = results.settings(false);
    let mut maps: Vec<Map> = FIGURES
        .iter()
        .map(|figure| {
            let row = |setting: &Setting| {
                let runs = results.by_schedule(*setting, 0, Observer::Cox, |sample| (figure.of)(sample, 0));
                Row::new(format!("{}, {}", setting.programs.apps()[0].name(), setting.words()), &runs)
            };
            figure.map("alone", figure.numbers[0], results, settings.iter().map(row).collect())
        })
        .collect();
    let row = |setting: &Setting| {
        let runs = results.by_schedule(*setting, 0, Observer::Cox, |sample| Some(sample.idle?.all));
        Row::new(format!("{}, {}", setting.programs.apps()[0].name(), setting.words()), &runs)
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
pub fn together(results: &Results) -> Vec<Map> {
    let settings = results.settings(true);
    let maps = FIGURES.iter().map(|figure| {
        let rows = settings.iter().flat_map(|setting| {
            setting.programs.apps().iter().enumerate().map(move |(program, app)| {
                let runs = results.by_schedule(*setting, program, Observer::Cox, |sample| (figure.of)(sample, program));
                Row::new(format!("{}, {}", app.name(), setting.words()), &runs)
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
            title: if where_ == "together" {
                format!("{}, mandelbrot beside triad", self.title)
            } else {
                self.title.to_owned()
            },
            figure: number,
            about: self.about.to_owned(),
            unit: self.unit,
            scale: self.scale,
            columns: results.schedules.clone(),
            rows,
        }
    }
}
