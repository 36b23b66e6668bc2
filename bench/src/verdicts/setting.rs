//! How a program is run: everything that a change can alter. Two changes that lead to equal settings are measured only once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::corpus::program::{Knob, fill};
use super::situation::{Circumstance, Situation};

/// The variable of OpenMP's waiting policy.
pub const WAIT_POLICY: &str = "OMP_WAIT_POLICY";
/// The variable of OpenMP's places.
pub const PLACES: &str = "OMP_PLACES";
/// Binding of ranks to cores, the default of Open MPI for few ranks.
const BIND: &str = "core";

/// How a program is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Number of threads or ranks.
    pub number: usize,
    /// Environment variables to set. All other variables of runtimes are removed.
    pub variables: BTreeMap<String, String>,
    /// CPUs that taskset allows; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// The launcher's binding of ranks.
    pub bind: String,
    /// Whether another program uses a CPU all the time.
    pub hog: bool,
    /// Quota of the control group, in CPUs; `None`: no quota.
    pub quota: Option<f64>,
    /// A command of cox that runs the program, such as `pack --cpus 0-1`; empty: the program runs without cox.
    pub under: Vec<String>,
}

/// The CPUs that the experiment may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus(pub Vec<u32>);

impl Cpus {
    /// Returns the number of CPUs.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Setting {
    /// Returns the setting of a situation before any change.
    pub fn of(situation: &Situation, cpus: &Cpus) -> Setting {
        let first = cpus.0.first().copied().unwrap_or(0);
        let mut setting = Setting {
            number: situation.count.number(cpus.count()),
            variables: BTreeMap::new(),
            cpus: None,
            bind: BIND.to_owned(),
            hog: false,
            quota: None,
            under: Vec::new(),
        };
        match situation.circumstance {
            Circumstance::Plain => {}
            Circumstance::Bound => setting.cpus = Some(vec![first]),
            Circumstance::Places => setting.set(PLACES, &format!("{{{first}}}")),
            Circumstance::Passive => setting.set(WAIT_POLICY, "passive"),
            Circumstance::Active => setting.set(WAIT_POLICY, "active"),
            Circumstance::Hog => setting.hog = true,
            Circumstance::Quota => setting.quota = Some(0.75 * cpus.count() as f64),
        }
        setting
    }

    /// Sets an environment variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Returns the command line of the program: taskset, launcher, executable, arguments.
    pub fn words(&self, situation: &Situation, executable: &Path) -> Vec<OsString> {
        let program = situation.program;
        let filled = |word: &&str| OsString::from(fill(word, self.number, &self.bind));
        let mut words: Vec<OsString> = Vec::new();
        if let Some(cpus) = &self.cpus {
            words.extend(["taskset".into(), "-c".into(), list(cpus).into()]);
        }
        words.extend(program.launcher.iter().map(filled));
        words.push(executable.into());
        words.extend(program.arguments.iter().map(filled));
        words
    }

    /// Returns the environment variables that the program gets, including the one that has the number of threads.
    pub fn environment(&self, situation: &Situation) -> BTreeMap<String, String> {
        let mut all = self.variables.clone();
        if let Knob::Variable(name) = situation.program.knob {
            all.entry(name.to_owned()).or_insert_with(|| self.number.to_string());
        }
        all
    }
}

/// Returns CPUs as a list for taskset.
pub fn list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::corpus;
    use super::super::situation::Count;
    use super::*;

    fn situation(name: &str, circumstance: Circumstance) -> Situation {
        let program = corpus::all().into_iter().find(|program| program.name == name).unwrap();
        Situation { program, count: Count::OneMore, circumstance }
    }

    #[test]
    fn a_command_line_has_mask_launcher_and_number() {
        let cpus = Cpus(vec![4, 6]);
        let words = |name, circumstance| {
            let situation = situation(name, circumstance);
            let words = Setting::of(&situation, &cpus).words(&situation, Path::new("/bin/x"));
            words.join(" ".as_ref()).into_string().unwrap()
        };
        assert!(words("pigz", Circumstance::Bound).starts_with("taskset -c 4 /bin/x "));
        assert!(words("pigz", Circumstance::Plain).contains("-p 3"));
        assert!(words("halo-mpich", Circumstance::Plain).starts_with("mpirun.mpich -n 3 /bin/x "));
    }

    #[test]
    fn the_environment_has_circumstance_and_number() {
        let cpus = Cpus(vec![0, 1]);
        let places = situation("regions", Circumstance::Places);
        let environment = Setting::of(&places, &cpus).environment(&places);
        assert_eq!(environment[PLACES], "{0}");
        assert_eq!(environment["OMP_NUM_THREADS"], "3");
        assert_eq!(Setting::of(&situation("barriers", Circumstance::Quota), &cpus).quota, Some(1.5));
        assert!(Setting::of(&situation("barriers", Circumstance::Hog), &cpus).hog);
    }
}
