//! Situations: a program with a number of threads or ranks under one circumstance.
//!
//! Without a circumstance, every number is a situation. A circumstance is combined with those numbers at which it matters: narrow masks and waiting
//! policies with as many threads as CPUs and with one more, the load of others and a quota with as many threads as CPUs.

use super::corpus::program::{Family, Knob, Program};

/// The number of threads or ranks, relative to the number N of allowed CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    /// 1.
    One,
    /// N.
    Cpus,
    /// N + 1.
    OneMore,
    /// 2 N.
    Double,
}

impl Count {
    /// Returns the number for a number of CPUs.
    pub fn number(self, cpus: usize) -> usize {
        match self {
            Count::One => 1,
            Count::Cpus => cpus,
            Count::OneMore => cpus + 1,
            Count::Double => 2 * cpus,
        }
    }
}

/// The circumstance of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circumstance {
    /// Nothing special.
    Plain,
    /// `taskset` allows one CPU.
    Bound,
    /// `OMP_PLACES={0}` binds all threads to one CPU.
    Places,
    /// `OMP_WAIT_POLICY=passive`.
    Passive,
    /// `OMP_WAIT_POLICY=active`.
    Active,
    /// Another program uses one CPU all the time.
    Hog,
    /// A control group's quota of three quarters of the CPUs.
    Quota,
}

impl Circumstance {
    /// All circumstances.
    pub const ALL: [Circumstance; 7] = [
        Circumstance::Plain,
        Circumstance::Bound,
        Circumstance::Places,
        Circumstance::Passive,
        Circumstance::Active,
        Circumstance::Hog,
        Circumstance::Quota,
    ];

    /// Returns the name in keys and tables.
    pub fn name(self) -> &'static str {
        match self {
            Circumstance::Plain => "plain",
            Circumstance::Bound => "bound",
            Circumstance::Places => "places",
            Circumstance::Passive => "passive",
            Circumstance::Active => "active",
            Circumstance::Hog => "hog",
            Circumstance::Quota => "quota",
        }
    }

    fn counts(self, program: &Program) -> &'static [Count] {
        let openmp = program.family.is_openmp();
        let fixed = program.knob == Knob::None;
        match self {
            Circumstance::Plain if fixed => &[Count::One],
            Circumstance::Plain => &[Count::One, Count::Cpus, Count::OneMore, Count::Double],
            // The launcher's own binding is the circumstance of such programs.
            Circumstance::Bound | Circumstance::Hog | Circumstance::Quota if program.has_binding() => &[],
            Circumstance::Bound if fixed => &[],
            Circumstance::Bound => &[Count::Cpus, Count::OneMore],
            Circumstance::Passive | Circumstance::Active if openmp => &[Count::Cpus, Count::OneMore],
            Circumstance::Places if openmp => &[Count::Cpus],
            Circumstance::Passive | Circumstance::Active | Circumstance::Places => &[],
            Circumstance::Hog if fixed => &[Count::One],
            Circumstance::Hog => &[Count::Cpus],
            Circumstance::Quota if fixed || program.family == Family::Single => &[],
            Circumstance::Quota => &[Count::Cpus],
        }
    }
}

/// A program with a number of threads or ranks under one circumstance.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// The program.
    pub program: &'static Program,
    /// The number of threads or ranks, relative to the CPUs.
    pub count: Count,
    /// The circumstance.
    pub circumstance: Circumstance,
}

impl Situation {
    /// Returns whether the program's launcher binds it.
    pub fn is_bound_by_launcher(&self) -> bool {
        self.program.has_binding()
    }

    /// Returns whether the launcher binds each rank to a CPU of its own, also to CPUs that `taskset` excludes: Open MPI's does (4.1), if there are not
    /// more ranks than CPUs.
    pub fn binds_beyond_mask(&self) -> bool {
        self.program.family == Family::OpenMpi && matches!(self.count, Count::One | Count::Cpus)
    }

    /// Returns the name of the situation, the same in every session: `kernel-cg n=3 passive`.
    pub fn key(&self, cpus: usize) -> String {
        format!("{} n={} {}", self.program.name, self.count.number(cpus), self.circumstance.name())
    }
}

/// Returns all situations of a program on `cpus` CPUs, each number once.
pub fn of(program: &'static Program, cpus: usize) -> Vec<Situation> {
    let mut all: Vec<Situation> = Vec::new();
    for circumstance in Circumstance::ALL {
        for &count in circumstance.counts(program) {
            let situation = Situation { program, count, circumstance };
            // On one CPU, "bound" is no restriction, and two of the numbers are equal.
            let narrow = matches!(circumstance, Circumstance::Bound | Circumstance::Places);
            let known = all.iter().any(|other| other.key(cpus) == situation.key(cpus));
            let enough = count.number(cpus) >= program.least();
            if enough && !known && !(narrow && cpus < 2) {
                all.push(situation);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::corpus;
    use super::*;

    fn keys(name: &str, cpus: usize) -> Vec<String> {
        let program = corpus::all().into_iter().find(|program| program.name == name).unwrap();
        of(program, cpus).iter().map(|situation| situation.key(cpus)).collect()
    }

    #[test]
    fn every_number_and_every_circumstance_that_matters() {
        let keys_of = keys("kernel-cg", 2);
        assert_eq!(
            keys_of[..4],
            ["kernel-cg n=1 plain", "kernel-cg n=2 plain", "kernel-cg n=3 plain", "kernel-cg n=4 plain"]
        );
        for circumstance in ["n=2 bound", "n=3 passive", "n=2 active", "n=2 places", "n=2 hog", "n=2 quota"] {
            assert!(keys_of.contains(&format!("kernel-cg {circumstance}")), "{circumstance}");
        }
        assert!(!keys("pigz", 2).iter().any(|key| key.contains("passive") || key.contains("places")));
        assert_eq!(keys("gzip", 2), ["gzip n=1 plain", "gzip n=1 hog"]);
    }

    #[test]
    fn keys_are_unique() {
        for cpus in [1, 2, 8] {
            let all: Vec<String> = corpus::all()
                .into_iter()
                .flat_map(|program| of(program, cpus))
                .map(|situation| situation.key(cpus))
                .collect();
            let unique: std::collections::BTreeSet<&String> = all.iter().collect();
            assert_eq!(all.len(), unique.len());
        }
    }

    #[test]
    fn the_corpus_is_large_enough() {
        let programs = corpus::all();
        let situations: usize = programs.iter().map(|program| of(program, 2).len()).sum();
        assert!(programs.len() >= 25 && situations >= 120, "{} programs, {situations} situations", programs.len());
    }
}
