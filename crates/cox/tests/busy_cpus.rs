//! How many CPUs were busy with a program at a time, of a program whose threads say how long each worked.

use std::fs;

use advise::efficiency::{Base, Efficiency};
use advise::evidence::Evidence;
use ledger::account::Thread;
use testkit::built::TARGET;
use testkit::measured::{Bench, Seen, assert_undisturbed, bench, number, on_cpus, threads_of};
use testkit::run::on_one_line;

/// Two threads that work at the same time, and sleep for one another at the end of each loop: the second works twice as long.
const PROGRAM: [&str; 9] = ["imbalance", "--threads", "2", "--factor", "2", "--rounds", "6", "--work-us", "50000"];

fn watch(bench: &Bench, backend: &str) -> (Seen, Vec<u64>) {
    let truth = bench.folder().join("truth.json");
    let within = [vec!["env".to_owned(), "OMP_WAIT_POLICY=passive".to_owned()], on_cpus(2)].concat();
    let mut program: Vec<String> = PROGRAM.map(str::to_owned).into();
    program[0] = format!("{TARGET}/workloads/imbalance");
    program.extend(["--truth".to_owned(), truth.display().to_string()]);
    let seen = bench.watch_by(backend, &within, &program);
    let truth = serde_json::from_slice(&fs::read(&truth).expect("read the truth")).expect("JSON");
    let worked = threads_of(&truth).iter().map(|thread| number(thread, "work_cpu_ns")).collect();
    (seen, worked)
}

/// Both at a time while the first worked, one for the rest of the second's work. Other programs can have had a CPU meanwhile: then a thread waited for
/// one, or the hypervisor took it.
fn faults(bench: &Bench, backend: &str) -> Vec<String> {
    let (seen, worked) = watch(bench, backend);
    let times = seen.document.account.programs[0].busy_cpus_ns.clone().unwrap_or_default();
    let [first_ns, second_ns] = worked[..] else { panic!("{worked:?}") };
    let delayed_ns: u64 = seen.threads().map(|t| t.wake_delay_ns + t.preempt_wait_ns + t.steal_ns).sum();
    // The program also starts, calibrates and ends, on one CPU.
    let before_ns = seen.threads().map(Thread::work_ns).sum::<u64>().saturating_sub(first_ns + second_ns);
    let slack_ns = 2 * delayed_ns + second_ns / 25;
    println!("{backend}: {times:?}, {worked:?}, {before_ns} before, {delayed_ns} delayed");
    let mut faults = seen.busy_faults();
    for (cpus, expected_ns, more_ns) in [(1, second_ns - first_ns, before_ns), (2, first_ns, 0)] {
        let ns = times.get(cpus).copied().unwrap_or(0);
        if ns + slack_ns < expected_ns || ns > expected_ns + more_ns + slack_ns {
            faults.push(format!(
                "{backend}: {cpus} CPUs for {ns} ns, expected {expected_ns} and at most {more_ns} ns more: {times:?}"
            ));
        }
    }
    faults
}

#[test]
fn two_threads_work_together_for_half_of_the_time() {
    let Some(bench) = bench("two_threads_work_together_for_half_of_the_time") else { return };
    for backend in ["bpf", "perf"] {
        assert_undisturbed(|| faults(&bench, backend));
    }
}

#[test]
fn the_report_has_them_and_metrics_that_follow() {
    let Some(bench) = bench("the_report_has_them_and_metrics_that_follow") else { return };
    let (seen, worked) = watch(&bench, "bpf");
    let document = &seen.document;
    assert!(seen.report.contains("\n  CPUs in use: "), "{}", seen.report);
    let efficiency = Efficiency::of(&Evidence::new(&document.account, &document.facts)).expect("spinning is seen");
    let Base::Threads { threads: 2, balance, .. } = efficiency.of else { panic!("{efficiency:?}") };
    // The main thread has prepared all, too.
    let expected = (worked[0] + worked[1]) as f64 / (2 * worked[1]) as f64;
    assert!((0.0..0.2).contains(&(balance - expected + 0.05)), "{balance} {expected}");
    for (name, value) in [("load_balance", balance), ("parallel_efficiency", efficiency.parallel)] {
        assert_eq!(seen.json["figures"][name].as_f64(), Some(value));
        let printed = format!("{} {:.0} %", name.replace('_', " "), value * 100.0)
            .replace("parallel efficiency ", "Parallel efficiency: ");
        assert!(seen.report.contains(&printed), "{printed}: {}", seen.report);
    }
    let (by_proc, _) = watch(&bench, "proc");
    assert_eq!(by_proc.document.account.programs[0].busy_cpus_ns, None);
    assert!(
        !by_proc.document.account.sees().busy_cpus && !by_proc.report.contains("CPUs in use:"),
        "{}",
        by_proc.report
    );
    let words = on_one_line(&by_proc.report);
    assert!(words.contains("nor how many CPUs were busy at the same time"), "{words}");
}
