//! One file per situation. A rule says whether its situation is there, how much thread time it could
//! give back, and what to expect; [`judge`] ranks what the rules found.

mod blocked;
mod context;
mod convoy;
mod finding;
mod hog;
mod imbalance;
mod pinned;
mod quota;
mod steal;
mod threads;
mod wakeups;

use self::finding::Finding;
use crate::limits::{Limits, limits};
use crate::picture::Picture;
use crate::thresholds::{MENTION_SHARE, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, NextStep, Sentence, Verdict};

/// A verdict is read in one breath.
const MOST_SENTENCES: usize = 6;
/// Fewer would leave a headline without its proof.
const FEWEST_SENTENCES: usize = 3;
/// Limits are said first, but must leave room for what they limit.
const MOST_LIMITS: usize = 4;

/// A rule: the situation's finding, if it is there.
type Rule = fn(&Picture) -> Option<Finding>;

/// Losses: what could be given back.
const LOSSES: &[Rule] = &[
    threads::too_many,
    pinned::too_few_cpus,
    quota::throttled,
    hog::cpu_hog,
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

/// Waiting that the program intends, looked at only when there is no loss.
const INTENDED: &[Rule] = &[blocked::sleeping, blocked::input, blocked::children];

/// Ranks what the rules find and puts the limits first.
pub(crate) fn judge(picture: &Picture) -> Verdict {
    let limits = limits(picture);
    if !limits.may_judge {
        return compose(Kind::TooLittleEvidence, Confidence::Low, limits, Vec::new(), vec![context::overview(picture)]);
    }
    let mut findings: Vec<Finding> = LOSSES.iter().filter_map(|rule| rule(picture)).collect();
    let all_ns = picture.sums.wall_ns as f64;
    findings.retain(|finding| finding.back_ns >= MENTION_SHARE * all_ns);
    findings.sort_by(|a, b| b.back_ns.total_cmp(&a.back_ns));
    let is_headline = |finding: &Finding| finding.back_ns >= WORTH_SHARE * all_ns;
    if findings.first().is_some_and(is_headline) {
        let first = findings.remove(0);
        let others = findings.into_iter().filter_map(|finding| finding.sentences.into_iter().next());
        let mut context = vec![context::bound(picture)];
        context.extend(others);
        context.extend([context::busy(picture), context::overview(picture)]);
        return disturbed(picture, first, limits, context);
    }
    if let Some(mixed) = convoy::mixed(picture) {
        let context = vec![context::bound(picture), context::busy(picture), context::overview(picture)];
        return disturbed(picture, mixed, limits, context);
    }
    if let Some(intended) =
        INTENDED.iter().filter_map(|rule| rule(picture)).max_by(|a, b| a.back_ns.total_cmp(&b.back_ns))
    {
        let context = vec![context::overview(picture), context::busy(picture), context::bound(picture)];
        return disturbed(picture, intended, limits, context);
    }
    let mut small: Vec<Sentence> =
        findings.into_iter().filter_map(|finding| finding.sentences.into_iter().next()).collect();
    small.truncate(1);
    // What gains nothing needs no step.
    small.iter_mut().for_each(|sentence| sentence.next.clear());
    let mut said = vec![context::nothing(picture)];
    said.extend(context::shared_cpus(picture));
    said.extend(small);
    let nothing = Finding { kind: Kind::NothingToGain, back_ns: 0.0, confidence: Confidence::High, sentences: said };
    disturbed(picture, nothing, limits, Vec::new())
}

/// A verdict whose confidence allows for the load of others.
fn disturbed(picture: &Picture, finding: Finding, limits: Limits, context: Vec<Sentence>) -> Verdict {
    let (confidence, said) = context::beside_load(picture, finding.kind, finding.confidence.min(limits.ceiling));
    let behind_main = limits.sentences.len().min(MOST_LIMITS) + finding.sentences.len();
    let mut verdict = compose(finding.kind, confidence, limits, finding.sentences, context);
    if let Some(said) = said {
        verdict.sentences.insert(behind_main.min(MOST_SENTENCES - 1).min(verdict.sentences.len()), said);
        verdict.sentences.truncate(MOST_SENTENCES);
    }
    verdict
}

/// Limits, then the headline's sentences, then context until there is enough.
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
    Verdict { headline: kind, confidence: confidence.min(limits.ceiling), sentences }
}

/// Keeps a step but takes its number away.
fn withdraw_forecast(step: &mut NextStep) {
    step.expected_low = None;
    step.expected_high = None;
    step.bound = None;
    step.bound_without = None;
}
