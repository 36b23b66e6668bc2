//! What noise costs a program on many ranks: the document of `cox noise forecast`, as JSON and as text.

use advise::numbers::{count, counted, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::style::Style;
use crate::table::{Align, Table};

/// Version of the JSON schema of [`ForecastReport`].
pub const FORECAST_SCHEMA_VERSION: u32 = 1;

/// Number of causes that the text lists.
const LISTED: usize = 8;
/// Widest column of names.
const NAMES: usize = 52;

/// The document of `cox noise forecast --json`. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastReport {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// The recordings.
    pub sources: Vec<Source>,
    /// Ranks of a node; they have the first CPUs of the recording, one each.
    pub ranks_per_node: u32,
    /// Cost of a synchronisation without noise.
    pub sync_ns: u64,
    /// Seed of the random numbers: the same seed gives the same answer.
    pub seed: u64,
    /// The program whose phases are the works; null if it was not asked for one.
    pub phases_of: Option<PhasesOf>,
    /// The forecast from the first recording, for each work between two synchronisations.
    pub works: Vec<AtWork>,
    /// For each number of ranks: index of the work with the largest slowdown.
    pub worst: Vec<usize>,
    /// Index of the work for which causes are left out.
    pub causes_at: usize,
    /// The forecast without each cause, the one that costs most first. Causes that differ only by the number of a thread are one. If one lacks
    /// an estimate, the order is that of the bounds.
    pub without: Vec<Without>,
    /// Number of causes for which there is no forecast, because others took more time.
    #[serde(default)]
    pub causes_left_out: u64,
    /// How many CPUs to leave to the system, for each work and number of ranks; empty with one recording.
    pub leave: Vec<Leave>,
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The file.
    pub file: String,
    /// The measured CPUs.
    pub cpus: Vec<u32>,
    /// Number of the node's CPUs that were not measured: those left to the system.
    pub left: u32,
    /// Length of the recording, up to its last detour if there was no room for all.
    pub length_ns: u64,
    /// Length of the measurement; longer than the recording if there was no room for all detours. 0 in documents of before.
    #[serde(default)]
    pub measured_ns: u64,
    /// Number of detours.
    pub detours: u64,
}

/// A program whose phases are the works: the lengths that 10, 50 and 90 % of them do not exceed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhasesOf {
    /// The report of `cox run --noise`.
    pub file: String,
    /// Number of phases.
    pub count: u64,
    /// What ends a phase, as in that report.
    pub between: Vec<String>,
}

/// A slowdown: the time with noise divided by the time without.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// Ranks of the program.
    pub ranks: u64,
    /// Nodes that they need.
    pub nodes: u64,
    /// `measured` within the recording, `extrapolated` by a fitted tail, or `none` if no tail can be trusted.
    pub kind: String,
    /// The slowdown; null if there is no estimate.
    pub slowdown: Option<f64>,
    /// Ends of the 95 % interval; null if there is no estimate.
    pub interval: Option<(f64, f64)>,
    /// A bound that needs no model of the tail: with 95 % confidence, the slowdown is not smaller.
    pub at_least: f64,
}

/// The forecast for one work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtWork {
    /// Work between two synchronisations.
    pub work_ns: u64,
    /// Independent phases in the recording.
    pub phases: f64,
    /// Shape of the fitted tail: 0 is exponential, from 0.5 on too heavy for an estimate; null if no tail was fitted.
    pub tail_shape: Option<f64>,
    /// For each number of ranks.
    pub scales: Vec<Slowdown>,
    /// If all nodes had their noise at the same time.
    pub co_scheduled: Slowdown,
}

/// The forecast without one cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Without {
    /// The cause.
    pub cause: String,
    /// How often it was seen.
    pub times: u64,
    /// Whether that is less than five times: too seldom to know its share.
    pub seldom: bool,
    /// For each number of ranks.
    pub scales: Vec<Slowdown>,
}

/// How many CPUs to leave to the system, for one work and number of ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leave {
    /// Work between two synchronisations.
    pub work_ns: u64,
    /// Number of ranks that was asked for.
    pub ranks: u64,
    /// Each number of CPUs left, with the throughput of a node: its ranks divided by the slowdown.
    pub choices: Vec<LeaveChoice>,
    /// The best number of CPUs to leave; null if no difference is significant, and if it is not decided: of some choice, only a bound is known.
    pub best: Option<u32>,
}

/// One number of CPUs that are left to the system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeaveChoice {
    /// CPUs left to the system.
    pub left: u32,
    /// Throughput of a node, in CPUs that compute without noise; null if there is no estimate.
    pub throughput: Option<f64>,
    /// Ends of the 95 % interval; null if there is no estimate.
    pub interval: Option<(f64, f64)>,
    /// A bound that needs no model of the tail: with 95 % confidence, the throughput is not larger.
    pub at_most: f64,
}

/// Returns the text.
#[must_use]
pub fn forecast_text(report: &ForecastReport, style: &Style) -> String {
    let mut lines = style.wrapped(&header(report), "cox: ", "     ");
    lines.push(String::new());
    lines.extend(style.wrapped(&answer(report), "  ", "      "));
    lines.push(String::new());
    lines.extend(works(report, style));
    if !report.without.is_empty() {
        lines.push(String::new());
        lines.extend(without(report, style));
    }
    for leave in &report.leave {
        lines.extend(style.wrapped(&left(leave), "  ", "      "));
    }
    lines.join("\n")
}

fn header(report: &ForecastReport) -> String {
    let source = |source: &Source| {
        let (cpus, detours) = (counted(source.cpus.len() as u64, "CPU"), counted(source.detours, "detour"));
        let length = match (duration(source.length_ns), duration(source.measured_ns)) {
            (recorded, measured) if source.measured_ns > source.length_ns && recorded != measured => {
                format!("the first {recorded} of {measured}: there was no room for more, see --ring")
            }
            (recorded, _) => recorded,
        };
        format!("{} ({cpus}, {detours} in {length})", source.file)
    };
    let sources: Vec<String> = report.sources.iter().map(source).collect();
    let sync = if report.sync_ns > 0 {
        format!(" · a synchronisation takes {}", duration(report.sync_ns))
    } else {
        String::new()
    };
    let phases = report.phases_of.as_ref().map_or_else(String::new, |of| {
        format!(" · work as in {} ({}, {})", of.file, counted(of.count, "phase"), of.between.join(", "))
    });
    let ranks = counted(report.ranks_per_node.into(), "rank");
    format!("forecast from {}{phases} · nodes of {ranks}{sync} · seed {}", sources.join(", "), report.seed)
}

/// The first sentence: the worst slowdown at the largest number of ranks.
fn answer(report: &ForecastReport) -> String {
    let Some(at) = report.works.get(report.causes_at) else { return "no forecast".to_owned() };
    let Some(scale) = at.scales.iter().max_by_key(|scale| scale.ranks) else { return "no forecast".to_owned() };
    let ranks = format!("{} ({})", counted(scale.ranks, "rank"), counted(scale.nodes, "node"));
    let work = duration(at.work_ns);
    match (scale.slowdown, scale.interval) {
        (Some(value), Some((low, high))) => format!(
            "{ranks}: a program that synchronises every {work} takes {value:.3} times as long as without noise (95 %: {low:.3} to {high:.3}, {}); at least {:.3}, whatever the tail",
            scale.kind, scale.at_least
        ),
        _ => format!(
            "{ranks}: a program that synchronises every {work} takes at least {:.3} times as long as without noise; no estimate: {}",
            scale.at_least,
            why_no_estimate(at)
        ),
    }
}

/// Tails with this shape or a larger one are too heavy for an estimate.
const TOO_HEAVY: f64 = 0.5;

fn why_no_estimate(at: &AtWork) -> &'static str {
    match at.tail_shape {
        Some(shape) if shape >= TOO_HEAVY => "the tail of the delays is too heavy",
        _ => "too few phases to know the tail; record for longer",
    }
}

fn shown(scale: &Slowdown) -> String {
    match scale.slowdown {
        Some(value) => format!("{value:.3}{}", if scale.kind == "measured" { "" } else { "*" }),
        None => format!("≥ {:.3}", scale.at_least),
    }
}

fn works(report: &ForecastReport, style: &Style) -> Vec<String> {
    let mut table = Table::new(style);
    table.column("work", Align::Right, 0, report.works.iter().map(|at| duration(at.work_ns)));
    let scales = report.works.first().map_or(0, |at| at.scales.len());
    for scale in 0..scales {
        let ranks = report.works[0].scales[scale].ranks;
        let cells = report.works.iter().map(|at| at.scales.get(scale).map_or_else(String::new, shown));
        table.column(&format!("{} ranks", count(ranks)), Align::Right, 0, cells);
    }
    let at_least = |at: &AtWork| at.scales.last().map_or_else(String::new, |scale| format!("{:.3}", scale.at_least));
    table.column("at least", Align::Right, 1, report.works.iter().map(at_least));
    table.column("co-scheduled", Align::Right, 2, report.works.iter().map(|at| shown(&at.co_scheduled)));
    let mut lines = table.lines(style.columns());
    let is_fitted = |at: &AtWork| at.scales.iter().any(|scale| scale.kind == "extrapolated");
    if report.works.iter().any(is_fitted) {
        lines.extend(style.wrapped(
            "* beyond the recording, by a fitted tail; at least and co-scheduled: for the last column of ranks",
            "  ",
            "    ",
        ));
    }
    lines
}

fn without(report: &ForecastReport, style: &Style) -> Vec<String> {
    let at = report.works.get(report.causes_at);
    let work = at.map_or_else(String::new, |at| duration(at.work_ns));
    let ranks = at.and_then(|at| at.scales.last()).map_or_else(String::new, |scale| counted(scale.ranks, "rank"));
    let listed = || report.without.iter().take(LISTED);
    let mut table = Table::new(style).with_names_of(NAMES);
    table.column(&format!("without, at work {work} and {ranks}"), Align::Left, 0, listed().map(|of| of.cause.clone()));
    let last = |of: &Without| of.scales.last().map_or_else(String::new, shown);
    table.column("slowdown", Align::Right, 0, listed().map(last));
    let seen = |of: &Without| format!("{}{}", count(of.times), if of.seldom { " (too seldom to know)" } else { "" });
    table.column("seen", Align::Right, 1, listed().map(seen));
    let mut lines = table.lines(style.columns());
    let more = report.without.len().saturating_sub(LISTED) as u64;
    let more = (more > 0).then(|| format!("{} more in the JSON", counted(more, "cause")));
    let left_out = (report.causes_left_out > 0)
        .then(|| format!("{} with less time: no forecast without them", counted(report.causes_left_out, "cause")));
    let notes: Vec<String> = more.into_iter().chain(left_out).collect();
    if !notes.is_empty() {
        lines.extend(style.wrapped(&notes.join("; "), "  ", "    "));
    }
    lines
}

fn left(leave: &Leave) -> String {
    let choice = |choice: &LeaveChoice| match choice.throughput {
        Some(throughput) => format!("{}: {throughput:.3}", choice.left),
        None => format!("{}: ≤ {:.3}", choice.left, choice.at_most),
    };
    let choices: Vec<String> = leave.choices.iter().map(choice).collect();
    let best = match leave.best {
        Some(best) => format!("best: leave {}", counted(best.into(), "CPU")),
        None if leave.choices.iter().any(|choice| choice.throughput.is_none()) => {
            "not decided: where there is no estimate, only a bound is known".to_owned()
        }
        None => "no significant difference".to_owned(),
    };
    format!(
        "CPUs left to the system, and throughput of a node at work {} and {}: {} · {best}",
        duration(leave.work_ns),
        counted(leave.ranks, "rank"),
        choices.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(slowdown: Option<f64>) -> Slowdown {
        let kind = if slowdown.is_some() { "measured" } else { "none" }.to_owned();
        let interval = slowdown.map(|value| (value - 0.1, value + 0.1));
        Slowdown { ranks: 4096, nodes: 4096, kind, slowdown, interval, at_least: 1.25 }
    }

    fn report(slowdown: Option<f64>, tail_shape: Option<f64>) -> ForecastReport {
        let at = AtWork {
            work_ns: 1_000_000,
            phases: 90.0,
            tail_shape,
            scales: vec![scale(slowdown)],
            co_scheduled: scale(Some(1.1)),
        };
        let source = Source {
            file: "a.json".into(),
            cpus: vec![0],
            left: 0,
            length_ns: 10_000_000_000,
            measured_ns: 10_000_000_000,
            detours: 1_234,
        };
        let cause =
            |at: u64| Without { cause: format!("cause {at}"), times: 9, seldom: false, scales: vec![scale(None)] };
        ForecastReport {
            schema_version: FORECAST_SCHEMA_VERSION,
            cox_version: "0.1.0".into(),
            sources: vec![source],
            ranks_per_node: 1,
            sync_ns: 0,
            seed: 1,
            phases_of: None,
            works: vec![at],
            worst: vec![0],
            causes_at: 0,
            without: (0..10).map(cause).collect(),
            causes_left_out: 3,
            leave: Vec::new(),
        }
    }

    fn says(report: &ForecastReport, sentence: &str) {
        let text = forecast_text(report, &Style::default());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(sentence), "{text}");
    }

    /// A tail that was not fitted is not known to be heavy.
    #[test]
    fn a_missing_estimate_says_why() {
        says(&report(None, Some(0.7)), "no estimate: the tail of the delays is too heavy");
        says(&report(None, None), "no estimate: too few phases to know the tail; record for longer");
        says(&report(Some(1.5), None), "takes 1.500 times as long");
    }

    #[test]
    fn the_header_and_the_table_say_what_they_are_about() {
        let report = report(Some(1.5), None);
        says(&report, "(1 CPU, 1,234 detours in 10.00 s)");
        let mut cut = report.clone();
        cut.sources[0].measured_ns = 60_000_000_000;
        says(&cut, "(1 CPU, 1,234 detours in the first 10.00 s of 60.00 s: there was no room for more, see --ring)");
        says(&report, "without, at work 1.0 ms and 4,096 ranks");
        says(&report, "2 causes more in the JSON; 3 causes with less time: no forecast without them");
    }

    /// A bound is printed as one, and is not the best choice.
    #[test]
    fn a_bound_of_the_throughput_is_marked() {
        let choice = |left: u32, throughput: Option<f64>, at_most: f64| LeaveChoice {
            left,
            throughput,
            interval: throughput.map(|value| (value - 0.1, value + 0.1)),
            at_most,
        };
        let leave = |choices, best| {
            let leave = vec![Leave { work_ns: 1_000_000, ranks: 64, choices, best }];
            ForecastReport { leave, ..report(Some(1.5), None) }
        };
        let unknown = leave(vec![choice(0, None, 3.98), choice(1, Some(2.5), 2.9)], None);
        says(&unknown, "0: ≤ 3.980, 1: 2.500 · not decided: where there is no estimate, only a bound is known");
        let same = leave(vec![choice(0, Some(2.6), 3.98), choice(1, Some(2.5), 2.9)], None);
        says(&same, "0: 2.600, 1: 2.500 · no significant difference");
        says(
            &leave(vec![choice(0, None, 1.98), choice(1, Some(2.5), 2.9)], Some(1)),
            "≤ 1.980, 1: 2.500 · best: leave 1 CPU",
        );
    }
}
