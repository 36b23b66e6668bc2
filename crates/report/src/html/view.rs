//! What a page is made of.

use std::collections::{HashMap, HashSet};

use advise::numbers::counted;
use ledger::Thread;
use ledger::summary::threads as threads_of;
use ledger::timeline::{Row, Timeline};

use super::asleep;
use crate::json::Document;

/// What a page is made of.
pub(super) struct View<'d> {
    pub(super) document: &'d Document,
    pub(super) timeline: &'d Timeline,
    /// Of an id that was used twice, the later.
    pub(super) threads: HashMap<u32, &'d Thread>,
    /// Threads without a row of their own.
    pub(super) others: u64,
    /// Rows of threads that slept all the time, and are folded up; `None`: the row of all others.
    pub(super) asleep: HashSet<Option<u32>>,
}

impl<'d> View<'d> {
    pub(super) fn new(document: &'d Document, timeline: &'d Timeline) -> View<'d> {
        let threads: HashMap<u32, &Thread> = threads_of(&document.account).map(|thread| (thread.tid, thread)).collect();
        let own = timeline.rows.iter().filter_map(|row| row.tid).collect::<HashSet<_>>();
        let listed = threads_of(&document.account).filter(|thread| !own.contains(&thread.tid)).count() as u64;
        let others = listed.saturating_add(document.account.lost.finals);
        let asleep = asleep::rows(&document.account, &own, others);
        View { document, timeline, threads, others, asleep }
    }

    /// `4711 heat`.
    pub(super) fn name(&self, tid: u32) -> String {
        self.threads.get(&tid).map_or_else(|| tid.to_string(), |thread| format!("{tid} {}", thread.comm))
    }

    /// What a row is called: a thread, or the mean of all others.
    pub(super) fn row_name(&self, row: &Row) -> String {
        row.tid.map_or_else(|| format!("{} (mean)", self.others_name()), |tid| self.name(tid))
    }

    /// `1,940 more`.
    pub(super) fn others_name(&self) -> String {
        format!("{} more", advise::numbers::count(self.others))
    }

    /// How many threads a row stands for.
    pub(super) fn row_threads(&self, row: &Row) -> u64 {
        if row.tid.is_some() { 1 } else { self.others.max(1) }
    }

    /// Rows that have something to show: that of all others only if there are others. First those that are always seen, then those that are folded up.
    pub(super) fn rows(&self) -> (Vec<&'d Row>, Vec<&'d Row>) {
        let rows = self.timeline.rows.iter().filter(|row| row.tid.is_some() || self.others > 0);
        rows.partition(|row| !self.asleep.contains(&row.tid))
    }

    /// What has to be said on the face of each picture over time.
    pub(super) fn holes(&self) -> Option<String> {
        let lost = self.timeline.lost_total();
        (lost > 0).then(|| format!("{} lost: hatched columns are incomplete.", counted(lost, "trace event")))
    }
}
