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
    let waited = picture.behind.others_ns.min(picture.sums.wake_delay_ns.saturating_add(picture.sums.preempt_wait_ns));
    let expected = picture.without_delay(waited as f64);
    let takers = picture.takers(TakerKind::Other);
    let first = takers.first()?;
    if !expected.is_worth_trying() {
        return None;
    }
    let others = picture.over_cpus(|cpu| cpu.busy_others_ns);
    let all = picture.over_cpus(|cpu| {
        [cpu.busy_program_ns, cpu.busy_others_ns, cpu.idle_ns].into_iter().fold(0, u64::saturating_add)
    });
    let more = if takers.len() > 1 { format!(", then {}", takers[1].comm) } else { String::new() };
    let text = format!(
        "Others took {} of the CPUs' time, and {} of thread time waited behind them: most behind {} ({}){more}.",
        about_percent(others as f64 / all.max(1) as f64),
        about_percent(picture.share(waited)),
        first.comm,
        duration(first.wait_ns),
    );
    let figures = [Figure::CpuBusyOthersNs, Figure::TookOtherNs, Figure::WaitingForCpuNs, Figure::ThreadNs];
    let mut main = say(picture, text, &figures);
    let step = NextStep::expecting(remedy(picture, &first.comm), &expected, Kind::CpuHog);
    main.next.push(step);
    let back_ns = picture.blame.total_ns(Delay::Other);
    Some(Finding { kind: Kind::CpuHog, back_ns, confidence: Confidence::High, sentences: vec![main] })
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
