//! Changes that can be followed literally, and the known changes that are tried in every situation.

use super::corpus::program::{Knob, Program};
use super::setting::{Cpus, PLACES, Setting, WAIT_POLICY, list};
use super::situation::{Circumstance, Situation};

/// A change of how a program is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Another number of threads or ranks, by the program's own means.
    Number(usize),
    /// Sets an environment variable.
    Set(String, String),
    /// Removes an environment variable.
    Unset(String),
    /// Allows these CPUs.
    Allow(Vec<u32>),
    /// Another binding of ranks by the launcher.
    Bind(String),
    /// Ends the load of the other program.
    Alone,
    /// Raises the quota to this number of CPUs.
    Quota(f64),
    /// Runs the program with this command of cox.
    Under(Vec<String>),
    /// Several changes, one after the other.
    All(Vec<Change>),
}

impl Change {
    /// Returns the setting with the change applied. `None` if the situation does not offer what the change needs, such as a number of threads that
    /// can be chosen, or another program that can be stopped.
    pub fn apply(&self, setting: &Setting, situation: &Situation, cpus: &Cpus) -> Option<Setting> {
        let program = situation.program;
        let mut changed = setting.clone();
        match self {
            Change::Number(number) if program.knob == Knob::None || *number < program.least() => return None,
            Change::Number(number) => changed.number = *number,
            Change::Set(name, value) => match value.parse() {
                Ok(number) if has_number(program, name) => changed.number = number,
                _ => changed.set(name, value),
            },
            // A variable that is not set cannot be removed.
            Change::Unset(name) => drop(changed.variables.remove(name)?),
            Change::Allow(allowed) => changed.cpus = (*allowed != cpus.0).then(|| allowed.clone()),
            Change::Bind(_) if !program.has_binding() => return None,
            Change::Bind(bind) => bind.clone_into(&mut changed.bind),
            Change::Alone if !setting.hog => return None,
            Change::Alone => changed.hog = false,
            Change::Quota(_) if setting.quota.is_none() => return None,
            Change::Quota(quota) => changed.quota = (*quota < cpus.count() as f64).then_some(*quota),
            Change::Under(words) => words.clone_into(&mut changed.under),
            Change::All(changes) => {
                for change in changes {
                    changed = change.apply(&changed, situation, cpus)?;
                }
            }
        }
        Some(changed)
    }

    /// Returns whether the change is scheduling on the same CPUs beside the same load. The bound of a verdict is for such changes only.
    pub fn is_scheduling(&self, setting: &Setting) -> bool {
        match self {
            Change::Number(number) => *number <= setting.number,
            Change::Set(..) | Change::Under(_) => true,
            Change::Unset(name) => name != PLACES,
            Change::Allow(_) | Change::Bind(_) | Change::Alone | Change::Quota(_) => false,
            Change::All(changes) => changes.iter().all(|change| change.is_scheduling(setting)),
        }
    }

    /// Returns the change to packing by cox on all CPUs of the experiment.
    pub fn packed(cpus: &Cpus) -> Change {
        Change::Under(["pack", "--cpus", &list(&cpus.0)].map(str::to_owned).into())
    }

    /// Returns the change in words.
    pub fn name(&self) -> String {
        match self {
            Change::Number(number) => format!("n={number}"),
            Change::Set(name, value) => format!("{name}={value}"),
            Change::Unset(name) => format!("unset {name}"),
            Change::Allow(cpus) => format!("taskset -c {}", list(cpus)),
            Change::Bind(bind) => format!("--bind-to {bind}"),
            Change::Alone => "without the other program".to_owned(),
            Change::Quota(cpus) => format!("quota {cpus}"),
            Change::Under(words) => format!("cox {}", words.join(" ")),
            Change::All(changes) => changes.iter().map(Change::name).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Returns whether a variable has the program's number of threads. An OpenMP program with an option of its own for this number overrides
/// `OMP_NUM_THREADS`, so its users change the option.
fn has_number(program: &Program, variable: &str) -> bool {
    match program.knob {
        Knob::Variable(name) => name == variable,
        Knob::Words => program.family.is_openmp() && variable == "OMP_NUM_THREADS",
        Knob::None => false,
    }
}

/// Returns the changes that are known to matter for many programs, as far as they alter this situation.
pub fn known(situation: &Situation, setting: &Setting, cpus: &Cpus) -> Vec<Change> {
    let mut all = vec![Change::Number(1), Change::Number(cpus.count())];
    if situation.program.family.is_openmp() {
        all.extend(["passive", "active"].map(|policy| Change::Set(WAIT_POLICY.to_owned(), policy.to_owned())));
    }
    if matches!(situation.circumstance, Circumstance::Passive | Circumstance::Active) {
        all.push(Change::Unset(WAIT_POLICY.to_owned()));
    }
    if setting.cpus.is_some() {
        all.push(Change::Allow(cpus.0.clone()));
    }
    if situation.circumstance == Circumstance::Places {
        all.push(Change::Unset(PLACES.to_owned()));
    }
    all.push(Change::Bind("none".to_owned()));
    all.extend(packing(situation, cpus));
    let alters = |change: &Change| change.apply(setting, situation, cpus).is_some_and(|changed| changed != *setting);
    all.retain(alters);
    all
}

/// Returns the change to packing, if it may matter: in the plain situations with more threads or ranks than CPUs.
pub fn packing(situation: &Situation, cpus: &Cpus) -> Option<Change> {
    let is_crowded = situation.count.number(cpus.count()) > cpus.count();
    (is_crowded && situation.circumstance == Circumstance::Plain).then(|| Change::packed(cpus))
}

#[cfg(test)]
mod tests {
    use super::super::corpus;
    use super::super::situation::Count;
    use super::*;

    fn cpus() -> Cpus {
        Cpus(vec![0, 1])
    }

    fn situation(name: &str, count: Count, circumstance: Circumstance) -> Situation {
        let program = corpus::all().into_iter().find(|program| program.name == name).unwrap();
        Situation { program, count, circumstance }
    }

    fn known_names(situation: &Situation) -> Vec<String> {
        known(situation, &Setting::of(situation, &cpus()), &cpus()).iter().map(Change::name).collect()
    }

    #[test]
    fn known_changes_are_those_that_alter_something() {
        let names = |name, count, circumstance| known_names(&situation(name, count, circumstance));
        let policies = ["OMP_WAIT_POLICY=passive", "OMP_WAIT_POLICY=active"];
        let more = [&["n=1", "n=2"], &policies[..], &["cox pack --cpus 0,1"]].concat();
        assert_eq!(names("kernel-cg", Count::OneMore, Circumstance::Plain), more);
        assert_eq!(names("kernel-cg", Count::Cpus, Circumstance::Plain), [&["n=1"], &policies[..]].concat());
        let passive = names("kernel-cg", Count::Cpus, Circumstance::Passive);
        assert_eq!(passive, ["n=1", "OMP_WAIT_POLICY=active", "unset OMP_WAIT_POLICY"]);
        assert_eq!(names("pigz", Count::Cpus, Circumstance::Bound), ["n=1", "taskset -c 0,1"]);
        assert!(names("kernel-cg", Count::Cpus, Circumstance::Places).contains(&"unset OMP_PLACES".to_owned()));
        assert_eq!(names("bound-openmpi", Count::Cpus, Circumstance::Plain).last().unwrap(), "--bind-to none");
        assert!(names("gzip", Count::One, Circumstance::Plain).is_empty());
    }

    #[test]
    fn the_same_setting_by_two_changes_is_the_same() {
        let situation = situation("kernel-cg", Count::OneMore, Circumstance::Plain);
        let setting = Setting::of(&situation, &cpus());
        let apply = |change: Change| change.apply(&setting, &situation, &cpus());
        assert_eq!(apply(Change::Set("OMP_NUM_THREADS".into(), "2".into())), apply(Change::Number(2)));
        let has = |name| {
            has_number(corpus::all().into_iter().find(|program| program.name == name).unwrap(), "OMP_NUM_THREADS")
        };
        assert!(has("regions") && has("gromacs") && !has("pigz") && !has("gzip"));
        assert_eq!(apply(Change::Allow(vec![0, 1])), Some(setting.clone()), "all CPUs are allowed already");
        assert_eq!(apply(Change::Alone), None, "no other program runs");
        assert_eq!(apply(Change::Unset(WAIT_POLICY.into())), None, "it is not set");
        assert_eq!(apply(Change::Quota(2.0)), None, "there is no quota");
        assert_eq!(apply(Change::Bind("none".into())), None, "no launcher binds it");
    }

    #[test]
    fn circumstances_can_be_undone() {
        let undone = |circumstance, change: Change| {
            let situation = situation("kernel-cg", Count::Cpus, circumstance);
            let plain = Setting::of(&Situation { circumstance: Circumstance::Plain, ..situation }, &cpus());
            change.apply(&Setting::of(&situation, &cpus()), &situation, &cpus()) == Some(plain)
        };
        assert!(undone(Circumstance::Bound, Change::Allow(vec![0, 1])));
        assert!(undone(Circumstance::Places, Change::Unset(PLACES.into())));
        assert!(undone(Circumstance::Passive, Change::Unset(WAIT_POLICY.into())));
        assert!(undone(Circumstance::Hog, Change::Alone));
        assert!(undone(Circumstance::Quota, Change::Quota(2.0)));
        assert!(!undone(Circumstance::Hog, Change::Number(1)));
    }
}
