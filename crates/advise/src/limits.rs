//! What a verdict must state first: events that were lost, and what the backend cannot see.

use ledger::account::thread;
use ledger::check::Capacity;
use ledger::summary;
use ledger::{Delays, Unsampled};
use wire::Backend;

use crate::evidence::Evidence;
use crate::figures::Figure::{Sum, Whole};
use crate::figures::Whole::{Events, LostEvents, OnlineCpus, ThreadNs, WallNs};
use crate::figures::say;
use crate::numbers::{about_percent, count, counted, duration};
use crate::thresholds::{
    LOSS_NEGLIGIBLE, LOSS_TOO_MUCH, MIN_FORECAST_NS, MIN_THREAD_NS, SHORT_NS, SPIN_ERROR_SHARE, UNKNOWN_MENTION,
    UNKNOWN_TOO_MUCH,
};
use crate::verdict::{Confidence, Sentence};

/// How far an account can be trusted.
pub(crate) struct Limits {
    /// Sentences that come first in the verdict, in this order.
    pub sentences: Vec<Sentence>,
    /// Upper limit of the verdict's confidence.
    pub ceiling: Confidence,
    /// True if the verdict may forecast speed-up factors.
    pub may_forecast: bool,
    /// False if the evidence is not sufficient for a diagnosis; the headline of the verdict then is that there is too little evidence.
    pub may_judge: bool,
}

impl Limits {
    fn say(&mut self, sentence: Sentence, ceiling: Confidence) {
        self.sentences.push(sentence);
        self.ceiling = self.ceiling.min(ceiling);
    }
}

/// Collects everything that limits a verdict about `evidence`.
pub(crate) fn limits(evidence: &Evidence) -> Limits {
    let short = evidence.wall_ns < SHORT_NS as f64;
    let ceiling = if short { Confidence::Medium } else { Confidence::High };
    let mut limits = Limits { sentences: Vec::new(), ceiling, may_forecast: true, may_judge: true };
    too_short(evidence, &mut limits);
    too_short_to_forecast(evidence, &mut limits);
    losses(evidence, &mut limits);
    contradictions(evidence, &mut limits);
    blindness(evidence, &mut limits);
    unknown(evidence, &mut limits);
    limits
}

fn too_short(evidence: &Evidence, limits: &mut Limits) {
    if evidence.sums.wall_ns >= MIN_THREAD_NS {
        return;
    }
    let text = format!(
        "{} of thread time is too short to judge; a verdict needs at least {}.",
        duration(evidence.sums.wall_ns),
        duration(MIN_THREAD_NS)
    );
    limits.say(say(evidence, text, &[Whole(ThreadNs)]), Confidence::Low);
    limits.may_judge = false;
}

/// Withdraws all forecasts for a short run.
fn too_short_to_forecast(evidence: &Evidence, limits: &mut Limits) {
    if evidence.wall_ns >= MIN_FORECAST_NS as f64 || !limits.may_judge {
        return;
    }
    let text = format!(
        "A run of {} is too short for a forecast; it needs at least {}. Measure a larger input.",
        duration(evidence.wall_ns as u64),
        duration(MIN_FORECAST_NS)
    );
    limits.say(say(evidence, text, &[Whole(WallNs)]), Confidence::Medium);
    limits.may_forecast = false;
}

fn losses(evidence: &Evidence, limits: &mut Limits) {
    let (lost, events) = (&evidence.account.lost, evidence.account.events);
    if lost.trace_events > 0 {
        // The figures of co-run programs (several programs that one session observes) come from the trace, so gaps in the trace affect them.
        let but = if evidence.account.co_run.is_some() { ", except those of co-run programs" } else { "" };
        let text = format!(
            "The trace has gaps: the buffer had no space for {}. The figures here are complete, because they do not come from the trace{but}.",
            counted(lost.trace_events, "trace event")
        );
        limits.say(say(evidence, text, &[Whole(LostEvents)]), Confidence::High);
    }
    if !lost.spoil_accounts() {
        return;
    }
    let part = (lost.events as f64 / (events.max(1) as f64)).max(threads_lost(evidence));
    let consequence = if part <= LOSS_NEGLIGIBLE {
        "the figures are still reliable"
    } else if part <= LOSS_TOO_MUCH {
        "the figures are approximate, and no gain is forecast from them"
    } else {
        "that is too much for a verdict"
    };
    let text = format!(
        "{} of {} events were lost, {} could not be tracked, and {} could be included only in totals: {consequence}.",
        count(lost.events),
        count(events.saturating_add(lost.events)),
        counted(lost.members, "thread"),
        counted(lost.finals, "thread")
    );
    let ceiling = if part <= LOSS_NEGLIGIBLE { Confidence::Medium } else { Confidence::Low };
    limits.say(say(evidence, text, &[Whole(LostEvents), Whole(Events)]), ceiling);
    limits.may_forecast &= part <= LOSS_NEGLIGIBLE;
    limits.may_judge &= part <= LOSS_TOO_MUCH;
}

/// Adds warnings about events that contradict one another, even if no lost events were reported.
fn contradictions(evidence: &Evidence, limits: &mut Limits) {
    let capacity = Capacity::of(evidence.account, evidence.facts.online_cpus.len());
    if let Some(capacity) = capacity.filter(Capacity::is_exceeded) {
        let text = format!(
            "According to the events, threads ran {} in {} on {}, which is impossible: these figures are wrong, and there is no verdict.",
            duration(capacity.run_ns),
            duration(capacity.window_ns),
            counted(evidence.facts.online_cpus.len() as u64, "CPU")
        );
        limits.say(say(evidence, text, &[Sum(thread::run_ns), Whole(OnlineCpus)]), Confidence::Low);
        limits.may_judge = false;
    }
    let count = evidence.sums.impossible;
    if count == 0 {
        return;
    }
    let contradicted = summary::threads(evidence.account).filter(|thread| thread.impossible > 0);
    let unknown_ns = contradicted.fold(0u64, |sum, thread| sum.saturating_add(thread.unknown_ns));
    let part = evidence.share(unknown_ns);
    let text = format!(
        "{} contradict other events, so some events were lost or are wrong: up to {} of thread time around them is unknown.",
        counted(count, "event"),
        duration(unknown_ns)
    );
    let ceiling = if part <= LOSS_NEGLIGIBLE { Confidence::Medium } else { Confidence::Low };
    limits.say(say(evidence, text, &[Sum(thread::unknown_ns), Whole(ThreadNs)]), ceiling);
    limits.may_forecast &= part <= LOSS_TOO_MUCH;
}

/// Returns the part of the threads that have no account of their own, because they could not be tracked or because only the sum of their times was
/// kept.
fn threads_lost(evidence: &Evidence) -> f64 {
    let lost = evidence.account.lost.members.saturating_add(evidence.account.lost.finals) as f64;
    lost / (lost + evidence.sums.threads as f64).max(1.0)
}

fn blindness(evidence: &Evidence, limits: &mut Limits) {
    let sees = evidence.sees;
    if !sees.causes {
        let who = match evidence.account.backend {
            Backend::PerfData => "A recording of perf".to_owned(),
            backend => format!("The {} backend", backend.name()),
        };
        let delays = match sees.delays {
            Delays::Apart => "",
            Delays::InBlocked => ", and wake-up delay is part of blocked time",
            Delays::InPreemptWait => ", and does not divide waiting for a CPU into wake delay and preempt wait",
        };
        let busy = if sees.busy_cpus { "" } else { ", nor how many CPUs were busy at the same time" };
        let text =
            format!("{who} sees neither why a thread blocked nor who held a CPU that others waited for{busy}{delays}.");
        let mut sentence = say(evidence, text, &[Sum(thread::blocked_ns), Sum(thread::waiting_for_cpu_ns)]);
        if evidence.facts.has_verb("doctor") {
            let kind = crate::verdict::Kind::TooLittleEvidence;
            sentence
                .next
                .push(crate::verdict::NextStep::plain("cox doctor (shows what eBPF needs on this machine)", kind));
        }
        limits.say(sentence, Confidence::Medium);
    }
    if !sees.spin {
        let why = match sees.unsampled {
            Some(Unsampled::Noise) => {
                "Spinning was not measured, because --noise takes no samples, which would be noise"
            }
            None => "Spinning could not be detected",
        };
        let text = format!("{why}: part of the time counted as work may have been spent waiting for other threads.");
        limits.say(say(evidence, text, &[Sum(thread::run_ns)]), Confidence::Medium);
    }
    let doubt = evidence.share(evidence.sums.work_error_ns() as u64);
    if doubt > SPIN_ERROR_SHARE {
        let text = format!(
            "Spinning was estimated from few samples: {} of thread time, ± {}.",
            evidence.percent(evidence.sums.spin_ns),
            about_percent(doubt)
        );
        limits.say(say(evidence, text, &[Sum(thread::spin_ns), Whole(ThreadNs)]), Confidence::Low);
    }
}

fn unknown(evidence: &Evidence, limits: &mut Limits) {
    let unknown = evidence.share(evidence.sums.unknown_ns);
    if unknown < UNKNOWN_MENTION {
        return;
    }
    let text = format!(
        "{} of thread time is unknown: it lies before a thread's first event, after its last, or between \
         events that contradict one another.",
        about_percent(unknown)
    );
    limits.say(say(evidence, text, &[Sum(thread::unknown_ns), Whole(ThreadNs)]), Confidence::Medium);
    limits.may_judge &= unknown < UNKNOWN_TOO_MUCH;
}
