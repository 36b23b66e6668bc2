//! The section of the noise engine on a program, as a part of the report, of traces and of pages.

use std::collections::{BTreeMap, HashMap};

use interference::account::Sum;
use interference::{Cause, CauseId, Interval};
use ledger::Account;
use noise::phases::Phases;
use noise::program::{FAULT_PERIOD, Taken};
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
        let mut by_cause = Vec::new();
        for (cause, sum) in taken.account.of_thread(tid) {
            let row = scaled(cause, &causes[cause.0 as usize], sum);
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

/// Returns what a cause took from a thread. Of page faults, one in [`FAULT_PERIOD`] on each CPU is seen, whichever thread it is of: minor and major ones
/// are counted apart, both with this period. So the seen faults of a thread times the period are an unbiased estimate of all. The number of faults up to
/// the last seen one is not: it stops at a fault that was seen.
fn scaled(cause: CauseId, of: &Cause, sum: &Sum) -> TakenFromThreads {
    let row = row(cause, sum);
    match of {
        Cause::Fault { .. } => {
            TakenFromThreads { count: row.count * FAULT_PERIOD, inside_ns: row.inside_ns * FAULT_PERIOD, ..row }
        }
        _ => row,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread with 5 faults of which one was seen has 11 by estimate: of eleven such threads, five would have none.
    #[test]
    fn page_faults_are_as_many_as_the_period_says() {
        let mut sum = Sum { inside_ns: 700, ..Sum::default() };
        sum.lengths.take(700);
        for major in [false, true] {
            let row = scaled(CauseId(3), &Cause::Fault { in_kernel: false, major }, &sum);
            assert_eq!((row.cause, row.count, row.inside_ns, row.longest_ns), (3, 11, 7_700, 700));
        }
        let row = scaled(CauseId(3), &Cause::Irq(7), &sum);
        assert_eq!((row.count, row.inside_ns), (1, 700));
    }
}
