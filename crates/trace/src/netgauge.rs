//! Noise traces of netgauge: the detours of one CPU, as netgauge's pattern `noise` with method `selfish` writes them, and as the simulator LogGOPSim
//! replays them (`--noise-trace`).
//!
//! ```text
//! # Benchmark Method: selfish
//! # Selfish Benchmark
//! # Minimal cycle length [ns]: 14.500
//! # Time [ns]<TAB>selfish duration [ns]
//! 0.00<TAB>153.21                 netgauge: hundredths, counted from the first detour
//! 4000000<TAB>2150                cox: whole nanoseconds, counted from the start of the measurement
//! 10000000000<TAB>0               cox: end of the measurement
//! # CPU overhead due to noise: 0.02%
//! # Measurement period: 10.00 s
//! ```
//!
//! A row is the start of a detour and its duration, nanoseconds; `#` begins a comment.
//!
//! **Why cox writes a last row of duration 0.** LogGOPSim takes the start of the last row as the length of the trace, and wraps there. netgauge's
//! own traces therefore end early, and their last detour is never replayed. The additional row gives LogGOPSim the length of the measurement. It
//! adds no noise, and a CPU without detours still has a row, which LogGOPSim needs.
//!
//! **Why comments are short.** LogGOPSim reads lines into 1024 bytes, and does not terminate if a line is longer.

use std::io::{self, BufRead, Write};

use wire::LATEST_NS;

use crate::lines::{Lines, decimal, in_a_line, quoted};

pub use crate::lines::Error;

/// Maximum length of a line that is read, bytes.
const LINE: usize = 4096;
/// Maximum length of a comment that is written, bytes. See the module's documentation.
const COMMENT: usize = 1000;

/// Comments of netgauge that have a value.
const METHOD: &str = "Benchmark Method:";
const LOOP: &str = "Minimal cycle length [ns]:";
const ITERATIONS: &str = "Number of iterations (recorded+unrecorded):";
const THRESHOLD: &str = "Threshold: [% minimal cycle length]:";
const OVERHEAD: &str = "CPU overhead due to noise:";
const PERIOD: &str = "Measurement period:";
/// Comments of netgauge without a value.
const TITLE: &str = "Selfish Benchmark";
const COLUMNS: &str = "Time [ns]\tselfish duration [ns]";

/// How the detours were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Duration of an undisturbed iteration of the measuring loop, picoseconds.
    pub loop_ps: Option<u64>,
    /// Number of iterations.
    pub iterations: Option<u64>,
    /// Iterations longer than this are detours, percent of `loop_ps`.
    pub threshold_percent: Option<u64>,
    /// Length of the measurement, nanoseconds. Unknown in netgauge's own traces.
    pub period_ns: Option<u64>,
    /// Further comments, for example the names of the CPU and of the machine.
    pub comments: Vec<String>,
}

/// A noise trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// How the detours were measured.
    pub facts: Facts,
    /// Start and duration of each detour, nanoseconds, in order. Detours do not overlap; durations are not 0.
    pub detours: Vec<(u64, u64)>,
}

impl Trace {
    /// Returns the end of the trace, nanoseconds: the length of the measurement or, if that is unknown, the end of the last detour.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        let end_ns = self.detours.last().map_or(0, |(start_ns, duration_ns)| start_ns + duration_ns);
        self.facts.period_ns.unwrap_or(end_ns)
    }
}

/// Writes detours, each with its start and its duration in nanoseconds. The starts count from the start of the measurement. Detours of duration 0 are
/// left out.
///
/// The overhead in the last lines is the sum of the durations divided by `facts.period_ns`. If that is unknown, it is divided, as netgauge does, by the
/// time from the first to the last detour.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if a detour starts before the previous one ends, or ends after the measurement; and when writing fails.
pub fn write(out: &mut impl Write, detours: impl IntoIterator<Item = (u64, u64)>, facts: &Facts) -> io::Result<()> {
    writeln!(out, "# {METHOD} selfish")?;
    facts.comments.iter().try_for_each(|comment| writeln!(out, "# {}", in_a_line(comment, COMMENT)))?;
    writeln!(out, "# {TITLE}")?;
    if let Some(loop_ps) = facts.loop_ps {
        writeln!(out, "# {LOOP} {}.{:03}", loop_ps / 1000, loop_ps % 1000)?;
    }
    facts.iterations.map_or(Ok(()), |iterations| writeln!(out, "# {ITERATIONS} {iterations}"))?;
    facts.threshold_percent.map_or(Ok(()), |percent| writeln!(out, "# {THRESHOLD} {percent}"))?;
    writeln!(out, "# {COLUMNS}")?;

    let (mut first_ns, mut end_ns, mut sum_ns) = (None, 0, 0u64);
    for (start_ns, duration_ns) in detours {
        if duration_ns == 0 {
            continue;
        }
        if start_ns < end_ns {
            return Err(invalid("a detour starts before the previous one ends"));
        }
        let next_ns = start_ns.checked_add(duration_ns).filter(|next_ns| *next_ns <= LATEST_NS);
        end_ns = next_ns.ok_or_else(|| invalid("a detour ends too late"))?;
        first_ns.get_or_insert(start_ns);
        sum_ns += duration_ns;
        writeln!(out, "{start_ns}\t{duration_ns}")?;
    }
    let length_ns = match facts.period_ns {
        Some(period_ns) if period_ns < end_ns => return Err(invalid("a detour ends after the measurement")),
        Some(period_ns) if period_ns > LATEST_NS => return Err(invalid("the measurement ends too late")),
        Some(period_ns) => {
            writeln!(out, "{period_ns}\t0")?;
            period_ns
        }
        None => end_ns - first_ns.unwrap_or(end_ns),
    };
    let percent = 100.0 * sum_ns as f64 / length_ns.max(1) as f64;
    writeln!(out, "# {OVERHEAD} {percent:.2}%\n# {PERIOD} {:.2} s", length_ns as f64 / 1e9)
}

fn invalid(wrong: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, wrong)
}

/// Reads a trace of netgauge, of cox or of another program.
///
/// Times are rounded to nanoseconds: the start and the end of each detour, so that detours do not overlap after rounding. Detours that are shorter than
/// that are left out. A last row of duration 0 is the end of the measurement.
///
/// # Errors
/// See [`Error`].
pub fn read(input: impl BufRead) -> Result<Trace, Error> {
    let mut lines = Lines::new(input, LINE);
    let mut trace = Trace::default();
    let mut last: Option<Row> = None;
    while let Some((line, text)) = lines.next()? {
        let wrong = Error::at(line);
        if let Some(comment) = text.strip_prefix('#') {
            take_comment(comment.trim(), &mut trace.facts).map_err(wrong)?;
            continue;
        }
        let Some(row) = Row::parse(text).map_err(&wrong)? else { continue };
        if let Some(last) = &last {
            row.follows(last).map_err(wrong)?;
        }
        let (start_ns, end_ns) = (rounded(row.start_ps), rounded(row.end_ps));
        trace.facts.period_ns = (row.start_ps == row.end_ps).then_some(start_ns);
        if end_ns > start_ns {
            trace.detours.push((start_ns, end_ns - start_ns));
        }
        last = Some(row);
    }
    last.map(|_| trace).ok_or(Error::Empty("detours"))
}

/// Latest end of a detour, picoseconds.
const LATEST_PS: u128 = LATEST_NS as u128 * 1000;

/// Rounds picoseconds, at most [`LATEST_PS`], to nanoseconds.
fn rounded(ps: u128) -> u64 {
    ((ps + 500) / 1000) as u64
}

/// A row of the trace: a detour.
struct Row {
    start_ps: u128,
    end_ps: u128,
}

impl Row {
    /// Parses a row; `None` if the line is empty.
    fn parse(text: &str) -> Result<Option<Row>, String> {
        let columns: Vec<&str> = text.split_ascii_whitespace().take(3).collect();
        let [start, duration] = columns[..] else {
            return match columns[..] {
                [] => Ok(None),
                [start] => Err(format!("the duration is missing after {}", quoted(start))),
                _ => Err("the line has more than two columns (start and duration)".to_owned()),
            };
        };
        let (start_ps, duration_ps) = (decimal(start, 3)?, decimal(duration, 3)?);
        let end_ps = start_ps.checked_add(duration_ps).filter(|end_ps| *end_ps <= LATEST_PS);
        let end_ps = end_ps.ok_or_else(|| format!("the detour ends too late; the latest time is {LATEST_NS} ns"))?;
        Ok(Some(Row { start_ps, end_ps }))
    }

    /// Checks that the row can be after another one.
    fn follows(&self, last: &Row) -> Result<(), String> {
        let ns = |ps: u128| ps as f64 / 1e3;
        let start_ns = ns(self.start_ps);
        if self.start_ps < last.start_ps {
            Err(format!("the detour starts at {start_ns} ns, before the previous one ({} ns)", ns(last.start_ps)))
        } else if self.start_ps < last.end_ps {
            Err(format!("the detour starts at {start_ns} ns, while the previous one lasts ({} ns)", ns(last.end_ps)))
        } else {
            Ok(())
        }
    }
}

/// Takes the value from a comment of netgauge. Other comments are kept as they are.
fn take_comment(comment: &str, facts: &mut Facts) -> Result<(), String> {
    let number = |label, decimals| {
        let value = decimal(comment.strip_prefix(label)?.trim(), decimals).ok()?;
        u64::try_from(value).ok()
    };
    let method = match comment {
        "Fixed Work Quantum Benchmark" => "fwq",
        "Fixed Time Quantum Benchmark" => "ftq",
        _ => comment.strip_prefix(METHOD).map_or("selfish", str::trim),
    };
    if method != "selfish" {
        // The rows have other columns.
        return Err(format!("a trace of method {}; only traces of method 'selfish' have detours", quoted(method)));
    }
    let is_known = |label: &&str| comment.starts_with(*label);
    if comment.is_empty() || comment == TITLE || comment == COLUMNS || [METHOD, OVERHEAD, PERIOD].iter().any(is_known) {
        return Ok(());
    }
    if let Some(loop_ps) = number(LOOP, 3) {
        facts.loop_ps = Some(loop_ps);
    } else if let Some(iterations) = number(ITERATIONS, 0) {
        facts.iterations = Some(iterations);
    } else if let Some(percent) = number(THRESHOLD, 0) {
        facts.threshold_percent = Some(percent);
    } else {
        facts.comments.push(comment.to_owned());
    }
    Ok(())
}
