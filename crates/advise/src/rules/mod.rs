//! One file per situation. A rule detects its situation and returns how much thread time can be saved, with a forecast; [`judge`] ranks what the
//! rules found.

mod blocked;
mod context;
mod convoy;
mod finding;
mod hog;
mod imbalance;
mod pinned;
mod quota;
mod serial;
mod steal;
mod threads;
mod wakeups;

use self::finding::Finding;
use crate::evidence::{Evidence, share};
use crate::limits::{Limits, limits};
use crate::thresholds::{MENTION_SHARE, SURE_RANGE, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, Loss, NextStep, Sentence, Verdict};

/// Maximum number of sentences in a verdict, so that it is quickly read.
const MOST_SENTENCES: usize = 6;
/// Minimum number of sentences in a verdict; fewer would leave a headline without evidence.
const FEWEST_SENTENCES: usize = 3;
/// Maximum number of sentences about the limits of the evidence, such as lost events. They come first, but must leave room for the findings.
const MOST_LIMITS: usize = 4;

/// A rule: returns the situation's finding if the situation is present.
type Rule = fn(&Evidence) -> Option<Finding>;

/// Rules for losses: time that can be saved.
const LOSSES: &[Rule] = &[
    threads::too_many,
    pinned::too_few_cpus,
    quota::throttled,
    hog::cpu_hog,
    serial::serial,
    imbalance::imbalance,
    convoy::convoy,
    wakeups::slow_wakeups,
    steal::hypervisor,
    blocked::disk,
    blocked::network,
    blocked::page_faults,
    blocked::file_locks,
    blocked::unseen,
];

/// Rules for waiting that the program intends; used only if no rule finds a loss.
const INTENDED: &[Rule] = &[blocked::sleeping, blocked::input, blocked::children];

/// Returns the verdict on an account. Applies all rules, and ranks the findings by the time that they can save. The limits of the evidence come first
/// in the verdict.
pub fn judge(evidence: &Evidence) -> Verdict {
    let limits = limits(evidence);
    if !limits.may_judge {
        let context = vec![context::overview(evidence)];
        return compose(Kind::TooLittleEvidence, Confidence::Low, limits, Vec::new(), context);
    }
    let mut findings: Vec<Finding> = LOSSES.iter().filter_map(|rule| rule(evidence)).collect();
    let all_ns = evidence.sums.wall_ns as f64;
    findings.retain(|finding| share_of(evidence, finding) >= MENTION_SHARE);
    findings.sort_by(|a, b| b.back_ns.total_cmp(&a.back_ns));
    let losses = findings.iter().map(|finding| Loss::new(finding.kind, finding.back_ns, all_ns)).collect();
    // The order of those with equal shares stays.
    findings.sort_by(|a, b| share_of(evidence, b).total_cmp(&share_of(evidence, a)));
    Verdict { losses, ..ranked(evidence, findings, limits) }
}

/// Returns the part of thread time that a loss costs: of the worker threads' time, because launchers and idle helpers would dilute a share of all
/// thread time. Waits for a resource also concern threads that are no workers, and are a share of all thread time.
fn share_of(evidence: &Evidence, finding: &Finding) -> f64 {
    use Kind::{Blocked, DiskBound, FileLock, NetworkBound, PageFaults};
    if matches!(finding.kind, Blocked | DiskBound | FileLock | NetworkBound | PageFaults) {
        share(finding.back_ns, evidence.sums.wall_ns as f64)
    } else {
        evidence.worker_share(finding.back_ns)
    }
}

/// Returns the verdict without its losses. `findings` are the losses, largest first.
fn ranked(evidence: &Evidence, mut findings: Vec<Finding>, limits: Limits) -> Verdict {
    let is_headline = |finding: &Finding| share_of(evidence, finding) >= WORTH_SHARE;
    if findings.first().is_some_and(is_headline) {
        let first = findings.remove(0);
        let others = findings.into_iter().filter_map(|finding| finding.sentences.into_iter().next());
        let mut context = vec![context::bound(evidence)];
        context.extend(others);
        context.extend([context::busy(evidence), context::overview(evidence)]);
        return disturbed(evidence, first, limits, context);
    }
    if let Some(mixed) = convoy::mixed(evidence) {
        let context = vec![context::bound(evidence), context::busy(evidence), context::overview(evidence)];
        return disturbed(evidence, mixed, limits, context);
    }
    if let Some(intended) =
        INTENDED.iter().filter_map(|rule| rule(evidence)).max_by(|a, b| a.back_ns.total_cmp(&b.back_ns))
    {
        let context = vec![context::overview(evidence), context::busy(evidence), context::bound(evidence)];
        return disturbed(evidence, intended, limits, context);
    }
    let small = findings.into_iter().find_map(|finding| finding.sentences.into_iter().next());
    let mut said = vec![context::nothing(evidence)];
    said.extend(context::shared_cpus(evidence));
    // The largest finding is mentioned without its next steps, because their gain is too small.
    said.extend(small.map(|sentence| Sentence { next: Vec::new(), ..sentence }));
    let nothing = Finding { kind: Kind::NothingToGain, back_ns: 0.0, confidence: Confidence::High, sentences: said };
    disturbed(evidence, nothing, limits, Vec::new())
}

/// Composes a verdict whose confidence takes the load of other programs into account.
fn disturbed(evidence: &Evidence, finding: Finding, limits: Limits, context: Vec<Sentence>) -> Verdict {
    let found = finding.confidence.min(limits.ceiling).min(confidence_in_ranges(&finding.sentences));
    let (confidence, said) = context::beside_load(evidence, finding.kind, found);
    let behind_main = limits.sentences.len().min(MOST_LIMITS) + finding.sentences.len();
    let mut verdict = compose(finding.kind, confidence, limits, finding.sentences, context);
    if let Some(said) = said {
        verdict.sentences.insert(behind_main.min(MOST_SENTENCES - 1).min(verdict.sentences.len()), said);
        verdict.sentences.truncate(MOST_SENTENCES);
    }
    verdict
}

/// Composes a verdict: limits, then the headline's sentences, then context until there are enough sentences.
fn compose(kind: Kind, confidence: Confidence, limits: Limits, main: Vec<Sentence>, context: Vec<Sentence>) -> Verdict {
    let mut sentences = limits.sentences;
    sentences.truncate(MOST_LIMITS);
    sentences.extend(main);
    sentences.truncate(MOST_SENTENCES);
    for sentence in context {
        let enough = sentences.len() >= FEWEST_SENTENCES && sentence.next.is_empty();
        if sentences.len() < MOST_SENTENCES && !enough {
            sentences.push(sentence);
        }
    }
    if !limits.may_forecast {
        sentences.iter_mut().flat_map(|sentence| &mut sentence.next).for_each(withdraw_forecast);
    }
    Verdict { headline: kind, confidence: confidence.min(limits.ceiling), losses: Vec::new(), sentences }
}

/// Returns the confidence that the forecasts of a finding allow.
fn confidence_in_ranges(sentences: &[Sentence]) -> Confidence {
    let mut ranges = sentences.iter().flat_map(|sentence| &sentence.next).filter_map(|step| step.range());
    if ranges.any(|(low, high)| high > SURE_RANGE * low) { Confidence::Medium } else { Confidence::High }
}

/// Keeps a step but removes its forecast.
fn withdraw_forecast(step: &mut NextStep) {
    step.expected_low = None;
    step.expected_high = None;
    step.bound = None;
    step.bound_without = None;
}
