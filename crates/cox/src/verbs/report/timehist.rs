//! `cox report --timehist`: what `perf sched timehist` prints, with its columns.

use std::collections::HashMap;
use std::io::{self, BufRead, BufWriter, Seek, Write};

use anyhow::Result;
use ledger::timehist::{Line, Sums, Timehist, Who};

use super::people::People;
use crate::cli;
use crate::outputs::Output;

/// Columns of a name, unless one is longer.
const NAME: usize = 30;

/// Reads everything, and prints lines, or sums, or both.
///
/// # Errors
/// See [`perfdata::Error`]; and when it cannot be written.
pub fn write(mut file: impl BufRead + Seek, options: &cli::Report, output: Output) -> Result<()> {
    let mut people = People::new(Timehist::new(options.rule.into()));
    let known = super::known_formats();
    let mut read = Ok(perfdata::Ending::default());
    output.write_with(|out| {
        let mut out = BufWriter::with_capacity(super::PIECE, out);
        let mut width = NAME;
        if !options.summary {
            head(&mut out)?;
        }
        let mut unwritten = None;
        read = perfdata::read(&mut file, &known, |event| {
            let Some(line) = people.take(event).filter(|_| !options.summary) else { return Ok(()) };
            let name = people.name_now(line.who);
            width = width.max(name.len());
            let written = self::line(&mut out, event.t_ns, event.cpu, &name, width, &line);
            written.map_err(|error| {
                let kind = error.kind();
                unwritten = Some(error);
                kind.into()
            })
        });
        // What could not be written is no fault of what is read.
        unwritten.map_or(Ok(()), Err)?;
        if options.summary && read.is_ok() {
            summary(&mut out, &people)?;
        }
        out.flush()
    })?;
    super::say_what_lacks(&read?);
    Ok(())
}

/// Milliseconds with three digits, cut and not rounded, as perf does it.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

fn head(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:>15} {:>6}  {:<NAME$}  wait time  sch delay   run time", "time", "cpu", "task name")?;
    writeln!(out, "{:>15} {:>6}  {:<NAME$}     (msec)     (msec)     (msec)", "", "", "[tid/pid]")?;
    writeln!(out, "{0:->15} {0:->6}  {0:->NAME$}  {0:->9}  {0:->9}  {0:->9}", "")
}

fn line(out: &mut impl Write, t_ns: u64, cpu: u32, name: &str, width: usize, line: &Line) -> io::Result<()> {
    let Line { wait_ns, delay_ns, run_ns, .. } = *line;
    let (seconds, us) = (t_ns / 1_000_000_000, t_ns / 1000 % 1_000_000);
    write!(out, "{:>15} [{cpu:04}]  {name:<width$} ", format_args!("{seconds}.{us:06}").to_string())?;
    writeln!(out, "{:>10} {:>10} {:>10}", ms(wait_ns), ms(delay_ns), ms(run_ns))
}

/// One line per thread: the columns of `-s`, then those of `-s --state`.
fn summary(out: &mut impl Write, people: &People) -> io::Result<()> {
    let all = people.hist.sums();
    let mut met: HashMap<Who, usize> = HashMap::new();
    let rows: Vec<_> = all
        .iter()
        .filter_map(|(who, sums)| {
            let Who::Thread(tid) = *who else { return None };
            let nth = met.entry(*who).or_default();
            *nth += 1;
            let parent = people.person(tid, *nth - 1).map_or(-1, |person| person.parent);
            Some((people.name(*who, *nth - 1), parent, sums))
        })
        .collect();
    let width = rows.iter().map(|(name, ..)| name.len()).fold(NAME, usize::max);
    let (times, of_wait) =
        ("run-time    min-run    avg-run    max-run  stddev", "sleep     iowait    preempt      delay");
    writeln!(out, "{:>width$}  parent  sched-in   {times}       {of_wait}", "comm")?;
    let (times, of_wait) =
        ("(msec)     (msec)     (msec)     (msec)       %", "(msec)     (msec)     (msec)     (msec)");
    writeln!(out, "{:>width$}           (count)     {times}      {of_wait}", "")?;
    writeln!(out, "{:->1$}", "", width + 109)?;
    for (name, parent, sums) in rows {
        let Sums { count, run_ns, least_run_ns, most_run_ns, sleep_ns, iowait_ns, preempt_ns, delay_ns, .. } = *sums;
        write!(out, "{name:>width$} {parent:>7} {count:>9} ")?;
        for ns in [run_ns, least_run_ns, sums.mean_run_ns as u64, most_run_ns] {
            write!(out, "{:>10} ", ms(ns))?;
        }
        write!(out, "{:>7.2} ", sums.error_percent())?;
        for ns in [sleep_ns, iowait_ns, preempt_ns, delay_ns] {
            write!(out, "{:>10} ", ms(ns))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\nIdle:")?;
    let window_ns = people.hist.window_ns();
    for (who, sums) in &all {
        if let Who::Idle(cpu) = who {
            let part = 100.0 * sums.run_ns as f64 / window_ns.max(1) as f64;
            writeln!(out, "    CPU {cpu:2} idle for {:>10} msec ({part:6.2}%)", ms(sums.run_ns))?;
        }
    }
    writeln!(out, "\nFrom the first switch to the last one: {} msec", ms(window_ns))
}
