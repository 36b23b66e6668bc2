//! The data from which a page is made.

use std::collections::{HashMap, HashSet};

use advise::numbers::{count, counted};
use ledger::Thread;
use ledger::summary::{threads as threads_of, unlisted};
use ledger::timeline::{Row, Timeline};

use super::asleep;
use crate::json::Document;
use crate::noise::Interrupted;

/// The data from which a page is made.
pub(super) struct View<'d> {
    pub(super) document: &'d Document,
    pub(super) timeline: &'d Timeline,
    /// The single interruptions of threads, if they are known.
    pub(super) interrupted: Option<&'d Interrupted>,
    /// Threads by id. If an id was reused, the entry is the later thread.
    pub(super) threads: HashMap<u32, &'d Thread>,
    /// The threads of each row. The key is the row's thread id; `None` is the row of all threads that have no row of their own. Any other row has
    /// several threads if a thread id was reused.
    pub(super) lives: HashMap<Option<u32>, Vec<&'d Thread>>,
    /// Number of threads without a row of their own.
    pub(super) others: u64,
    /// Rows that are folded up because their threads slept all the time; `None` is the row of all threads that have no row of their own.
    pub(super) asleep: HashSet<Option<u32>>,
}

impl<'d> View<'d> {
    pub(super) fn new(document: &'d Document, timeline: &'d Timeline) -> View<'d> {
        let account = &document.account;
        let threads: HashMap<u32, &Thread> = threads_of(account).map(|thread| (thread.tid, thread)).collect();
        let own = timeline.rows.iter().filter_map(|row| row.tid).collect::<HashSet<_>>();
        let mut lives: HashMap<Option<u32>, Vec<&Thread>> = HashMap::new();
        for thread in threads_of(account) {
            lives.entry(own.contains(&thread.tid).then_some(thread.tid)).or_default().push(thread);
        }
        let listed = lives.get(&None).map_or(0, Vec::len) as u64;
        let others = listed.saturating_add(account.lost.finals);
        for thread in unlisted(account).filter(|_| others > 0) {
            lives.entry(None).or_default().push(thread);
        }
        let asleep = asleep::rows(&lives);
        View { document, timeline, interrupted: None, threads, lives, others, asleep }
    }

    /// Formats a thread's name: `4711 heat`.
    pub(super) fn name(&self, tid: u32) -> String {
        self.threads.get(&tid).map_or_else(|| tid.to_string(), |thread| format!("{tid} {}", thread.comm))
    }

    /// Returns a row's name: the thread's name, or the name of the row with the mean of all other threads.
    pub(super) fn row_name(&self, row: &Row) -> String {
        row.tid.map_or_else(|| format!("{} more (mean)", count(self.others)), |tid| self.name(tid))
    }

    /// Returns how many threads a row stands for.
    pub(super) fn row_threads(&self, row: &Row) -> u64 {
        if row.tid.is_some() { 1 } else { self.others.max(1) }
    }

    /// Returns the rows that are always shown, and the rows that are folded up. The row of all other threads is left out if there are none.
    pub(super) fn rows(&self) -> (Vec<&'d Row>, Vec<&'d Row>) {
        let rows = self.timeline.rows.iter().filter(|row| row.tid.is_some() || self.others > 0);
        rows.partition(|row| !self.asleep.contains(&row.tid))
    }

    /// Returns the warning for each picture over time if trace events were lost.
    pub(super) fn holes(&self) -> Option<String> {
        let lost = self.timeline.lost_total();
        (lost > 0).then(|| format!("{} lost: hatched columns are incomplete.", counted(lost, "trace event")))
    }
}
