//! A cell of the experiment: what runs, how its loops are scheduled, where it may run, and what observes it.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A program of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum App {
    /// Computes; imbalance that stays, rises and falls
    Mandelbrot,
    /// Moves memory; iterations of a nanosecond
    Triad,
    /// Smoothed particle hydrodynamics: some of both
    Sedov,
}

impl App {
    /// Returns the name of the workload.
    pub fn name(self) -> &'static str {
        match self {
            App::Mandelbrot => "mandelbrot",
            App::Triad => "triad",
            App::Sedov => "sedov",
        }
    }
}

/// The programs that run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Programs {
    /// Computes; its loops have load imbalance
    Mandelbrot,
    /// Moves memory
    Triad,
    /// Smoothed particle hydrodynamics
    Sedov,
    /// Mandelbrot and triad at the same time
    Both,
}

impl Programs {
    /// Returns the programs, the first one first.
    pub fn apps(self) -> &'static [App] {
        match self {
            Programs::Mandelbrot => &[App::Mandelbrot],
            Programs::Triad => &[App::Triad],
            Programs::Sedov => &[App::Sedov],
            Programs::Both => &[App::Mandelbrot, App::Triad],
        }
    }

    /// Returns whether two programs run at the same time.
    pub fn is_co_run(self) -> bool {
        self == Programs::Both
    }
}

/// What observes a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Observer {
    /// Nothing
    None,
    /// `cox run`
    Cox,
    /// `perf sched record`, as in the study
    Perf,
}

impl Observer {
    /// Returns the name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Observer::None => "none",
            Observer::Cox => "cox",
            Observer::Perf => "perf",
        }
    }
}

/// A cell. Its runs are measured in the same way and can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// What runs.
    pub programs: Programs,
    /// The schedule of each program, in the order of [`Programs::apps`].
    pub schedules: Vec<String>,
    /// Threads of each program.
    pub threads: usize,
    /// Whether each thread is bound to a CPU.
    pub bound: bool,
    /// What observes the run.
    pub observer: Observer,
}

impl Cell {
    /// Returns whether all programs have the same schedule.
    pub fn is_same(&self) -> bool {
        self.schedules.windows(2).all(|two| two[0] == two[1])
    }
}
