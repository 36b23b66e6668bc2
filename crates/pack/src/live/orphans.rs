//! Orphans: processes of the program whose parent has ended, as when a daemon starts.
//!
//! /proc names the children of each process, but those of a process that has ended only below its *reaper*. While cox
//! packs a program that it has started, cox is the reaper of the program's descendants (PR_SET_CHILD_SUBREAPER, prctl(2)),
//! so that it finds them and can restore their masks. Once cox has ended, they are children of the reaper that they
//! would have had without cox.

use std::collections::BTreeSet;
use std::process;

use machine::Root;
use machine::process::Task;
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

/// The name of cox's helper with privileges, which is a child of cox, too.
const HELPER: &str = "cox-observe";

/// Shortest time between two looks at cox's children, ns.
const LOOK_NS: u64 = 50_000_000;

/// cox as the reaper of the program's orphans.
pub struct Orphans {
    root: Root,
    looked_ns: u64,
    /// Children of cox that are not orphans of the program.
    ours: BTreeSet<u32>,
    /// Orphans that have not ended.
    living: BTreeSet<u32>,
}

impl Orphans {
    /// Makes cox the reaper of all its descendants. Must be called before the program runs. If the kernel refuses, no
    /// orphans are found.
    pub fn reap() -> Orphans {
        let _ = set_child_subreaper(Some(getpid()));
        let mut orphans = Orphans { root: Root::live(), looked_ns: 0, ours: BTreeSet::new(), living: BTreeSet::new() };
        orphans.ours = orphans.children();
        orphans
    }

    /// Like [`Orphans::look`], but finds none if the last look was less than [`LOOK_NS`] ago.
    pub fn new_ones(&mut self) -> Vec<u32> {
        if arch::monotonic_ns() < self.looked_ns + LOOK_NS { Vec::new() } else { self.look() }
    }

    /// Returns the orphans that have appeared since the last look. Reaps those that have ended.
    pub fn look(&mut self) -> Vec<u32> {
        self.looked_ns = arch::monotonic_ns();
        let ended = |pid: &u32| {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            pid.is_none_or(|pid| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
        };
        self.living.retain(|pid| !ended(pid));
        let name = |pid: u32| Task::process(&self.root, pid).stat().map(|stat| stat.comm).unwrap_or_default();
        let own = name(process::id());
        // A child that is called like cox is one that cox has just forked. The next look knows what it has become.
        let is_ours = |pid: u32| [HELPER, &own].contains(&&*name(pid));
        let children = self.children();
        self.ours.retain(|pid| children.contains(pid));
        let strange = children.into_iter().filter(|pid| !self.ours.contains(pid) && !self.living.contains(pid));
        let new: Vec<u32> = strange.filter(|&pid| !is_ours(pid)).collect();
        self.living.extend(&new);
        new
    }

    /// Returns the children of cox.
    fn children(&self) -> BTreeSet<u32> {
        Task::process(&self.root, process::id()).children().into_iter().collect()
    }
}

impl Drop for Orphans {
    /// Orphans that appear from now on are not cox's.
    fn drop(&mut self) {
        let _ = set_child_subreaper(None);
    }
}
