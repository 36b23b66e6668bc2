//! The section of the noise engine on a program, as a part of the report, of traces and of pages.

use std::collections::{BTreeMap, HashMap};

use interference::account::Sum;
use interference::{Cause, CauseId, Interval};
use ledger::Account;
use noise::phases::Phases;
use noise::program::Taken;
use report::noise::{Interrupted, ProgramNoise, TakenFromThreads, ThreadNoise};
use trace::{Interruption, Interruptions};

use super::noise::KernelNames;

/// Returns the part of the report.
pub fn document(taken: &Taken, phases: Option<&Phases>, account: &Account) -> ProgramNoise {
    let names = KernelNames::with(&taken.functions);
    let causes = taken.causes.all();
    let mut totals: BTreeMap<CauseId, (u64, u64, Sum)> = BTreeMap::new();
    let mut threads = Vec::new();
    let comms: HashMap<u32, &str> = threads_of(account).map(|thread| (thread.tid, thread.comm.as_str())).collect();
    for tid in taken.account.threads() {
        let scale = Scale::of_thread(taken, tid);
        let mut by_cause = Vec::new();
        for (cause, sum) in taken.account.of_thread(tid) {
            let row = scale.row(cause, &causes[cause.0 as usize], sum);
            let (count, inside_ns, total) = totals.entry(cause).or_default();
            *count += row.count;
            *inside_ns += row.inside_ns;
            total.lengths.add(&sum.lengths);
            by_cause.push(row);
        }
        threads.push(ThreadNoise { tid, comm: comms.get(&tid).copied().unwrap_or_default().to_owned(), by_cause });
    }
    let mut total: Vec<TakenFromThreads> = totals
        .into_iter()
        .map(|(cause, (count, inside_ns, sum))| TakenFromThreads { count, inside_ns, ..row(cause, &sum) })
        .collect();
    total.sort_by_key(|row| (std::cmp::Reverse(row.inside_ns), row.cause));
    let by_threads =
        |row: &&TakenFromThreads| matches!(causes[row.cause as usize], Cause::Thread { .. } | Cause::Work { .. });
    let taken_by_threads_ns = total.iter().filter(by_threads).map(|row| row.inside_ns).sum();
    let all_ns: u64 = total.iter().map(|row| row.inside_ns).sum();
    ProgramNoise {
        blind: taken.blind.clone(),
        causes: causes.iter().map(|cause| names.cause(cause)).collect(),
        total,
        threads,
        thread_time_ns: threads_of(account).map(|thread| thread.wall_ns).sum(),
        taken_from_run_ns: all_ns - taken_by_threads_ns,
        taken_by_threads_ns,
        events: taken.events,
        lost: taken.lost,
        without: taken.without.clone(),
        phases: phases.map(of_phases),
    }
}

fn of_phases(phases: &Phases) -> report::noise::Phases {
    let count = phases.lengths.iter().map(|length| length.1).sum();
    report::noise::Phases {
        unknown: phases.unknown.map(str::to_owned),
        between: phases.between.iter().map(|name| (*name).to_owned()).collect(),
        processes: phases.processes,
        count,
        mean_ns: phases.sum_ns.checked_div(count).unwrap_or(0),
        longest_ns: phases.longest_ns,
        lengths: phases.lengths.clone(),
    }
}

/// Returns the single interruptions for traces. `noise` has the names of causes.
pub fn interruptions(taken: &Taken, noise: &ProgramNoise) -> Interruptions {
    let one = |interval: &Interval| Interruption {
        tid: interval.tid,
        cpu: interval.cpu,
        begin_ns: interval.span.begin_ns,
        end_ns: interval.span.end_ns,
        cause: interval.cause.0,
    };
    Interruptions {
        causes: noise.causes.iter().map(|cause| (cause.name.clone(), cause.class.clone())).collect(),
        all: taken.listing.all().iter().map(one).collect(),
        left_out: taken.listing.left_out(),
    }
}

/// Returns the single interruptions for a picture of the time from `begin_ns` to `end_ns` (CLOCK_MONOTONIC).
pub fn over_time(taken: &Taken, (begin_ns, end_ns): (u64, u64)) -> Interrupted {
    let one = |interval: &Interval| {
        (interval.span.begin_ns.saturating_sub(begin_ns), interval.span.inside_ns, interval.cause.0)
    };
    Interrupted {
        all: taken.listing.all().iter().map(one).collect(),
        length_ns: end_ns.saturating_sub(begin_ns),
        left_out: taken.listing.left_out(),
    }
}

fn threads_of(account: &Account) -> impl Iterator<Item = &ledger::account::Thread> {
    account.programs.iter().flat_map(|program| &program.processes).flat_map(|process| &process.threads)
}

/// By how much the measured page faults of a thread are fewer than all.
struct Scale(f64);

impl Scale {
    fn of_thread(taken: &Taken, tid: u32) -> Scale {
        let is_fault = |cause: CauseId| matches!(taken.causes.get(cause), Cause::Fault { .. });
        let measured: u64 = taken
            .account
            .of_thread(tid)
            .iter()
            .filter(|(cause, _)| is_fault(*cause))
            .map(|(_, sum)| sum.lengths.count())
            .sum();
        let all = taken.faults.iter().find(|(of, _)| *of == tid).map_or(0, |(_, count)| *count);
        Scale(if measured == 0 { 1.0 } else { (all as f64 / measured as f64).max(1.0) })
    }

    fn row(&self, cause: CauseId, of: &Cause, sum: &Sum) -> TakenFromThreads {
        let mut row = row(cause, sum);
        if matches!(of, Cause::Fault { .. }) {
            row.count = (row.count as f64 * self.0).round() as u64;
            row.inside_ns = (row.inside_ns as f64 * self.0).round() as u64;
        }
        row
    }
}

fn row(cause: CauseId, sum: &Sum) -> TakenFromThreads {
    TakenFromThreads {
        cause: cause.0,
        count: sum.lengths.count(),
        inside_ns: sum.inside_ns,
        median_ns: sum.lengths.median_ns(),
        longest_ns: sum.lengths.longest_ns(),
    }
}
