//! The end of packing: restores everything and makes the summary.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arch::laps::{self, Part};

use watch::snapshots::run_ns;

use super::Manager;
use crate::live::kept::Kept;
use crate::live::summary::Summary;

impl<'p> Manager<'p> {
    /// Adds a diagnostic for threads that were not observed, and one for CPUs without rotation.
    fn complain(&mut self) {
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                self.summary.diagnostics.push(format!("{count} {what}"));
            }
        };
        say(
            u64::from(self.snapshots.table().without_place()),
            "threads were not packed: the table of observed threads is full (65,536 threads)",
        );
        let absent = self.shared.without_ticker.load(Ordering::Relaxed);
        say(
            u64::from(absent),
            "CPUs of the pack were left out of rotation: cox could not run there (offline, or not allowed), or had no timer (too many open files)",
        );
    }

    /// Lets the kernel place all threads, within the pack. Returns the summary, and what another manager can use.
    pub(super) fn finish(mut self, start_ns: u64, own_before_ns: u64) -> (Summary, Kept<'p>) {
        laps::done(Part::Running);
        self.summary.preloads = self.preload_pages.end();
        self.shared.tick_ns.store(0, Ordering::Release);
        self.shared.no_more_ticks.store(true, Ordering::Release);
        for ticker in self.tickers.drain(..) {
            ticker.thread().unpark();
            // Ignore a panic of the ticker: its only task was to end scheduling periods, and packing is over.
            let _ = ticker.join();
        }
        self.complain();
        let own_ns = self.own.charged_ns();
        self.summary.own_ns = self.own.ns().saturating_sub(own_before_ns);
        if let Ok(mut core) = self.shared.core.lock() {
            for newcomer in &self.newcomers {
                let snapshot = self.shared.sensors.table.read(newcomer.place);
                let run_ns = snapshot.map_or(0, |snapshot| run_ns(&snapshot, arch::monotonic_ns()));
                core.controller.passed(run_ns.saturating_sub(newcomer.met_run_ns));
            }
            let trial = &mut self.trial;
            let (end_ns, seen) = core.decide(&self.shared.sensors, |controller, now_ns, sense, orders| {
                let seen = trial.as_mut().map(|trial| trial.end(controller, now_ns, own_ns, sense));
                controller.end(now_ns, own_ns, sense, orders);
                (now_ns, seen)
            });
            self.summary.trial = seen;
            self.summary.wall_ns = end_ns - start_ns;
            self.summary.slots_ns = self.summary.wall_ns * self.shared.sensors.cpus.len() as u64;
            self.summary.totals = core.controller.totals();
            self.summary.measured = core.controller.measured();
            (self.summary.without, self.summary.with) = core.controller.efficiencies();
            self.summary.log = core.log.take().unwrap_or_default();
            if let Some(first) = &core.failures.first {
                let count = core.failures.count;
                let failed = format!("{count} changes of affinity masks failed; the first one: {first}");
                self.summary.diagnostics.push(failed);
            }
        }
        // Also take control of threads that were created since the manager's last pass: they may have inherited changed
        // masks, which must be restored.
        let met = self.snapshots.poll_at_once().map_err(crate::live::Error::from).and_then(|()| self.meet());
        if let Err(error) = met {
            self.summary.diagnostics.push(error.to_string());
        }
        self.summary.others = self.snapshots.others();
        for living in &self.living {
            *self.summary.living.entry(living.tgid).or_default() += usize::from(living.member.is_some());
        }
        for newcomer in &self.newcomers {
            *self.summary.living.entry(newcomer.tgid).or_default() += 1;
        }
        laps::done(Part::Closing);
        // Dropping the snapshots' backend detaches the BPF programs, if there are any.
        drop(self.snapshots);
        laps::done(Part::Detaching);
        // No ticker has the shared state any more, unless one of them was never started.
        let shared = Arc::into_inner(self.shared);
        let (mode, spins) = shared.map_or_else(Default::default, |shared| {
            let mode = shared.core.into_inner().ok().map(|core| core.controller.into_mode());
            (mode, shared.sensors.spins)
        });
        let works = self.works;
        (
            self.summary,
            Kept { own: self.own, holder: self.holder, orphans: self.orphans, judge: self.judge, spins, mode, works },
        )
    }
}
