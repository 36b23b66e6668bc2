//! Properties that hold for every account, even for impossible ones.

mod staged;

use std::collections::BTreeSet;

use advise::thresholds::WIDEST_RANGE;
use advise::{Facts, Kind, Verdict};
use ledger::figures::ByCause;
use ledger::{Account, CpuAccount, Lost, Preemptor, PreemptorKind, Process, Program, SpinBasis, Thread, WokenBy};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use staged::advise;
use staged::common::highest;
use wire::{Backend, Cause};

const CAUSES: [Cause; 6] =
    [Cause::Futex, Cause::Disk, Cause::Network, Cause::Sleep, Cause::PageFault, Cause::Unspecified];

/// Small, ordinary and absurd times.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_000u64, 0..20_000_000_000u64, 0..20_000_000_000u64, any::<u64>()]
}

/// Any numbers at all.
fn any_thread() -> impl Strategy<Value = Thread> {
    let times = (time(), time(), time(), time(), time(), time(), time());
    let rest = (1..200u32, time(), vec((select(&CAUSES[..]), time()), 0..4), vec((0..9u32, time()), 0..3));
    (times, rest).prop_map(
        |((wall_ns, run_ns, spin_ns, wake, preempt, unknown, steal), (tid, wakeups, causes, wakers))| Thread {
            tid,
            wall_ns,
            run_ns,
            spin_ns,
            spin_basis: SpinBasis::Sampled,
            spin_error_ns: spin_ns / 7,
            kernel_sync_ns: spin_ns / 5,
            kernel_ns: spin_ns / 3,
            steal_ns: steal,
            wake_delay_ns: wake,
            preempt_wait_ns: preempt,
            yield_wait_ns: preempt / 3,
            unknown_ns: unknown,
            wakeups,
            blocked_ns: causes.iter().fold(0, |sum, (_, ns)| sum.saturating_add(*ns)),
            blocked_by: causes.into_iter().collect(),
            woken_by: wakers
                .into_iter()
                .map(|(tid, ns)| WokenBy { tid, blocked_ns: ns, ..WokenBy::default() })
                .collect(),
            ..Thread::default()
        },
    )
}

/// A thread whose states sum to its life, as a session yields it.
fn closed_thread() -> impl Strategy<Value = Thread> {
    let shares = (vec(0.0..1.0f64, 9), 0.0..0.9f64);
    (shares, 1..200u32, 0..100_000u64).prop_map(|((parts, spun), tid, wakeups)| {
        let sum: f64 = parts.iter().map(|part| part.powi(4)).sum::<f64>().max(1e-9);
        let ns: Vec<u64> = parts.iter().map(|part| (part.powi(4) / sum * staged::WALL_NS as f64) as u64).collect();
        let blocked_by: ByCause = CAUSES[..5].iter().copied().zip(ns[4..].iter().copied()).collect();
        Thread {
            tid,
            wall_ns: ns.iter().sum(),
            run_ns: ns[0],
            spin_ns: (ns[0] as f64 * spun) as u64,
            spin_basis: SpinBasis::Sampled,
            kernel_sync_ns: (ns[0] as f64 * (1.0 - spun) / 2.0) as u64,
            wake_delay_ns: ns[1],
            preempt_wait_ns: ns[2],
            yield_wait_ns: ns[2] / 4,
            unknown_ns: ns[3] / 10,
            blocked_ns: blocked_by.total(),
            blocked_by,
            wakeups,
            ..Thread::default()
        }
    })
}

fn cpu(cpu: u32) -> impl Strategy<Value = CpuAccount> {
    (time(), time(), time(), time()).prop_map(move |(busy_program_ns, busy_others_ns, idle_ns, waiting)| CpuAccount {
        cpu,
        busy_program_ns,
        busy_others_ns,
        idle_ns,
        idle_while_waiting_ns: waiting,
        ..CpuAccount::default()
    })
}

fn preemptor() -> impl Strategy<Value = Preemptor> {
    let kinds = [PreemptorKind::Sibling, PreemptorKind::Cox, PreemptorKind::Other, PreemptorKind::Idle];
    ("[a-zé/:0-9]{0,9}", time(), select(kinds.to_vec())).prop_map(|(comm, wait_ns, kind)| Preemptor {
        comm,
        wait_ns,
        kind,
        tid: 3,
        host_tid: None,
        threads: 1,
    })
}

fn account_of(
    thread: impl Strategy<Value = Thread>,
    wall: impl Strategy<Value = u64>,
) -> impl Strategy<Value = Account> {
    let cpus = prop_oneof![vec(cpu(0), 0..1), (cpu(0), cpu(1), cpu(2)).prop_map(|(a, b, c)| vec![a, b, c])];
    let backend = select(&[Backend::Bpf, Backend::Bpf, Backend::Perf, Backend::Proc, Backend::PerfData][..]);
    (vec(thread, 0..7), wall, cpus, vec(preemptor(), 0..5), backend, 0..1000u64, 0..3u64).prop_map(
        |(threads, wall_ns, cpus, preemptors, backend, lost, finals)| {
            let processes = vec![Process { pid: 1, threads, ..Process::default() }];
            Account {
                backend,
                sees: None,
                provenance: None,
                window_ns: wall_ns,
                events: 5000,
                lost: Lost { events: lost / 900 * lost, finals: finals / 2, ..Lost::default() },
                own_cost: Default::default(),
                programs: vec![Program { wall_ns, processes, ..Program::default() }],
                cpus,
                preemptors,
                hot_functions: Vec::new(),
                co_run: None,
            }
        },
    )
}

fn facts() -> impl Strategy<Value = Facts> {
    let own = || proptest::option::of(vec(0..4u32, 0..2));
    let masks = (vec(0..4u32, 0..4), vec(0..6u32, 0..6), own(), own());
    let quota = (
        proptest::option::of(prop_oneof![(1..12u8).prop_map(|q| f64::from(q) / 4.0), Just(f64::NAN), Just(0.0)]),
        time(),
        0..50u64,
    );
    let variables = vec(select(&Facts::VARIABLES[..]), 0..3);
    (masks, quota, variables, any::<bool>(), any::<bool>()).prop_map(|(masks, quota, variables, smt, verbs)| Facts {
        allowed_cpus: masks.0,
        online_cpus: masks.1.into_iter().collect::<BTreeSet<_>>().into_iter().collect(),
        pinned_cpus: masks.2,
        packed_cpus: masks.3,
        cpu_quota: quota.0,
        throttled_ns: quota.1,
        nr_throttled: quota.2,
        environment: variables.into_iter().map(|name| (name.to_owned(), "passive".to_owned())).collect(),
        openmp_runtime: smt.then(|| "libgomp.so.1".to_owned()),
        smt,
        verbs: if verbs {
            ["pack", "advise", "overlap", "doctor", "quiet"].map(str::to_owned).into()
        } else {
            BTreeSet::new()
        },
        denied: if smt {
            [Facts::EBPF, Facts::OTHERS, Facts::QUOTA].map(str::to_owned).into()
        } else {
            BTreeSet::new()
        },
        command: vec!["./app".to_owned()],
    })
}

/// One figure, computed anew from the account's own fields; `None` for a name that is not one.
fn recompute(account: &Account, facts: &Facts, name: &str) -> Option<f64> {
    let programs = account.programs.iter();
    let threads: Vec<&Thread> = programs.flat_map(|p| &p.processes).flat_map(|p| &p.threads).collect();
    let sum = |part: &dyn Fn(&Thread) -> u64| threads.iter().fold(0u64, |sum, thread| sum.saturating_add(part(thread)));
    let took =
        |kind| account.preemptors.iter().filter(|t| t.kind == kind).fold(0u64, |sum, t| sum.saturating_add(t.wait_ns));
    let cpus = |part: fn(&CpuAccount) -> u64| account.cpus.iter().map(part).fold(0, u64::saturating_add);
    let cause = |cause: Cause| sum(&|thread| thread.blocked_by[cause]);
    let work = |thread: &Thread| thread.run_ns.saturating_sub(thread.spin_ns).saturating_sub(thread.kernel_sync_ns);
    let (spin, sync) = (sum(&|t| t.spin_ns), sum(&|t| t.kernel_sync_ns));
    let (wake, preempt, yielded) = (sum(&|t| t.wake_delay_ns), sum(&|t| t.preempt_wait_ns), sum(&|t| t.yield_wait_ns));
    let whole = match name {
        "threads" => threads.len() as u64 + account.lost.finals,
        "worker_threads" => return None,
        "thread_ns" => sum(&|t| t.wall_ns),
        "wall_ns" => account.window_ns.max(1),
        // A thread that spun for longer than it ran is impossible.
        "work_ns" => sum(&|t| t.run_ns).saturating_sub(spin).saturating_sub(sync),
        "largest_work_ns" => threads.iter().map(|t| work(t)).max().unwrap_or(0),
        "run_ns" => sum(&|t| t.run_ns),
        "average_cpus" => return Some(sum(&|t| t.run_ns) as f64 / account.window_ns.max(1) as f64),
        "spin_ns" => spin,
        "kernel_sync_ns" => sync,
        "kernel_ns" => sum(&|t| t.kernel_ns),
        "serial_ns" => sum(&|t| t.serial_ns),
        "steal_ns" => sum(&|t| t.steal_ns),
        "waiting_for_threads_ns" => {
            spin.saturating_add(sync).saturating_add(yielded).saturating_add(cause(Cause::Futex))
        }
        "waiting_for_cpu_ns" => wake.saturating_add(preempt.saturating_sub(yielded)),
        "wake_delay_ns" => wake,
        "preempt_wait_ns" => preempt,
        "yield_wait_ns" => yielded,
        "blocked_ns" => sum(&|t| t.blocked_ns),
        "unknown_ns" => sum(&|t| t.unknown_ns),
        "preemptors.sibling" => took(PreemptorKind::Sibling),
        "preemptors.cox" => took(PreemptorKind::Cox),
        "preemptors.other" => took(PreemptorKind::Other),
        "preemptors.idle" => took(PreemptorKind::Idle),
        "cpus.idle_ns" => cpus(|cpu| cpu.idle_ns),
        "cpus.idle_while_waiting_ns" => cpus(|cpu| cpu.idle_while_waiting_ns),
        "cpus.busy_others_ns" => cpus(|cpu| cpu.busy_others_ns),
        "events" => account.events,
        "lost_events" => account.lost.total(),
        "facts.program_cpus" => {
            let own = facts.packed_cpus.as_ref().or(facts.pinned_cpus.as_ref());
            own.unwrap_or(&facts.allowed_cpus).len() as u64
        }
        "facts.online_cpus" => facts.online_cpus.len() as u64,
        "facts.cpu_quota" => return Some(facts.cpu_quota.filter(|q| *q > 0.0).unwrap_or(0.0)),
        "facts.throttled_ns" => facts.throttled_ns,
        "facts.nr_throttled" => facts.nr_throttled,
        "preempted_ns" => preempt.saturating_sub(yielded),
        "irq_ns" => sum(&|t| t.irq_ns),
        "samples" => sum(&|t| t.samples),
        "switches_voluntary" => sum(&|t| t.switches_voluntary),
        "switches_involuntary" => sum(&|t| t.switches_involuntary),
        "wakeups" => sum(&|t| t.wakeups),
        "migrations" => sum(&|t| t.migrations.total()),
        "took_ns" => sum(&|t| t.took_ns),
        "impossible" => sum(&|t| t.impossible),
        // Not known, or the only one whose rule is another.
        "kernel_cpu_ns" | "kernel_run_delay_ns" | "spin_error_ns" | "kernel_sync_error_ns" | "serial_error_ns" => 0,
        "cpus.busy_program_ns" => cpus(|cpu| cpu.busy_program_ns),
        "cpus.idle_while_blocked_ns" => cpus(|cpu| cpu.idle_while_blocked_ns),
        "cpus.unknown_ns" => cpus(|cpu| cpu.unknown_ns),
        "cpus.known_ns" => {
            let busy = cpus(|cpu| cpu.busy_program_ns).saturating_add(cpus(|cpu| cpu.busy_others_ns));
            busy.saturating_add(cpus(|cpu| cpu.idle_ns))
        }
        // What are no numbers.
        "spin_basis" | "cpus" => 0,
        blocked => cause(staged::cause(blocked.strip_prefix("blocked_by.")?)),
    };
    Some(whole as f64)
}

#[test]
fn every_figure_can_be_recomputed_and_has_its_own_name() {
    let (account, facts) = (staged::Stage::alike(2, staged::SIBLINGS, 2, &staged::Life::default()), Facts::default());
    let names: Vec<String> = advise::figures::Figure::all().map(|figure| figure.name()).collect();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    // `efficiency.rs` tests POP's metrics, which depend on which threads are workers, too.
    let of_workers =
        ["worker_threads", "parallel_efficiency", "load_balance", "serialisation", "largest_parallel_work_ns"];
    for name in names.iter().filter(|name| !of_workers.contains(&name.as_str())) {
        assert!(recompute(&account.account, &facts, name).is_some(), "{name}");
    }
}

fn check_form(verdict: &Verdict, account: &Account, facts: &Facts) {
    let sentences = verdict.sentences.len();
    let short = matches!(verdict.headline, Kind::NothingToGain | Kind::TooLittleEvidence);
    assert!((if short { 1 } else { 3 }..=6).contains(&sentences), "{verdict:#?}");
    for sentence in &verdict.sentences {
        assert!(!sentence.text.contains("NaN") && !sentence.text.contains("inf"), "{}", sentence.text);
        for evidence in &sentence.evidence {
            if evidence.figure == "worker_threads" {
                assert!(evidence.value >= 0.0 && evidence.value <= 7.0);
                continue;
            }
            // It depends on which threads are workers.
            if evidence.figure == "largest_parallel_work_ns" {
                continue;
            }
            let value = recompute(account, facts, &evidence.figure).unwrap_or_else(|| panic!("{}", evidence.figure));
            assert!(value == evidence.value, "{} {} {value}", evidence.figure, evidence.value);
        }
        for step in &sentence.next {
            assert!(!step.action.contains("cox ") || !facts.verbs.is_empty() || step.action.starts_with("cox run"));
            if let (Some(low), Some(high)) = (step.expected_low, step.expected_high) {
                let bound = step.bound.unwrap_or(high);
                assert!(1.0 <= low && low <= high && high <= bound && bound.is_finite(), "{step:?}");
                assert!(high <= WIDEST_RANGE * low, "{step:?}");
            } else {
                assert!(step.expected_low.is_none() && step.expected_high.is_none() && step.bound.is_none());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_account_has_a_well_formed_verdict(account in account_of(any_thread(), time()), facts in facts()) {
        check_form(&advise(&account, &facts), &account, &facts);
    }

    #[test]
    fn no_forecast_beats_the_work(account in account_of(closed_thread(), Just(staged::WALL_NS)), facts in facts()) {
        let verdict = advise(&account, &facts);
        check_form(&verdict, &account, &facts);
        // However it is scheduled, the work needs its time on all CPUs there are, or on as many as threads.
        let mask: BTreeSet<u32> = facts.program_cpus().iter().chain(&facts.online_cpus).copied().collect();
        let cpus = mask.len().max(account.cpus.len()).max(facts.program_cpus().len()).max(1) as f64;
        let threads = account.programs[0].processes[0].threads.len() as f64;
        let work = recompute(&account, &facts, "work_ns").unwrap().max(1.0);
        let universal = (staged::WALL_NS as f64 * cpus.min(threads).max(1.0) / work).max(1.0);
        for step in verdict.sentences.iter().flat_map(|sentence| &sentence.next) {
            // A factor was multiplied and is divided: the last bits can differ.
            prop_assert!(highest(step).is_none_or(|high| high <= universal * (1.0 + 1e-12)), "{step:?} beats {universal}");
        }
    }
}
