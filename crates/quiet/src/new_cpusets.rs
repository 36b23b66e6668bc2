//! Cpusets of version 1 that are made while CPUs are quiet: by default they get all CPUs of the one around them, and so the
//! quiet ones, if that is the root cpuset. Nothing announces them (inotify reports no new cgroup of version 1), so they are
//! listed again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use machine::CpuSet;

use crate::cpusets::{Loss, is_own, losses};

/// How many cpusets are listed in each sweep on average, which takes about a millisecond. With more of them, they are listed
/// less often.
const PER_SWEEP: usize = 128;

/// What is known of the cpusets.
#[derive(Debug, Default)]
pub(crate) struct NewCpusets {
    /// Those that the session has changed, or cannot change. Somebody who gives such a one other CPUs later keeps them.
    settled: BTreeSet<PathBuf>,
    /// Those that keep quiet CPUs, each with the reason.
    keeping: BTreeMap<PathBuf, String>,
    /// In how many sweeps they are not listed.
    pause: usize,
}

impl NewCpusets {
    /// Begins with the cpusets that exist before the plan is applied. The plan has named those that have quiet CPUs only.
    pub(crate) fn since(
        existing: &BTreeMap<PathBuf, CpuSet>,
        planned: impl IntoIterator<Item = PathBuf>,
        quiet: &CpuSet,
    ) -> NewCpusets {
        let only_quiet = existing.iter().filter(|(_, cpus)| !cpus.is_empty() && cpus.is_subset(quiet));
        let settled = only_quiet.map(|(folder, _)| folder.clone()).chain(planned).collect();
        NewCpusets { settled, ..NewCpusets::default() }
    }

    /// Returns whether the cpusets should be listed in this sweep.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    /// Returns what new cpusets lose of the quiet CPUs that they have, the inner ones first. `now` are all cpusets.
    pub(crate) fn losses(&mut self, now: &BTreeMap<PathBuf, CpuSet>, mount: &Path, quiet: &CpuSet) -> Vec<Loss> {
        self.pause = now.len() / PER_SWEEP;
        let has_some = |folder: &PathBuf| !now[folder].intersection(quiet).is_empty();
        let is_new = |settled: &BTreeSet<PathBuf>, folder: &PathBuf| {
            !settled.contains(folder) && !is_own(folder, mount) && has_some(folder)
        };
        // Usually there is none.
        if !now.keys().any(|folder| is_new(&self.settled, folder)) {
            return Vec::new();
        }
        let mut new = losses(now, quiet);
        new.retain(|loss| is_new(&self.settled, &loss.folder));
        for loss in &new {
            let its = &now[&loss.folder];
            self.settled.insert(loss.folder.clone());
            if its.is_subset(quiet) {
                self.keep(&loss.folder, format!("it has no CPU but {its}"));
            }
        }
        new.retain(|loss| !now[&loss.folder].intersection(&loss.cpus).is_empty());
        new
    }

    /// Notes that a cpuset keeps its CPUs.
    pub(crate) fn keep(&mut self, folder: &Path, why: String) {
        self.keeping.insert(folder.to_owned(), why);
    }

    /// Returns a line for each cpuset that keeps quiet CPUs.
    pub(crate) fn keeping(&self) -> impl Iterator<Item = String> {
        let line = |(folder, why): (&PathBuf, &String)| {
            format!("cpuset {}, which was made meanwhile, may use the quiet CPUs: {why}", folder.display())
        };
        self.keeping.iter().map(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cpusets_are_listed_less_often() {
        let quiet = "1".parse().unwrap();
        let mut new = NewCpusets::default();
        let many = (0..3 * PER_SWEEP).map(|number| (PathBuf::from(format!("/m/{number}")), CpuSet::new())).collect();
        assert!(new.is_due() && new.losses(&many, Path::new("/m"), &quiet).is_empty());
        let due: Vec<bool> = (0..5).map(|_| new.is_due()).collect();
        assert_eq!(due, [false, false, false, true, true]);
    }
}
