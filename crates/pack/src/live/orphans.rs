//! Orphans: processes of the program whose parent has ended, as when a daemon starts.
//!
//! /proc names the children of each process, but those of a process that has ended only below its *reaper*. While cox
//! packs a program that it has started, cox is the reaper of the program's descendants (PR_SET_CHILD_SUBREAPER, prctl(2)),
//! so that it finds them all and can restore their masks. Once cox has ended, they are children of the reaper that they
//! would have had without cox.

use std::collections::BTreeSet;
use std::process;

use machine::Root;
use machine::process::Task;
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

/// The name of cox's helper with privileges, which is a child of cox, too.
const HELPER: &str = "cox-observe";

/// cox as the reaper of the program's orphans.
pub struct Orphans {
    root: Root,
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
        let mut orphans = Orphans { root: Root::live(), ours: BTreeSet::new(), living: BTreeSet::new() };
        orphans.ours = orphans.children();
        orphans
    }

    /// Returns the orphans that have appeared since the last call. Reaps those that have ended.
    pub fn new_ones(&mut self) -> Vec<u32> {
        let ended = |pid: &u32| {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            pid.is_none_or(|pid| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
        };
        self.living.retain(|pid| !ended(pid));
        let is_helper = |pid: u32| Task::process(&self.root, pid).stat().is_ok_and(|stat| stat.comm == HELPER);
        let strange = self.children().into_iter().filter(|pid| !self.ours.contains(pid) && !self.living.contains(pid));
        let (helpers, new): (Vec<u32>, Vec<u32>) = strange.partition(|&pid| is_helper(pid));
        self.ours.extend(helpers);
        self.living.extend(&new);
        new
    }

    /// Returns the children of cox.
    fn children(&self) -> BTreeSet<u32> {
        let own = process::id();
        let tids = Task::process(&self.root, own).threads().unwrap_or_default();
        let children = |tid| Task::thread(&self.root, own, tid).children_of_thread().unwrap_or_default();
        tids.into_iter().flat_map(children).collect()
    }
}

impl Drop for Orphans {
    /// Orphans that appear from now on are not cox's.
    fn drop(&mut self) {
        let _ = set_child_subreaper(None);
    }
}
