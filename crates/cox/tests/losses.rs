//! Programs that lose time for two reasons: the verdict names the larger loss first, with its size if the program can measure it.

use advise::evidence::Evidence;
use advise::{Kind, Verdict, judge};
use ledger::Account;
use serde_json::Value;
use testkit::measured::{Bench, ONE_CPU, Seen, assert_undisturbed, bench, number, on_cpus, threads_of};
use testkit::skip::{Need, skip};
use testkit::staged::Group;

/// A reason to lose time, which the workload `losses` can have.
struct Reason {
    kind: Kind,
    /// The option of the workload, with its values for a large and for a small loss.
    option: &'static str,
    large: &'static str,
    small: &'static str,
    /// The thread time that the workload lost, by its own clocks, ns.
    lost_ns: fn(&Value) -> u64,
    /// Most that the size of the loss may be off, in percentage points of thread time, besides four standard errors of what is estimated from samples.
    points: f64,
    /// Quotas in CPUs: one that costs clearly more than the small loss, and one that costs clearly less than the large loss.
    quotas: [f64; 2],
}

/// For losses that are work of one thread.
const OF_WORK: f64 = 3.0;

/// For losses in which threads sleep briefly: the workload counts the wake delays as part of the loss, cox as losses of their own.
const OF_SLEEP: f64 = 8.0;

/// The values are so that a large loss takes about a third of thread time, and a small one about a tenth.
const REASONS: [Reason; 4] = [
    Reason {
        kind: Kind::Serial,
        option: "--serial-us",
        large: "6000",
        small: "1500",
        lost_ns: |truth| number(truth, "serial_ns"),
        points: OF_WORK,
        quotas: [1.2, 1.4],
    },
    Reason {
        kind: Kind::Imbalance,
        option: "--unequal-us",
        large: "6000",
        small: "1500",
        lost_ns: |truth| number(truth, "unequal_ns").min(number(truth, "end_ns")),
        points: OF_WORK,
        quotas: [1.2, 1.4],
    },
    Reason {
        kind: Kind::LockConvoy,
        option: "--locked-us",
        large: "9000",
        small: "2500",
        // At the end of a step, the first thread waits for the last one that gets the lock.
        lost_ns: |truth| {
            let waits = number(truth, "end_ns").saturating_sub(number(truth, "unequal_ns"));
            number(truth, "lock_ns") + waits.saturating_sub(number(truth, "disk_ns"))
        },
        points: OF_SLEEP,
        quotas: [1.2, 1.5],
    },
    Reason {
        kind: Kind::DiskBound,
        option: "--writes",
        large: "10",
        // On slow storage, two writes are a sixth of thread time.
        small: "1",
        // The other thread waits for the writer, too, except for the time in which it has more to do.
        lost_ns: |truth| {
            let waits = number(truth, "end_ns").saturating_sub(number(truth, "unequal_ns"));
            number(truth, "disk_ns") + waits.min(number(truth, "disk_ns"))
        },
        points: OF_SLEEP,
        quotas: [1.0, 1.4],
    },
];

/// The larger loss must exceed the smaller one by this factor, so that clocks and samples cannot disagree which one it is.
const CLEARLY: f64 = 1.5;

#[test]
fn the_larger_of_two_losses_comes_first() {
    let Some(bench) = bench("the_larger_of_two_losses_comes_first") else { return };
    for (at, first) in REASONS.iter().enumerate() {
        for second in REASONS.iter().skip(at + 1) {
            for (larger, smaller) in [(first, second), (second, first)] {
                assert_undisturbed(|| faults(&bench, larger, smaller));
            }
        }
    }
}

fn faults(bench: &Bench, larger: &Reason, smaller: &Reason) -> Vec<String> {
    // Few critical sections: the wake-up after each wait is then short beside the wait.
    let fixed = ["--work-us", "6000", "--steps", "100", "--locks", "3"];
    let options = [&[larger.option, larger.large, smaller.option, smaller.small], &fixed[..]].concat();
    let (seen, truth) = bench.watch_workload(&on_cpus(2), "losses", &options);
    let all_ns: u64 = threads_of(&truth).iter().map(|thread| number(thread, "wall_ns")).sum();
    let percent = |ns: u64| 100.0 * ns as f64 / all_ns as f64;
    let [large, small] = [larger, smaller].map(|reason| percent((reason.lost_ns)(&truth)));
    let verdict = &seen.document.verdict[0];
    let ours: Vec<(Kind, f64)> = verdict.losses.iter().map(|loss| (loss.kind, 100.0 * loss.cost_share)).collect();
    let line = format!("{} {large:.1} %, {} {small:.1} %: {ours:.1?}, {}", larger.kind, smaller.kind, verdict.headline);
    println!("{line}");
    let mut faults = seen.faults();
    if large < CLEARLY * small {
        faults.push(format!("the losses are too alike: {line}"));
        return faults;
    }
    let named = verdict.losses.first().filter(|loss| loss.kind == larger.kind && verdict.headline == larger.kind);
    if named.is_none_or(|loss| (100.0 * loss.cost_share - large).abs() > larger.points + percent(error_ns(&seen))) {
        faults.push(line);
    }
    faults
}

/// Too few CPUs for the threads cost more than any of the small losses. What share that is, the program cannot say.
#[test]
fn too_few_cpus_come_before_smaller_losses() {
    let Some(bench) = bench("too_few_cpus_come_before_smaller_losses") else { return };
    for (threads, cpus, kind) in [("3", 2, Kind::TooManyThreadsSleeping), ("2", ONE_CPU, Kind::PinnedTooFew)] {
        for smaller in &REASONS {
            let options = ["--threads", threads, smaller.option, smaller.small, "--work-us", "6000", "--steps", "50"];
            let what = format!("{kind}, {}", smaller.kind);
            assert_undisturbed(|| headline_faults(&bench, &on_cpus(cpus), &options, kind, &what));
        }
    }
}

/// A quota and another loss: the larger one comes first. What a quota costs depends on where in a period it stops the threads, so that only the order is
/// known.
#[test]
fn a_quota_comes_before_smaller_losses_and_behind_larger_ones() {
    let test = "a_quota_comes_before_smaller_losses_and_behind_larger_ones";
    let Some(bench) = bench(test) else { return };
    for reason in &REASONS {
        let [large, small] = reason.quotas;
        for (quota, amount, first) in [(large, reason.small, Kind::QuotaThrottled), (small, reason.large, reason.kind)]
        {
            let group = match Group::with_quota(quota) {
                Ok(group) => group,
                Err(why) => return skip(test, Need::Cgroup, format!("needs a CPU quota: {why}")),
            };
            let within = [in_group(&group), on_cpus(2)].concat();
            let options = [reason.option, amount, "--work-us", "6000", "--steps", "100", "--locks", "3"];
            let what = format!("{quota} CPUs, {}", reason.kind);
            assert_undisturbed(|| headline_faults(&bench, &within, &options, first, &what));
        }
    }
}

/// A quota and too few CPUs for the threads: the one that costs more comes first. Two threads on one CPU of two lose half of their time; three threads on
/// two CPUs lose a third.
#[test]
fn of_a_quota_and_too_few_cpus_the_larger_comes_first() {
    let test = "of_a_quota_and_too_few_cpus_the_larger_comes_first";
    let Some(bench) = bench(test) else { return };
    for (threads, cpus, kind, [large, small]) in
        [("3", 2, Kind::TooManyThreadsSleeping, [0.6, 1.8]), ("2", ONE_CPU, Kind::PinnedTooFew, [0.3, 0.9])]
    {
        for (quota, first) in [(large, Kind::QuotaThrottled), (small, kind)] {
            let group = match Group::with_quota(quota) {
                Ok(group) => group,
                Err(why) => return skip(test, Need::Cgroup, format!("needs a CPU quota: {why}")),
            };
            let within = [in_group(&group), on_cpus(cpus)].concat();
            let options = ["--threads", threads, "--work-us", "6000", "--steps", "50"];
            assert_undisturbed(|| headline_faults(&bench, &within, &options, first, &format!("{quota} CPUs, {kind}")));
        }
    }
}

/// Steal beside each of the losses that do not need a disk, in the accounts of real runs. No test can make a hypervisor steal, so the account is changed into
/// that of CPUs of which the hypervisor takes a part all the time: everything takes longer by the same factor, runs and waits, and what runs take longer is
/// steal. Beside a convoy the account cannot tell exactly which waits are for a stolen thread.
#[test]
fn the_larger_of_steal_and_a_recorded_loss_comes_first() {
    let Some(bench) = bench("the_larger_of_steal_and_a_recorded_loss_comes_first") else { return };
    for reason in REASONS.iter().filter(|reason| reason.kind != Kind::DiskBound) {
        for (amount, slower, first) in [(reason.large, 1.12, reason.kind), (reason.small, 1.4, Kind::HypervisorSteal)] {
            assert_undisturbed(|| stolen_faults(&bench, reason, amount, slower, first));
        }
    }
}

/// Runs the workload with one loss, and judges its account as if each CPU were slower by this factor. Returns the faults of the run, and the verdict if
/// it does not name `first` first, with its size.
fn stolen_faults(bench: &Bench, reason: &Reason, amount: &str, slower: f64, first: Kind) -> Vec<String> {
    let options = [reason.option, amount, "--work-us", "6000", "--steps", "100", "--locks", "3"];
    let (seen, truth) = bench.watch_workload(&on_cpus(2), "losses", &options);
    let all_ns: u64 = threads_of(&truth).iter().map(|thread| number(thread, "wall_ns")).sum();
    let lost = 100.0 * (reason.lost_ns)(&truth) as f64 / all_ns as f64;
    // The larger loss is the one to be named; the factors are such that this is clear.
    let (own, stolen) = (lost / slower, 100.0 * (1.0 - 1.0 / slower));
    let verdict = judged_with_steal(&seen, slower);
    let ours: Vec<(Kind, f64)> = verdict.losses.iter().map(|loss| (loss.kind, 100.0 * loss.cost_share)).collect();
    let line = format!("{} {own:.1} %, steal {stolen:.1} %: {ours:.1?}, {}", reason.kind, verdict.headline);
    println!("{line}");
    let mut faults = seen.faults();
    let (larger, smaller) = if first == reason.kind { (own, stolen) } else { (stolen, own) };
    if larger < CLEARLY * smaller {
        faults.push(format!("the losses are too alike: {line}"));
        return faults;
    }
    let allowed = reason.points + 100.0 * error_ns(&seen) as f64 / all_ns as f64;
    let named = verdict.losses.first().filter(|loss| loss.kind == first && verdict.headline == first);
    if named.is_none_or(|loss| (100.0 * loss.cost_share - larger).abs() > allowed) {
        faults.push(line);
    }
    faults
}

/// Returns the verdict on an account in which everything takes `slower` times as long, and the threads' run time contains as much more steal.
fn judged_with_steal(seen: &Seen, slower: f64) -> Verdict {
    let mut account = serde_json::to_value(&seen.document.account).expect("plain data");
    prolong(&mut account, slower, false);
    let mut account: Account = serde_json::from_value(account).expect("an account");
    let processes = account.programs.iter_mut().flat_map(|program| &mut program.processes);
    for thread in processes.flat_map(|process| &mut process.threads) {
        thread.steal_ns += (thread.run_ns as f64 * (1.0 - 1.0 / slower)) as u64;
    }
    judge(&Evidence::new(&account, &seen.document.facts))
}

/// Multiplies all times of an account. `is_time`: whether the value is one, or consists of times.
fn prolong(value: &mut Value, by: f64, is_time: bool) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                prolong(field, by, is_time || name.ends_with("_ns") || name == "blocked_by");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| prolong(value, by, is_time)),
        Value::Number(number) if is_time => {
            if let Some(ns) = number.as_u64() {
                *value = Value::from((ns as f64 * by) as u64);
            }
        }
        _ => {}
    }
}

/// Returns a command line that starts another one in a group.
fn in_group(group: &Group) -> Vec<String> {
    let enter = ["sh", "-c", "echo $$ > \"$0\" && exec \"$@\""].map(str::to_owned);
    [&enter[..], &[group.tasks().display().to_string()]].concat()
}

/// Runs the workload. Returns the faults of the run, and the verdict if its headline is not `first`.
fn headline_faults(bench: &Bench, within: &[String], options: &[&str], first: Kind, what: &str) -> Vec<String> {
    let (seen, _) = bench.watch_workload(within, "losses", options);
    let verdict = &seen.document.verdict[0];
    let line = format!("{what}: {}, {:?}", verdict.headline, verdict.losses);
    println!("{line}");
    let mut faults = seen.faults();
    faults.extend((verdict.headline != first).then_some(line));
    faults
}

/// Four standard errors of what is estimated from samples, ns.
fn error_ns(seen: &Seen) -> u64 {
    let errors = seen.threads().map(|thread| thread.work_error_ns().hypot(thread.serial_error_ns as f64));
    (4.0 * errors.fold(0.0, f64::hypot)) as u64
}
