//! `cox report --timehist`: the output of `perf sched timehist`, with the same columns.

use std::collections::HashMap;
use std::io::{self, BufRead, BufWriter, Seek, Write};

use anyhow::Result;
use ledger::timehist::{Line, Sums, Timehist, Who};
use outputs::Output;

use super::Around;
use super::thread_table::ThreadTable;
use crate::cli;

/// Least width of the name column.
const NAME: usize = 30;

/// Reads the recording and prints the lines, the summary, or both.
///
/// # Errors
/// See [`perfdata::Error`]; also if the output cannot be written.
pub fn write(
    mut file: impl BufRead + Seek + Send,
    options: &cli::Report,
    output: Output,
    around: &Around<'_>,
) -> Result<()> {
    let mut thread_table = ThreadTable::new(Timehist::new(options.rule.into()));
    let known = (around.known)();
    let mut read = Ok(perfdata::Ending::default());
    let written = output.write_with(|out| {
        let mut out = BufWriter::with_capacity(super::PIECE, out);
        let (mut width, mut text) = (NAME, Vec::new());
        let (mut unwritten, mut has_head) = (None, options.summary);
        read = perfdata::read(&mut file, &known, |event| {
            let Some(line) = thread_table.take(event).filter(|_| !options.summary) else { return Ok(()) };
            let name = thread_table.name_now(line.who);
            width = width.max(name.len());
            self::line(&mut text, event.t_ns, event.cpu, &name, width, &line);
            // The header is only written with the first line, so that an unusable recording does not overwrite an existing file.
            let head = if std::mem::replace(&mut has_head, true) { Ok(()) } else { head(&mut out) };
            head.and_then(|()| out.write_all(&text)).map_err(|error| {
                let kind = error.kind();
                unwritten = Some(error);
                kind.into()
            })
        });
        if let Some(error) = unwritten {
            // The output failed, not the recording: forget the read error that the write error caused.
            read = Ok(perfdata::Ending::default());
            return Err(error);
        }
        if read.is_err() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if !has_head {
            head(&mut out)?;
        }
        if options.summary {
            summary(&mut out, &thread_table)?;
        }
        out.flush()
    });
    // A read error is more informative than the write error that it causes.
    let ending = read?;
    written?;
    super::say_what_lacks(&ending, around);
    Ok(())
}

/// Formats milliseconds with three decimals, truncated as in perf.
fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

fn head(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:>15} {:>6}  {:<NAME$}  wait time  sch delay   run time", "time", "cpu", "task name")?;
    writeln!(out, "{:>15} {:>6}  {:<NAME$}     (msec)     (msec)     (msec)", "", "", "[tid/pid]")?;
    writeln!(out, "{0:->15} {0:->6}  {0:->NAME$}  {0:->9}  {0:->9}  {0:->9}", "")
}

/// Formats a line. Because a file has millions of lines, the text is assembled without the formatting macros.
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

/// Appends a number, right-aligned with spaces.
fn right(text: &mut Vec<u8>, number: u64, width: usize) {
    let length = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    text.resize(text.len() + width.saturating_sub(length), b' ');
    digits(text, number, length);
}

/// Appends a number, padded with zeros to `width`.
fn digits(text: &mut Vec<u8>, mut number: u64, width: usize) {
    let length = number.checked_ilog10().map_or(1, |log| log as usize + 1).max(width);
    let from = text.len();
    text.resize(from + length, b'0');
    for digit in text[from..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
}

/// Prints one line per thread: the columns of `-s`, then those of `-s --state`.
fn summary(out: &mut impl Write, thread_table: &ThreadTable) -> io::Result<()> {
    let all = thread_table.hist.sums();
    let mut met: HashMap<Who, usize> = HashMap::new();
    let rows: Vec<_> = all
        .iter()
        .filter_map(|(who, sums)| {
            let Who::Thread(tid) = *who else { return None };
            let nth = met.entry(*who).or_default();
            *nth += 1;
            let parent = thread_table.thread(tid, *nth - 1).map_or(-1, |thread| thread.parent);
            Some((thread_table.name(*who, *nth - 1), parent, sums))
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
    let window_ns = thread_table.hist.window_ns();
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
    use std::fs;
    use std::io::{BufReader, Cursor, Read, SeekFrom};

    use super::*;

    /// A disk that fails behind so many bytes.
    struct Failing(Cursor<Vec<u8>>, u64);

    impl Read for Failing {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let left = self.1.saturating_sub(self.0.position()) as usize;
            if left == 0 {
                return Err(io::Error::other("the disk is broken"));
            }
            let length = left.min(bytes.len());
            self.0.read(&mut bytes[..length])
        }
    }

    impl Seek for Failing {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn an_older_file_stays_until_there_is_something_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.txt");
        let whole = testkit::perf::pipe_mode(&testkit::perf::story());
        let story = testkit::perf::story();
        let (head, held) = (whole.len() - story.concat().len(), story[8..].concat().len());
        let around = Around { known: &Vec::new, say: &|_| {} };
        for summary in [false, true] {
            let report = |bytes: &[u8], until: usize| {
                fs::write(&path, "older").unwrap();
                let failing = BufReader::with_capacity(64, Failing(Cursor::new(bytes.to_vec()), until as u64));
                let options = cli::Report { summary, timehist: true, ..crate::mutations::plain(&path) };
                let output = Output::open(Some(&path)).unwrap();
                let told = write(failing, &options, output, &around).map_err(|error| format!("{error:#}"));
                (told, fs::read_to_string(&path).ok())
            };
            let older = Some("older".to_owned());
            // Damaged before the first event; broken before it; and broken when nothing of what came is a line.
            for (length, until) in
                [(head, usize::MAX), (head, 40), (whole.len(), 40), (whole.len(), whole.len() - held)]
            {
                let (told, left) = report(&whole[..length], until);
                let why = told.expect_err("it has no event");
                assert!(!why.contains("cannot write"), "{length} {until}: {why}");
                assert_eq!(left, older, "{length} {until}");
            }
            // Broken when lines came: half of them are not taken for all, and what was there before stays.
            let (told, left) = report(&whole, whole.len() - 4);
            assert!(told.is_err());
            assert_eq!(left, older);
            let (told, left) = report(&whole, usize::MAX);
            told.unwrap();
            assert!(left.unwrap().contains("run"), "what is written takes the place of what is older");
        }
    }

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
