//! Counts what comes to the quiet CPUs while the program runs: interrupts, and what keeps ticks that could be stopped.
//!
//! Opening the counters interrupts the CPUs, as attaching the session's other engines does. So the counters are opened
//! first, and what they and /proc/interrupts have counted until the program starts is left out.

use machine::{CpuSet, Root};
use report::quiet::{Interrupts, KeptTicks, TickDependency};
use watch::ticks::{Kept, TickDependencies};

use crate::census::Census;

/// The row of /proc/interrupts with the local timer's interrupts.
const TICK: &str = "LOC";
/// Interrupts of the local timer that a CPU without tick has each second: timers that the kernel binds to it.
const TICKS_PER_S: f64 = 2.0;

/// Counters, and their values when the program started.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    cpus: CpuSet,
    /// Those whose tick the kernel can stop.
    tickless: CpuSet,
    /// What keeps these ticks, or why the kernel cannot be asked; `None` if there are none.
    ticks: Option<Result<TickDependencies, String>>,
    /// The kernel's counters of interrupts at the start, and when they were read, CLOCK_MONOTONIC ns.
    before: Option<(Census, u64)>,
}

/// What came to the quiet CPUs.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) interrupts: Vec<Interrupts>,
    /// Over which time, ns.
    pub(crate) length_ns: u64,
    pub(crate) ticks: Option<KeptTicks>,
}

impl Counting {
    /// Opens the counters of these CPUs. The kernel can stop the ticks of `nohz_full`.
    pub(crate) fn open(cpus: &CpuSet, nohz_full: &CpuSet) -> Counting {
        let tickless = cpus.intersection(nohz_full);
        let counters = || TickDependencies::on(&Root::live(), &tickless).map_err(|error| error.to_string());
        let ticks = (!tickless.is_empty()).then(counters);
        Counting { cpus: cpus.clone(), tickless, ticks, before: None }
    }

    /// Begins to count.
    pub(crate) fn start(&mut self) {
        if let Some(Ok(ticks)) = &mut self.ticks {
            ticks.restart();
        }
        self.before = Census::take(&Root::live()).ok().map(|census| (census, arch::monotonic_ns()));
    }

    /// Returns what was counted; nothing if /proc/interrupts cannot be read.
    pub(crate) fn end(&mut self) -> Counted {
        let now_ns = arch::monotonic_ns();
        let Some(((before, begin_ns), now)) = self.before.take().zip(Census::take(&Root::live()).ok()) else {
            return Counted::default();
        };
        let length_ns = now_ns.saturating_sub(begin_ns);
        let came = now.since(&before, &self.tickless);
        let ticks = came.iter().find(|row| row.row == TICK).map_or(0, |row| row.count);
        let per_s = ticks as f64 / (length_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
        let kept = self.ticks.take().unwrap_or_else(|| Err(String::new())).map(|counters| counters.read());
        let ticks = kept_ticks(&self.tickless, per_s, kept);
        Counted { interrupts: now.since(&before, &self.cpus), length_ns, ticks }
    }
}

/// Returns the ticks that went on although the kernel could have stopped them; `None` if there were next to none.
/// `per_s` is their number each second on all CPUs together.
fn kept_ticks(cpus: &CpuSet, per_s: f64, kept: Result<Vec<Kept>, String>) -> Option<KeptTicks> {
    if cpus.is_empty() || per_s <= TICKS_PER_S * cpus.len() as f64 {
        return None;
    }
    let dependency =
        |kept: Kept| TickDependency { name: kept.name.to_owned(), meaning: kept.meaning.to_owned(), count: kept.count };
    let (kept, unknown) = match kept {
        Ok(kept) => (kept, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    Some(KeptTicks {
        cpus: cpus.to_string(),
        per_s: per_s / cpus.len() as f64,
        dependencies: kept.into_iter().map(dependency).collect(),
        unknown,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn next_to_no_ticks_are_none() {
        let cpus: CpuSet = "2-3".parse().unwrap();
        assert_eq!(kept_ticks(&cpus, 3.9, Ok(Vec::new())), None);
        assert_eq!(kept_ticks(&CpuSet::new(), 250.0, Ok(Vec::new())), None);
        let kept = kept_ticks(&cpus, 502.0, Ok(Vec::new())).unwrap();
        assert_eq!((kept.cpus.as_str(), kept.per_s, kept.unknown), ("2-3", 251.0, None));
    }

    #[test]
    fn an_error_of_the_counters_is_kept() {
        let cpus: CpuSet = "2".parse().unwrap();
        let kept = kept_ticks(&cpus, 250.0, Err("Too many open files".to_owned())).unwrap();
        assert_eq!(kept.unknown.as_deref(), Some("Too many open files"));
    }
}
