//! Hypervisor steal: the host gave the CPU to another virtual machine while a thread was running on it.

use ledger::account::thread;

use super::finding::Finding;
use crate::blame::Delay;
use crate::evidence::Evidence;
use crate::expected::Expected;
use crate::figures::Figure::Sum;
use crate::figures::say;
use crate::numbers::about_percent;
use crate::thresholds::STEAL_SHARE;
use crate::verdict::{Confidence, Kind, NextStep};

/// Detects that the host took a part of run time.
pub(crate) fn hypervisor(evidence: &Evidence) -> Option<Finding> {
    let (steal, run) = (evidence.sums.steal_ns.min(evidence.sums.run_ns), evidence.sums.run_ns);
    let part = steal as f64 / run.max(1) as f64;
    // The account counts stolen time as work, and the work limits the speed-up in other rules. This rule forecasts a run without steal, so its bound
    // is computed from the work without the stolen time.
    let bound = evidence.thread_bound_without_steal();
    let expected = Expected::of_delay(evidence.wall_ns, steal as f64, evidence.workers.len() as f64, bound);
    if part < STEAL_SHARE || !expected.is_worth_trying() {
        return None;
    }
    let text = format!(
        "The hypervisor took {} of the time this program's threads were on a CPU and gave it to other virtual machines.",
        about_percent(part)
    );
    let mut main = say(evidence, text, &[Sum(thread::steal_ns), Sum(thread::run_ns)]);
    let action = "ask the host for CPUs of your own; no setting inside this machine helps";
    main.next.push(NextStep::expecting(evidence, action, expected, Kind::HypervisorSteal, "hypervisor steal"));
    let back_ns = evidence.blame.total_ns(Delay::Steal);
    Some(Finding { kind: Kind::HypervisorSteal, back_ns, confidence: Confidence::High, sentences: vec![main] })
}
