//! Makes the report's section on overlap, from the overlap engine's counts and the account (the measured times of the observed threads).

use ledger::account::{Account, Thread};
use ledger::figures::{Amount, ByCause};
use report::overlap::{Blocked, OverlapReport};
use wire::Cause;
use wire::umt::STANDBYS_AT_MOST;

use crate::engine::Counted;
use crate::sums::Sums;

/// Name of standby threads, which the preload library gives them.
const STANDBY: &str = "cox-standby";
/// Name of the preload library's threads that run only on idle CPUs (class SCHED_IDLE). Their waiting for a CPU delays no work.
const SENTINEL: &str = "cox-sentinel";

/// Makes the report's section on overlap. `counted`: the overlap engine's counts of tasks, blocks and wake-ups, and the reasons why there
/// were fewer standbys than possible. `account`: how long threads ran, waited for a CPU, and were blocked. `cpus`: the number of CPUs that
/// the program may use.
#[must_use]
pub fn report(counted: &Counted, account: &Account, cpus: u64) -> OverlapReport {
    let sums = &counted.sums;
    let threads = || ledger::summary::threads(account);
    let waited = |thread: &Thread| thread.wake_delay_ns.saturating_add(thread.preempt_wait_ns);
    OverlapReport {
        backend: counted.noticed,
        cpus,
        counts: sums.counts.clone(),
        wall_ns: account.programs.iter().map(|program| program.wall_ns).max().unwrap_or(0),
        ran_ns: threads()
            .filter(|thread| thread.comm != SENTINEL)
            .chain(ledger::summary::unlisted(account))
            .map(|thread| thread.run_ns)
            .fold(0, u64::saturating_add),
        standby_ns: threads().filter(is_standby).map(|thread| thread.run_ns).fold(0, u64::saturating_add),
        idle_ns: account.cpus.iter().map(|cpu| cpu.idle_ns).fold(0, u64::saturating_add),
        runnable_wait_ns: threads().filter(|thread| thread.comm != SENTINEL).map(waited).fold(0, u64::saturating_add),
        blocked_by: blocked(threads()),
        delay_us: sums.delay_us(0.5).zip(sums.delay_us(0.99)),
        diagnostics: diagnostics(counted),
    }
}

fn is_standby(thread: &&Thread) -> bool {
    thread.comm == STANDBY
}

/// Returns blocked time by cause, the longest first. Two kinds of blocked time are left out, because they delay no work: futex waits, in
/// which threads wait for tasks; and the standbys' time in poll, in which they wait at their doorbells.
fn blocked<'a>(threads: impl Iterator<Item = &'a Thread>) -> Vec<Blocked> {
    let mut sums = ByCause::default();
    for thread in threads {
        let mut blocked = thread.blocked_by;
        blocked[Cause::Futex] = 0;
        if is_standby(&thread) {
            blocked[Cause::Poll] = 0;
        }
        sums.sum(&blocked);
    }
    let mut all: Vec<Blocked> = sums.some().map(|(cause, ns)| Blocked { cause: cause.name().to_owned(), ns }).collect();
    all.sort_by_key(|blocked| std::cmp::Reverse(blocked.ns));
    all
}

fn diagnostics(counted: &Counted) -> Vec<String> {
    let sums = &counted.sums;
    if let Some(why) = &counted.unfit {
        return vec![why.clone()];
    }
    let mut all: Vec<String> = counted.passed_over.iter().cloned().collect();
    if counted.has_doorbells && sums.counts.processes == 0 {
        all.push(
            "no process asked cox to wake standby threads: neither the program nor its child processes started a parallel region of gcc's \
             libgomp.so; programs that are linked statically, or to LLVM's libomp or Intel's libiomp5, cannot be taken over"
                .to_owned(),
        );
    }
    let reasons = [
        (
            sums.reasons.thread_data,
            "no standby threads: the program uses thread-local variables (threadprivate, __thread), and a standby would access its own copies \
             of them",
        ),
        (
            sums.reasons.bound,
            "no standby threads: threads are bound to places (OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY)",
        ),
        (
            sums.reasons.lost,
            "cox-observe, which had the eBPF programs, ended before the program: from then on the program ran as under libgomp",
        ),
        (sums.reasons.unseen, "no standby threads: eBPF did not report when the program's first thread blocked"),
        (
            sums.reasons.unshared,
            "eBPF cannot read the task queues of some teams: standbys may have started the tasks in these queues later",
        ),
        (
            sums.reasons.impossible,
            "a process has written impossible numbers to the page that it shares with cox: none of the numbers in that page is counted",
        ),
        (
            sums.reasons.shared_numbers,
            "two tasks were given the same thread number, because waiting for a free one took too long",
        ),
    ];
    all.extend(reasons.into_iter().filter(|(count, _)| *count > 0).map(|(_, why)| why.to_owned()));
    all.extend(not_made(sums));
    all.extend(sums.refusal.as_ref().map(|why| {
        format!(
            "{} of the processes that asked cox to wake standby threads ran without them: {why}",
            sums.reasons.refused
        )
    }));
    all
}

/// Returns how many standbys could not be made, and why.
fn not_made(sums: &Sums) -> Option<String> {
    let at_limit = (sums.reasons.at_limit > 0).then(|| {
        format!(
            "a process may have at most {STANDBYS_AT_MOST} standby threads, and all of them were blocked or at work ({} times)",
            sums.reasons.at_limit
        )
    });
    let refused = (sums.counts.failed > sums.reasons.at_limit).then(|| match sums.error {
        // pthread_create(3) returns EAGAIN for all of these reasons.
        Some(libc::EAGAIN) => "the kernel had no room for another thread: a limit (ulimit -u, the control group's \
                               pids.max, kernel.threads-max), or no memory for its stack"
            .to_owned(),
        Some(error) => std::io::Error::from_raw_os_error(error).to_string(),
        None => "the reason is not known".to_owned(),
    });
    let reasons: Vec<String> = at_limit.into_iter().chain(refused).collect();
    (sums.counts.failed > 0)
        .then(|| format!("{} standby threads could not be made: {}", sums.counts.failed, reasons.join("; ")))
}

#[cfg(test)]
mod tests {
    use report::overlap::OverlapCounts;

    use super::*;
    use crate::sums::Reasons;

    #[test]
    fn standbys_that_are_not_there_have_a_reason() {
        let diagnostic = |failed, at_limit, error| {
            let (counts, reasons) =
                (OverlapCounts { failed, ..Default::default() }, Reasons { at_limit, ..Default::default() });
            not_made(&Sums { counts, reasons, error, ..Sums::default() })
        };
        assert_eq!(diagnostic(0, 0, None), None);
        let why = diagnostic(4, 0, Some(libc::EAGAIN)).unwrap();
        assert!(
            why.starts_with("4 standby threads could not be made: the kernel had no room") && why.contains("pids.max")
        );
        assert!(!why.contains("at most"), "{why}");
        let why = diagnostic(5, 2, Some(libc::ENOMEM)).unwrap();
        assert!(why.contains("at most 64") && why.contains("(2 times); Cannot allocate memory"), "{why}");
        assert!(diagnostic(2, 2, None).unwrap().ends_with("(2 times)"));
    }
}
