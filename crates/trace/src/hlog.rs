//! Interval logs of HdrHistogram (`.hlog`, histograms in format V2): for each interval of time and each CPU, a histogram of detours. jHiccup writes
//! such logs; HistogramLogAnalyzer and HistogramLogProcessor show them.
//!
//! ```text
//! #[Histogram log format version 1.3]
//! #[BaseTime: 1441812279.474 (seconds since epoch)]
//! #[StartTime: 1441812279.474 (seconds since epoch)]
//! "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
//! Tag=cpu1,0.000,1.000,2.769,HISTFAAAAEV42p…
//! ```
//!
//! A line is an interval: tag, start and length in seconds, longest detour in milliseconds, and the histogram, compressed and in base64. The start
//! counts from BaseTime. If that line is missing, as in jHiccup's logs, it counts from StartTime or from 1970 (the Java reader guesses which).
//!
//! Logs are not trusted: there are limits for what a line contains and for what all lines contain together.

mod payload;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::iter;

use crate::lines::{Lines, decimal, in_a_line, quoted};

pub use crate::lines::Error;

/// Maximum length of a line that is read, bytes. A histogram of three digits has at most 56320 counts of at most nine bytes.
const LINE: usize = 1 << 20;
/// Maximum length of a comment that is written, bytes.
const COMMENT: usize = 1000;
/// A log may have at most `COUNTS_FROM_BYTE × its bytes + COUNTS_FREE` counts that are not 0; `COUNTS_FREE` take 16 MiB. Compressed counts of random
/// durations take at least two bits each, that is a third of a byte in base64. Only counts that are all the same compress better than the limit allows.
const COUNTS_FROM_BYTE: usize = 8;
const COUNTS_FREE: usize = 1 << 20;

/// Comments of the Java writer that have a meaning.
const VERSION: &str = "#[Histogram log format version ";
const BASE_TIME: &str = "#[BaseTime: ";
const START_TIME: &str = "#[StartTime: ";
/// Start of the line that names the columns.
const LEGEND: &str = "\"StartTimestamp\"";
/// Start of a line with a tag.
const TAG: &str = "Tag=";

/// What a log says before its intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Time from which the starts of the intervals count, milliseconds since 1970.
    pub base_time_ms: Option<u64>,
    /// Time at which the measurement began, milliseconds since 1970.
    pub start_time_ms: Option<u64>,
    /// Comments, for example the program that wrote the log.
    pub comments: Vec<String>,
}

/// The detours of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// What was measured, for example `cpu1`. Without commas and white space.
    pub tag: Option<String>,
    /// Start of the interval, milliseconds; see the module's documentation.
    pub start_ms: u64,
    /// Length of the interval, milliseconds.
    pub duration_ms: u64,
    /// Durations of detours, nanoseconds, and for each of them the number of detours, in ascending order. A duration stands for all that the
    /// histogram counts together, which are at most 0.1 % longer (three digits), or 1 % (two digits, as in jHiccup's logs).
    pub counts: Vec<(u64, u64)>,
}

/// An interval log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// What the log says before its intervals.
    pub head: Head,
    /// The intervals, in the order of the file.
    pub intervals: Vec<Interval>,
}

/// Divides the detours of a CPU (start and duration, nanoseconds, in order) into intervals of `interval_ms`, from 0 to `period_ns`. A detour belongs to
/// the interval in which it starts; detours that start after `period_ns` are not counted. The last interval can be shorter.
///
/// To write the detours of several CPUs, take one interval of each CPU in turn.
pub fn split<D: IntoIterator<Item = (u64, u64)>>(
    tag: &str,
    detours: D,
    period_ns: u64,
    interval_ms: u64,
) -> impl Iterator<Item = Interval> + use<D> {
    const NS: u64 = 1_000_000;
    let tag = tag.to_owned();
    let mut detours = detours.into_iter().peekable();
    let interval_ms = interval_ms.max(1);
    let mut start_ms = 0u64;
    iter::from_fn(move || {
        let rest_ns = period_ns.saturating_sub(start_ms.saturating_mul(NS));
        if rest_ns == 0 {
            return None;
        }
        let duration_ms = interval_ms.min(rest_ns.div_ceil(NS));
        let end_ns = period_ns.min((start_ms + duration_ms).saturating_mul(NS));
        let mut counts = BTreeMap::new();
        while let Some((_, duration_ns)) = detours.next_if(|(start_ns, _)| *start_ns < end_ns) {
            *counts.entry(payload::lowest_equivalent(duration_ns)).or_insert(0) += 1;
        }
        let counts = counts.into_iter().collect();
        let interval = Interval { tag: Some(tag.clone()), start_ms, duration_ms, counts };
        start_ms += duration_ms;
        Some(interval)
    })
}

/// Writes a log. Durations are stored with three significant digits.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if an interval starts before the previous one (the Java reader would stop there), if a tag has a comma or white space,
/// or if the detours are longer or more than a histogram can have; and when writing fails.
pub fn write<I: Borrow<Interval>>(
    out: &mut impl Write,
    head: &Head,
    intervals: impl IntoIterator<Item = I>,
) -> io::Result<()> {
    head.comments.iter().try_for_each(|comment| writeln!(out, "# {}", in_a_line(comment, COMMENT)))?;
    writeln!(out, "{VERSION}1.3]")?;
    for (label, time_ms) in [(BASE_TIME, head.base_time_ms), (START_TIME, head.start_time_ms)] {
        time_ms.map_or(Ok(()), |ms| writeln!(out, "{label}{} (seconds since epoch)]", thousandths(ms)))?;
    }
    writeln!(out, "{LEGEND},\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"")?;

    let mut last_ms = 0;
    for interval in intervals {
        let Interval { tag, start_ms, duration_ms, counts } = interval.borrow();
        if *start_ms < last_ms {
            return Err(invalid("an interval starts before the previous one".to_owned()));
        }
        last_ms = *start_ms;
        if let Some(tag) = tag {
            check_tag(tag).map_err(invalid)?;
            write!(out, "{TAG}{tag},")?;
        }
        let (histogram, max_ns) = payload::encode(counts).map_err(invalid)?;
        let max_us = max_ns.saturating_add(500) / 1000;
        let (start, duration, max) = (thousandths(*start_ms), thousandths(*duration_ms), thousandths(max_us));
        writeln!(out, "{start},{duration},{max},{histogram}")?;
    }
    Ok(())
}

fn invalid(wrong: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, wrong)
}

/// Formats a number of thousandths as a decimal number.
fn thousandths(number: u64) -> String {
    format!("{}.{:03}", number / 1000, number % 1000)
}

/// Checks that a tag is one column of a line.
fn check_tag(tag: &str) -> Result<(), String> {
    let is_wrong = |char: char| char == ',' || char.is_whitespace() || char.is_control();
    if tag.contains(is_wrong) { Err(format!("the tag {} has a comma or white space", quoted(tag))) } else { Ok(()) }
}

/// Reads a log.
///
/// # Errors
/// See [`Error`].
pub fn read(input: impl BufRead) -> Result<Log, Error> {
    let mut lines = Lines::new(input, LINE);
    let mut log = Log::default();
    let (mut counts, mut most_counts) = (0, COUNTS_FREE);
    while let Some((line, text)) = lines.next()? {
        let wrong = Error::at(line);
        if text.starts_with('#') {
            take_comment(text, &mut log.head).map_err(wrong)?;
        } else if !text.is_empty() && !text.starts_with(LEGEND) {
            let interval = parse(text).map_err(&wrong)?;
            counts += interval.counts.len();
            most_counts += COUNTS_FROM_BYTE * text.len();
            if counts > most_counts {
                return Err(wrong("the compressed histograms contain an impossible number of counts".to_owned()));
            }
            log.intervals.push(interval);
        }
    }
    if log.intervals.is_empty() { Err(Error::Empty("intervals")) } else { Ok(log) }
}

fn take_comment(comment: &str, head: &mut Head) -> Result<(), String> {
    let (time, name, known) = if let Some(time) = comment.strip_prefix(BASE_TIME) {
        (time, "BaseTime", &mut head.base_time_ms)
    } else if let Some(time) = comment.strip_prefix(START_TIME) {
        (time, "StartTime", &mut head.start_time_ms)
    } else {
        let text = comment.trim_start_matches('#').trim();
        if !text.is_empty() && !comment.starts_with(VERSION) {
            head.comments.push(text.to_owned());
        }
        return Ok(());
    };
    let time_ms = ms(time.split([' ', ']', ',']).next().unwrap_or_default())?;
    if known.replace(time_ms).is_some_and(|known_ms| known_ms != time_ms) {
        // Starts before this line and after it count from different times.
        return Err(format!("a second {name}; only logs with one are supported"));
    }
    Ok(())
}

/// Parses seconds.
fn ms(seconds: &str) -> Result<u64, String> {
    decimal(seconds, 3)?.try_into().map_err(|_| format!("{} s is too large", quoted(seconds)))
}

fn parse(line: &str) -> Result<Interval, String> {
    const SEPARATORS: [char; 2] = [',', ' '];
    let (tag, columns) = match line.strip_prefix(TAG) {
        None => (None, line),
        Some(line) => {
            let (tag, columns) = line.split_once(SEPARATORS).ok_or("the interval is missing after the tag")?;
            check_tag(tag)?;
            (Some(tag.to_owned()), columns)
        }
    };
    let columns: Vec<&str> = columns.splitn(5, SEPARATORS).collect();
    let [start, duration, max, histogram] = columns[..] else {
        let found = columns.len().min(5);
        return Err(format!("{found} columns instead of 4 (start, length, longest detour, histogram)"));
    };
    let (start_ms, duration_ms) = (ms(start)?, ms(duration)?);
    // In a unit of the writer's choice. The histogram has the value in nanoseconds.
    decimal(max, 0)?;
    Ok(Interval { tag, start_ms, duration_ms, counts: payload::decode(histogram)? })
}
