//! What was taken from the threads of a program: the part `noise` of the document of `cox run --noise`.

use advise::numbers::{count, counted, duration, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, Phases};
use crate::style::Style;
use crate::table::{Align, Table};

/// Number of causes that the text lists.
const LISTED: usize = 10;
/// Widest column of names.
const NAMES: usize = 52;

/// What was taken from the threads of a program. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramNoise {
    /// Why the kernel told nothing, so that all other figures are empty; null if it told causes.
    pub blind: Option<String>,
    /// All causes; the other figures name them by their index.
    pub causes: Vec<Cause>,
    /// What each cause took from all threads, the most first.
    pub total: Vec<TakenFromThreads>,
    /// The threads, by the order of the report.
    pub threads: Vec<ThreadNoise>,
    /// Sum of the lifetimes of all threads.
    pub thread_time_ns: u64,
    /// Time that interrupts, softirqs and page faults took out of the threads' run time.
    pub taken_from_run_ns: u64,
    /// Time for which other threads ran while threads of the program were preempted.
    pub taken_by_threads_ns: u64,
    /// Number of events.
    pub events: u64,
    /// Number of events that were lost.
    pub lost: u64,
    /// Tracepoints that did not report.
    pub without: Vec<String>,
    /// How long the program computes between two synchronisations; null in documents of an earlier cox.
    #[serde(default)]
    pub phases: Option<Phases>,
}

/// What one cause took from threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakenFromThreads {
    /// Index of the cause.
    pub cause: u32,
    /// Number of times. Of page faults, an estimate: one fault in eleven is seen, and counts as eleven.
    pub count: u64,
    /// Net time, without that of other causes within. Of page faults, an estimate, too.
    pub inside_ns: u64,
    /// Median of the net times; of page faults, of those that were seen.
    pub median_ns: u64,
    /// Longest net time; of page faults, of those that were seen.
    pub longest_ns: u64,
}

/// The single interruptions of a program's threads, for a picture over time. They are not in the document: there may be a million.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupted {
    /// Begin since the start of the run, net time, and index of the cause in [`ProgramNoise::causes`]. Times are nanoseconds.
    pub all: Vec<(u64, u64, u32)>,
    /// Length of the run, nanoseconds.
    pub length_ns: u64,
    /// Number of interruptions that are not in `all`, because there was no room.
    pub left_out: u64,
}

/// What was taken from one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadNoise {
    /// Thread id.
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
    /// What each cause took, the most first.
    pub by_cause: Vec<TakenFromThreads>,
}

impl ProgramNoise {
    /// Returns the section of the report. `is_packed`: whether cox also packed the program.
    pub(crate) fn section(&self, is_packed: bool, style: &Style) -> Vec<String> {
        let phases = self.phases.iter().flat_map(|phases| style.wrapped(&phases.sentence(), "    ", "      "));
        if let Some(why) = &self.blind {
            let mut lines = style.wrapped(&format!("noise not known: {why}"), "  ", "    ");
            lines.extend(phases);
            return lines;
        }
        let mut lines = style.section(&format!("noise: {}", self.heading()), &[]);
        let worth = |taken: &&TakenFromThreads| taken.inside_ns > 0;
        let listed: Vec<&TakenFromThreads> = self.total.iter().filter(worth).take(LISTED).collect();
        if !listed.is_empty() {
            lines.extend(self.table(&listed, self.thread_time_ns, style).lines(style.columns()));
        }
        if let Some(estimates) = self.estimates(&listed) {
            lines.extend(style.wrapped(estimates, "    ", "      "));
        }
        if let Some(knob) = self.knobs().next() {
            lines.extend(style.wrapped(&knob, "    ", "      "));
        }
        for remark in self.remarks(is_packed) {
            lines.extend(style.wrapped(&remark, "    ", "      "));
        }
        lines.extend(phases);
        lines
    }

    /// Returns what makes the figures larger or smaller than they would be. `is_packed`: whether cox also packed the program.
    pub(crate) fn remarks(&self, is_packed: bool) -> Vec<String> {
        let own = "packing moves threads and may sample them (timer: perf_swevent_hrtimer): both are among the causes";
        let own = is_packed.then(|| own.to_owned());
        let lost =
            (self.lost > 0).then(|| format!("{} were lost: the figures are lower bounds", counted(self.lost, "event")));
        own.into_iter().chain(lost).collect()
    }

    /// Returns whether the number and the time of what a cause took are estimates.
    fn is_estimate(&self, taken: &TakenFromThreads) -> bool {
        self.causes.get(taken.cause as usize).is_some_and(|cause| cause.class == "page fault")
    }

    /// Returns what the sign of estimates in a table of these causes means; `None` if there are none.
    pub(crate) fn estimates(&self, listed: &[&TakenFromThreads]) -> Option<&'static str> {
        listed
            .iter()
            .any(|taken| self.is_estimate(taken))
            .then_some("≈: an estimate, because one page fault in eleven is seen")
    }

    /// Returns the answer in one sentence.
    pub(crate) fn heading(&self) -> String {
        let share = |ns: u64| percent(ns as f64 / self.thread_time_ns.max(1) as f64);
        format!(
            "the kernel took {} of the threads' time for interrupts and page faults, other threads took {} ({})",
            share(self.taken_from_run_ns),
            share(self.taken_by_threads_ns),
            counted(self.events, "event")
        )
    }

    /// Returns the table of these causes, whose times are those within `of_ns` of thread time.
    pub(crate) fn table<'s>(&self, listed: &[&TakenFromThreads], of_ns: u64, style: &'s Style) -> Table<'s> {
        let seconds = of_ns.max(1) as f64 / 1e9;
        let mut table = Table::new(style).with_names_of(NAMES);
        let name = |at: u32| self.causes.get(at as usize).map_or_else(String::new, |cause| cause.name.clone());
        table.column("  taken by", Align::Left, 0, listed.iter().map(|taken| format!("  {}", name(taken.cause))));
        let about = |taken: &TakenFromThreads| if self.is_estimate(taken) { "≈ " } else { "" };
        let times = |taken: &&TakenFromThreads| format!("{}{}", about(taken), count(taken.count));
        table.column("times", Align::Right, 1, listed.iter().map(times));
        table.column("median", Align::Right, 2, listed.iter().map(|taken| duration(taken.median_ns)));
        table.column("max", Align::Right, 2, listed.iter().map(|taken| duration(taken.longest_ns)));
        let us = |taken: &&TakenFromThreads| format!("{}{:.1}", about(taken), taken.inside_ns as f64 / 1e3 / seconds);
        table.column("µs/s", Align::Right, 0, listed.iter().map(us));
        table
    }

    /// Returns what silences causes for which that is known, the largest first.
    pub(crate) fn knobs(&self) -> impl Iterator<Item = String> {
        let known = |taken: &TakenFromThreads| {
            let cause = self.causes.get(taken.cause as usize)?;
            Some(format!("what silences it: {}: {}", cause.name, cause.knob.as_ref()?))
        };
        self.total.iter().filter_map(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_faults_are_marked_as_estimates() {
        let cause = |name: &str, class: &str| Cause {
            name: name.to_owned(),
            class: class.to_owned(),
            knob: None,
            call_site: None,
        };
        let taken =
            |cause| TakenFromThreads { cause, count: 1100, inside_ns: 770_000, median_ns: 700, longest_ns: 900 };
        let noise = |total: Vec<TakenFromThreads>| ProgramNoise {
            blind: None,
            causes: vec![cause("timer tick", "tick"), cause("page fault", "page fault")],
            total,
            threads: Vec::new(),
            thread_time_ns: 1_000_000_000,
            taken_from_run_ns: 1_540_000,
            taken_by_threads_ns: 0,
            events: 1200,
            lost: 0,
            without: Vec::new(),
            phases: None,
        };
        let text = noise(vec![taken(1), taken(0)]).section(false, &Style::default()).join("\n");
        let rows: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(
            rows.iter().any(|row| row.starts_with("page fault") && row.contains("≈ 1,100") && row.ends_with("≈ 770.0")),
            "{text}"
        );
        assert!(
            rows.iter().any(|row| row.starts_with("timer tick") && row.ends_with(" 770.0") && !row.contains('≈')),
            "{text}"
        );
        assert!(rows.contains(&"≈: an estimate, because one page fault in eleven is seen"), "{text}");
        let ticks = noise(vec![taken(0)]).section(false, &Style::default()).join("\n");
        assert!(!ticks.contains('≈'), "{ticks}");
    }
}
