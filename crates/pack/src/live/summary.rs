//! The result of packing a program.

use std::collections::BTreeMap;

use watch::snapshots::Others;
use wire::Backend;

use super::managed::Holder;
use super::preload_pages::PreloadSummary;
use crate::policy::Why;
use crate::policy::controller::Totals;
use crate::policy::mode::Measured;
use crate::trial::Seen;

/// The result of packing a program.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Length of the session, ns.
    pub wall_ns: u64,
    /// Time of all CPUs of the pack: their number times the length of the session, ns.
    pub slots_ns: u64,
    /// Number of threads that were packed.
    pub threads: usize,
    /// True if packing never began: at no look did more threads run than the pack has CPUs, or a profile of them promised
    /// no gain.
    pub only_watched: bool,
    /// How often the threads were sampled to see whether packing might help them, before it began.
    pub profiles: u64,
    /// Number of looks that found more running threads than CPUs, but none worth a profile.
    pub short_bursts: u64,
    /// How many of these threads still existed at the end, by process id.
    pub living: BTreeMap<u32, usize>,
    /// Sums over the session: observations and CPU time of the threads, and how long threads were rotated over the
    /// CPUs.
    pub totals: Totals,
    /// Efficiency without rotation: useful CPU time ÷ time of the pack's CPUs; `None` if it was not measured.
    pub without: Option<f64>,
    /// Efficiency without rotation in all windows in which it was measured; `None` if there was none.
    pub measured: Option<Measured>,
    /// Efficiency while threads were rotated, with the scheduling period that was used last: useful CPU time ÷ time of
    /// the pack's CPUs; `None` if it was not measured.
    pub with: Option<f64>,
    /// CPU time of packing itself: of all threads of this process except the session's thread, ns.
    pub own_ns: u64,
    /// Number of threads whose original affinity mask was restored, or that had ended.
    pub restored: usize,
    /// What the preload libraries did, and the processes whose libgomp spins.
    pub preloads: PreloadSummary,
    /// What other programs ran on the pack's CPUs, by name, most CPU time first. Without BPF, only what /proc shows.
    pub others: Others,
    /// CPU time of other programs on the pack's CPUs, ns; `None` if it was not measured.
    pub others_ns: Option<u64>,
    /// The backend that observed the threads; `None` if the manager has failed.
    pub backend: Option<Backend>,
    /// Why a better backend was not used, if it was tried.
    pub passed_over: Option<String>,
    /// The changes that were not restored, one line each. The diagnostics have them, too.
    pub unrestored: Vec<String>,
    /// Diagnostics: what could not be done.
    pub diagnostics: Vec<String>,
    /// The orders that were carried out, if a log was wanted.
    pub log: Vec<Placed>,
    /// What a trial has measured; `None` without a trial.
    pub trial: Option<Seen>,
}

/// An order of the policy (a new affinity mask for a thread) that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Time on CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// The thread's id.
    pub tid: u32,
    /// The new CPU and the reason; `None`: the kernel places the thread within the pack.
    pub to: Option<(u32, Why)>,
}

impl Summary {
    /// Ends a session's changes, which restores all masks. Adds the result, and what could not be changed.
    pub(super) fn restore(&mut self, holder: Holder<'_>) {
        let left = holder.left();
        if let Some(why) = &left.first {
            self.diagnostics
                .push(format!("{} threads were not packed; the reason for the first one: {why}", left.count));
        }
        self.diagnostics.extend_from_slice(holder.inherited());
        let undone = holder.end();
        self.restored += undone.restored + undone.gone;
        self.unrestored.extend(undone.failures());
        self.diagnostics.extend(undone.left.iter().map(ToString::to_string));
        self.diagnostics.extend(undone.troubles);
    }

    /// Adds the summary of a later part of the same pack. Efficiencies are those of the later part, if it has any.
    #[must_use]
    pub(super) fn continued(self, later: Summary) -> Summary {
        let later = Summary {
            without: later.without.or(self.without),
            with: later.with.or(self.with),
            measured: later.measured.or(self.measured),
            only_watched: self.only_watched && later.only_watched,
            profiles: self.profiles + later.profiles,
            short_bursts: self.short_bursts + later.short_bursts,
            backend: if later.only_watched { self.backend.or(later.backend) } else { later.backend },
            passed_over: later.passed_over.or_else(|| self.passed_over.clone()),
            ..later
        };
        self.then(later)
    }

    /// Adds the summary of a later pack of the same program on other CPUs. Efficiencies are those of the later pack. A
    /// thread that is in both counts once.
    #[must_use]
    pub fn then(self, later: Summary) -> Summary {
        let met_again: usize = self.living.values().sum();
        let mut totals = self.totals;
        totals.add(&later.totals);
        Summary {
            wall_ns: self.wall_ns + later.wall_ns,
            slots_ns: self.slots_ns + later.slots_ns,
            threads: self.threads + later.threads.saturating_sub(met_again),
            totals,
            own_ns: self.own_ns + later.own_ns,
            restored: self.restored + later.restored.saturating_sub(met_again),
            preloads: self.preloads.then(later.preloads),
            others: together(self.others, &later.others),
            others_ns: [self.others_ns, later.others_ns].into_iter().flatten().reduce(|one, two| one + two),
            unrestored: [self.unrestored, later.unrestored].concat(),
            diagnostics: [self.diagnostics, later.diagnostics].concat(),
            log: [self.log, later.log].concat(),
            ..later
        }
    }
}

/// Adds CPU times by program name; most CPU time first.
fn together(mut others: Others, later: &Others) -> Others {
    others.at_most |= later.at_most;
    for one in &later.programs {
        match others.programs.iter_mut().find(|other| other.comm == one.comm) {
            Some(other) => other.ran_ns += one.ran_ns,
            None => others.programs.push(one.clone()),
        }
    }
    others.programs.sort_by_key(|other| std::cmp::Reverse(other.ran_ns));
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Wasteful;

    #[test]
    fn others_of_two_packs_are_added_up_by_name() {
        use watch::snapshots::Other;
        let other = |comm: &str, ran_ns| Other { comm: comm.into(), ran_ns };
        let first = Others { programs: vec![other("apt", 5), other("hog", 3)], at_most: false };
        let second = Others { programs: vec![other("hog", 4), other("cron", 1)], at_most: true };
        let both = Others { programs: vec![other("hog", 7), other("apt", 5), other("cron", 1)], at_most: true };
        assert_eq!(together(first, &second), both);
    }

    #[test]
    fn two_packs_of_one_program_are_one_session() {
        let wasteful = |pid| Wasteful { pid, cpus_at_start: 4, refused: false };
        let unread = |pid: u32| (pid, "why".to_owned());
        let first = Summary {
            wall_ns: 10,
            slots_ns: 20,
            threads: 5,
            living: [(1, 2), (7, 1)].into(),
            totals: Totals { run_ns: 15, rotating_ns: 4, period_ns: 500, ..Totals::default() },
            without: Some(0.5),
            own_ns: 1,
            restored: 5,
            preloads: PreloadSummary {
                preloaded: 2,
                throttled: 1,
                wasteful: vec![wasteful(1)],
                unread: vec![unread(1)],
            },
            diagnostics: vec!["one".into()],
            ..Summary::default()
        };
        let second = Summary {
            wall_ns: 30,
            slots_ns: 90,
            threads: 4,
            living: [(1, 4)].into(),
            totals: Totals { run_ns: 80, rotating_ns: 6, period_ns: 250, ..Totals::default() },
            without: Some(0.8),
            own_ns: 2,
            restored: 4,
            preloads: PreloadSummary {
                preloaded: 2,
                throttled: 2,
                wasteful: vec![wasteful(1), wasteful(2)],
                unread: vec![unread(7)],
            },
            ..Summary::default()
        };
        let both = first.then(second);
        assert_eq!((both.wall_ns, both.slots_ns, both.own_ns), (40, 110, 3));
        assert_eq!((both.threads, both.restored), (6, 6), "three were met again");
        assert_eq!(both.living, [(1, 4)].into());
        assert_eq!(both.totals, Totals { run_ns: 95, rotating_ns: 10, period_ns: 250, ..Totals::default() });
        assert_eq!(both.without, Some(0.8));
        let (wasteful, unread) = (vec![wasteful(1), wasteful(2)], vec![unread(1), unread(7)]);
        assert_eq!(both.preloads, PreloadSummary { preloaded: 2, throttled: 2, wasteful, unread });
        assert_eq!(both.diagnostics, ["one"]);
    }
}
