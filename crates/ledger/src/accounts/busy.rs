//! Splits wall time into the times in which 0, 1, 2, … CPUs were busy with the program.
//!
//! The times are computed from levels (`wire/include/cox/cells.h`): level k is the time in which more than k CPUs were busy. The levels sum to the
//! run time of all threads. If lost events make the two differ, the times are not reported.

use wire::Record;

use crate::account::Program;
use crate::summary::threads_of;

/// Largest allowed difference between the sum of the levels and the run time of all threads. The two differ because they are read at different times:
/// first the clocks of living threads, one after another, and then the levels.
const SLACK_NS: u64 = 10_000_000;
const SLACK_PARTS: u64 = 100;

/// Returns for 0, 1, 2, … the time, ns, in which that number of CPUs was busy with the program. The times sum to the program's wall time, or to more
/// if threads still run after the program's first process has ended. `None` if the times are not known.
pub(super) fn by_number(record: &Record, program: &Program) -> Option<Vec<u64>> {
    let more_than_ns = record.busy_more_than_ns()?;
    let busy_ns = more_than_ns.iter().copied().fold(0, u64::saturating_add);
    let run_ns = threads_of(program).chain(&program.unlisted).map(|thread| thread.run_ns).fold(0, u64::saturating_add);
    if busy_ns.abs_diff(run_ns) > SLACK_NS.saturating_add(run_ns / SLACK_PARTS) {
        return None;
    }
    let levels = within(longest_ns(record, program), falling(&more_than_ns));
    let at_least_ns = std::iter::once(program.wall_ns).chain(levels);
    let mut at_least_ns: Vec<u64> = at_least_ns.collect();
    while at_least_ns.len() > 1 && at_least_ns.last() == Some(&0) {
        at_least_ns.pop();
    }
    let more = at_least_ns.iter().skip(1).chain(&[0]);
    Some(at_least_ns.iter().zip(more).map(|(at_least, more)| at_least.saturating_sub(*more)).collect())
}

/// Returns the time in which threads of the program can have run: from the creation of the first thread to the end of the last one. If some threads
/// have no account of their own, it is the whole window.
fn longest_ns(record: &Record, program: &Program) -> u64 {
    let window_ns = record.end_ns.saturating_sub(record.start_ns);
    let first_ns = threads_of(program).map(|thread| thread.born_ns).min();
    let last_ns = threads_of(program).map(|thread| thread.born_ns.saturating_add(thread.wall_ns)).max();
    match (first_ns, last_ns, &program.unlisted) {
        (Some(first_ns), Some(last_ns), None) => last_ns.saturating_sub(first_ns).min(window_ns),
        _ => window_ns,
    }
}

/// Returns levels of which none is longer than `longest_ns`: what exceeds it is added to the next level, and dropped from the last one. A level is too
/// long if a CPU was counted late (see [`falling`]).
fn within(longest_ns: u64, levels: Vec<u64>) -> Vec<u64> {
    let mut excess_ns = 0u64;
    let kept = levels.into_iter().map(|ns| {
        let all_ns = ns.saturating_add(excess_ns);
        let kept_ns = all_ns.min(longest_ns);
        excess_ns = all_ns - kept_ns;
        kept_ns
    });
    kept.collect()
}

/// Returns corrected levels, of which none is longer than the one before it, with the same sum: if a level is longer than the one before, both get
/// their mean.
///
/// Level k is the time in which more than k CPUs were busy, so level k + 1 cannot be longer than level k. The measured levels contradict this if a
/// CPU was counted late: if its switch-in was not traced (`recover_switch_in` in `clocks.bpf.h`), or if the hypervisor stopped it between the switch
/// and the count. Its time is then added to a wrong level, but the sum of all levels is right.
fn falling(levels: &[u64]) -> Vec<u64> {
    // Groups of adjacent levels that are replaced by their mean: the sum and the number of the levels in each group (pool-adjacent-violators
    // algorithm).
    let mut pools: Vec<(u64, u64)> = Vec::new();
    for level in levels {
        let mut last = (*level, 1);
        while let Some((sum, count)) = pools.pop_if(|(sum, count)| *sum / *count < last.0.div_ceil(last.1)) {
            last = (last.0 + sum, last.1 + count);
        }
        pools.push(last);
    }
    // If the sum of a group cannot be divided evenly, its first levels get a nanosecond more.
    pools.iter().flat_map(|(sum, count)| (0..*count).map(move |at| sum / count + u64::from(at < sum % count))).collect()
}

#[cfg(test)]
mod tests {
    use wire::Backend;
    use wire::cells::Levels;

    use super::*;
    use crate::account::{Process, Thread};

    const S: u64 = 1_000_000_000;

    /// Of 10 s, one CPU was busy from 2 s on, a second one from 5 to 9 s.
    fn record() -> Record {
        let mut levels = Levels::default();
        levels.come(102 * S);
        levels.come(105 * S);
        levels.leave(109 * S);
        Record { levels, ..Record::new(Backend::Perf, 100 * S, 110 * S) }
    }

    fn ran(run_ns: u64, wall_ns: u64) -> Program {
        let threads = vec![Thread { run_ns, wall_ns: 10 * S, ..Thread::default() }];
        Program { wall_ns, processes: vec![Process { threads, ..Process::default() }], ..Program::default() }
    }

    #[test]
    fn wall_time_is_divided_by_how_many_were_busy() {
        assert_eq!(by_number(&record(), &ran(12 * S, 10 * S)), Some(vec![2 * S, 4 * S, 4 * S]));
        // It went on for a second when its first process had ended.
        assert_eq!(by_number(&record(), &ran(12 * S, 7 * S)), Some(vec![0, 4 * S, 4 * S]));
    }

    #[test]
    fn what_contradicts_run_time_is_not_said() {
        assert_eq!(by_number(&record(), &ran(11 * S, 10 * S)), None);
        let never = Record::new(Backend::Perf, 100 * S, 110 * S);
        assert_eq!(by_number(&never, &ran(0, 10 * S)), Some(vec![10 * S]));
    }

    #[test]
    fn levels_never_rise_and_keep_their_sum() {
        assert_eq!(falling(&[]), [0; 0]);
        assert_eq!(falling(&[9, 7, 7, 0]), [9, 7, 7, 0]);
        assert_eq!(falling(&[238, 352]), [295, 295]);
        assert_eq!(falling(&[0, 1]), [1, 0]);
        assert_eq!(falling(&[10, 2, 5, 6, 1]), [10, 5, 4, 4, 1]);
        let mut random = testkit::Random::new(1);
        for _ in 0..1000 {
            let levels: Vec<u64> = (0..random.number() % 9).map(|_| random.number() % 50).collect();
            let fallen = falling(&levels);
            assert!(fallen.is_sorted_by(|one, next| one >= next), "{levels:?}: {fallen:?}");
            assert_eq!(fallen.iter().sum::<u64>(), levels.iter().sum::<u64>(), "{levels:?}: {fallen:?}");
        }
    }

    #[test]
    fn no_level_is_longer_than_the_threads_lived() {
        assert_eq!(within(10, vec![12, 7, 0]), [10, 9, 0]);
        assert_eq!(within(10, vec![12, 9, 1]), [10, 10, 2]);
        // One CPU was counted for a second after its thread had left it.
        let levels = Levels { busy: 0, words: vec![11 * S, 2 * S] };
        let record = Record { levels, ..Record::new(Backend::Perf, 100 * S, 112 * S) };
        assert_eq!(by_number(&record, &ran(13 * S, 10 * S)), Some(vec![0, 7 * S, 3 * S]));
    }

    #[test]
    fn of_bpf_they_are_in_the_accounts_of_cpus() {
        let levels = record().levels;
        let mut record = Record::new(Backend::Bpf, 100 * S, 110 * S);
        record.cpus = levels.words.iter().map(|level| wire::Cpu { level: *level, ..wire::Cpu::default() }).collect();
        record.cpus.resize(4, wire::Cpu::default());
        record.tracked.busy = levels.busy as u64;
        assert_eq!(by_number(&record, &ran(12 * S, 10 * S)), Some(vec![2 * S, 4 * S, 4 * S]));
        // As it would be read between the two additions of a step.
        record.tracked.busy += 1;
        assert_eq!(by_number(&record, &ran(12 * S, 10 * S)), None);
    }
}
