//! `cox report --timehist`: what `perf sched timehist` prints, with its columns.

use std::collections::HashMap;
use std::io::{self, BufRead, BufWriter, Seek, Write};

use anyhow::Result;
use ledger::timehist::{Line, Sums, Timehist, Who};

use super::Around;
use super::people::People;
use crate::cli;
use crate::outputs::Output;

/// Columns of a name, unless one is longer.
const NAME: usize = 30;

/// Reads everything, and prints lines, or sums, or both.
///
/// # Errors
/// See [`perfdata::Error`]; and when it cannot be written.
pub fn write(mut file: impl BufRead + Seek, options: &cli::Report, output: Output, around: &Around<'_>) -> Result<()> {
    let mut people = People::new(Timehist::new(options.rule.into()));
    let known = (around.known)();
    let mut read = Ok(perfdata::Ending::default());
    output.write_with(|out| {
        let mut out = BufWriter::with_capacity(super::PIECE, out);
        let (mut width, mut text) = (NAME, Vec::new());
        if !options.summary {
            head(&mut out)?;
        }
        let mut unwritten = None;
        read = perfdata::read(&mut file, &known, |event| {
            let Some(line) = people.take(event).filter(|_| !options.summary) else { return Ok(()) };
            let name = people.name_now(line.who);
            width = width.max(name.len());
            self::line(&mut text, event.t_ns, event.cpu, &name, width, &line);
            out.write_all(&text).map_err(|error| {
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
    super::say_what_lacks(&read?, around);
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

/// A file has millions of lines: they are put together without the detours of formatting.
fn line(text: &mut Vec<u8>, t_ns: u64, cpu: u32, name: &str, width: usize, line: &Line) {
    text.clear();
    right(text, t_ns / 1_000_000_000, 8);
    text.push(b'.');
    digits(text, t_ns / 1000 % 1_000_000, 6);
    text.extend(b" [");
    digits(text, cpu.into(), 4);
    text.extend(b"]  ");
    text.extend(name.bytes());
    text.resize(text.len() + width.saturating_sub(name.len()) + 1, b' ');
    for (at, ns) in [line.wait_ns, line.delay_ns, line.run_ns].into_iter().enumerate() {
        right(text, ns / 1_000_000, if at == 0 { 6 } else { 7 });
        text.push(b'.');
        digits(text, ns / 1000 % 1000, 3);
    }
    text.push(b'\n');
}

/// A number with spaces before it.
fn right(text: &mut Vec<u8>, number: u64, width: usize) {
    let length = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    text.resize(text.len() + width.saturating_sub(length), b' ');
    digits(text, number, length);
}

/// A number with zeros before it, if it is shorter.
fn digits(text: &mut Vec<u8>, mut number: u64, width: usize) {
    let length = number.checked_ilog10().map_or(1, |log| log as usize + 1).max(width);
    let from = text.len();
    text.resize(from + length, b'0');
    for digit in text[from..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_perfs_columns() {
        let mut text = Vec::new();
        let of = Line { who: Who::Thread(7), wait_ns: 1_234_567, delay_ns: 0, run_ns: 12_345_678_999, migrated: false };
        line(&mut text, 61_240_000_001_999, 13, "a[7]", 6, &of);
        assert_eq!(String::from_utf8_lossy(&text), "   61240.000001 [0013]  a[7]        1.234      0.000  12345.678\n");
        line(&mut text, 999, 12_345, "much longer", 6, &Line { wait_ns: 9_999_999_999_999, ..of });
        assert_eq!(
            String::from_utf8_lossy(&text),
            "       0.000000 [12345]  much longer 9999999.999      0.000  12345.678\n"
        );
    }
}
