//! Sample documents for tests of reports.
#![allow(dead_code, reason = "each test file uses its own part")]

use advise::Facts;
use ledger::figures::RunByCpu;
use ledger::{
    Account, CpuAccount, HotFunction, Latencies, Lost, OwnCost, Preemptor, PreemptorKind, Process, Program, Quantiles,
    Sees, SpinBasis, Thread, WokenBy,
};
use report::Document;
use report::pack::PackReport;
use wire::{Backend, Cause, Migration};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Run time by CPU.
pub fn ran_on(times: impl IntoIterator<Item = (u32, u64)>) -> RunByCpu {
    times.into_iter().map(|(cpu, ns)| (Some(cpu), ns)).collect()
}

/// Three threads of an OpenMP program that take turns on two CPUs, as in docs/figures.md.
pub fn heat() -> Document {
    let thread = |tid: u32, work: u64, spin: u64, wake: u64, preempted: u64, disk: u64, unknown: u64| {
        let run_ns = (work + spin) * MS;
        Thread {
            tid,
            comm: "heat".into(),
            wall_ns: (work + spin + wake + preempted + disk + unknown) * MS,
            run_ns,
            spin_ns: spin * MS,
            spin_basis: SpinBasis::Sampled,
            spin_error_ns: 60 * MS,
            steal_ns: 80 * MS,
            samples: run_ns / MS,
            wake_delay_ns: wake * MS,
            preempt_wait_ns: preempted * MS,
            blocked_ns: disk * MS,
            blocked_by: [(Cause::Disk, disk * MS)].into_iter().collect(),
            unknown_ns: unknown * MS,
            switches_voluntary: 1204,
            switches_involuntary: 2811,
            wakeups: 1204,
            migrations: [(Migration::WhileQueued, 310)].into_iter().collect(),
            cpus: ran_on([(0, run_ns / 2), (1, run_ns - run_ns / 2)]),
            woken_by: vec![WokenBy {
                tid: 4712,
                host_tid: None,
                comm: Some("heat".into()),
                count: 900,
                blocked_ns: disk * MS,
            }],
            ..Thread::default()
        }
    };
    let threads = vec![
        thread(4711, 5410, 2600, 160, 4060, 150, 30),
        thread(4712, 5380, 2640, 160, 4040, 150, 40),
        thread(4713, 5370, 2610, 160, 4080, 150, 40),
    ];
    let took = |tid: u32, comm: &str, threads, kind, wait_ns| Preemptor {
        comm: comm.into(),
        tid,
        host_tid: None,
        threads,
        kind,
        wait_ns,
    };
    let cpu = |cpu, ours: u64, others: u64, waited: u64| CpuAccount {
        cpu,
        busy_program_ns: ours * MS,
        busy_others_ns: others * MS,
        idle_ns: (12_410 - ours - others) * MS,
        idle_while_waiting_ns: waited * MS,
        idle_while_blocked_ns: 200 * MS,
        unknown_ns: 0,
    };
    let hot = |function: &str, module: &str, run: u64, waiting: Option<&str>| HotFunction {
        module: module.into(),
        function: Some(function.into()),
        run_ns: run * MS,
        serial_ns: 0,
        samples: run,
        waiting: waiting.map(str::to_owned),
    };
    let program = Program {
        command: ["./heat", "4096", "200"].map(str::to_owned).into(),
        exit_code: Some(0),
        wall_ns: 12_410 * MS,
        processes: vec![Process { pid: 4711, comm: "heat".into(), exit_code: Some(0), threads, ..Process::default() }],
        busy_cpus_ns: Some([155, 500, 11_755].map(|ms| ms * MS).into()),
        ..Program::default()
    };
    let account = Account {
        backend: Backend::Bpf,
        sees: None,
        provenance: None,
        window_ns: 12_410 * MS,
        events: 812_440,
        lost: Lost::default(),
        own_cost: OwnCost { user_ns: 40 * MS, kernel_ns: Some(55 * MS) },
        programs: vec![program],
        cpus: vec![cpu(0, 11_990, 110, 20), cpu(1, 12_020, 100, 30)],
        preemptors: vec![
            took(4713, "heat", 3, PreemptorKind::Sibling, 12_460 * MS),
            took(87, "kworker/u8:1", 1, PreemptorKind::Other, 150 * MS),
            took(0, "idle", 1, PreemptorKind::Idle, 50 * MS),
        ],
        co_run: None,
        hot_functions: vec![
            hot("heat_step", "heat", 15_900, None),
            hot("gomp_team_barrier_wait_end", "libgomp.so.1.0.0", 7_850, Some("OpenMP runtime")),
        ],
    };
    Document::new("0.1.0", account, facts())
}

pub fn facts() -> Facts {
    Facts {
        allowed_cpus: vec![0, 1],
        online_cpus: vec![0, 1],
        command: ["./heat", "4096", "200"].map(str::to_owned).into(),
        ..Facts::default()
    }
}

/// The same program, packed too.
pub fn packed() -> Document {
    let pack = PackReport {
        schema_version: report::pack::SCHEMA_VERSION,
        command: vec!["./heat".into()],
        cpus: "0-1".into(),
        slots: 2,
        slots_ns: 2 * 12_410 * MS,
        threads: 3,
        wall_ns: 12_410 * MS,
        rotating_ns: 11_000 * MS,
        period_ns: 500_000,
        run_ns: 24_010 * MS,
        spinning: Some(0.33),
        efficiency_without: Some(0.5),
        efficiency_without_low: Some(0.48),
        efficiency_without_high: Some(0.52),
        without_measured_ns: 480_000_000,
        efficiency_with: Some(0.66),
        exchanges: 40_000,
        moves: 41_210,
        own_ns: 310 * MS,
        restored: 3,
        ..PackReport::default()
    };
    let facts = Facts { packed_cpus: Some(vec![0, 1]), ..facts() };
    Document { pack: Some(pack), ..Document::new("0.1.0", heat().account, facts) }
}

/// A parallel make: many short processes.
pub fn make() -> Document {
    let process = |pid: u32, comm: &str, run: u64, wait: u64, children: u64| {
        let thread = Thread {
            tid: pid,
            comm: comm.into(),
            wall_ns: (run + wait + children) * MS,
            run_ns: run * MS,
            spin_basis: SpinBasis::Sampled,
            preempt_wait_ns: wait * MS,
            blocked_ns: children * MS,
            blocked_by: [(Cause::ChildWait, children * MS)].into_iter().collect(),
            ..Thread::default()
        };
        Process {
            pid,
            parent_pid: 1,
            comm: comm.into(),
            exit_code: Some(0),
            threads: vec![thread],
            ..Process::default()
        }
    };
    let mut processes = vec![process(100, "make", 30, 2, 9968)];
    for job in 0..120 {
        processes.push(process(200 + 2 * job, "sh", 1, 1, 160));
        processes.push(process(201 + 2 * job, "cc1", 150, 140, 0));
    }
    let program = Program {
        command: vec!["make".into(), "-j4".into()],
        exit_code: Some(0),
        wall_ns: 10 * S,
        processes,
        ..Program::default()
    };
    let account = Account {
        backend: Backend::Bpf,
        sees: None,
        provenance: None,
        window_ns: 10 * S,
        events: 5_000,
        lost: Lost::default(),
        own_cost: OwnCost::default(),
        programs: vec![program],
        cpus: Vec::new(),
        preemptors: Vec::new(),
        hot_functions: Vec::new(),
        co_run: None,
    };
    Document::new("0.1.0", account, facts())
}

/// A run with everything that has to be said: losses, children left behind, wakers, others on the CPU.
pub fn troubled() -> Document {
    let mut document = heat();
    let account = &mut document.account;
    account.lost = Lost { events: 2_000, finals: 3, preemptors_ns: 4 * MS, ..Lost::default() };
    account.own_cost.kernel_ns = None;
    let program = &mut account.programs[0];
    program.command.push("--a-long-option=with/a/long/value".into());
    program.exit_code = Some(139);
    for thread in &mut program.processes[0].threads {
        thread.blocked_by[Cause::Futex] = 2_000 * MS;
        thread.blocked_ns += 2_000 * MS;
        thread.preempt_wait_ns -= 2_000 * MS;
        thread.woken_by[0].blocked_ns = 1_700 * MS;
        thread.yield_wait_ns = 100 * MS;
        thread.kernel_run_delay_ns = Some(thread.wake_delay_ns + thread.preempt_wait_ns - 9 * MS);
    }
    program.processes[0].threads[1].comm = "\u{1b}[31mred".into();
    let mut daemon = program.processes[0].threads[2].clone();
    (daemon.tid, daemon.comm, daemon.alive) = (4720, "温度d".into(), true);
    let daemon = Process { pid: 4720, comm: "温度d".into(), threads: vec![daemon], ..Process::default() };
    program.processes.push(daemon);
    Document::new("0.1.0", document.account, facts())
}

/// The same program as `heat`, seen by perf.
pub fn by_perf() -> Document {
    let mut account = heat().account;
    account.backend = Backend::Perf;
    account.cpus.clear();
    account.preemptors.clear();
    for thread in &mut account.programs[0].processes[0].threads {
        thread.blocked_ns += thread.wake_delay_ns;
        thread.wake_delay_ns = 0;
        thread.blocked_by = [(Cause::Unspecified, thread.blocked_ns)].into_iter().collect();
        thread.woken_by.clear();
        thread.migrations = Default::default();
        thread.cpus = Default::default();
    }
    Document::new("0.1.0", account, facts())
}

/// The first sample with latency quantiles for all but the last thread.
pub fn timed() -> Document {
    let mut document = heat();
    document.account.sees = Some(Sees { latencies_of_threads: true, ..document.account.sees() });
    let of = |count, p50_ns| {
        Some(Quantiles { count, p50_ns, p90_ns: 3 * p50_ns, p99_ns: 40 * p50_ns, max_ns: 900 * p50_ns })
    };
    let latencies = |times: u64| Latencies {
        wake_delay: of(401 * times, 3_100),
        preempt_wait: of(0, 0),
        blocked: of(400 * times, 151_000),
        slice: of(4_015 * times, 1_350_000),
    };
    let program = &mut document.account.programs[0];
    program.latencies = Some(latencies(3));
    program.processes[0].latencies = Some(latencies(2));
    for thread in &mut program.processes[0].threads[..2] {
        thread.latencies = Some(Box::new(latencies(1)));
    }
    document
}

/// Sixteen threads, of which ten are listed.
pub fn many() -> Document {
    let mut account = heat().account;
    let threads = &mut account.programs[0].processes[0].threads;
    let first = threads[0].clone();
    threads.extend((0..13u32).map(|at| {
        let mut thread = first.clone();
        thread.tid = 5000 + at;
        thread.preempt_wait_ns -= u64::from(at) * 100 * MS;
        thread.wall_ns -= u64::from(at) * 100 * MS;
        thread
    }));
    Document::new("0.1.0", account, facts())
}
