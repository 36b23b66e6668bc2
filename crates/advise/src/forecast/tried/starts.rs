//! Which ways to run a program can be tried, and how it is started in each.
//!
//! - As it is: on those CPUs, as taskset(1) would start it.
//! - Another number of threads or ranks, if cox knows how to set it: by `OMP_NUM_THREADS`, or by the option of a launcher of parallel programs.
//! - Other waiting policies, for OpenMP programs.
//! - Packed, if there are more workers than CPUs.
//!
//! Ways that change nothing are left out, such as a variable that has this value already.

use std::ffi::OsString;

use super::launcher;
use crate::facts::Facts;
use crate::forecast::measured::setting;
use crate::forecast::{Refusal, Way};

const NUM_THREADS: &str = "OMP_NUM_THREADS";
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";

/// A program, as one observed run has shown it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    /// Program name and arguments.
    pub command: &'p [OsString],
    /// Number of CPUs that it would have.
    pub cpus: u64,
    /// Number of worker threads.
    pub workers: u64,
    /// True if one thread did all the work.
    pub is_serial: bool,
    /// Its environment variables, and its OpenMP runtime.
    pub facts: &'p Facts,
}

/// How a program is started in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The way.
    pub way: Way,
    /// Number of worker threads that the program has then.
    pub threads: u64,
    /// Program name and arguments.
    pub command: Vec<OsString>,
    /// Environment variables to set.
    pub variables: Vec<(&'static str, String)>,
    /// Remark for the reader: what is set.
    pub note: Option<String>,
}

/// The ways that can be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The ways; the first one is the program as it is.
    pub starts: Vec<Start>,
    /// Why other ways cannot be tried.
    pub notes: Vec<&'static str>,
}

const NO_NUMBER: &str = "cox does not know how to set this program's number of threads";
const NO_RANKS: &str = "cox does not know where this launcher's command has the number of ranks";
const HYBRID: &str = "cox does not know how to divide these CPUs between ranks and their threads";
const IGNORED: &str = "OMP_NUM_THREADS does not change this program's number of threads";
const SPIN_SET: &str = "OMP_WAIT_POLICY has no effect, because GOMP_SPINCOUNT or KMP_BLOCKTIME is set";

/// Returns the ways that can be tried.
///
/// # Errors
/// If one thread does all the work and cox cannot start more, or if there is only one way.
pub fn ways(program: &Program) -> Result<Ways, Refusal> {
    let mut ways = Ways { starts: vec![program.start(Way::Taskset, program.workers)], notes: Vec::new() };
    let mut starts_more = false;
    if launcher::is_launcher(program.command) {
        match launcher::ranks(program.command) {
            None => ways.notes.push(NO_RANKS),
            Some(ranks) if ranks.count == 1 && program.is_openmp() && program.workers > 1 => ways.add_openmp(program),
            Some(ranks) if program.workers >= 2 * ranks.count => ways.notes.push(HYBRID),
            Some(ranks) => {
                starts_more = ranks.count < program.cpus;
                let count = program.cpus;
                let command = launcher::with_ranks(program.command, &ranks, count);
                let way = Start { command, note: None, ..program.start(Way::Ranks, count) };
                ways.starts.extend((ranks.count != count).then_some(way));
            }
        }
    } else if program.is_openmp() {
        starts_more = program.number() == Some(1) && program.cpus > 1;
        ways.add_openmp(program);
    } else {
        ways.notes.push(NO_NUMBER);
    }
    if program.is_serial && !starts_more {
        return Err(Refusal::Serial);
    }
    if program.workers > program.cpus {
        ways.starts.push(program.start(Way::Packing, program.workers));
    }
    ways.several()
}

impl Program<'_> {
    fn start(&self, way: Way, threads: u64) -> Start {
        Start { way, threads, command: self.command.to_vec(), variables: Vec::new(), note: None }
    }

    fn setting(&self, way: Way, threads: u64, name: &'static str, value: String) -> Start {
        Start { variables: vec![(name, value)], ..self.start(way, threads) }
    }

    /// Returns whether OMP_NUM_THREADS may have an effect: an OpenMP runtime is loaded, or the variable is set. Other programs read it, too, and the
    /// runtime of a statically linked program cannot be seen.
    fn is_openmp(&self) -> bool {
        self.facts.openmp_runtime.is_some() || self.facts.variable(NUM_THREADS).is_some()
    }

    /// Returns the number of threads that the environment sets; the outermost one of nested regions.
    fn number(&self) -> Option<u64> {
        self.facts.variable(NUM_THREADS)?.split(',').next()?.trim().parse().ok()
    }

    /// Returns the value of the variable for `threads` threads. Numbers for inner regions stay.
    fn number_value(&self, threads: u64) -> String {
        match self.facts.variable(NUM_THREADS).as_deref().and_then(|value| value.split_once(',')) {
            Some((_, inner)) => format!("{threads},{inner}"),
            None => threads.to_string(),
        }
    }

    fn with_threads(&self, way: Way, threads: u64) -> Option<Start> {
        let is_so = self.number().unwrap_or(self.workers) == threads;
        let note = Some(setting(true, threads));
        (!is_so).then(|| Start { note, ..self.setting(way, threads, NUM_THREADS, self.number_value(threads)) })
    }
}

impl Ways {
    fn add_openmp(&mut self, program: &Program) {
        self.starts.extend(program.with_threads(Way::FewerThreads, program.cpus));
        if program.cpus > 1 && program.workers > 1 {
            self.starts.extend(program.with_threads(Way::OneThread, 1));
        }
        // A single thread waits for no other. Threads that are not OpenMP's do not read the policy, though the number of threads may come from
        // OpenMP's variable.
        let Some(runtime) = program.facts.openmp_runtime.as_deref().filter(|_| program.workers > 1) else { return };
        // The runtimes' own variables are stronger than OpenMP's.
        let own = if runtime.starts_with("libgomp") { "GOMP_SPINCOUNT" } else { "KMP_BLOCKTIME" };
        if program.facts.variable(own).is_some() {
            self.notes.push(SPIN_SET);
            return;
        }
        let now = program.facts.variable(WAIT_POLICY);
        for (way, policy) in [(Way::Passive, "passive"), (Way::Active, "active")] {
            if now.as_deref() != Some(policy) {
                self.starts.push(program.setting(way, program.workers, WAIT_POLICY, policy.to_owned()));
            }
        }
    }

    /// Returns the first way that sets the number of threads by a variable. A run in this way shows whether the program obeys.
    #[must_use]
    pub fn to_check(&self) -> Option<&Start> {
        self.starts.iter().find(|start| start.sets_number())
    }

    /// Returns the ways without those that set the number of threads by a variable which the program ignores: a run in the way of
    /// [`to_check`](Ways::to_check) had `checked` workers.
    ///
    /// # Errors
    /// If only one way is left.
    pub fn after_check(mut self, checked: u64) -> Result<Ways, Refusal> {
        if self.starts.first().is_some_and(|plain| plain.threads == checked) {
            self.starts.retain(|start| !start.sets_number());
            self.notes.push(IGNORED);
        }
        self.several()
    }

    fn several(self) -> Result<Ways, Refusal> {
        match (self.starts.len(), self.notes.first()) {
            (0 | 1, note) => Err(Refusal::OneWay(note.copied().unwrap_or("all known ways are as it is"))),
            _ => Ok(self),
        }
    }
}

impl Start {
    fn sets_number(&self) -> bool {
        self.variables.iter().any(|(name, _)| *name == NUM_THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(runtime: Option<&str>, variables: &[(&str, &str)]) -> Facts {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Facts { openmp_runtime: runtime.map(str::to_owned), environment, ..Facts::default() }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// The ways of a program with `workers` threads on two CPUs.
    fn found(line: &str, workers: u64, facts: &Facts) -> Result<Ways, Refusal> {
        let command = words(line);
        ways(&Program { command: &command, cpus: 2, workers, is_serial: workers == 1, facts })
    }

    fn names(found: Result<Ways, Refusal>) -> Vec<Way> {
        found.unwrap().starts.iter().map(|start| start.way).collect()
    }

    #[test]
    fn openmp_programs_have_numbers_and_policies() {
        let gcc = facts(Some("libgomp.so.1"), &[]);
        let all = [Way::Taskset, Way::FewerThreads, Way::OneThread, Way::Passive, Way::Active, Way::Packing];
        let ways = found("./app", 3, &gcc).unwrap();
        assert_eq!(names(Ok(ways.clone())), all);
        let variables: Vec<String> = ways
            .starts
            .iter()
            .flat_map(|start| &start.variables)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = ["OMP_NUM_THREADS=2", "OMP_NUM_THREADS=1", "OMP_WAIT_POLICY=passive", "OMP_WAIT_POLICY=active"];
        assert_eq!(variables, expected);
        assert_eq!(ways.to_check().unwrap().way, Way::FewerThreads);
        // With a CPU for each thread, neither their number nor packing would change anything.
        assert_eq!(names(found("./app", 2, &gcc)), [Way::Taskset, Way::OneThread, Way::Passive, Way::Active]);
        // Other programs may read the variable, too, but not the policy.
        let other = found("./app", 3, &facts(None, &[("OMP_NUM_THREADS", "3")]));
        assert_eq!(names(other), [Way::Taskset, Way::FewerThreads, Way::OneThread, Way::Packing]);
    }

    #[test]
    fn what_is_set_already_is_left_out() {
        let ways = |variables: &[(&str, &str)]| found("./app", 3, &facts(Some("libgomp.so.1"), variables)).unwrap();
        let has = |variables: &[(&str, &str)], way| names(Ok(ways(variables))).contains(&way);
        assert!(
            !has(&[("OMP_WAIT_POLICY", "PASSIVE")], Way::Passive)
                && has(&[("OMP_WAIT_POLICY", "PASSIVE")], Way::Active)
        );
        assert!(!has(&[("OMP_WAIT_POLICY", "active")], Way::Active));
        assert!(!has(&[("OMP_NUM_THREADS", "2")], Way::FewerThreads), "the program sets it itself");
        let spins = ways(&[("GOMP_SPINCOUNT", "100")]);
        assert!(!names(Ok(spins.clone())).contains(&Way::Passive) && spins.notes == [SPIN_SET]);
        assert!(has(&[("KMP_BLOCKTIME", "0")], Way::Passive), "GCC's runtime does not read it");
        let nested = ways(&[("OMP_NUM_THREADS", "3,4")]);
        assert_eq!(nested.starts[1].variables, [("OMP_NUM_THREADS", "2,4".to_owned())]);
    }

    #[test]
    fn a_program_that_ignores_the_variable_has_no_such_ways() {
        let ways = found("./app", 3, &facts(Some("libgomp.so.1"), &[])).unwrap();
        assert_eq!(ways.clone().after_check(2), Ok(ways.clone()));
        let left = ways.after_check(3).unwrap();
        assert_eq!(names(Ok(left.clone())), [Way::Taskset, Way::Passive, Way::Active, Way::Packing]);
        assert_eq!(left.notes, [IGNORED]);
    }

    #[test]
    fn other_programs_can_only_be_packed() {
        let none = facts(None, &[]);
        let ways = found("./app", 3, &none).unwrap();
        assert_eq!((names(Ok(ways.clone())), ways.notes), (vec![Way::Taskset, Way::Packing], vec![NO_NUMBER]));
        assert_eq!(found("./app", 2, &none), Err(Refusal::OneWay(NO_NUMBER)));
        assert_eq!(found("./app", 1, &none), Err(Refusal::Serial));
    }

    #[test]
    fn one_thread_is_given_more_where_cox_can() {
        assert_eq!(found("./app", 1, &facts(Some("libgomp.so.1"), &[])), Err(Refusal::Serial));
        let told = facts(Some("libgomp.so.1"), &[("OMP_NUM_THREADS", "1")]);
        assert_eq!(names(found("./app", 1, &told)), [Way::Taskset, Way::FewerThreads]);
        assert_eq!(names(found("mpirun -n 1 ./app", 1, &facts(None, &[]))), [Way::Taskset, Way::Ranks]);
    }

    #[test]
    fn launchers_start_another_number_of_ranks() {
        // Libraries of ranks may have loaded the runtime.
        let loaded = facts(Some("libgomp.so.1"), &[]);
        let ways = found("mpirun -n 3 ./app", 3, &loaded).unwrap();
        assert_eq!(names(Ok(ways.clone())), [Way::Taskset, Way::Ranks, Way::Packing]);
        assert_eq!((&ways.starts[1].command, ways.starts[1].threads), (&words("mpirun -n 2 ./app"), 2));
        assert_eq!(found("mpirun -n 2 ./app", 2, &loaded), Err(Refusal::OneWay("all known ways are as it is")));
        let hybrid = found("mpirun -n 2 ./app", 4, &loaded).unwrap();
        assert_eq!((names(Ok(hybrid.clone())), hybrid.notes), (vec![Way::Taskset, Way::Packing], vec![HYBRID]));
        // A rank with threads is an OpenMP program.
        assert!(names(found("mpirun -n 1 ./app", 3, &loaded)).contains(&Way::FewerThreads));
        assert_eq!(found("mpirun ./app", 3, &loaded).unwrap().notes, [NO_RANKS]);
    }
}
