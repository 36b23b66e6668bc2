//! All measured cells, and how maps find theirs.

use serde::Serialize;

use super::cell::{Cell, Observer, Programs};
use super::map::Runs;
use super::sample::Sample;

/// A cell with its runs, in the order of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub cell: Cell,
    pub runs: Vec<Sample>,
}

/// All cells.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The schedules, in the order of the columns.
    pub schedules: Vec<String>,
    pub cells: Vec<Measured>,
}

/// Threads and binding: a row of a map, for the programs of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    pub programs: Programs,
    pub threads: usize,
    pub bound: bool,
}

impl Setting {
    /// Returns threads and binding in words, such as `2 threads, bound`.
    pub fn words(self) -> String {
        let threads = match self.threads {
            1 => "1 thread".to_owned(),
            many => format!("{many} threads"),
        };
        let each = if self.programs.is_co_run() { " each" } else { "" };
        format!("{threads}{each}{}", if self.bound { ", bound" } else { "" })
    }
}

impl Results {
    /// Returns the settings that were measured, of one program or of two.
    pub fn settings(&self, is_co_run: bool) -> Vec<Setting> {
        let of = |cell: &Cell| Setting { programs: cell.programs, threads: cell.threads, bound: cell.bound };
        let cells = self.cells.iter().map(|measured| &measured.cell);
        let mut settings: Vec<Setting> = cells.filter(|cell| cell.programs.is_co_run() == is_co_run).map(of).collect();
        settings.sort();
        settings.dedup();
        settings
    }

    /// Returns the runs of a cell; empty if it was not measured.
    pub fn runs(&self, setting: Setting, schedules: &[&String], observer: Observer) -> &[Sample] {
        let is_it = |cell: &Cell| {
            cell.programs == setting.programs
                && cell.threads == setting.threads
                && cell.bound == setting.bound
                && cell.observer == observer
                && cell.schedules.iter().eq(schedules.iter().copied())
        };
        self.cells.iter().find(|measured| is_it(&measured.cell)).map_or(&[], |measured| &measured.runs)
    }

    /// Returns the runs in which all programs have the same schedule.
    pub fn same(&self, setting: Setting, schedule: &String, observer: Observer) -> &[Sample] {
        self.runs(setting, &vec![schedule; setting.programs.apps().len()], observer)
    }

    /// Returns the runs by schedule, each reduced to a figure and the time of a program. A run without the figure is left out.
    pub fn by_schedule(
        &self,
        setting: Setting,
        program: usize,
        observer: Observer,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> Vec<Runs> {
        let of = |sample: &Sample| Some((figure(sample)?, Some(sample.programs.get(program)?.elapsed_s)));
        let runs = |schedule| self.same(setting, schedule, observer).iter().filter_map(of).collect();
        self.schedules.iter().map(runs).collect()
    }

    /// Returns which programs had different results under different schedules: their loops were not executed correctly.
    pub fn wrong(&self) -> Vec<String> {
        let mut known: Vec<(&str, &str)> = Vec::new();
        let mut wrong = Vec::new();
        for measured in &self.cells {
            for sample in &measured.runs {
                for (app, program) in measured.cell.programs.apps().iter().zip(&sample.programs) {
                    let Some(checksum) = &program.checksum else { continue };
                    match known.iter().find(|(name, _)| *name == app.name()) {
                        None => known.push((app.name(), checksum)),
                        Some((_, first)) if first == checksum => {}
                        Some((_, first)) => wrong.push(format!(
                            "{} has the checksum {checksum} instead of {first}: {:?}",
                            app.name(),
                            measured.cell
                        )),
                    }
                }
            }
        }
        wrong
    }
}
