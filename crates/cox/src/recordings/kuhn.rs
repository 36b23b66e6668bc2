//! `cox report --kuhn2022`: the three percentages that Kuhn's report (University of Basel, 2022) computes from `perf sched timehist`, beside those of
//! cox.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::{BufRead, Seek};

use anyhow::Result;
use ledger::replay::Replay;
use ledger::stretch::{Doing, Stretch};
use ledger::summary::{self, Sums};
use ledger::timehist::{Line, Timehist, Who};
use ledger::{Account, Thread};
use outputs::Output;
use perfdata::Kind;

use super::Around;
use super::perf::Making;
use super::thread_table::ThreadTable;
use crate::cli;

/// Sums over the lines of `timehist`.
#[derive(Default)]
struct Theirs {
    migration_ns: u64,
    switch_ns: u64,
    delay_ns: u64,
    idle_ns: u64,
}

impl Theirs {
    fn add(&mut self, line: &Line) {
        let Line { who, wait_ns, delay_ns, run_ns, migrated } = *line;
        if let Who::Idle(_) = who {
            self.idle_ns = self.idle_ns.saturating_add(run_ns);
            return;
        }
        let both_ns = wait_ns.saturating_add(delay_ns);
        self.switch_ns = self.switch_ns.saturating_add(both_ns);
        self.delay_ns = self.delay_ns.saturating_add(delay_ns);
        self.migration_ns = self.migration_ns.saturating_add(if migrated { both_ns } else { 0 });
    }
}

/// Sum of the waits for a CPU during which the waiting thread was migrated.
#[derive(Default)]
struct Moved {
    /// Times of the migrations in waits that have not ended yet, by thread.
    pending: HashMap<u32, Vec<u64>>,
    waited_ns: u64,
}

impl Moved {
    fn tell(&mut self, stretch: &Stretch) {
        let Some(times) = self.pending.get_mut(&stretch.tid) else { return };
        let is_wait = matches!(stretch.doing, Doing::WakeDelay | Doing::Preempted { .. });
        if is_wait && times.iter().any(|t_ns| (stretch.from_ns..=stretch.until_ns).contains(t_ns)) {
            self.waited_ns = self.waited_ns.saturating_add(stretch.length_ns());
        }
        // A waking and the migration that it causes often have the same time. Such a migration belongs to the wait that begins then.
        times.retain(|t_ns| *t_ns > stretch.until_ns || !is_wait && *t_ns == stretch.until_ns);
    }
}

/// Reads the recording and prints Kuhn's percentages, computed from the lines of `timehist`, and those of cox.
///
/// # Errors
/// See [`perfdata::Error`]; also if the output cannot be written.
pub fn write(
    mut file: impl BufRead + Seek + Send,
    options: &cli::Report,
    output: Output,
    around: &Around<'_>,
) -> Result<()> {
    let (rule, names): (cli::Rule, &[String]) = (options.rule, &options.of);
    let mut thread_table = ThreadTable::new(Timehist::new(rule.into()));
    let mut making = Making::new(Replay::with_stretches(), None);
    let (mut theirs, mut moved) = (Theirs::default(), Moved::default());
    let ending = perfdata::read(&mut file, &(around.known)(), |event| {
        let line = thread_table.take(event).filter(|line| counts(names, &thread_table, line.who));
        line.iter().for_each(|line| theirs.add(line));
        if let Kind::Migration { tid, .. } = event.kind
            && counts(names, &thread_table, Who::Thread(tid.cast_signed()))
        {
            moved.pending.entry(tid).or_default().push(event.t_ns);
        }
        if making.take(event)? {
            making.stretches().iter().for_each(|stretch| moved.tell(stretch));
        }
        Ok(())
    })?;
    let record = making.record(&ending, around);
    making.stretches().iter().for_each(|stretch| moved.tell(stretch));
    let account = ledger::accounts::build(&record, &[], 0);
    let window = Window { length_ns: thread_table.hist.window_ns(), cpus: making.cpus() };
    output.write(page(&theirs, &moved, &account, options, window)?.as_bytes())
}

/// Returns whether a thread counts: all do if no names are given. The idle tasks always count.
fn counts(names: &[String], thread_table: &ThreadTable, who: Who) -> bool {
    // The name is that at the time of the event: a thread has another one before it executes the program.
    let is_named = |name: &String| thread_table.name_now(who).split('[').next() == Some(name);
    names.is_empty() || matches!(who, Who::Idle(_)) || names.iter().any(is_named)
}

/// What the percentages are of.
#[derive(Clone, Copy)]
struct Window {
    length_ns: u64,
    cpus: u32,
}

fn page(
    theirs: &Theirs,
    moved: &Moved,
    account: &Account,
    options: &cli::Report,
    window: Window,
) -> Result<String, std::fmt::Error> {
    let of_names = |thread: &&Thread| options.of.is_empty() || options.of.contains(&thread.comm);
    let ours =
        if options.of.is_empty() { Sums::of(account) } else { Sums::over(summary::threads(account).filter(of_names)) };
    let waited_ns = ours.wake_delay_ns.saturating_add(ours.preempt_wait_ns);
    let busy_ns = Sums::of(account).run_ns;
    let idle_ns = u64::from(window.cpus).saturating_mul(window.length_ns).saturating_sub(busy_ns);
    let percent = |ns: u64| 100.0 * ns as f64 / window.length_ns.max(1) as f64;
    let mut page = format!(
        "The recording covers {:.3} s, from the first context switch to the last. Of this time:\n",
        window.length_ns as f64 / 1e9
    );
    let theirs_are = [
        ("migration", theirs.migration_ns, "wait time + sch delay of lines with a migration during the wait"),
        ("context switch", theirs.switch_ns, "wait time + sch delay of all lines except idle ones"),
        ("idle", theirs.idle_ns, "run time of the idle tasks"),
    ];
    let ours_are = [
        ("migration", moved.waited_ns, "waits for a CPU during which the thread migrated"),
        ("waiting for CPU", waited_ns, "wake delay + preempt wait: the time that the scheduler cost threads"),
        ("blocked", ours.blocked_ns, "asleep: included in Kuhn's context switch, but not a cost of the scheduler"),
        ("idle", idle_ns, "idle CPUs, including time for which perf lost the switch from idle"),
    ];
    for (whose, rows) in [("Kuhn 2022, computed from perf sched timehist", &theirs_are[..]), ("cox", &ours_are)] {
        writeln!(page, "\n{whose}:")?;
        for (name, ns, what) in rows {
            writeln!(page, "  {name:<16}{:>9.1} %  {what}", percent(*ns))?;
        }
    }
    let (twice, rule) = (percent(theirs.delay_ns), cli::name_of(&options.rule));
    writeln!(
        page,
        "\nWait time contains sch delay, so Kuhn's context switch counts {twice:.1} % twice (rule {rule})."
    )?;
    if !options.of.is_empty() {
        writeln!(page, "Only threads with these names, and idle CPUs: {}.", options.of.join(", "))?;
    }
    writeln!(page, "Percent of the execution time, summed over threads and CPUs: more than 100 is possible.")?;
    Ok(page)
}
