//! CPU hog: threads wait for CPUs that other programs hold.
//!
//! If other programs held the share `s` of the CPUs, and the work could fill all the rest, an idle machine gives a speed-up of `1 / (1 − s)`. A
//! program that meets at barriers loses more, because all threads wait for the preempted one. The range is therefore computed from the thread time
//! waited behind other programs (see `expected`). At its low end that time was spread over all threads; at its high end all of it was on the critical
//! path. Waiting for other threads that nothing explains counts at the high end, too: threads that a hog displaces come to each barrier at other times.
//!
//! There is no bound: a program that shares its CPUs with others refills its caches each time, so its work takes less CPU time without them.

use ledger::Preemptor;
use ledger::account::{cpu, thread};
use wire::layout::ANOTHER_USERS_NAME;

use super::finding::Finding;
use crate::blame::Delay;
use crate::evidence::Evidence;
use crate::facts::Facts;
use crate::figures::Figure::{Cpus, Sum, Whole};
use crate::figures::Whole::{ProgramCpus, ThreadNs, TookCoxNs, TookOtherNs, TookSiblingNs, WorkerThreads};
use crate::figures::say;
use crate::numbers::{about_percent, cpu_list, duration};
use crate::thresholds::{NAMED_ENOUGH, NAMED_SHARE, WORTH_FACTOR, WORTH_SHARE};
use crate::verdict::{Confidence, Kind, NextStep};

/// Name prefixes of kernel threads. The advice does not name them as programs to stop or move.
const KERNEL_THREADS: [&str; 10] =
    ["kworker", "ksoftirqd", "migration", "rcu_", "kswapd", "kcompactd", "khugepaged", "kdamond", "irq/", "swapper/"];

/// What to do if the other program is not known.
const LOOK: &str = "look for another busy program on these CPUs (top)";

/// Largest number of program names in a sentence. Further programs appear together as "others".
const MOST_NAMES: usize = 3;

/// Detects that other programs held the CPUs.
pub(crate) fn cpu_hog(evidence: &Evidence) -> Option<Finding> {
    if evidence.sees.preemptors { seen(evidence) } else { deduced(evidence) }
}

fn seen(evidence: &Evidence) -> Option<Finding> {
    // Two kinds of waiting count: a thread waited for a CPU that another program held; or it waited for a CPU that a tracked thread held, and would
    // have had a CPU of its own if other programs had not held CPUs.
    let blame = &evidence.blame;
    let delays: &[Delay] = if blame.queues_explain() { &[Delay::Other, Delay::Squeezed] } else { &[Delay::Other] };
    let preemptors = evidence.preemptors_of_others();
    let waited: f64 = delays.iter().map(|delay| blame.direct_ns(*delay)).sum();
    let expected = evidence.without_delay(waited);
    // Processes of the system cause a little load on every machine. If the load of other programs is no larger, the rule reports it only if the
    // middle of the forecast's range shows a gain. With a larger load, a gain at the high end of the range is enough.
    let little = evidence.cpus_of_others() < WORTH_SHARE * evidence.cpus;
    if !expected.is_worth_trying() || (little && (expected.low() * expected.high()).sqrt() < WORTH_FACTOR) {
        return None;
    }
    let behind = evidence.behind.others_ns;
    let named = preemptors.first().filter(|_| behind as f64 >= NAMED_SHARE * waited);
    let surely = behind as f64 >= 0.5 * waited;
    let who = named.map(|first| {
        let then = preemptors.get(1).map_or_else(String::new, |next| format!(", then {}", called(&next.comm)));
        format!("{} ({}){then}", called(&first.comm), duration(first.wait_ns))
    });
    let who = match who {
        None => "it is not known which programs, because hardly any thread queued for a CPU that they held".to_owned(),
        Some(who) if surely => format!("most of this waiting was caused by {who}"),
        Some(who) => format!("as far as known, the waiting was caused by {who}"),
    };
    let packs = evidence.facts.is_packed() && evidence.behind.cox_ns > 0;
    let others = if packs { "Other programs, cox's packing among them," } else { "Other programs" };
    let text = format!(
        "{others} took {} of the CPUs' time. Threads waited for a CPU because of them for {} of thread time: {who}.",
        about_percent(evidence.cpus_of_others() / evidence.cpus),
        about_percent(evidence.worker_share(waited)),
    );
    let mut figures = vec![
        Cpus(cpu::busy_others_ns),
        Whole(TookOtherNs),
        Whole(TookSiblingNs),
        Sum(thread::waiting_for_cpu_ns),
        Whole(ThreadNs),
    ];
    if packs {
        figures.push(Whole(TookCoxNs));
    }
    let mut main = say(evidence, text, &figures);
    let action = match named {
        Some(_) => remedy(evidence, &preemptors),
        None => LOOK.to_owned(),
    };
    let expected = expected.up_to(evidence.without_delay(waited + blame.rest_ns));
    main.next.push(NextStep::expecting(evidence, action, expected, Kind::CpuHog, "other programs on these CPUs"));
    let back_ns: f64 = delays.iter().map(|delay| blame.total_ns(*delay)).sum();
    let confidence = if named.is_some() && surely { Confidence::High } else { Confidence::Medium };
    Some(Finding { kind: Kind::CpuHog, back_ns, confidence, sentences: vec![main] })
}

/// Returns what to do. The step names so many of the other programs that together they cause most of the waiting, because the forecast is for
/// stopping all of them.
fn remedy(evidence: &Evidence, preemptors: &[&Preemptor]) -> String {
    let is_kernel = |comm: &str| KERNEL_THREADS.iter().any(|kernel| comm.starts_with(kernel));
    let Some(comm) = preemptors.first().map(|preemptor| preemptor.comm.as_str()) else { return String::new() };
    if is_kernel(comm) {
        return if evidence.facts.is_denied(Facts::OTHERS) {
            format!("run it on CPUs where {comm} does not run")
        } else {
            quiet_plan(evidence).unwrap_or_else(|| format!("find what makes the kernel run {comm} on these CPUs"))
        };
    }
    let (who, them) = names(preemptors, is_kernel);
    if evidence.facts.is_denied(Facts::OTHERS) {
        return if them == "it" {
            format!("run it on CPUs that {who} does not use, or after {who} has ended")
        } else {
            format!("run it on CPUs that {who} do not use, or after they have ended")
        };
    }
    match evidence.facts.program_cpus() {
        [] => format!("stop {who}, or keep {them} off this program's CPUs"),
        cpus => format!("stop {who}, or keep {them} off CPU {}", cpu_list(cpus)),
    }
}

/// Returns the command that shows how the program's CPUs become quiet; `None` if no CPU would be left for the rest of the machine. If the program may
/// use all CPUs, cox chooses all but one.
fn quiet_plan(evidence: &Evidence) -> Option<String> {
    let (own, online) = (evidence.facts.program_cpus(), evidence.facts.online_cpus.len());
    if !evidence.facts.has_verb("quiet") || online < 2 {
        return None;
    }
    let is_part = !own.is_empty() && own.len() < online;
    Some(if is_part {
        format!("cox quiet plan --cpus {}", cpu_list(own))
    } else {
        format!("cox quiet plan --ncpus {}", online - 1)
    })
}

/// Name for all threads of other users: an observer without privileges sees them only under a common name.
const OTHER_USERS: &str = "other users' programs";

/// Returns the name of a preemptor for a sentence.
fn called(comm: &str) -> &str {
    if comm == ANOTHER_USERS_NAME { OTHER_USERS } else { comm }
}

/// Returns the names of the largest preemptors, for a sentence, and the pronoun for them ("it" or "them"). Preemptors for which `stays` returns true
/// cannot be stopped, and are left out.
fn names(preemptors: &[&Preemptor], stays: impl Fn(&str) -> bool) -> (String, &'static str) {
    let all = preemptors.iter().fold(0u64, |sum, preemptor| sum.saturating_add(preemptor.wait_ns));
    let mut named: Vec<&str> = Vec::new();
    let mut waited = 0u64;
    for preemptor in preemptors.iter().filter(|preemptor| !stays(&preemptor.comm)).take(MOST_NAMES) {
        named.push(called(&preemptor.comm));
        waited = waited.saturating_add(preemptor.wait_ns);
        if waited as f64 >= NAMED_ENOUGH * all as f64 {
            break;
        }
    }
    if (waited as f64) < NAMED_ENOUGH * all as f64 {
        return (format!("{} and others", named.join(", ")), "them");
    }
    match named.split_last() {
        Some((last, first @ [_, ..])) => (format!("{} and {last}", first.join(", ")), "them"),
        _ if named == [OTHER_USERS] => (named.concat(), "them"),
        _ => (named.concat(), "it"),
    }
}

/// Detects a hog without seeing the other programs: there are as many CPUs as threads, no quota and no narrow mask, and still threads waited. The
/// rule does not apply to a packed program, whose threads may have waited because of cox.
fn deduced(evidence: &Evidence) -> Option<Finding> {
    let sums = &evidence.sums;
    // A yield returns immediately if no other thread wants the CPU. So if a yield waited, another thread had the CPU.
    let waited = sums.waiting_for_cpu_ns();
    let enough_cpus =
        evidence.workers.len() as f64 <= evidence.cpus && !evidence.workers.is_empty() && !evidence.facts.is_packed();
    let expected = evidence.without_delay(waited as f64);
    if !enough_cpus
        || evidence.facts.nr_throttled > 0
        || evidence.share(waited) < WORTH_SHARE
        || !expected.is_worth_trying()
    {
        return None;
    }
    let text = format!(
        "There was a CPU for each thread, yet threads waited for a CPU for {} of thread time: another program probably had it.",
        evidence.percent(waited),
    );
    let figures = [Sum(thread::waiting_for_cpu_ns), Whole(WorkerThreads), Whole(ProgramCpus), Whole(ThreadNs)];
    let mut main = say(evidence, text, &figures);
    main.next.push(NextStep::expecting(evidence, LOOK, expected, Kind::CpuHog, "any waiting for a CPU"));
    let back_ns = evidence.blame.total_ns(Delay::Unseen);
    Some(Finding { kind: Kind::CpuHog, back_ns, confidence: Confidence::Low, sentences: vec![main] })
}
