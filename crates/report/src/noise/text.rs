//! The text of `cox noise`: a conclusion for each CPU, its causes, and whether the events are complete.

use advise::numbers::{count, counted, duration};

use super::samples::small_percent;
use super::{Cpu, NoiseReport, Taken, ticks};
use crate::round::apportion;
use crate::style::Style;
use crate::table::{Align, Table};

/// Number of causes that are listed for each CPU.
const LISTED: usize = 14;
/// Number of causes for which the text says what silences them.
const KNOBS: usize = 4;
/// Widest column of names.
const NAMES: usize = 52;
/// Causes that take less than this share of the stolen time are not listed, once there are some.
const WORTH_LISTING: f64 = 0.002;

/// Returns the text.
#[must_use]
pub fn text(report: &NoiseReport, style: &Style) -> String {
    let mut lines = style.wrapped(&header(report), "cox: ", "     ");
    if let Some(why) = &report.events.blind {
        lines.extend(style.wrapped(&format!("causes not known: {why}"), "  ", "      "));
    }
    for cpu in &report.cpus {
        lines.push(String::new());
        lines.extend(of_cpu(report, cpu, style));
    }
    if let Some(conclusion) = conclusion(report) {
        lines.push(String::new());
        lines.extend(style.wrapped(&conclusion, "  => ", "     "));
    }
    lines.join("\n")
}

/// Returns the first line: what was measured, where and how.
pub(crate) fn header(report: &NoiseReport) -> String {
    let of = &report.measurement;
    let cpus: Vec<u32> = report.cpus.iter().map(|cpu| cpu.cpu).collect();
    let where_ = match (&cpus[..], of.pinned) {
        (_, false) => format!("{}, not pinned", counted(cpus.len() as u64, "thread")),
        ([one], true) => format!("CPU {one}"),
        (_, true) => format!("CPUs {}", advise::numbers::cpu_list(&cpus)),
    };
    let quantum = of.quantum_ns.map_or_else(String::new, |ns| format!(" of {}", duration(ns)));
    let what = match of.measuring.as_str() {
        "fwq" => format!("fixed work quanta ({}){quantum}", of.work.as_deref().unwrap_or("integer")),
        "ftq" => format!("fixed time quanta{quantum}"),
        "bsp" => format!("work and barrier, steps{quantum}"),
        _ => "selfish detour".to_owned(),
    };
    let length = match report.cpus.iter().map(|cpu| cpu.length_ns).max() {
        Some(measured_ns) if of.ended_early => {
            format!("{} (ended early: {} were wanted)", duration(measured_ns), duration(of.length_ns))
        }
        _ => duration(of.length_ns),
    };
    format!(
        "noise on {where_} · {what}, {length} · threshold {} · counter {:.3} GHz (±{:.1} ppm)",
        duration(of.threshold_ns),
        report.clock.ticks_per_us / 1e3,
        report.clock.error_ppm
    )
}

fn of_cpu(report: &NoiseReport, cpu: &Cpu, style: &Style) -> Vec<String> {
    let mut lines = style.wrapped(&answer(report, cpu), "  ", "      ");
    if cpu.by_cause.iter().any(|taken| taken.stolen_ns > 0) {
        lines.extend(causes(report, cpu, style));
    }
    if cpu.ticks.len() > 1 {
        lines.extend(ticks::lines(&cpu.ticks, cpu.listed_seconds(), style));
    }
    lines.extend(style.wrapped(&check(report, cpu), "  check: ", "      "));
    lines
}

/// The first line of a CPU: how much is stolen.
pub(crate) fn answer(report: &NoiseReport, cpu: &Cpu) -> String {
    let of = &report.measurement;
    let name = if of.pinned { format!("CPU {}", cpu.cpu) } else { format!("thread {}", cpu.tid) };
    if of.measuring == "ftq" {
        return format!("{name}: {}", lost(cpu));
    }
    let mut parts = vec![format!(
        "{name}: {:.3} % is stolen ({:.0} µs/s) · {} detours, longest {} · above {}: {:.3} %, {}/s",
        cpu.stolen() * 100.0,
        cpu.us_per_s(cpu.fine.stolen_ns),
        count(cpu.fine.count),
        duration(cpu.fine.longest_ns),
        duration(of.coarse_threshold_ns),
        cpu.coarse.stolen_ns as f64 / cpu.length_ns.max(1) as f64 * 100.0,
        rate(cpu.coarse.count, cpu.seconds()),
    )];
    if let Some(quiet) = cpu.quiet_ns {
        parts.push(format!("quiet quantum {}", duration(quiet)));
    }
    if let (Some(step), Some(quiet)) = (cpu.step_ns, cpu.quiet_ns) {
        parts.push(format!("step {} · S = {:.4}", duration(step as u64), step / quiet.max(1) as f64));
    }
    if let (Some(caused), Some(outside), Some(unknown)) = (cpu.caused_ns, cpu.outside_ns, cpu.unknown_ns) {
        let [caused, outside, unknown] = shares([caused, outside, unknown]);
        let without_event = if of.has_fixed_work() { "no interruption" } else { "outside this kernel" };
        parts.push(format!("caused {caused}, {without_event} {outside}, unknown {unknown}"));
    }
    if cpu.truncated {
        parts.push(format!(
            "the first {} of {} are explained, with {} detours: raise --threshold, or --ring",
            duration(cpu.listed_ns()),
            duration(cpu.length_ns),
            count(cpu.detours.len() as u64)
        ));
    }
    parts.join(" · ")
}

/// Of fixed time quanta: how much was lost, and what is periodic.
fn lost(cpu: &Cpu) -> String {
    let mut parts = Vec::new();
    if let Some(loss) = &cpu.loss {
        parts.push(format!(
            "{} of the work is lost, at most {} of a quantum",
            small_percent(loss.mean),
            small_percent(loss.max)
        ));
    }
    parts.push(format!("{} quanta", count(cpu.readings)));
    parts.extend(cpu.spectrum.as_ref().map(super::Spectrum::sentence));
    parts.join(" · ")
}

/// Shares in whole percents, which sum to 100 unless one is below or above all of them: `<1 %` is not nothing, and `>99 %` not all.
fn shares(parts: [u64; 3]) -> [String; 3] {
    let percents = apportion(&parts, 100);
    let sum: u64 = parts.iter().sum();
    std::array::from_fn(|at| match percents[at] {
        0 if parts[at] > 0 => "<1 %".to_owned(),
        100 if parts[at] < sum => ">99 %".to_owned(),
        percent => format!("{percent} %"),
    })
}

/// A time in each second of a part of the measurement, µs.
fn us(ns: u64, seconds: f64) -> f64 {
    ns as f64 / 1e3 / seconds
}

fn rate(number: u64, seconds: f64) -> String {
    let rate = number as f64 / seconds;
    if rate < 99.95 { format!("{rate:.1}") } else { count(rate.round() as u64) }
}

fn causes(report: &NoiseReport, cpu: &Cpu, style: &Style) -> Vec<String> {
    let (table, more) = caused_by(report, cpu, style);
    let mut lines = table.lines(style.columns());
    lines.extend(more.iter().flat_map(|more| style.wrapped(more, "  ", "    ")));
    lines.extend(knobs(report, cpu).iter().flat_map(|knob| style.wrapped(knob, "  what silences it: ", "      ")));
    lines
}

/// The causes that are listed, the most first.
fn listed(cpu: &Cpu) -> Vec<&Taken> {
    let sum: u64 = cpu.by_cause.iter().map(|taken| taken.stolen_ns).sum();
    let is_worth = |taken: &&Taken| taken.stolen_ns as f64 > sum as f64 * WORTH_LISTING;
    cpu.by_cause.iter().take(LISTED).filter(is_worth).collect()
}

/// Returns what the largest causes took from a CPU, and a sentence about the others.
pub(crate) fn caused_by<'s>(report: &NoiseReport, cpu: &Cpu, style: &'s Style) -> (Table<'s>, Option<String>) {
    let listed = listed(cpu);
    let mut table = Table::new(style).with_names_of(NAMES);
    let name = |at: u32| report.causes.get(at as usize).map_or_else(String::new, |cause| cause.name.clone());
    table.column("cause", Align::Left, 0, listed.iter().map(|taken| name(taken.cause)));
    // Events are counted over the whole measurement, and detours without one as far as they are listed.
    let has_events = |at: u32| {
        !report.causes.get(at as usize).is_some_and(|cause| matches!(cause.class.as_str(), "outside" | "unknown"))
    };
    let seconds = |at: u32| if has_events(at) { cpu.seconds() } else { cpu.listed_seconds() };
    table.column("rate/s", Align::Right, 0, listed.iter().map(|taken| rate(taken.count, seconds(taken.cause))));
    table.column("median", Align::Right, 1, listed.iter().map(|taken| duration(taken.median_ns)));
    table.column("max", Align::Right, 0, listed.iter().map(|taken| duration(taken.longest_ns)));
    let stolen = |taken: &&Taken| format!("{:.1}", us(taken.stolen_ns, cpu.listed_seconds()));
    table.column("µs/s", Align::Right, 0, listed.iter().map(stolen));
    let rest = &cpu.by_cause[listed.len()..];
    let sum: u64 = rest.iter().map(|taken| taken.stolen_ns).sum();
    let more = format!("{} more: {:.1} µs/s", counted(rest.len() as u64, "cause"), us(sum, cpu.listed_seconds()));
    (table, (!rest.is_empty()).then_some(more))
}

/// Returns what silences the largest causes for which that is known.
pub(crate) fn knobs(report: &NoiseReport, cpu: &Cpu) -> Vec<String> {
    let knob = |taken: &Taken| {
        let cause = report.causes.get(taken.cause as usize)?;
        Some(format!("{}: {}", cause.name, cause.knob.as_ref()?))
    };
    listed(cpu).into_iter().filter_map(knob).take(KNOBS).collect()
}

/// Returns how far the events agree with the kernel's counters.
pub(crate) fn check(report: &NoiseReport, cpu: &Cpu) -> String {
    let events = &report.events;
    let mut parts = Vec::new();
    if let Some(ppm) = report.clock.changed_ppm {
        parts.push(format!("the clock's rate changed by {ppm:.2} ppm: detours without an event are unknown"));
    }
    if events.blind.is_some() {
        parts.push("the kernel's events were not read, so no detour has a cause".to_owned());
    } else {
        let rows = cpu.check.rows.len() as u64;
        parts.push(format!("{} of {} counters of the kernel agree with the events", cpu.check.agreeing, rows));
        if !cpu.check.is_complete() {
            parts.push(format!("not seen: {}: detours without an event are unknown", cpu.check.not_seen.join(", ")));
        }
        if events.lost > 0 {
            parts.push(format!("{} were lost: detours without an event are unknown", counted(events.lost, "event")));
        }
        if let Some([kernel, seen]) = events.page_faults.filter(|[kernel, _]| *kernel > 0) {
            parts.push(format!("page faults of the loops {} (events: {})", count(kernel), count(seen)));
        }
    }
    if cpu.steal_ns > 0 {
        parts.push(format!("the hypervisor's steal clock: {}", duration(cpu.steal_ns)));
    }
    parts.join(" · ")
}

/// The last line: what costs most over all CPUs, and what would silence it.
pub(crate) fn conclusion(report: &NoiseReport) -> Option<String> {
    let mut sums = vec![0_u64; report.causes.len()];
    let taken = report.cpus.iter().flat_map(|cpu| &cpu.by_cause);
    for taken in taken {
        *sums.get_mut(taken.cause as usize)? += taken.stolen_ns;
    }
    let total: u64 = sums.iter().sum();
    let (at, most) = sums.iter().enumerate().max_by_key(|(_, ns)| **ns).filter(|(_, ns)| **ns > 0)?;
    let cause = &report.causes[at];
    let share = *most as f64 / total.max(1) as f64 * 100.0;
    let knob = match (&cause.knob, cause.class.as_str()) {
        (Some(knob), _) => format!("; what silences it: {knob}"),
        (None, "outside") if report.measurement.has_fixed_work() => {
            "; --loop detour tells slower work from interruptions".to_owned()
        }
        (None, "outside") => format!("; only {} can change that", who_is_outside(report.measurement.guest)),
        _ => String::new(),
    };
    Some(format!("Most is taken by: {} ({share:.0} % of the stolen time){knob}", cause.name))
}

/// What stops a CPU without this kernel.
fn who_is_outside(is_guest: Option<bool>) -> &'static str {
    match is_guest {
        Some(true) => "the host of this virtual machine, or the firmware,",
        Some(false) => "the firmware or the processor itself",
        None => "the host of a virtual machine, the firmware or the processor itself",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_none_disappears() {
        assert_eq!(shares([1, 1, 1]), ["34 %", "33 %", "33 %"]);
        assert_eq!(shares([9_930, 36, 34]), ["99 %", "1 %", "<1 %"]);
        assert_eq!(shares([9_999, 1, 0]), [">99 %", "<1 %", "0 %"]);
        assert_eq!(shares([7, 0, 0]), ["100 %", "0 %", "0 %"]);
        assert_eq!(shares([0, 0, 0]), ["0 %", "0 %", "0 %"]);
    }
}
