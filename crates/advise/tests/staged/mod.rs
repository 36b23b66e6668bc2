//! Staged situations: accounts as an observer would deliver them, built from the shares of each thread's life.
#![allow(dead_code, reason = "each test file uses its own part of the stage")]

pub mod common;

use advise::evidence::Evidence;
use advise::{Facts, Verdict};
use ledger::figures::ByCause;
use ledger::{
    Account, CpuAccount, HotFunction, Lost, OwnCost, Preemptor, PreemptorKind, Process, Program, SpinBasis, Thread,
    WokenBy,
};
use wire::{Backend, Cause};

/// Wall time of a staged run.
pub const WALL_NS: u64 = 10_000_000_000;

/// Shares of a thread's life; what is left of 1 is work.
#[derive(Clone, Debug, Default)]
pub struct Life {
    pub spin: f64,
    pub futex: f64,
    pub preempted: f64,
    pub yielded: f64,
    pub wake_delay: f64,
    pub blocked: Vec<(&'static str, f64)>,
    pub wakeups_per_s: f64,
    pub woken_by: Vec<u32>,
    pub steal: f64,
}

/// Who held the CPUs that were waited for, as parts of all waiting for a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Behind {
    pub sibling: f64,
    pub other: f64,
    pub idle: f64,
}

pub const SIBLINGS: Behind = Behind { sibling: 1.0, other: 0.0, idle: 0.0 };
pub const OTHERS: Behind = Behind { sibling: 0.0, other: 1.0, idle: 0.0 };
pub const IDLE: Behind = Behind { sibling: 0.0, other: 0.0, idle: 1.0 };

/// A run to be judged.
#[derive(Clone, Debug)]
pub struct Stage {
    pub account: Account,
    pub facts: Facts,
}

/// Judges an account.
pub fn advise(account: &Account, facts: &Facts) -> Verdict {
    advise::judge(&Evidence::new(account, facts))
}

fn ns(share: f64) -> u64 {
    (share * WALL_NS as f64).round() as u64
}

/// The cause of this name.
pub fn cause(name: &str) -> Cause {
    *Cause::ALL.iter().find(|cause| cause.name() == name).expect("a cause")
}

fn thread(tid: u32, life: &Life) -> Thread {
    let causes = life.blocked.iter().map(|(name, part)| (cause(name), *part));
    let blocked: ByCause = causes.chain([(Cause::Futex, life.futex)]).map(|(cause, part)| (cause, ns(part))).collect();
    let blocked_ns = blocked.total();
    let off = blocked_ns + ns(life.preempted) + ns(life.yielded) + ns(life.wake_delay);
    let wakers = life.woken_by.len().max(1) as u64;
    let woken = |tid: &u32| WokenBy {
        tid: *tid,
        host_tid: None,
        comm: Some("app".into()),
        count: 100,
        blocked_ns: ns(life.futex) / wakers,
    };
    Thread {
        tid,
        comm: "app".into(),
        wall_ns: WALL_NS,
        run_ns: WALL_NS.saturating_sub(off),
        spin_ns: ns(life.spin),
        spin_basis: SpinBasis::Sampled,
        spin_error_ns: ns(life.spin) / 50,
        steal_ns: ns(life.steal),
        wake_delay_ns: ns(life.wake_delay),
        preempt_wait_ns: ns(life.preempted + life.yielded),
        yield_wait_ns: ns(life.yielded),
        blocked_ns,
        blocked_by: blocked,
        wakeups: (life.wakeups_per_s * WALL_NS as f64 / 1e9) as u64,
        woken_by: life.woken_by.iter().map(woken).collect(),
        ..Thread::default()
    }
}

impl Stage {
    /// Threads of one process, the first its main thread, on CPUs `0..cpus`, observed by eBPF.
    pub fn new(cpus: u32, behind: Behind, lives: &[Life]) -> Stage {
        let threads: Vec<Thread> = lives.iter().enumerate().map(|(at, life)| thread(100 + at as u32, life)).collect();
        let waited: u64 = threads.iter().map(|thread| thread.wake_delay_ns + thread.preempt_wait_ns).sum();
        let run: u64 = threads.iter().map(|thread| thread.run_ns).sum();
        let taken = |part: f64| (part * waited as f64) as u64;
        let took = [
            ("app", PreemptorKind::Sibling, behind.sibling),
            ("stress", PreemptorKind::Other, behind.other),
            ("idle", PreemptorKind::Idle, behind.idle),
        ];
        let preemptors = took
            .iter()
            .filter(|(_, _, part)| *part > 0.0)
            .map(|(comm, kind, part)| Preemptor {
                comm: (*comm).into(),
                tid: 7,
                host_tid: None,
                threads: 1,
                kind: *kind,
                wait_ns: taken(*part),
            })
            .collect();
        let others = taken(behind.other).min(WALL_NS * u64::from(cpus) - run.min(WALL_NS * u64::from(cpus)));
        let each = u64::from(cpus);
        let cpu = |cpu| CpuAccount {
            cpu,
            busy_program_ns: run / each,
            busy_others_ns: others / each,
            idle_ns: WALL_NS.saturating_sub(run / each + others / each),
            idle_while_waiting_ns: taken(behind.idle) / each,
            ..CpuAccount::default()
        };
        let process = Process { pid: 100, comm: "app".into(), exit_code: Some(0), threads, ..Process::default() };
        let program = Program {
            command: vec!["./app".into(), "9".into()],
            exit_code: Some(0),
            wall_ns: WALL_NS,
            processes: vec![process],
            ..Program::default()
        };
        let account = Account {
            backend: Backend::Bpf,
            sees: None,
            provenance: None,
            window_ns: WALL_NS,
            events: 100_000,
            lost: Lost::default(),
            own_cost: OwnCost::default(),
            programs: vec![program],
            cpus: (0..cpus).map(cpu).collect(),
            preemptors,
            hot_functions: Vec::new(),
            co_run: None,
        };
        let facts = Facts {
            allowed_cpus: (0..cpus).collect(),
            online_cpus: (0..cpus).collect(),
            command: vec!["./app".into(), "9".into()],
            ..Facts::default()
        };
        Stage { account, facts }
    }

    /// `count` threads that live alike.
    pub fn alike(cpus: u32, behind: Behind, count: usize, life: &Life) -> Stage {
        Stage::new(cpus, behind, &vec![life.clone(); count])
    }

    /// As the perf backend would have seen it: no causes, no CPUs, wake delay inside blocked.
    pub fn by_perf(mut self) -> Stage {
        self.account.backend = Backend::Perf;
        self.account.cpus.clear();
        self.account.preemptors.clear();
        for thread in self.threads_mut() {
            thread.blocked_ns += thread.wake_delay_ns;
            thread.wake_delay_ns = 0;
            thread.blocked_by = [(Cause::Unspecified, thread.blocked_ns)].into_iter().collect();
            thread.woken_by.clear();
        }
        self
    }

    /// As the proc backend would have seen it: besides, no spinning and no yields.
    pub fn by_proc(self) -> Stage {
        let mut stage = self.by_perf();
        stage.account.backend = Backend::Proc;
        for thread in stage.threads_mut() {
            thread.spin_ns = 0;
            thread.spin_basis = SpinBasis::None;
            thread.yield_wait_ns = 0;
        }
        stage
    }

    /// The program spins in this kind of place.
    pub fn spinning_in(mut self, waiting: &str) -> Stage {
        self.account.hot_functions.push(HotFunction {
            module: "libgomp.so.1".into(),
            function: Some("gomp_team_barrier_wait_end".into()),
            run_ns: 1_000_000_000,
            serial_ns: 0,
            samples: 1000,
            waiting: Some(waiting.into()),
        });
        self
    }

    /// Thread `at` did serial work for this part of its life, in `function` of `module`.
    pub fn serial(mut self, at: usize, part: f64, function: &str, module: &str) -> Stage {
        let thread = &mut self.account.programs[0].processes[0].threads[at];
        thread.serial_ns += ns(part);
        thread.serial_error_ns = ns(0.01);
        self.account.hot_functions.push(HotFunction {
            module: module.into(),
            function: Some(function.into()),
            run_ns: ns(part),
            serial_ns: ns(part),
            samples: 1000,
            waiting: None,
        });
        self
    }

    /// The machine has CPUs the program may not use; they were idle.
    pub fn on_machine_of(mut self, online: u32) -> Stage {
        let own = self.account.cpus.len() as u32;
        self.facts.online_cpus = (0..online).collect();
        let idle = |cpu| CpuAccount { cpu, idle_ns: WALL_NS, ..CpuAccount::default() };
        self.account.cpus.extend((own..online).map(idle));
        self
    }

    /// The control group may use `quota` CPUs and was throttled for `throttled` of the run on each CPU.
    pub fn throttled(mut self, quota: f64, throttled: f64) -> Stage {
        self.facts.cpu_quota = Some(quota);
        self.facts.throttled_ns = ns(throttled) * self.facts.allowed_cpus.len() as u64;
        self.facts.nr_throttled = 100;
        self
    }

    pub fn threads_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.account.programs.iter_mut().flat_map(|p| &mut p.processes).flat_map(|p| &mut p.threads)
    }
}
