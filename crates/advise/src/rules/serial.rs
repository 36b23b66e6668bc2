//! Serial parts: work that one thread does alone, while the others wait or do not exist yet.
//!
//! The account says how long functions ran that only one thread runs while no other thread works (`serial_ns`). Unequal work is something else: there,
//! all threads run the same functions, and one of them longer.
//!
//! Bound: Amdahl's law. If the serial work S of a run of W is divided among p CPUs, the run takes W − S + S / p. Not all of it can be divided, so the range
//! begins at half of that saving.

use ledger::account::thread;

use super::finding::Finding;
use crate::alone::works_in_one_thread;
use crate::evidence::Evidence;
use crate::expected::Expected;
use crate::figures::Figure::{Sum, Whole};
use crate::figures::Whole::{ProgramCpus, WallNs, WorkerThreads};
use crate::figures::say;
use crate::numbers::{about_percent, duration};
use crate::thresholds::NAMED_SHARE;
use crate::verdict::{Confidence, Kind, NextStep};

/// Dividing a serial part among threads saves at least this part of the largest possible saving.
const SURE: f64 = 0.5;

/// Serial time counts if it exceeds this many standard errors.
const SURE_ERRORS: f64 = 3.0;

/// Functions of the C library in which malloc and free move the end of the heap. Blocks that malloc maps one by one (mmap, munmap) are not in the heap:
/// the variable would not keep them, and makes malloc map more of them, because it ends the adaptation of their least size (mallopt(3)).
const RETURN_MEMORY: [&str; 2] = ["brk", "sbrk"];

/// glibc's variable for the memory that malloc requests beyond what it needs, and keeps when memory is freed; see mallopt(3), M_TOP_PAD.
const TOP_PAD: &str = "MALLOC_TOP_PAD_";

/// Largest number of functions that the sentence names.
const MOST_NAMES: usize = 2;

/// Detects that much of the run is work that one thread does alone.
pub(crate) fn serial(evidence: &Evidence) -> Option<Finding> {
    // Launchers, which are no workers, also work alone before the program begins.
    let serial_ns = (evidence.worker_sums.serial_ns as f64).min(evidence.wall_ns);
    let workers = evidence.workers.len() as f64;
    if workers < 2.0
        || works_in_one_thread(evidence)
        || serial_ns < SURE_ERRORS * evidence.worker_sums.serial_error_ns as f64
    {
        return None;
    }
    let saved_ns = serial_ns - serial_ns / evidence.parallelism(evidence.cpus);
    let expected = Expected::saving(evidence.wall_ns, saved_ns, SURE);
    if !expected.is_worth_trying() {
        return None;
    }
    let kind = Kind::Serial;
    let most = evidence.workers.iter().max_by_key(|thread| thread.serial_ns)?;
    let who = if most.serial_ns as f64 >= 0.9 * serial_ns {
        format!("in {} {} alone", most.tid, most.comm)
    } else {
        "while only one thread worked".to_owned()
    };
    let text = format!(
        "Serial parts: {} of {} ({}) ran {who}{}. The other threads waited, or did not exist.",
        duration(serial_ns as u64),
        duration(evidence.wall_ns as u64),
        about_percent(serial_ns / evidence.wall_ns),
        functions(evidence),
    );
    let figures = [Sum(thread::serial_ns), Whole(WallNs), Whole(WorkerThreads), Whole(ProgramCpus)];
    let mut main = say(evidence, text, &figures);
    let them = if evidence.ranks_of_one_thread().is_some() { "ranks" } else { "threads" };
    let action = format!("divide this work among the {them}, or do it while they work");
    main.next.push(NextStep::expecting(evidence, action, evidence.beside_others(expected), kind, "any serial part"));
    main.next.extend(keep_memory(evidence, serial_ns));
    Some(Finding { kind, back_ns: saved_ns * workers, confidence: Confidence::High, sentences: vec![main] })
}

/// Returns the step to keep freed memory in the program, if much of the serial time is spent on giving memory back to the kernel and requesting it again.
///
/// It has no forecast: what the kernel does for the same memory in page faults of parallel code is not known. (LULESH with two threads became 1.6 times
/// faster.) The value is large enough for the arrays that a simulation allocates in each step, and small beside the memory of a machine.
fn keep_memory(evidence: &Evidence, serial_ns: f64) -> Option<NextStep> {
    let hot = evidence
        .account
        .hot_functions
        .iter()
        .filter(|hot| hot.module.starts_with("libc.so") || hot.module.starts_with("libc-2."));
    let returns = hot.filter(|hot| {
        hot.function.as_deref().is_some_and(|name| RETURN_MEMORY.contains(&name.trim_start_matches('_')))
    });
    let returned_ns = returns.map(|hot| hot.serial_ns as f64).sum::<f64>();
    let is_set = evidence.facts.variable(TOP_PAD).is_some();
    let action = format!("{TOP_PAD}=67108864, so that freed memory stays in the program (glibc)");
    (returned_ns >= NAMED_SHARE * serial_ns && !is_set).then(|| NextStep::plain(action, Kind::Serial))
}

/// Returns, for the sentence, in which functions most of the serial time was spent.
fn functions(evidence: &Evidence) -> String {
    let all_ns = evidence.worker_sums.serial_ns as f64;
    let mut hot: Vec<_> = evidence.account.hot_functions.iter().collect();
    hot.sort_by_key(|hot| std::cmp::Reverse(hot.serial_ns));
    let much = hot.into_iter().filter(|hot| hot.serial_ns as f64 >= NAMED_SHARE * all_ns).take(MOST_NAMES);
    let names = much.map(|hot| match &hot.function {
        Some(function) => format!("{function} ({})", hot.module),
        None => hot.module.clone(),
    });
    let mut names: Vec<String> = names.collect();
    names.dedup();
    if names.is_empty() { String::new() } else { format!(", mostly in {}", names.join(" and ")) }
}
