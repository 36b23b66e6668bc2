//! Events against noise whose truth the injector tells.

use anyhow::{Context, Result};
use report::noise::NoiseReport;

use super::field::{Field, of_causes};
use super::findings::Findings;

/// Events closer than this to the ends of the measurement are left out, ns.
const EDGE_NS: u64 = 1_000_000;

pub fn truth(field: &Field<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    thread(field, &mut found)?;
    for kind in ["munmap", "membarrier"] {
        senders(field, &mut found, kind)?;
    }
    ticks(field, &mut found)?;
    Ok(found)
}

/// A real-time thread of 50 µs every 3 ms.
fn thread(field: &Field<'_>, found: &mut Findings) -> Result<()> {
    let cpu = field.cpu.to_string();
    let injector =
        field.start(&["rt", "--cpu", &cpu, "--length-us", "50", "--period-us", "3000", "--seconds", "13"])?;
    let report = field.noise(&["--cpus", &cpu, "--for", "10s"])?;
    injector.finish()?;
    let of = &report.cpus[0];
    let begin_ns = report.measurement.begin_ns + of.begin_ns;
    let within = |(from, to): &(u64, u64)| *from > begin_ns + EDGE_NS && to + EDGE_NS < begin_ns + of.length_ns;
    let injected: Vec<(u64, u64)> = field.log()?.into_iter().filter(within).collect();
    let rows: Vec<_> = of_causes(&report, |name| name.starts_with("thread inject-rt(")).collect();
    let seen: u64 = rows.iter().map(|row| row.count).sum();
    let expected = injected.len() as f64 * of.length_ns as f64 / (of.length_ns - 2 * EDGE_NS) as f64;
    let off = (seen as f64 / expected - 1.0) * 100.0;
    found.require(off.abs() <= 1.0, format!("real-time thread: {seen} of {expected:.0} seen ({off:+.2} %, limit 1 %)"));
    let truth_ns = field.truth()?["median_ns"].as_u64().context("the injector tells no median")?;
    let median_ns = rows.iter().max_by_key(|row| row.count).map_or(0, |row| row.median_ns);
    let limit_ns = truth_ns / 20 + 1000;
    found.require(
        median_ns.abs_diff(truth_ns) <= limit_ns,
        format!(
            "real-time thread: median {:.2} us, its own clock {:.2} us (limit {:.2} us)",
            median_ns as f64 / 1e3,
            truth_ns as f64 / 1e3,
            limit_ns as f64 / 1e3
        ),
    );
    // The thread's own clock does not run while it enters and leaves the kernel; the kernel's clock of the thread does.
    let truth = field.truth()?;
    let thread = &truth["threads"][0];
    let (inside_ns, times) = rows.iter().fold((0, 0), |(ns, times), row| (ns + row.inside_ns, times + row.count));
    if let (Some(cpu_ns), Some(count)) = (thread["cpu_ns"].as_u64(), thread["count"].as_u64()) {
        found.line(format!(
            "real-time thread: mean {:.2} us; by the kernel's clock of the thread {:.2} us of CPU for each event",
            inside_ns as f64 / times.max(1) as f64 / 1e3,
            cpu_ns as f64 / count.max(1) as f64 / 1e3
        ));
    }
    let right = injected.iter().filter(|event| is_named(&report, event)).count();
    let share = right as f64 / injected.len().max(1) as f64 * 100.0;
    found.require(
        share >= 99.0,
        format!("real-time thread: named in {right} of {} detours ({share:.2} %, limit 99 %)", injected.len()),
    );
    Ok(())
}

/// Returns whether a detour during an injected event is charged to the injector.
fn is_named(report: &NoiseReport, (from, to): &(u64, u64)) -> bool {
    report.cpus[0].detours.iter().any(|(start, length, cause)| {
        let start = report.measurement.begin_ns + start;
        let name = report.causes.get(*cause as usize).map_or("", |cause| cause.name.as_str());
        start <= *to && start + length >= *from && name.starts_with("thread inject-rt(")
    })
}

/// 500 system calls a second by a sibling, each of which interrupts the victim's CPU.
fn senders(field: &Field<'_>, found: &mut Findings, kind: &str) -> Result<()> {
    let victim = field.cpu.to_string();
    let file = field.file("truth").display().to_string();
    let options = [kind, "--victim", &victim, "--cpu", "0", "--rate", "500", "--priority", "50", "--seconds", "10"];
    let options = [&options[..], &["--truth", &file]].concat();
    let report = field.run(&field.inject, &options)?;
    let noise = report.noise.context("no noise in the report")?;
    let begin = if kind == "munmap" { "IPI: TLB flush" } else { "IPI: membarrier" };
    let count = |wanted: &dyn Fn(&report::noise::Cause) -> bool| -> u64 {
        let rows = noise.total.iter().filter(|row| noise.causes.get(row.cause as usize).is_some_and(wanted));
        rows.map(|row| row.count).sum()
    };
    let all = count(&|cause| cause.name.starts_with(begin));
    let named = count(&|cause| cause.name.starts_with(&format!("{begin} by ")) && cause.call_site.is_some());
    let right = count(&|cause| cause.name.starts_with(&format!("{begin} by inject-")) && cause.name.ends_with(kind));
    // Some interrupts are the kernel's own, and have no sender of this kind.
    let calls = field.truth()?["count"].as_u64().context("the injector does not tell its calls")?;
    let share = right.min(named) as f64 / calls.max(1) as f64 * 100.0;
    found.require(
        share >= 99.0,
        format!("{kind}: {calls} calls, {all} interrupts, {named} with sender and call site, {right} by the injector ({share:.2} % of the calls, limit 99 %)"),
    );
    Ok(())
}

/// The rate of ticks against the kernel's.
fn ticks(field: &Field<'_>, found: &mut Findings) -> Result<()> {
    let report = field.noise(&["--for", "10s"])?;
    let hz = 1e9 / field.tick_ns() as f64;
    for cpu in &report.cpus {
        let is_tick = |at: u32| report.causes.get(at as usize).is_some_and(|cause| cause.class == "tick");
        let ticks: u64 = cpu.by_cause.iter().filter(|row| is_tick(row.cause)).map(|row| row.count).sum();
        let rate = ticks as f64 / (cpu.length_ns as f64 / 1e9);
        // A CPU whose thread was preempted has ticks that interrupt others: at most as many as the time of the others has. Threads that a tick wakes up
        // and that sleep again before the next one are interrupted by none.
        let preempted_ns: u64 =
            cpu.by_cause.iter().filter(|row| is_thread(&report, row.cause)).map(|row| row.inside_ns).sum();
        let least = hz * (1.0 - preempted_ns as f64 / cpu.length_ns as f64);
        let off = (rate / rate.clamp(least, hz) - 1.0) * 100.0;
        found.require(
            off.abs() <= 2.0,
            format!("ticks on CPU {}: {rate:.2}/s of {least:.2} to {hz}/s ({off:+.2} %, limit 2 %)", cpu.cpu),
        );
    }
    Ok(())
}

fn is_thread(report: &NoiseReport, at: u32) -> bool {
    report.causes.get(at as usize).is_some_and(|cause| ["thread", "kworker"].contains(&cause.class.as_str()))
}
