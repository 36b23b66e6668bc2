//! Which cells are measured: all combinations of the factors that the user chose.

use anyhow::{Result, bail};
use clap::ValueEnum;
use loops::{Kind, Schedule};

use super::cell::{Cell, Observer, Programs};

/// The schedules of the study. Its runtime was LLVM's, so its `guided` is `gss_llvm`.
pub const STUDY: [Kind; 7] =
    [Kind::Static, Kind::Ss, Kind::GssLlvm, Kind::StaticSteal, Kind::Fac2, Kind::AwfD, Kind::Af];

/// Whether the two programs of a co-run have the same schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pairs {
    /// The same schedule in both programs, as in the study
    Same,
    /// All pairs of different schedules
    Different,
}

/// Whether threads are bound to CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Binding {
    /// The kernel may migrate threads, as in the study
    Free,
    /// OMP_PROC_BIND=true: a CPU for each thread of a program
    Bound,
}

/// The values of each factor.
#[derive(Clone, Debug)]
pub struct Factors {
    pub programs: Vec<Programs>,
    pub schedules: Vec<Schedule>,
    /// Threads of each program per CPU.
    pub threads: Vec<f64>,
    pub bindings: Vec<Binding>,
    pub pairs: Vec<Pairs>,
    pub observers: Vec<Observer>,
    pub cpus: u32,
}

impl Factors {
    /// Returns all cells. Every cell is observed by cox. Those that the study has are also measured with perf and without an observer.
    ///
    /// # Errors
    /// When a number of threads per CPU gives no thread.
    pub fn cells(&self) -> Result<Vec<Cell>> {
        let (threads, schedules) = (self.thread_counts()?, self.schedule_names());
        let mut cells = Vec::new();
        for &programs in &self.programs {
            for schedules in self.assigned(programs, &schedules) {
                for &threads in &threads {
                    for &binding in &self.bindings {
                        let bound = binding == Binding::Bound;
                        // Binding needs a CPU for each thread.
                        if bound && threads > self.cpus as usize {
                            continue;
                        }
                        let cell = |observer| Cell { programs, schedules: schedules.clone(), threads, bound, observer };
                        let is_studied = self.is_studied(&cell(Observer::Cox));
                        let observers = self.observers.iter().filter(|at| is_studied || **at == Observer::Cox);
                        cells.extend(observers.map(|observer| cell(*observer)));
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Returns the different numbers of threads, smallest first.
    fn thread_counts(&self) -> Result<Vec<usize>> {
        let mut counts = Vec::new();
        for per_cpu in &self.threads {
            let threads = (per_cpu * f64::from(self.cpus)).round() as usize;
            if threads == 0 {
                bail!("--threads {per_cpu}: gives 0 threads on {} CPUs", self.cpus);
            }
            counts.push(threads);
        }
        counts.sort_unstable();
        counts.dedup();
        Ok(counts)
    }

    /// Returns the different schedules, in the user's order.
    pub fn schedule_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for schedule in &self.schedules {
            let name = schedule.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns which schedules the programs have together.
    fn assigned(&self, programs: Programs, schedules: &[String]) -> Vec<Vec<String>> {
        if !programs.is_co_run() {
            return schedules.iter().map(|name| vec![name.clone()]).collect();
        }
        let is_wanted = |pair: &[&String; 2]| {
            self.pairs.contains(if pair[0] == pair[1] { &Pairs::Same } else { &Pairs::Different })
        };
        let pairs = schedules.iter().flat_map(|first| schedules.iter().map(move |second| [first, second]));
        pairs.filter(is_wanted).map(|pair| pair.map(String::clone).to_vec()).collect()
    }

    /// Returns whether the study has such a cell: not bound, as many threads as CPUs in all, the same schedule in all programs.
    fn is_studied(&self, cell: &Cell) -> bool {
        let in_all = cell.threads * cell.programs.apps().len();
        let cpus = self.cpus as usize;
        // An odd number of CPUs cannot be shared equally.
        !cell.bound && cell.is_same() && (in_all == cpus || in_all == cpus + 1 && cell.programs.is_co_run())
    }
}

/// Returns all schedules that need no information about the loop.
pub fn all() -> Vec<Schedule> {
    Kind::all().map(Schedule::new).filter(|schedule| schedule.needs().is_empty()).collect()
}

/// Reads a schedule of a list, in which commas separate schedules: `:` stands for the comma within a schedule, as in `ss:64`.
pub fn parse(text: &str) -> Result<Schedule, String> {
    let schedule: Schedule = text.replace(':', ",").parse().map_err(|invalid: loops::Invalid| invalid.to_string())?;
    match schedule.needs() {
        [] => Ok(schedule),
        [need, ..] => Err(format!("schedule '{schedule}' needs {}, which the study does not have", need.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(programs: &[Programs]) -> Factors {
        Factors {
            programs: programs.to_vec(),
            schedules: STUDY.map(Schedule::new).to_vec(),
            threads: vec![0.5, 1.0, 2.0],
            bindings: vec![Binding::Free, Binding::Bound],
            pairs: vec![Pairs::Same],
            observers: vec![Observer::Cox],
            cpus: 2,
        }
    }

    #[test]
    fn cells_are_all_combinations_but_bound_threads_without_a_cpu() {
        let cells = factors(&[Programs::Triad, Programs::Both]).cells().unwrap();
        // 1 and 2 threads, free and bound; 4 threads, free.
        assert_eq!(cells.len(), 2 * 7 * (2 * 2 + 1));
        assert!(cells.iter().all(|cell| !cell.bound || cell.threads <= 2));
        let mut different = cells.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), cells.len());
    }

    #[test]
    fn different_schedules_are_all_ordered_pairs() {
        let cells =
            |pairs: &[Pairs]| Factors { pairs: pairs.to_vec(), ..factors(&[Programs::Both]) }.cells().unwrap().len();
        assert_eq!(cells(&[Pairs::Same]), 7 * 5);
        assert_eq!(cells(&[Pairs::Different]), 7 * 6 * 5);
        assert_eq!(cells(&[Pairs::Same, Pairs::Different]), 7 * 7 * 5);
        // A program alone has no pair.
        let alone = Factors { pairs: vec![Pairs::Different], ..factors(&[Programs::Sedov]) };
        assert_eq!(alone.cells().unwrap().len(), 7 * 5);
    }

    #[test]
    fn only_cells_of_the_study_have_other_observers() {
        let observers = vec![Observer::None, Observer::Cox, Observer::Perf];
        let factors = Factors {
            observers,
            pairs: vec![Pairs::Same, Pairs::Different],
            ..factors(&[Programs::Mandelbrot, Programs::Both])
        };
        let cells = factors.cells().unwrap();
        let perf: Vec<&Cell> = cells.iter().filter(|cell| cell.observer == Observer::Perf).collect();
        assert_eq!(perf.len(), 2 * 7);
        for cell in perf {
            let threads = if cell.programs.is_co_run() { 1 } else { 2 };
            assert!(!cell.bound && cell.is_same() && cell.threads == threads, "{cell:?}");
        }
        let none = cells.iter().filter(|cell| cell.observer == Observer::None).count();
        assert_eq!(none, 2 * 7);
        // Three CPUs: two threads for each of two programs.
        let three = Factors { cpus: 3, ..factors }.cells().unwrap();
        let perf: Vec<&Cell> = three.iter().filter(|cell| cell.observer == Observer::Perf).collect();
        assert!(perf.iter().any(|cell| cell.programs.is_co_run() && cell.threads == 2));
        assert!(perf.iter().all(|cell| cell.programs.is_co_run() || cell.threads == 3));
    }

    #[test]
    fn equal_numbers_of_threads_and_equal_schedules_are_one() {
        let schedules = vec![parse("ss").unwrap(), parse("dynamic").unwrap(), parse("ss:4").unwrap()];
        let factors = Factors { cpus: 1, schedules, ..factors(&[Programs::Triad]) };
        let cells = factors.cells().unwrap();
        let threads: Vec<usize> = cells.iter().map(|cell| cell.threads).collect();
        // 0.5 threads per CPU are rounded to 1; two threads cannot be bound to one CPU.
        assert_eq!(threads, [1, 1, 2, 1, 1, 2]);
        assert_eq!((&cells[0].schedules[0][..], &cells[3].schedules[0][..]), ("ss", "ss,4"));
        let none = Factors { threads: vec![0.001], ..factors };
        assert!(none.cells().unwrap_err().to_string().contains("gives 0 threads"));
    }

    #[test]
    fn all_schedules_are_those_that_need_nothing() {
        let names: Vec<String> = all().iter().map(Schedule::to_string).collect();
        for wanted in STUDY.map(Kind::name) {
            assert!(names.iter().any(|name| name == wanted), "{wanted}");
        }
        for missing in ["fsc", "fac", "tap", "bold", "wf"] {
            assert!(!names.iter().any(|name| name == missing), "{missing}");
        }
    }

    #[test]
    fn a_schedule_without_its_inputs_is_refused() {
        assert_eq!(parse("ss:64").unwrap().to_string(), "ss,64");
        assert_eq!(parse("rnd:low=2:high=5").unwrap().to_string(), "rnd,low=2,high=5");
        let wanted = "schedule 'fac' needs the mean time of an iteration, which the study does not have";
        assert_eq!(parse("fac").unwrap_err(), wanted);
        assert!(parse("fax2").unwrap_err().contains("unknown schedule 'fax2'"));
        assert!(parse("ss:0").unwrap_err().contains("invalid chunk '0'"));
    }
}
