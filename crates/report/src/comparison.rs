//! Runs side by side: what `cox compare` and `cox run --repeat` print, and their JSON.

mod csv;
mod noise;
mod rows;
mod text;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet};

use advise::evidence::Evidence;
use advise::figures::{Figure, Whole};
use compare::{Change, Series};
use ledger::account::{cpu, thread};
use ledger::figures::{Figure as Declared, Unit};
use ledger::latency::quantile;
use ledger::{Latencies, Provenance, Quantiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use wire::{Backend, Cause};

use crate::json::Document;
use crate::noise::NoiseReport;

pub use compare::stats::Estimate;

/// Version of the JSON schema of [`Comparison`].
pub const SCHEMA_VERSION: u32 = 1;

/// The primary figure, which most users look at first.
pub(crate) const WALL: &str = thread::wall_ns.name;

/// Times whose mean over all runs is below this part of all thread time are left out. They explain nothing, and each further figure makes the
/// verdicts on the others less certain.
const NEGLIGIBLE: f64 = 0.001;

/// The document of `cox compare --json`, from which its text is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// The groups; all are compared with the first.
    pub groups: Vec<Group>,
    /// The figures: wall time first.
    pub figures: Vec<Row>,
    /// Figures that are left out because they are 0 or negligible in all runs.
    pub left_out: Vec<String>,
    /// Warnings about how far the conclusions can be trusted, as sentences.
    pub warnings: Vec<String>,
    /// Properties other than figures in which the runs differ: place, machine and program of the measurement.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

/// A property in which runs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The property's name.
    pub what: String,
    /// For each group, in the groups' order, the distinct values of its runs.
    pub by_group: Vec<Vec<String>>,
}

/// A group of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// The group's name.
    pub name: String,
    /// Number of runs.
    pub runs: u64,
}

/// One figure in all groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The figure's name in docs/figures.md.
    pub figure: String,
    /// The median of each group, with its 95 % interval.
    pub medians: Vec<Estimate>,
    /// The change of each group other than the first, compared with the first.
    pub changes: Vec<Change>,
    /// The values of all runs, by group.
    #[serde(default)]
    pub runs: Vec<Vec<f64>>,
}

impl Row {
    /// Returns the change of group `other` compared with the first; `None` for the first group itself.
    pub(crate) fn change(&self, other: usize) -> Option<&Change> {
        self.changes.get(other.checked_sub(1)?)
    }
}

/// What is kept of a run for a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Figures by name.
    figures: BTreeMap<String, f64>,
    backend: Option<Backend>,
    provenance: Option<Provenance>,
    lost: bool,
    failed: bool,
    unsampled: bool,
    /// How noise was measured, by property; `None` in a report of a program.
    manner: Option<Vec<(&'static str, String)>>,
}

/// Returns the figures that are compared, in this order. Facts about the machine, and what cox itself did, are not among them.
fn compared() -> impl Iterator<Item = Figure> {
    let times = [
        thread::run_ns,
        thread::work_ns,
        thread::spin_ns,
        thread::kernel_sync_ns,
        thread::steal_ns,
        thread::waiting_for_threads_ns,
        thread::waiting_for_cpu_ns,
        thread::wake_delay_ns,
        thread::preempt_wait_ns,
        thread::blocked_ns,
    ];
    let counts = [thread::switches_voluntary, thread::switches_involuntary, thread::wakeups, thread::migrations];
    let cpus = [cpu::idle_ns, cpu::idle_while_waiting_ns, cpu::busy_others_ns];
    [Figure::Whole(Whole::WallNs)]
        .into_iter()
        .chain(times.map(Figure::Sum))
        .chain(Cause::ALL.map(Figure::BlockedBy))
        .chain(counts.map(Figure::Sum))
        .chain(cpus.map(Figure::Cpus))
        .chain([Figure::Whole(Whole::ThrottledNs)])
}

/// Returns the names and values of the latency quantiles; none if the run has several programs.
fn latencies(document: &Document) -> Vec<(String, f64)> {
    let [program] = document.account.programs.as_slice() else { return Vec::new() };
    let Some(Latencies { wake_delay, preempt_wait, blocked, slice }) = program.latencies else { return Vec::new() };
    let seen = INTERVALS.into_iter().zip([wake_delay, preempt_wait, blocked, slice]);
    let seen = seen.filter_map(|(name, of)| Some((name, of.filter(|of| of.count > 0)?)));
    let value = |of: &Quantiles, figure: &Declared<Quantiles>| (figure.value)(of).unwrap_or(0) as f64;
    seen.flat_map(|(interval, of)| QUANTILES.map(|figure| (latency(interval, &figure), value(&of, &figure)))).collect()
}

/// The kinds of intervals, as named in the JSON.
const INTERVALS: [&str; 4] = ["wake_delay", "preempt_wait", "blocked", "slice"];
/// The figures of the intervals of one kind (such as wake delays): their number, three quantiles and the maximum.
const QUANTILES: [Declared<Quantiles>; 5] =
    [quantile::count, quantile::p50_ns, quantile::p90_ns, quantile::p99_ns, quantile::max_ns];

/// Returns the name of a quantile of a kind of interval, such as `wake_delay.p50_ns`.
fn latency(interval: &str, figure: &Declared<Quantiles>) -> String {
    format!("{interval}.{}", figure.name)
}

/// Figures that mean the same with every backend.
const BY_ALL_BACKENDS: [&str; 4] =
    [WALL, thread::run_ns.name, thread::switches_voluntary.name, thread::switches_involuntary.name];

impl Run {
    /// Takes the figures of a report.
    pub fn of(document: &Document) -> Run {
        let named = |(name, value): (&String, &Number)| Some((name.clone(), value.as_f64()?));
        let mut figures: BTreeMap<String, f64> = document.figures.iter().filter_map(named).collect();
        // Reports of older versions have fewer figures than this version derives from the same account.
        let evidence = Evidence::new(&document.account, &document.facts);
        for figure in Figure::all().filter(|figure| !document.figures.contains_key(&figure.name())) {
            figures.extend(figure.known(&evidence).map(|value| (figure.name(), value)));
        }
        figures.extend(latencies(document));
        Run {
            figures,
            backend: Some(document.account.backend),
            provenance: document.account.provenance.clone(),
            lost: document.account.lost.spoil_accounts(),
            failed: document.account.programs.iter().any(|program| program.exit_code.is_some_and(|code| code != 0)),
            unsampled: document.account.sees().unsampled.is_some(),
            manner: None,
        }
    }

    /// Takes the figures of a measurement of noise.
    pub fn of_noise(report: &NoiseReport) -> Run {
        Run {
            figures: noise::figures(report),
            backend: None,
            provenance: Some(report.provenance.clone()),
            lost: report.events.lost > 0,
            failed: false,
            unsampled: false,
            manner: Some(noise::manner(report)),
        }
    }

    /// Returns whether the figures are those of a measurement of noise.
    pub fn is_of_noise(&self) -> bool {
        self.manner.is_some()
    }

    /// Returns the value of a figure, or of a quotient of two: `waiting_for_cpu_ns/thread_ns`. Returns `None` if a figure of this name is missing,
    /// or if the divisor is 0 in this run.
    pub fn figure(&self, name: &str) -> Option<f64> {
        match name.split_once('/') {
            Some((part, whole)) => Some(self.named(part)? / self.named(whole)?).filter(|share| share.is_finite()),
            None => self.named(name),
        }
    }

    /// Returns whether the run has this figure, or both figures of a quotient.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let (part, whole) = name.split_once('/').unwrap_or((name, name));
        self.named(part).and(self.named(whole)).is_some()
    }

    /// Returns the names of all figures.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.figures.keys().map(String::as_str)
    }

    fn named(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
}

impl Comparison {
    /// Compares groups of runs, given by name. Each group has at least one run.
    pub fn new(cox_version: &str, groups: &[(String, Vec<Run>)]) -> Comparison {
        let runs = || groups.iter().flat_map(|(_, runs)| runs);
        let one_backend = backends(groups).len() < 2;
        let (mut series, mut left_out) = (Vec::new(), Vec::new());
        let quantiles =
            INTERVALS.into_iter().flat_map(|interval| QUANTILES.map(|figure| (latency(interval, &figure), false)));
        let noise = noise::NAMES.map(|name| (name.to_owned(), false));
        let known = compared().map(|known| (known.name(), known.unit() == Unit::Ns));
        for (figure, adds_up) in known.chain(quantiles).chain(noise) {
            let of = |runs: &Vec<Run>| runs.iter().map(|run| run.figure(&figure)).collect::<Option<Vec<f64>>>();
            let Some(values) = groups.iter().map(|(_, runs)| of(runs)).collect::<Option<Vec<_>>>() else { continue };
            let usual = one_backend || means_the_same_by_all(&figure);
            // The sum is over all runs, so that the choice of figures does not depend on how the groups differ.
            let thread_ns: f64 = runs().filter_map(|run| run.figure(Whole::ThreadNs.name())).sum();
            let sum: f64 = values.iter().flatten().sum();
            let enough = if adds_up { sum > NEGLIGIBLE * thread_ns } else { sum > 0.0 };
            let primary = figure == WALL;
            match usual && (enough || primary) {
                true => series.push(Series { primary, figure, groups: values }),
                false => left_out.push(figure),
            }
        }
        let judged = compare::compare(&series).into_iter().zip(series);
        let row = |(of, series): (compare::Compared, Series)| Row {
            figure: series.figure,
            medians: of.medians,
            changes: of.changes,
            runs: series.groups,
        };
        let differ = (!one_backend).then(|| {
            format!("{}: only figures that mean the same with all backends are compared", backends_differ(groups))
        });
        Comparison {
            schema_version: SCHEMA_VERSION,
            cox_version: cox_version.to_owned(),
            groups: groups.iter().map(|(name, runs)| Group { name: name.clone(), runs: runs.len() as u64 }).collect(),
            figures: judged.map(row).collect(),
            left_out,
            warnings: differ.into_iter().chain(spoiled(groups)).chain(measured_differently(groups)).collect(),
            differences: differences(groups),
        }
    }

    /// Formats the comparison as indented JSON, with a newline at the end.
    ///
    /// # Errors
    /// None in practice: all keys are strings.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

fn backends(groups: &[(String, Vec<Run>)]) -> BTreeSet<&str> {
    groups.iter().flat_map(|(_, runs)| runs).filter_map(|run| run.backend).map(Backend::name).collect()
}

fn backends_differ(groups: &[(String, Vec<Run>)]) -> String {
    format!("backends differ ({})", backends(groups).into_iter().collect::<Vec<_>>().join(", "))
}

/// Returns whether a figure, or both figures of a quotient, mean the same with every backend.
fn means_the_same_by_all(figure: &str) -> bool {
    figure.split('/').all(|part| BY_ALL_BACKENDS.contains(&part))
}

/// Lists the properties of place, machine and program that all runs state and in which they differ; the date is left out, since it always differs.
/// A run that states no container, job or rank had none.
fn differences(groups: &[(String, Vec<Run>)]) -> Vec<Difference> {
    const NONE_IF_ABSENT: [&str; 3] = ["container", "job", "MPI rank"];
    let runs = || groups.iter().flat_map(|(_, runs)| runs);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in runs().filter_map(|run| run.provenance.as_ref()).flat_map(Provenance::known) {
        if name != "date" && !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |run: &Run, name: &str| {
        let known = run.provenance.as_ref()?.known();
        let value = known.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        value.or_else(|| NONE_IF_ABSENT.contains(&name).then(|| "none".to_owned()))
    };
    let by_group = |name: &str| {
        let values = groups.iter().map(|(_, runs)| {
            let values = runs.iter().map(|run| of(run, name)).collect::<Option<BTreeSet<String>>>();
            values.map(|values| values.into_iter().collect())
        });
        values.collect::<Option<Vec<Vec<String>>>>()
    };
    let all =
        names.into_iter().filter_map(|name| Some(Difference { what: name.to_owned(), by_group: by_group(name)? }));
    all.filter(|difference| difference.by_group.iter().flatten().collect::<BTreeSet<_>>().len() > 1).collect()
}

/// Returns a warning for each property in which measurements of noise differ: their figures then differ even if the noise is the same.
fn measured_differently(groups: &[(String, Vec<Run>)]) -> Vec<String> {
    let manners: Vec<(&str, &[(&'static str, String)])> = groups
        .iter()
        .flat_map(|(group, runs)| runs.iter().filter_map(|run| Some((group.as_str(), run.manner.as_deref()?))))
        .collect();
    let Some((_, first)) = manners.first() else { return Vec::new() };
    let differing = |(at, (what, value)): (usize, &(&'static str, String))| {
        manners.iter().any(|(_, manner)| manner[at].1 != *value).then(|| {
            let mut of_groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (group, manner) in &manners {
                of_groups.entry(group).or_default().insert(&manner[at].1);
            }
            let of = |(name, _): &(String, Vec<Run>)| {
                let values = of_groups.get(name.as_str())?.iter().copied().collect::<Vec<_>>().join(", ");
                Some(format!("{name} {values}"))
            };
            let values: Vec<String> = groups.iter().filter_map(of).collect();
            format!("measured differently: {what}: {}", values.join("; "))
        })
    };
    first.iter().enumerate().filter_map(differing).collect()
}

/// Returns the warnings that concern all figures: some runs lost events, failed, or do not say where they were measured.
fn spoiled(groups: &[(String, Vec<Run>)]) -> Vec<String> {
    let runs = || groups.iter().flat_map(|(_, runs)| runs);
    let (lost, failed) = (runs().filter(|run| run.lost).count(), runs().filter(|run| run.failed).count());
    let unsaid = runs().filter(|run| run.provenance.is_none()).count();
    let unsampled = runs().filter(|run| run.unsampled).count();
    let all = runs().count();
    let warnings = [
        (lost > 0).then(|| format!("{lost} of {all} runs lost events: their figures are uncertain")),
        (failed > 0).then(|| format!("{failed} of {all} runs ended with an exit code other than 0")),
        (unsampled > 0).then(|| {
            format!("{unsampled} of {all} runs took no samples (--noise): work and spinning are not compared")
        }),
        (unsaid > 0 && unsaid < all).then(|| format!("{unsaid} of {all} runs do not say where they were measured")),
    ];
    warnings.into_iter().flatten().collect()
}

/// Returns the warnings about one figure that is shown for all groups together.
pub(crate) fn warnings_about(figure: &str, groups: &[(String, Vec<Run>)]) -> Vec<String> {
    let differ = backends(groups).len() > 1 && !means_the_same_by_all(figure);
    let differ =
        differ.then(|| format!("{}: {figure} does not mean the same with all backends", backends_differ(groups)));
    differ.into_iter().chain(spoiled(groups)).chain(measured_differently(groups)).collect()
}

/// Returns whether a figure is in nanoseconds. A figure that this version does not know is judged by the end of its name.
pub(crate) fn is_a_time(figure: &str) -> bool {
    let known = Figure::all().find(|known| known.name() == figure);
    known.map_or_else(|| Unit::of(figure), |known| known.unit()) == Unit::Ns
}

#[cfg(test)]
impl Run {
    pub(crate) fn with_figures(figures: Vec<(String, f64)>) -> Run {
        Run { figures: figures.into_iter().collect(), ..Run::default() }
    }

    pub(crate) fn by(self, backend: Backend) -> Run {
        Run { backend: Some(backend), ..self }
    }
}
