//! Where the thread time went: classes whose percentages sum to 100.0, each with its parts.

use advise::numbers::counted;
use ledger::causes::wording;
use ledger::summary::Sums;
use ledger::{Delays, Program};
use wire::Cause;

use super::page::Page;
use crate::busy;
use crate::json::Document;
use crate::round::{apportion, percent, permille};
use crate::state::State;
use crate::style::columns;

/// One class of thread time, for example waiting for a CPU: one line of the text.
struct Class {
    /// The state that stands for the whole class. It is printed if none of `parts` has any time.
    state: State,
    label: String,
    ns: u64,
    /// Parts that sum to the class: state, name, time.
    parts: Vec<(State, String, u64)>,
    /// Other parts of the class's time, which need not add up to the whole: name and time. The text lists them after `of it`.
    of_it: Vec<(&'static str, u64)>,
    /// How the class's time was determined, for example `sampled, ±0.4`; may be empty.
    note: String,
    /// Whether the class is shown even if its time is 0.
    always: bool,
}

impl Class {
    fn new(state: State, label: impl Into<String>, ns: u64) -> Class {
        Class {
            state,
            label: label.into(),
            ns,
            parts: Vec::new(),
            of_it: Vec::new(),
            note: String::new(),
            always: false,
        }
    }
}

pub(super) fn write(page: &mut Page, program: &Program, sums: &Sums) {
    let line = page.style.clean(&format!("  {}", thread_time(page.document, sums, program.wall_ns)));
    page.add(line);
    let lines = busy::in_use(program).into_iter().chain(busy::efficiency(page.document));
    lines.for_each(|line| page.paragraph(&line));
    let shares = shares(page.document, sums);
    let width = shares.iter().map(|share| columns(&share.label)).max().unwrap_or(0);
    for share in &shares {
        let Share { label, permille, .. } = share;
        let head = format!("  {:>8}  {label}{}", percent(*permille), " ".repeat(width - columns(label)));
        let detail = share.detail();
        if detail.is_empty() {
            page.add(head.trim_end());
            continue;
        }
        let head = format!("{head}    ");
        let rest = " ".repeat(columns(&head));
        page.extend(page.style.wrapped(&detail, &head, &rest));
    }
}

/// Formats the thread time, and how many CPUs were in use on average.
pub(crate) fn thread_time(document: &Document, sums: &Sums, wall_ns: u64) -> String {
    let seconds = decimals(sums.wall_ns as f64 / 1e9);
    format!("Thread time: {seconds} s ({}) · {}", counted(sums.threads, "thread"), in_use(document, sums, wall_ns))
}

/// Formats the average parallelism: how many of the CPUs that the program may use ran its threads.
fn in_use(document: &Document, sums: &Sums, wall_ns: u64) -> String {
    let running = ledger::summary::share(sums.run_ns, wall_ns);
    let known = [document.facts.program_cpus().len(), document.account.cpus.len()];
    match known.into_iter().find(|cpus| *cpus > 0).unwrap_or(0) {
        0 => format!("on average {running:.1} CPUs in use"),
        cpus => format!("on average {running:.1} of {} in use", counted(cpus as u64, "CPU")),
    }
}

/// One printed line on thread time: a group of thread states (a class), such as waiting for a CPU, and its part of all thread time.
pub(crate) struct Share {
    /// What the threads did.
    pub label: String,
    /// Part of all thread time, in tenths of a percent.
    pub permille: u64,
    /// The parts that are printed; they sum to the class. A class that is not divided has one part without a name.
    pub parts: Vec<SharePart>,
    /// Further remarks on the class, and how its time was determined; may be empty.
    pub more: Vec<String>,
}

/// A thread state inside a printed line (class), with its part of all thread time.
pub(crate) struct SharePart {
    /// The thread state.
    pub state: State,
    /// The part's name; empty if the class's name already says it.
    pub label: String,
    /// Part of all thread time, in tenths of a percent.
    pub permille: u64,
}

impl SharePart {
    /// Formats the part's name and its percentage.
    pub fn words(&self) -> String {
        format!("{} {}", self.label, percent(self.permille))
    }
}

impl Share {
    /// Formats the parts with their percentages, then the remarks. A single part gets no percentage.
    pub fn detail(&self) -> String {
        let parts = match self.parts.as_slice() {
            [one] => one.label.clone(),
            several => several.iter().map(SharePart::words).collect::<Vec<_>>().join(", "),
        };
        let detail = parts + &self.remarks();
        detail.trim_start_matches(", ").to_owned()
    }

    /// Formats the remarks such that they can follow the text of the parts: a comma precedes each remark that is not in parentheses.
    pub fn remarks(&self) -> String {
        self.more.iter().map(|more| format!("{}{more}", if more.starts_with('(') { " " } else { ", " })).collect()
    }
}

/// Returns the printed lines on thread time (classes), in their order. Lines with 0.0 % are left out, which does not change the printed sum.
pub(crate) fn shares(document: &Document, sums: &Sums) -> Vec<Share> {
    let mut classes = classes(document, sums);
    fold_small_causes(&mut classes, sums);
    classes.retain(|class| class.ns > 0 || class.always);
    let rounded = permille(&classes.iter().map(|class| class.ns).collect::<Vec<_>>());
    let printed = classes.into_iter().zip(rounded).filter(|(class, share)| *share > 0 || class.always);
    let share = |(class, permille): (Class, u64)| {
        let parts = parts(&class, permille);
        let more = more(&class, permille, parts.iter().all(|part| part.label.is_empty()));
        Share { label: class.label, permille, parts, more }
    };
    printed.map(share).collect()
}

/// Formats seconds: `37.2`, or `0.042` for a short run.
pub(crate) fn decimals(seconds: f64) -> String {
    if seconds < 0.995 { format!("{seconds:.3}") } else { format!("{seconds:.1}") }
}

fn classes(document: &Document, sums: &Sums) -> Vec<Class> {
    let division = sums.division();
    let spin_seen = document.sees_spin();
    let (state, label) = if spin_seen { (State::Work, "did work") } else { (State::Run, "ran (spinning not seen)") };
    let mut work = Class::new(state, label, division.work_ns);
    work.of_it = vec![("hypervisor steal", sums.steal_ns), ("interrupts", sums.irq_ns)];
    work.always = true;

    let mut others =
        Class::new(State::Blocked(Cause::Futex), "waited for other threads", division.waiting_for_threads_ns);
    others.parts = vec![
        (State::Spin, format!("spinning{}", where_spun(document)), sums.spin_ns),
        (State::KernelSync, "in futex system calls".to_owned(), sums.kernel_sync_ns),
        (State::Yield, "yielding".to_owned(), sums.yield_wait_ns),
        (State::Blocked(Cause::Futex), wording(Cause::Futex).label.to_owned(), sums.blocked_by[Cause::Futex]),
    ];
    if sums.spin_ns > 0 || sums.kernel_sync_ns > 0 {
        others.note = format!("sampled, ±{:.1}", sums.work_error_ns() / (sums.wall_ns as f64).max(1.0) * 100.0);
    }
    let mut cpu = Class::new(State::Preempted, "waited for a CPU", sums.waiting_for_cpu_ns());
    if document.account.sees().delays == Delays::InPreemptWait {
        cpu.note = "wake delay and preempt wait together".to_owned();
    } else {
        cpu.parts = vec![
            (State::Preempted, "preempted".to_owned(), division.preempted_ns),
            (State::Wake, "after wake-up".to_owned(), division.wake_delay_ns),
        ];
    }
    let mut classes = vec![work, others, cpu];
    let mut blocked: Vec<(Cause, u64)> = division.blocked_by.some().collect();
    blocked.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    classes.extend(blocked.into_iter().map(|(cause, ns)| Class::new(State::Blocked(cause), wording(cause).label, ns)));
    // Time that belongs to no state counts as unknown: it lies between events that contradict one another.
    let unknown = division.unknown_ns.saturating_add(sums.wall_ns.saturating_sub(division.total_ns()));
    let mut outside = Class::new(State::Unknown, "not known", unknown);
    outside.note = "time before the first and after the last event".to_owned();
    classes.push(outside);
    classes
}

/// Formats the place where most spinning was sampled.
fn where_spun(document: &Document) -> String {
    let sample_sites = document.account.hot_functions.iter().filter(|hot| hot.is_spinning());
    sample_sites.max_by_key(|hot| hot.run_ns).map_or(String::new(), |hot| match &hot.function {
        Some(function) => format!(" in {} ({function})", hot.module),
        None => format!(" in {}", hot.module),
    })
}

/// Merges the lines of causes of blocking that would be printed as 0.0 % into the line of other causes.
fn fold_small_causes(classes: &mut Vec<Class>, sums: &Sums) {
    // Only labels that begin with "blocked" are merged: "slept" and "waited for …" keep their lines.
    let is_small = |class: &Class| class.label.starts_with("blocked") && sums.share(class.ns) < 0.0005;
    let small: u64 = classes.iter().filter(|class| is_small(class)).fold(0, |sum, class| sum.saturating_add(class.ns));
    classes.retain(|class| !is_small(class));
    let other = State::Blocked(Cause::Other);
    match classes.iter_mut().find(|class| class.state == other) {
        Some(otherwise) => otherwise.ns = otherwise.ns.saturating_add(small),
        None => {
            let at = classes.len().saturating_sub(1);
            classes.insert(at, Class::new(other, wording(Cause::Other).label, small));
        }
    }
}

/// Returns the parts that are printed, with percentages that sum to the class's.
fn parts(class: &Class, share: u64) -> Vec<SharePart> {
    let parts: Vec<&(State, String, u64)> = class.parts.iter().filter(|(.., ns)| *ns > 0).collect();
    let part = |state, label: &str, permille| SharePart { state, label: label.into(), permille };
    match parts.as_slice() {
        [] => vec![part(class.state, "", share)],
        [(state, label, _)] => vec![part(*state, label, share)],
        several => {
            let rounded = apportion(&several.iter().map(|(.., ns)| *ns).collect::<Vec<_>>(), share);
            let printed = several.iter().zip(rounded).filter(|(_, share)| *share > 0);
            printed.map(|((state, label, _), share)| part(*state, label, share)).collect()
        }
    }
}

/// Returns the remarks on the class. `is_first` is true if the line has no part's name before the remarks.
fn more(class: &Class, share: u64, is_first: bool) -> Vec<String> {
    let whole = class.ns.max(1);
    let part = |ns: u64| (u128::from(share) * u128::from(ns.min(whole)) / u128::from(whole)) as u64;
    let of_it = class.of_it.iter().map(|(name, ns)| (name, part(*ns))).filter(|(_, part)| *part > 0);
    let of_it: Vec<String> = of_it.map(|(name, part)| format!("{} {name}", percent(part))).collect();
    let mut words = Vec::new();
    if !of_it.is_empty() {
        words.push(format!("of it {}", of_it.join(", ")));
    }
    if !class.note.is_empty() {
        words.push(if is_first && words.is_empty() { class.note.clone() } else { format!("({})", class.note) });
    }
    words
}
