//! Small records whose accounts are known.

use testkit::native;
use wire::latency::PLACE_SHIFT;
use wire::layout::ENROLLED_ALIVE;
use wire::{
    Backend, Cause, Clock, Cpu, CpuKind, LatencyCount, Living, Losses, Pair, PairSum, SampleSite, State, Waiting,
};

use super::*;
use crate::account::{Preemptor, PreemptorKind, SpinBasis, WokenBy};
use crate::figures::ByMigration;
use crate::latency::Latencies;
use crate::transition::{born, switch_in, switch_out, waking};

const START: u64 = 1 << 50;
const END: u64 = START + 1_000;

fn comm(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// A thread that ran from its birth at `from` and ended at `to`, both from the start of the window.
fn ran(pid: u32, tid: u32, parent: u32, from: u64, to: u64) -> Clock {
    let mut clock = Clock { tid, tgid: pid, parent_tgid: parent, comm: comm("app"), ..Clock::default() };
    born(&mut clock, START + from);
    switch_in(&mut clock, START + from, 0, 0, 0);
    switch_out(&mut clock, START + to, State::Dead, 0, false, 0, 0);
    clock
}

/// … and is running still.
fn runs(pid: u32, tid: u32, parent: u32, from: u64) -> Clock {
    let mut clock = Clock { tid, tgid: pid, parent_tgid: parent, comm: comm("app"), ..Clock::default() };
    born(&mut clock, START + from);
    switch_in(&mut clock, START + from, 0, 0, 0);
    clock
}

fn record(clocks: Vec<Clock>) -> Record {
    let mut record = Record::new(Backend::Bpf, START, END);
    record.clocks = clocks;
    record
}

fn program(root_pid: u32) -> ProgramInfo {
    ProgramInfo { root_pid: Some(root_pid), start_ns: START, ..ProgramInfo::default() }
}

fn only_process(account: &Account) -> &Process {
    let [program] = &account.programs[..] else { panic!("{:?}", account.programs) };
    let [process] = &program.processes[..] else { panic!("{:?}", program.processes) };
    process
}

/// Pids of each program's processes.
fn pids(account: &Account) -> Vec<Vec<u32>> {
    account.programs.iter().map(|p| p.processes.iter().map(|process| process.pid).collect()).collect()
}

/// Tids of each process of all programs.
fn tids(account: &Account) -> Vec<Vec<u32>> {
    let processes = account.programs.iter().flat_map(|program| &program.processes);
    processes.map(|process| process.threads.iter().map(|thread| thread.tid).collect()).collect()
}

#[test]
fn every_field_of_a_thread_comes_from_its_clock() {
    let mut clock = Clock { tid: 6, tgid: 5, comm: comm("worker"), ..Clock::default() };
    born(&mut clock, START + 100);
    switch_in(&mut clock, START + 110, 1, 50, 10);
    switch_out(&mut clock, START + 160, State::Preempt, 0, true, 57, 13);
    switch_in(&mut clock, START + 180, 3, 0, 0);
    switch_out(&mut clock, START + 200, State::Blocked, Cause::Disk as u8, false, 0, 0);
    waking(&mut clock, START + 260);
    switch_in(&mut clock, START + 265, 1, 0, 0);
    switch_out(&mut clock, START + 300, State::Blocked, Cause::Futex as u8, false, 0, 0);
    switch_in(&mut clock, START + 400, 1, 0, 0);
    switch_in(&mut clock, START + 407, 1, 0, 0);
    switch_out(&mut clock, START + 500, State::Dead, 0, false, 0, 0);
    clock.migrations = [4, 5, 6];
    clock.took_ns = 44;
    (clock.kernel_cpu_ns, clock.kernel_delay_ns) = (190, 36);
    assert!(clock.is_whole());

    let account = build(&record(vec![clock]), &[program(5)], 0);
    let thread = &only_process(&account).threads[0];
    let expected = Thread {
        host_tid: None,
        inner_tid: None,
        tid: 6,
        comm: "worker".into(),
        born_ns: 100,
        wall_ns: 400,
        alive: false,
        changed_user: false,
        run_ns: 50 + 20 + 35 + 93,
        steal_ns: 7,
        irq_ns: 3,
        spin_ns: 0,
        spin_basis: SpinBasis::None,
        spin_error_ns: 0,
        kernel_sync_ns: 0,
        kernel_sync_error_ns: 0,
        kernel_ns: 0,
        serial_ns: 0,
        serial_error_ns: 0,
        samples: 0,
        wake_delay_ns: 10 + 5,
        preempt_wait_ns: 20,
        yield_wait_ns: 20,
        blocked_ns: 160,
        blocked_by: [(Cause::Disk, 60), (Cause::Futex, 100)].into_iter().collect(),
        unknown_ns: 7,
        switches_voluntary: 2,
        switches_involuntary: 1,
        wakeups: 3,
        migrations: ByMigration::new([4, 5, 6]),
        cpus: [(Some(1), 178), (Some(3), 20)].into_iter().collect(),
        took_ns: 44,
        kernel_cpu_ns: Some(190),
        kernel_run_delay_ns: Some(36),
        impossible: 1,
        woken_by: vec![],
        latencies: None,
    };
    assert_eq!(*thread, expected);
}

#[test]
fn what_the_backend_did_not_read_is_absent() {
    let mut record = record(vec![ran(5, 5, 1, 0, 100)]);
    record.backend = Backend::Perf;
    let info = ProgramInfo { exit_code: Some(3), ..program(5) };
    let account = build(&record, &[info], 0);
    let process = only_process(&account);
    assert_eq!((process.threads[0].kernel_cpu_ns, process.threads[0].kernel_run_delay_ns), (None, None));
    assert_eq!(process.exit_code, Some(3), "of the program's first process somebody knows it");
    record.clocks.push(ran(6, 6, 5, 10, 100));
    for known in [None, Some(3)] {
        let account = build(&record, &[ProgramInfo { exit_code: known, ..program(5) }], 0);
        let codes: Vec<_> = account.programs[0].processes.iter().map(|process| process.exit_code).collect();
        assert_eq!(codes, [known, None]);
    }
}

#[test]
fn cpus_beyond_the_slots_are_added_up_as_other() {
    let mut clock = Clock { tid: 5, tgid: 5, ..Clock::default() };
    born(&mut clock, START);
    for cpu in 0..20 {
        let t = START + 10 * u64::from(cpu);
        switch_in(&mut clock, t, 100 + cpu, 0, 0);
        switch_out(&mut clock, t + 10, State::Preempt, 0, false, 0, 0);
    }
    let account = build(&record(vec![clock]), &[program(5)], 0);
    let cpus = &only_process(&account).threads[0].cpus;
    assert_eq!(cpus.iter().collect::<Vec<_>>(), (100..116).map(|cpu| (cpu, 10)).collect::<Vec<_>>());
    assert_eq!(cpus.other_ns(), 40);
}

#[test]
fn the_living_are_closed_when_they_were_read_and_the_dead_are_not() {
    let mut record = record(vec![ran(5, 6, 5, 0, 300)]);
    record.living = vec![Living { clock: runs(5, 5, 1, 0), until_ns: START + 900 }];
    let account = build(&record, &[program(5)], 0);
    let threads = &only_process(&account).threads;
    assert_eq!((threads[0].tid, threads[0].wall_ns, threads[0].run_ns, threads[0].alive), (5, 900, 900, true));
    assert_eq!((threads[1].tid, threads[1].wall_ns, threads[1].run_ns, threads[1].alive), (6, 300, 300, false));
    assert_eq!((only_process(&account).exit_code, account.programs[0].exit_code), (None, None));
}

#[test]
fn exit_codes_are_as_a_shell_sees_them() {
    for (status, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (0x80 | 11, 139)] {
        assert_eq!(shell_exit_code(status), code);
    }
    let mut main = ran(5, 5, 1, 0, 300);
    main.exit_code = 2 << 8;
    let mut other = ran(5, 6, 5, 10, 400);
    other.exit_code = 9;
    let account = build(&record(vec![main, other]), &[program(5)], 0);
    assert_eq!((only_process(&account).exit_code, account.programs[0].exit_code), (Some(2), Some(2)));
    let told = ProgramInfo { exit_code: Some(77), ..program(5) };
    assert_eq!(build(&record(vec![main, other]), &[told], 0).programs[0].exit_code, Some(77));
    let mut living = record(vec![main]);
    living.living = vec![Living { clock: runs(5, 6, 5, 10), until_ns: END }];
    assert_eq!(only_process(&build(&living, &[program(5)], 0)).exit_code, None, "a thread lives on");
}

#[test]
fn one_program_owns_everything() {
    let clocks = vec![ran(5, 5, 1, 0, 100), ran(90, 90, 77, 20, 100), ran(6, 6, 5, 10, 100), ran(5, 7, 5, 30, 90)];
    let account = build(&record(clocks.clone()), &[program(5)], 0);
    assert_eq!((pids(&account), tids(&account)), (vec![vec![5, 6, 90]], vec![vec![5, 7], vec![6], vec![90]]));
    let parents: Vec<u32> = account.programs[0].processes.iter().map(|process| process.parent_pid).collect();
    assert_eq!(parents, [1, 5, 77]);
    let nameless = build(&record(clocks), &[], 0);
    assert_eq!((pids(&nameless), nameless.programs[0].wall_ns), (vec![vec![5, 6, 90]], 1_000));
}

#[test]
fn several_programs_own_the_descendants_of_their_roots() {
    let clocks = vec![
        ran(5, 5, 1, 0, 100),
        ran(6, 6, 1, 0, 100),
        ran(10, 10, 5, 10, 90),
        ran(11, 11, 10, 20, 90),
        ran(12, 12, 6, 30, 90),
        ran(13, 13, 999, 40, 90), // its parent is not known
        ran(14, 14, 6, 50, 90),
        ran(14, 15, 14, 60, 90), // a second thread, made by its own process
    ];
    let account = build(&record(clocks.clone()), &[program(6), program(5)], 0);
    assert_eq!(pids(&account), [vec![6, 12, 13, 14], vec![5, 10, 11]]);
    let group = ProgramInfo { start_ns: START, ..ProgramInfo::default() };
    let account = build(&record(clocks.clone()), &[program(6), program(5), group], 0);
    assert_eq!(pids(&account), [vec![6, 12, 14], vec![5, 10, 11], vec![13]]);
    // A root whose own clocks were lost still has its children; a nested root keeps its own.
    let without_root: Vec<Clock> = clocks.iter().copied().filter(|clock| clock.tgid != 6).collect();
    let account = build(&record(without_root), &[program(5), program(6), program(10)], 0);
    assert_eq!(pids(&account), [vec![5, 13], vec![12, 14], vec![10, 11]]);
}

#[test]
fn the_main_thread_tells_who_made_the_process() {
    let clocks = vec![ran(5, 6, 44, 0, 100), ran(5, 5, 1, 10, 100)];
    assert_eq!(only_process(&build(&record(clocks), &[program(5)], 0)).parent_pid, 1);
}

#[test]
fn parents_in_a_circle_do_not_hang() {
    let clocks = vec![ran(5, 5, 6, 0, 100), ran(6, 6, 5, 0, 100)];
    assert_eq!(pids(&build(&record(clocks), &[program(1), program(2)], 0)), [vec![5, 6], vec![]]);
}

#[test]
fn a_reused_process_id_is_another_process() {
    let clocks = vec![
        ran(5, 5, 1, 0, 100),
        ran(5, 6, 5, 10, 120), // outlives the main thread
        ran(5, 7, 5, 110, 200),
        ran(5, 5, 2, 200, 300),
        ran(5, 6, 5, 250, 260),
        ran(9, 9, 5, 255, 260),
    ];
    let account = build(&record(clocks), &[program(1), program(2)], 0);
    assert_eq!(pids(&account), [vec![5], vec![5, 9]]);
    assert_eq!(tids(&account), [vec![5, 6, 7], vec![5, 6], vec![9]]);
}

#[test]
fn exec_in_a_thread_leaves_one_process_under_the_new_name() {
    let leader = ran(5, 5, 1, 0, 100);
    let mut caller = ran(5, 5, 5, 20, 400); // became 5 at its exec
    (caller.comm, caller.exit_code) = (comm("new"), 4 << 8);
    let account = build(&record(vec![caller, leader]), &[program(5)], 0);
    let process = only_process(&account);
    assert_eq!((process.comm.as_str(), process.exit_code, process.parent_pid), ("new", Some(4), 1));
    assert_eq!(process.threads.iter().map(|thread| thread.born_ns).collect::<Vec<_>>(), [0, 20]);
}

#[test]
fn a_process_without_its_main_threads_clock_goes_by_its_eldest_thread() {
    let (mut elder, younger) = (ran(5, 8, 5, 20, 100), ran(5, 9, 5, 30, 100));
    elder.comm = comm("elder");
    let account = build(&record(vec![younger, elder]), &[program(5)], 0);
    let process = only_process(&account);
    assert_eq!((process.comm.as_str(), process.exit_code, process.threads.len()), ("elder", None, 2));
    assert_eq!(process.parent_pid, 0, "only a main thread's creator is another process");
    // Nor does a gap where it lived make two of it.
    let account = build(&record(vec![elder, ran(5, 9, 5, 200, 300)]), &[program(5)], 0);
    assert_eq!(only_process(&account).threads.len(), 2);
}

#[test]
fn a_program_lasts_from_its_start_to_its_end_or_the_windows() {
    let ended = ProgramInfo { end_ns: Some(START + 800), start_ns: START + 50, ..program(5) };
    let going = ProgramInfo { start_ns: START + 50, command: vec!["x".into(), "y".into()], ..program(6) };
    let account = build(&record(vec![]), &[ended, going], 0);
    assert_eq!((account.programs[0].wall_ns, account.programs[1].wall_ns, account.window_ns), (750, 950, 1_000));
    assert_eq!(account.programs[1].command, ["x", "y"]);
}

#[test]
fn the_unlisted_are_a_sum_of_the_first_program() {
    let mut record = record(vec![ran(5, 5, 1, 0, 100)]);
    assert_eq!(build(&record, &[program(5)], 0).programs[0].unlisted, None);
    record.losses.finals = 2;
    (record.unlisted.since_ns, record.unlisted.run_ns, record.unlisted.elsewhere_run_ns) = (70, 60, 60);
    record.unlisted.blocked_ns[Cause::Sleep as usize] = 10;
    let unlisted = build(&record, &[program(5)], 0).programs[0].unlisted.clone().expect("two threads");
    assert_eq!(
        (unlisted.wall_ns, unlisted.run_ns, unlisted.blocked_by[Cause::Sleep], unlisted.alive),
        (70, 60, 10, false)
    );
    assert_eq!(unlisted.cpus.other_ns(), 60);
}

#[test]
fn wakers_are_the_flushed_pairs_and_the_run_that_is_not() {
    let mut clock = ran(5, 6, 5, 0, 100);
    (clock.waker_tid, clock.waker_count, clock.waker_blocked_ns) = (7, 2, 30);
    let mut waker = ran(5, 7, 5, 0, 100);
    waker.comm = comm("waker");
    let mut record = record(vec![clock, waker]);
    let pair = |waker, wakee, count, blocked_ns| (Pair { waker, wakee }, PairSum { count, blocked_ns });
    record.pairs = vec![pair(7, 6, 10, 100), pair(0, 6, 3, 500), pair(44, 6, 1, 125), pair(6, 999, 1, 1)];
    let account = build(&record, &[program(5)], 0);
    let of = |tid: u32, comm: Option<&str>, count, blocked_ns| WokenBy {
        tid,
        host_tid: None,
        comm: comm.map(str::to_owned),
        count,
        blocked_ns,
    };
    let threads = &only_process(&account).threads;
    assert_eq!(threads[0].woken_by, [of(0, None, 3, 500), of(7, Some("waker"), 12, 130), of(44, None, 1, 125)]);
    assert!(threads[1].woken_by.is_empty());

    record.pairs = (10..30).map(|waker| pair(waker, 6, 1, u64::from(waker) * 1_000)).collect();
    let account = build(&record, &[program(5)], 0);
    let tids: Vec<u32> = only_process(&account).threads[0].woken_by.iter().map(|waker| waker.tid).collect();
    assert_eq!(tids, [29, 28, 27, 26, 25, 24, 23, 22]);
}

#[test]
fn samples_and_wakers_of_an_id_used_twice_go_to_the_one_that_ran_longest() {
    let mut record = record(vec![ran(5, 5, 1, 0, 10), ran(5, 5, 1, 20, 900), ran(5, 5, 1, 910, 920)]);
    record.pairs = vec![(Pair { waker: 0, wakee: 5 }, PairSum { count: 1, blocked_ns: 1 })];
    let waiting = Some(Waiting::Mpi);
    record.sample_sites = vec![SampleSite {
        tid: 5,
        tgid: 5,
        samples: 10,
        in_kernel: 0,
        serial: 0,
        module: "m".into(),
        function: None,
        waiting,
    }];
    let account = build(&record, &[program(5)], 0);
    let threads: Vec<&Thread> = account.programs[0].processes.iter().flat_map(|process| &process.threads).collect();
    assert_eq!(
        threads.iter().map(|t| (t.samples, t.spin_ns, t.woken_by.len())).collect::<Vec<_>>(),
        [(0, 0, 0), (10, 880, 1), (0, 0, 0)]
    );
    assert_eq!(
        (account.hot_functions.len(), account.hot_functions[0].run_ns, account.hot_functions[0].samples),
        (1, 880, 10)
    );
}

/// cox's threads are known by their process; another program may have the same name.
#[test]
fn cox_is_no_other_program() {
    let mut record = record(vec![ran(5, 5, 1, 0, 100)]);
    record.own_processes = vec![90, 92];
    let preemptor =
        |tid, tgid, name, wait_ns| (tid, wire::Preemptor { wait_ns, tgid, comm: comm(name), ..Default::default() });
    record.preemptors = vec![
        preemptor(90, 90, "cox", 5),
        preemptor(91, 90, "cox-pack", 4),
        preemptor(92, 92, "cox-observe", 3),
        preemptor(93, 93, "cox", 7),
    ];
    assert_eq!(
        build(&record, &[program(5)], 0).preemptors,
        [
            took("cox", 93, 1, PreemptorKind::Other, 7),
            took("cox", 90, 1, PreemptorKind::Cox, 5),
            took("cox-pack", 91, 1, PreemptorKind::Cox, 4),
            took("cox-observe", 92, 1, PreemptorKind::Cox, 3),
        ]
    );
}

fn took(comm: &str, tid: u32, threads: u64, kind: PreemptorKind, wait_ns: u64) -> Preemptor {
    Preemptor { comm: comm.into(), tid, host_tid: None, threads, kind, wait_ns }
}

#[test]
fn preemptors_are_added_up_by_name_and_kind() {
    let mut clocks = vec![ran(5, 5, 1, 0, 100), ran(5, 6, 5, 0, 100), ran(5, 7, 5, 0, 100)];
    (clocks[0].took_ns, clocks[1].took_ns) = (50, 30);
    let mut record = record(clocks);
    let preemptor = |tid, name, wait_ns| (tid, wire::Preemptor { wait_ns, comm: comm(name), ..Default::default() });
    record.preemptors = vec![
        preemptor(80, "kworker", 5),
        preemptor(81, "kworker", 7),
        preemptor(82, "app", 60),
        preemptor(83, "none", 0),
    ];
    record.cpus = vec![Cpu { took_idle_ns: 3, ..Cpu::default() }, Cpu { took_idle_ns: 4, ..Cpu::default() }];
    let account = build(&record, &[program(5)], 0);
    assert_eq!(
        account.preemptors,
        [
            took("app", 5, 2, PreemptorKind::Sibling, 80),
            took("app", 82, 1, PreemptorKind::Other, 60),
            took("kworker", 81, 2, PreemptorKind::Other, 12),
            took("idle", 0, 0, PreemptorKind::Idle, 7),
        ]
    );
}

#[test]
fn other_users_have_one_name_and_no_id() {
    let mut clocks = vec![ran(5, 5, 1, 0, 100), ran(5, 6, 5, 0, 100)];
    clocks[1].flags = wire::layout::LEFT;
    (clocks[0].waker_tid, clocks[0].waker_count) = (wire::layout::ANOTHER_USERS, 3);
    let mut record = record(clocks);
    let name = wire::layout::ANOTHER_USERS_NAME;
    record.preemptors =
        vec![(wire::layout::ANOTHER_USERS, wire::Preemptor { wait_ns: 7, comm: comm(name), ..Default::default() })];
    let account = build(&record, &[program(5)], 0);
    assert_eq!(account.preemptors, [took(name, 0, 1, PreemptorKind::Other, 7)]);
    let threads = &only_process(&account).threads;
    let waker = &threads[0].woken_by[0];
    assert_eq!((waker.tid, waker.host_tid, waker.comm.as_deref(), waker.count), (0, None, Some(name), 3));
    assert_eq!([threads[0].changed_user, threads[1].changed_user], [false, true]);
}

#[test]
fn who_holds_a_cpu_at_the_end_takes_to_the_end() {
    let mut record = record(vec![]);
    record.living = vec![Living { clock: runs(5, 5, 1, 0), until_ns: END - 5 }];
    // One member waits on each CPU since 600, one more since 900; the holder came at 500.
    let waiting = native::cell_arrival(START + 600).wrapping_add(native::cell_arrival(START + 900));
    let cpu = |kind: CpuKind| Cpu { since_ns: START + 500, kind: kind as u64, waiting, ..Cpu::default() };
    record.cpus = vec![cpu(CpuKind::Ours), cpu(CpuKind::Idle), cpu(CpuKind::Others), cpu(CpuKind::Unseen)];
    record.losses = Losses { preemptors_ns: 1, ..Losses::default() };
    let account = build(&record, &[program(5)], 0);
    assert_eq!(
        account.preemptors,
        [took("app", 5, 1, PreemptorKind::Sibling, 500), took("idle", 0, 0, PreemptorKind::Idle, 500)]
    );
    assert_eq!(only_process(&account).threads[0].took_ns, 500);
    assert_eq!(account.lost.preemptors_ns, 501);

    record.living.push(Living { clock: ran(5, 6, 5, 0, 1), until_ns: END });
    record.cpus.truncate(2);
    record.cpus[1].wait_mark = wire::cells::thread_time_ns(waiting, START + 950);
    let account = build(&record, &[program(5)], 0);
    assert_eq!(account.preemptors.iter().map(|preemptor| preemptor.wait_ns).collect::<Vec<_>>(), [400 + 100, 50 + 50]);
    // Two members have not waited longer than twice since the holder came, whatever the mark says.
    record.cpus.remove(0);
    (record.cpus[0].since_ns, record.cpus[0].wait_mark) = (END - 20, 0);
    assert_eq!(build(&record, &[program(5)], 0).preemptors, [took("idle", 0, 0, PreemptorKind::Idle, 40)]);
}

#[test]
fn the_session_is_told() {
    let mut record = record(vec![]);
    record.events = 12;
    record.kernel_cost_ns = Some(34);
    record.losses = Losses {
        events: 1,
        members: 2,
        finals: 3,
        samples: 4,
        pairs: 5,
        preemptors_ns: 6,
        idle_split: 7,
        trace_events: 8,
    };
    let account = build(&record, &[program(5)], 56);
    assert_eq!((account.backend, account.events, account.window_ns), (Backend::Bpf, 12, 1_000));
    assert_eq!(account.own_cost, OwnCost { user_ns: 56, kernel_ns: Some(34) });
    let lost = Lost {
        events: 1,
        members: 2,
        finals: 3,
        samples: 4,
        pairs: 5,
        preemptors_ns: 6,
        idle_split: 7,
        trace_events: 8,
    };
    assert_eq!((account.lost, account.lost.total()), (lost, 30));
    assert_eq!((account.preemptors.len(), account.hot_functions.len(), account.cpus.len()), (0, 0, 0));
}

#[test]
fn an_enrolled_thread_is_listed_with_its_unknown_time() {
    let mut clock = Clock { tid: 5, tgid: 5, ..Clock::default() };
    crate::transition::enrolled(&mut clock, START + 10);
    assert_eq!(clock.flags, ENROLLED_ALIVE);
    let mut record = record(vec![]);
    record.living = vec![Living { clock, until_ns: START + 990 }];
    let account = build(&record, &[program(5)], 0);
    let thread = &only_process(&account).threads[0];
    assert_eq!((thread.born_ns, thread.wall_ns, thread.unknown_ns, thread.alive), (10, 980, 980, true));
}

#[test]
fn threads_and_processes_without_histograms_have_no_quantiles() {
    let with_place = |clock: Clock, place: u32| Clock { flags: clock.flags | place << PLACE_SHIFT, ..clock };
    // One has histograms with a time slice, one has empty histograms, and one has none.
    let slice = LatencyCount { of: LatencyCount::of_place(1), interval: 3, bucket: 5, count: 1 };
    let mut record =
        record(vec![with_place(ran(5, 5, 1, 0, 5), 1), with_place(ran(5, 6, 1, 0, 9), 2), ran(7, 7, 5, 0, 9)]);
    (record.latencies, record.latencies_of_threads) = (vec![slice], true);
    let account = build(&record, &[], 0);
    let slices = |of: Option<&Latencies>| of.map(|of| of.slice.map_or(0, |of| of.count));
    let [program] = &account.programs[..] else { panic!("{:?}", account.programs) };
    let of_processes: Vec<_> = program.processes.iter().map(|process| slices(process.latencies.as_ref())).collect();
    assert_eq!(of_processes, [Some(1), None]);
    let threads = crate::summary::threads_of(program);
    let of_threads: Vec<_> = threads.map(|thread| slices(thread.latencies.as_deref())).collect();
    assert_eq!(of_threads, [Some(1), Some(0), None]);
    // A backend that sees no intervals has no quantiles, whether they were requested or not.
    record.latencies.clear();
    record.clocks.iter_mut().for_each(|clock| clock.flags = 0);
    record.backend = Backend::Proc;
    let account = build(&record, &[], 0);
    assert!(account.programs[0].processes.iter().all(|process| process.latencies.is_none()));
    assert!(account.sees().latencies_of_threads);
}

#[test]
fn programs_without_histograms_have_no_quantiles() {
    let mut record = record(vec![ran(5, 5, 1, 0, 5), ran(7, 7, 1, 0, 9), ran(9, 9, 1, 0, 9)]);
    record.latencies = [0, 1, 1].map(|of| LatencyCount { of, interval: 3, bucket: 5, count: 1 }).to_vec();
    let programs = [program(5), program(7), program(9)];
    for some in 0..=3 {
        record.latencies_of_programs = some;
        let account = build(&record, &programs, 0);
        let slices = account.programs.iter().map(|program| program.latencies?.slice.map(|of| of.count));
        let expected = [Some(1), Some(2), Some(0)].into_iter().zip(0..).map(|(count, at)| count.filter(|_| at < some));
        assert_eq!(slices.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
