//! Somebody else takes the CPUs: threads wait behind programs that are not ours.
//!
//! If others held the share `s` of the CPUs and the work could fill whatever they leave, being alone
//! gives `1 / (1 − s)`. A program that meets at barriers loses more: all wait for the one that was
//! displaced. The range therefore comes from the thread time waited behind others (see `expected`), whose
//! low end is that share of thread time, and its high end the whole of it on the critical path.

use ledger::TakerKind;

use super::Finding;
use crate::blame::Delay;
use crate::figures::{Figure, say};
use crate::numbers::{about_percent, cpu_list, duration};
use crate::picture::Picture;
use crate::thresholds::WORTH_SHARE;
use crate::verdict::{Confidence, Kind, NextStep};

/// Kernel threads cannot be asked to run elsewhere by starting them differently.
const KERNEL_THREADS: [&str; 7] = ["kworker", "ksoftirqd", "migration", "rcu_", "kswapd", "kcompactd", "irq/"];

/// Others held the CPUs.
pub(crate) fn cpu_hog(picture: &Picture) -> Option<Finding> {
    if picture.sight.takers { seen(picture) } else { deduced(picture) }
}

fn seen(picture: &Picture) -> Option<Finding> {
    // Behind others, and behind siblings because others had the CPUs that would have been theirs.
    let waited = picture.blame.direct_ns(Delay::Other);
    let expected = picture.without_delay(waited);
    let takers = picture.takers(TakerKind::Other);
    if !expected.is_worth_trying() {
        return None;
    }
    let behind = picture.behind.others_ns;
    let named = takers.first().filter(|_| behind as f64 >= 0.5 * waited);
    let who = match (named, takers.get(1)) {
        (None, _) => "who it was does not show, since no thread queued for its CPU".to_owned(),
        (Some(first), None) => format!("most behind {} ({})", first.comm, duration(first.wait_ns)),
        (Some(first), Some(next)) => {
            format!("most behind {} ({}), then {}", first.comm, duration(first.wait_ns), next.comm)
        }
    };
    let text = format!(
        "Others took {} of the CPUs' time, and {} of thread time waited behind them or for what they left: {who}.",
        about_percent(picture.cpus_of_others() / picture.cpus),
        about_percent(picture.crew_share(waited)),
    );
    let figures = [
        Figure::CpuBusyOthersNs,
        Figure::TookOtherNs,
        Figure::TookSiblingNs,
        Figure::WaitingForCpuNs,
        Figure::ThreadNs,
    ];
    let mut main = say(picture, text, &figures);
    let action = named
        .map_or_else(|| "look for a busy program beside it (top)".to_owned(), |taker| remedy(picture, &taker.comm));
    main.next.push(NextStep::expecting(action, &expected, Kind::CpuHog));
    let back_ns = picture.blame.total_ns(Delay::Other);
    let confidence = if named.is_some() { Confidence::High } else { Confidence::Medium };
    Some(Finding { kind: Kind::CpuHog, back_ns, confidence, sentences: vec![main] })
}

fn remedy(picture: &Picture, comm: &str) -> String {
    if KERNEL_THREADS.iter().any(|kernel| comm.starts_with(kernel)) {
        return if picture.facts.has_verb("quiet") {
            "cox quiet plan".to_owned()
        } else {
            format!("find what makes the kernel run {comm} on these CPUs")
        };
    }
    let cpus = picture.facts.program_cpus();
    match cpus.is_empty() {
        true => format!("keep {comm} off this program's CPUs, or stop it"),
        false => format!("keep {comm} off CPU {}, or stop it", cpu_list(cpus)),
    }
}

/// Without seeing who: as many CPUs as threads, no quota, no narrow mask, and still they waited.
fn deduced(picture: &Picture) -> Option<Finding> {
    let sums = &picture.sums;
    // Yielding to nobody costs nothing, so what yielded gave way to somebody.
    let waited = sums.waiting_for_cpu_ns();
    let enough_cpus = picture.crew.len() as f64 <= picture.cpus && !picture.crew.is_empty();
    let expected = picture.without_delay(waited as f64);
    if !enough_cpus
        || picture.facts.nr_throttled > 0
        || picture.share(waited) < WORTH_SHARE
        || !expected.is_worth_trying()
    {
        return None;
    }
    let text = format!(
        "There was a CPU for each thread, yet {} of thread time waited for one: something else probably took it.",
        about_percent(picture.share(waited)),
    );
    let figures = [Figure::WaitingForCpuNs, Figure::CrewThreads, Figure::ProgramCpus, Figure::ThreadNs];
    let mut main = say(picture, text, &figures);
    main.next.push(NextStep::expecting("look for a busy program beside it (top)", &expected, Kind::CpuHog));
    let back_ns = picture.blame.total_ns(Delay::Unseen);
    Some(Finding { kind: Kind::CpuHog, back_ns, confidence: Confidence::Low, sentences: vec![main] })
}
