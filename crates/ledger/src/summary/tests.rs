//! Each figure, over threads whose values differ in every part.

use super::*;
use crate::account::{Lost, OwnCost, Preemptor, Process};
use crate::figures::ByMigration;

/// An account of nothing.
pub(crate) fn empty() -> Account {
    Account {
        backend: wire::Backend::Bpf,
        sees: None,
        provenance: None,
        window_ns: 0,
        events: 0,
        lost: Lost::default(),
        own_cost: OwnCost::default(),
        programs: vec![],
        cpus: vec![],
        preemptors: vec![],
        hot_functions: vec![],
        co_run: None,
    }
}

fn causes(futex: u64, disk: u64, sleep: u64) -> ByCause {
    [(Cause::Futex, futex), (Cause::Disk, disk), (Cause::Sleep, sleep)].into_iter().collect()
}

/// Every figure a different power of two, so that a sum tells its parts.
fn thread() -> Thread {
    Thread {
        tid: 9,
        run_ns: 0x1000 + 0x1,
        spin_ns: 0x1,
        spin_error_ns: 3,
        steal_ns: 0x2,
        irq_ns: 0x4,
        wake_delay_ns: 0x8,
        preempt_wait_ns: 0x10 + 0x20,
        yield_wait_ns: 0x20,
        blocked_ns: 0x40 + 0x80 + 0x100,
        blocked_by: causes(0x40, 0x80, 0x100),
        unknown_ns: 0x200,
        wall_ns: 0x13f9,
        switches_voluntary: 1,
        switches_involuntary: 2,
        wakeups: 4,
        migrations: ByMigration::new([8, 16, 0]),
        samples: 32,
        impossible: 64,
        cpus: [(Some(0), 5), (Some(3), 7), (None, 1)].into_iter().collect(),
        ..Thread::default()
    }
}

fn account(threads: Vec<Thread>) -> Account {
    let process = Process { threads, ..Process::default() };
    Account { programs: vec![Program { processes: vec![process], ..Program::default() }], ..empty() }
}

#[test]
fn sums_are_over_all_threads() {
    let sums = Sums::of(&account(vec![thread(), Thread { spin_error_ns: 4, ..thread() }]));
    let figures = Thread {
        wall_ns: 2 * 0x13f9,
        run_ns: 2 * 0x1001,
        spin_ns: 2,
        spin_error_ns: 5,
        steal_ns: 4,
        irq_ns: 8,
        wake_delay_ns: 16,
        preempt_wait_ns: 2 * 0x30,
        yield_wait_ns: 2 * 0x20,
        blocked_ns: 2 * 0x1c0,
        blocked_by: causes(0x80, 0x100, 0x200),
        unknown_ns: 0x400,
        samples: 64,
        switches_voluntary: 2,
        switches_involuntary: 4,
        wakeups: 8,
        migrations: ByMigration::new([16, 32, 0]),
        impossible: 128,
        cpus: [(Some(0), 10), (Some(3), 14), (None, 2)].into_iter().collect(),
        ..Thread::default()
    };
    assert_eq!(sums, Sums { threads: 2, figures });
    assert_eq!((sums.work_ns(), sums.migrations.total()), (2 * 0x1000, 48));
    assert_eq!(sums.share(0x13f9), 0.5);
}

#[test]
fn the_unlisted_count_with_their_time_and_number() {
    let mut account = account(vec![thread()]);
    account.lost.finals = 40;
    account.programs[0].unlisted = Some(Thread { wall_ns: 100, run_ns: 100, ..Thread::default() });
    let sums = Sums::of(&account);
    assert_eq!((sums.threads, sums.wall_ns, sums.work_ns()), (41, 0x13f9 + 100, 0x1000 + 100));
    assert_eq!(threads(&account).count(), 1);
}

#[test]
fn waiting_for_threads_is_spin_yield_and_futex() {
    assert_eq!(Sums::over([&thread()]).waiting_for_threads_ns(), 0x1 + 0x20 + 0x40);
}

#[test]
fn waiting_for_a_cpu_is_wake_delay_and_unwilling_preemption() {
    let sums = Sums::over([&thread()]);
    assert_eq!((sums.waiting_for_cpu_ns(), sums.preempted_ns()), (0x8 + 0x10, 0x10));
}

#[test]
fn the_division_has_no_rest_and_no_overlap() {
    let division = Sums::over([&thread()]).division();
    let expected = Division {
        work_ns: 0x1000,
        waiting_for_threads_ns: 0x61,
        preempted_ns: 0x10,
        wake_delay_ns: 0x8,
        blocked_by: causes(0, 0x80, 0x100),
        unknown_ns: 0x200,
    };
    assert_eq!(division, expected);
    assert_eq!(division.total_ns(), thread().wall_ns);
}

#[test]
fn concurrency_is_thread_time_over_wall_time() {
    let mut account = account(vec![thread(), thread()]);
    account.window_ns = 0x10000;
    assert_eq!(concurrency(&account, &Sums::of(&account)).wall_ns, 0x10000);
    account.programs[0].wall_ns = 0x1000;
    let c = concurrency(&account, &Sums::of(&account));
    let expected = (2.0 * f64::from(0x1001) / 4096.0, 2.0, 2.0 * f64::from(0x1039) / 4096.0);
    assert_eq!((c.running, c.working, c.runnable), expected);
    assert_eq!(concurrency(&empty(), &Sums::default()), Concurrency::default());
}

#[test]
fn waits_are_told_apart_by_who_was_before_us() {
    let took = |kind, wait_ns| Preemptor { kind, wait_ns, ..Preemptor::default() };
    let preemptors = vec![
        took(PreemptorKind::Sibling, 1),
        took(PreemptorKind::Other, 2),
        took(PreemptorKind::Idle, 4),
        took(PreemptorKind::Sibling, 8),
        took(PreemptorKind::Other, 16),
        took(PreemptorKind::Cox, 32),
    ];
    let behind = behind(&Account { preemptors, ..empty() });
    assert_eq!((behind.siblings_ns, behind.cox_ns, behind.others_ns, behind.idle_ns), (9, 32, 18, 4));
}

#[test]
fn cpus_are_added_up() {
    let cpu = CpuAccount {
        cpu: 0,
        busy_program_ns: 50,
        busy_others_ns: 10,
        idle_ns: 20,
        idle_while_waiting_ns: 3,
        idle_while_blocked_ns: 4,
        unknown_ns: 1_000,
    };
    let all = cpus(&Account { cpus: vec![cpu, cpu], ..empty() });
    assert_eq!((all.known_ns(), all.idle_ns, all.idle_while_waiting_ns, all.idle_while_blocked_ns), (160, 40, 6, 8));
}

#[test]
fn absurd_times_and_counts_do_not_overflow() {
    let cpu = CpuAccount { busy_program_ns: u64::MAX, busy_others_ns: 1, idle_ns: u64::MAX, ..CpuAccount::default() };
    let program =
        Program { processes: vec![Process { threads: vec![thread()], ..Process::default() }], ..Program::default() };
    let lost = Lost { finals: u64::MAX, ..Lost::default() };
    let account = Account { cpus: vec![cpu, cpu], programs: vec![program], lost, ..empty() };
    assert_eq!((cpus(&account).known_ns(), Sums::of(&account).threads), (u64::MAX, u64::MAX));
}
