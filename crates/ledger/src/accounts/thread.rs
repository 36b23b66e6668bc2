//! Converts a clock into a thread's account, and adds the thread's wakers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use wire::layout::{ANOTHER_USERS, ANOTHER_USERS_NAME, LEFT, OUTSIDE};
use wire::{Clock, Pair, PairSum, Record};

use super::life::Life;
use crate::account::{Thread, WokenBy};
use crate::figures::{ByCause, ByMigration, RunByCpu};

/// Number of wakers listed per thread.
const WAKERS: usize = 8;

/// Returns the exit code that a shell shows for a wait status in the kernel's form: the code, or 128 + signal (wait(2), POSIX 2.8.2).
pub fn shell_exit_code(wait_status: i32) -> i32 {
    match wait_status & 0x7f {
        0 => wait_status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// Returns a thread's account without spin time and wakers. These are added later, because the thread's clock alone does not contain them.
pub(super) fn account(life: &Life<'_>, start_ns: u64) -> Thread {
    let clock = &life.clock;
    // A thread that was switched in has used CPU time, so a value of 0 means that the kernel's account was not read.
    let kernel_read = clock.kernel_cpu_ns > 0;
    Thread {
        tid: clock.tid,
        host_tid: other_id(clock.host_tid, clock.tid),
        inner_tid: other_id(clock.inner_tid, clock.tid),
        comm: clock.comm(),
        born_ns: clock.born_ns.saturating_sub(start_ns),
        wall_ns: clock.since_ns.saturating_sub(clock.born_ns),
        alive: life.alive,
        changed_user: clock.flags & LEFT != 0,
        run_ns: clock.run_ns,
        steal_ns: clock.steal_ns,
        irq_ns: clock.irq_ns,
        wake_delay_ns: clock.wake_delay_ns,
        preempt_wait_ns: clock.preempt_wait_ns,
        yield_wait_ns: clock.yield_wait_ns,
        blocked_ns: clock.blocked_total_ns(),
        blocked_by: ByCause::new(clock.blocked_ns),
        unknown_ns: clock.unknown_ns,
        switches_voluntary: clock.switches_voluntary,
        switches_involuntary: clock.switches_involuntary,
        wakeups: clock.wakeups,
        migrations: ByMigration::new(clock.migrations.map(u64::from)),
        cpus: by_cpu(clock),
        took_ns: clock.took_ns,
        kernel_cpu_ns: kernel_read.then_some(clock.kernel_cpu_ns),
        kernel_run_delay_ns: kernel_read.then_some(clock.kernel_delay_ns),
        impossible: clock.impossible.into(),
        ..Thread::default()
    }
}

/// Returns `id` if it is known (not 0) and differs from `used`.
fn other_id(id: u32, used: u32) -> Option<u32> {
    (id != 0 && id != used).then_some(id)
}

/// Converts a thread id from the BPF programs. Returns the id in cox's PID namespace; for a thread outside this namespace, returns 0 and the id on
/// the host.
pub(super) fn inside_or_host(id: u32) -> (u32, Option<u32>) {
    if id == ANOTHER_USERS {
        return (0, None);
    }
    if id & OUTSIDE == 0 { (id, None) } else { (0, Some(id & !OUTSIDE)) }
}

fn by_cpu(clock: &Clock) -> RunByCpu {
    let slots = clock.cpu_id.iter().zip(clock.cpu_run_ns).filter(|(_, ns)| *ns > 0);
    let kept = slots.map(|(id, ns)| (id.checked_sub(1).map(u32::from), ns));
    kept.chain([(None, clock.elsewhere_run_ns)]).collect()
}

/// Returns the summed times of the threads whose clocks (time accounts) did not fit into the ring buffer when they ended, as one nameless thread.
/// `None` if there were none.
pub(super) fn unlisted(record: &Record) -> Option<Thread> {
    let clock = &record.unlisted;
    let wall_ns = clock.since_ns.saturating_sub(clock.born_ns);
    (record.losses.finals > 0 || wall_ns > 0)
        .then(|| account(&Life { clock: Cow::Borrowed(clock), alive: false, on_cpu: None }, record.start_ns))
}

/// Records, for each thread, which threads woke it when it was blocked. There are two sources: the recorded pairs of waker and woken thread, and the
/// threads' clocks. A thread's clock contains the latest wake-ups, all by one waker, which are not among the pairs yet.
pub(super) fn book_wakers(
    threads: &mut [Thread],
    owners: &HashMap<u32, usize>,
    lives: &[Life<'_>],
    pairs: &[(Pair, PairSum)],
) {
    let mut wakers: Vec<BTreeMap<u32, PairSum>> = vec![BTreeMap::new(); threads.len()];
    let mut add = |thread: usize, waker: u32, sum: PairSum| {
        let total = wakers[thread].entry(waker).or_default();
        total.count = total.count.saturating_add(sum.count);
        total.blocked_ns = total.blocked_ns.saturating_add(sum.blocked_ns);
    };
    for (pair, sum) in pairs {
        if let Some(thread) = owners.get(&pair.wakee) {
            add(*thread, pair.waker, *sum);
        }
    }
    for (i, Life { clock, .. }) in lives.iter().enumerate() {
        if clock.waker_count > 0 {
            add(i, clock.waker_tid, PairSum { count: clock.waker_count.into(), blocked_ns: clock.waker_blocked_ns });
        }
    }
    let name = |tid: u32| match tid {
        ANOTHER_USERS => Some(ANOTHER_USERS_NAME.to_owned()),
        tid => owners.get(&tid).map(|i| lives[*i].clock.comm()),
    };
    for (thread, wakers) in threads.iter_mut().zip(wakers) {
        let mut wakers: Vec<(u32, PairSum)> = wakers.into_iter().collect();
        wakers.sort_by_key(|(tid, sum)| (std::cmp::Reverse((sum.blocked_ns, sum.count)), *tid));
        let listed = wakers.into_iter().take(WAKERS);
        thread.woken_by = listed
            .map(|(id, sum)| {
                let (tid, host_tid) = inside_or_host(id);
                WokenBy { tid, host_tid, comm: name(id), count: sum.count, blocked_ns: sum.blocked_ns }
            })
            .collect();
    }
}
