//! Parses a printed report and checks its arithmetic. Used by tests with random accounts, with real runs, and with every example in docs/: an example
//! whose numbers do not add up is a defect.
//!
//! These sums must match exactly as printed:
//!  1. the percentages of the states add up to 100.0, and a state's parts add up to its percentage;
//!  2. in each row, `work + spin + kernel-sync + wake-delay + preempted + blocked + unknown = wall`;
//!  3. the rows' wall times add up to the thread time, and their work to the percentage of work (within the rounding of the printed numbers);
//!  4. each CPU's percentages add up to 100.0;
//!  5. the times with 0, 1, 2, … CPUs in use add up to 100.0 %.

use unicode_width::UnicodeWidthStr;

/// How much of a report was found and checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Number of blocks of states.
    pub programs: usize,
    /// Number of rows in thread or program tables.
    pub rows: usize,
    /// Number of rows in the CPU table.
    pub cpus: usize,
}

/// Checks a report without colour. The error lists the sums that do not match.
pub fn audit(report: &str) -> Result<Added, Vec<String>> {
    let lines: Vec<&str> = report.lines().collect();
    let mut faults = Vec::new();
    let states = states(&lines, &mut faults);
    let tables = tables(&lines, &mut faults);
    let cpus = cpus(&lines, &mut faults);
    if states.len() == tables.len() {
        states.iter().zip(&tables).for_each(|(states, table)| compare(states, table, &mut faults));
    }
    let rows = tables.iter().map(|table| table.rows).sum();
    let added = Added { programs: states.len(), rows, cpus };
    if faults.is_empty() { Ok(added) } else { Err(faults) }
}

/// Returns the reports in the fenced blocks of a Markdown text. A report begins with a line that starts with `cox: `.
pub fn reports_in_markdown(text: &str) -> Vec<String> {
    let mut reports = Vec::new();
    let mut report: Option<Vec<&str>> = None;
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            reports.extend(report.take().map(|lines| lines.join("\n")));
        } else if fenced && line.starts_with("cox: ") && report.is_none() {
            report = Some(vec![line]);
        } else if let Some(lines) = &mut report {
            lines.push(line);
        }
    }
    reports
}

/// A block of states.
struct States {
    /// Thread time, s, and half of the last printed digit's unit.
    thread_seconds: (f64, f64),
    /// Share of work, in tenths of a percent.
    work: Option<u64>,
}

fn states(lines: &[&str], faults: &mut Vec<String>) -> Vec<States> {
    let mut blocks = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((seconds, _)) =
            line.trim_start().strip_prefix("Thread time: ").and_then(|rest| rest.split_once(" s ("))
        else {
            continue;
        };
        let Ok(thread_seconds) = seconds.replace(',', "").parse::<f64>() else {
            faults.push(format!("no thread time in: {line}"));
            continue;
        };
        let decimals = seconds.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let half_step = 0.5 / 10f64.powi(decimals as i32);
        let (mut sum, mut work) = (0, None);
        let (above, below) = above_shares(&lines[at + 1..]);
        in_use(&above, faults);
        for (share, label, detail) in shares(below) {
            sum += share;
            if label.starts_with("did work") || label.starts_with("ran ") {
                work = Some(share);
            }
            check_parts(share, &detail, faults);
        }
        if sum != 1000 && (sum != 0 || thread_seconds > 0.0) {
            faults.push(format!("states sum to {}.{} %, not 100.0 %", sum / 10, sum % 10));
        }
        blocks.push(States { thread_seconds: (thread_seconds, half_step), work });
    }
    blocks
}

/// Returns the lines above the states, joined to one line, and the lines from the first state on.
fn above_shares<'l>(lines: &'l [&'l str]) -> (String, &'l [&'l str]) {
    let is_share =
        |line: &&str| line.trim_start().split_once(" %  ").is_some_and(|(number, _)| tenths(number).is_some());
    let at = lines.iter().take_while(|line| !line.is_empty()).position(is_share).unwrap_or(0);
    (lines[..at].iter().map(|line| line.trim_start()).collect::<Vec<_>>().join(" "), &lines[at..])
}

/// Checks `CPUs in use: 0 for 1.2 % of the time, 1 for 98.8 %`.
fn in_use(above: &str, faults: &mut Vec<String>) {
    let Some((_, times)) = above.split_once("CPUs in use: ") else { return };
    let times = times.split("Parallel efficiency").next().unwrap_or_default();
    let sum: u64 = percentages(times).iter().sum();
    if sum != 1000 {
        faults.push(format!("the times of CPUs in use sum to {sum} tenths of a percent: {times}"));
    }
}

/// Returns the lines of the form `43.4 %  label    detail`, with the detail joined over continuation lines.
fn shares(lines: &[&str]) -> Vec<(u64, String, String)> {
    let mut shares: Vec<(u64, String, String)> = Vec::new();
    for line in lines {
        let body = line.trim_start();
        let indent = line.len() - body.len();
        match body.split_once(" %  ").and_then(|(number, rest)| tenths(number).map(|share| (share, rest))) {
            Some((share, rest)) => {
                let (label, detail) = rest.split_once("    ").unwrap_or((rest, ""));
                shares.push((share, label.to_owned(), detail.trim_start().to_owned()));
            }
            // A continuation line is indented far to the right; any other line ends the block.
            None if indent > 20 && !shares.is_empty() => {
                if let Some((_, _, detail)) = shares.last_mut() {
                    detail.push(' ');
                    detail.push_str(body);
                }
            }
            None => break,
        }
    }
    shares
}

/// Checks that parts with percentages add up to the whole state, and that parts "of it" do not exceed it.
fn check_parts(share: u64, detail: &str, faults: &mut Vec<String>) {
    let (parts, of_it) = detail.split_once("of it ").unwrap_or((detail, ""));
    let sum = |text: &str| percentages(text).into_iter().reduce(|sum, part| sum + part);
    if let Some(parts) = sum(parts).filter(|parts| *parts != share) {
        faults.push(format!("parts sum to {} tenths of a percent, the state is {share}: {detail}", parts));
    }
    if let Some(parts) = sum(of_it).filter(|parts| *parts > share) {
        faults.push(format!("parts of {parts} tenths of a percent in a state of {share}: {detail}"));
    }
}

/// Returns all numbers before a percent sign, in tenths of a percent.
fn percentages(text: &str) -> Vec<u64> {
    let before = text.split(" %").collect::<Vec<_>>();
    let numbers = before.iter().take(before.len().saturating_sub(1));
    numbers.filter_map(|text| text.rsplit(' ').next().and_then(tenths)).collect()
}

/// Converts `43.4` to 434.
fn tenths(number: &str) -> Option<u64> {
    let (whole, tenth) = number.split_once('.')?;
    (tenth.len() == 1).then(|| format!("{whole}{tenth}").parse().ok()).flatten()
}

/// Totals of a table of threads or programs.
struct Sum {
    rows: usize,
    wall_s: f64,
    work_s: f64,
    step_s: f64,
}

const PARTS: [&str; 7] = ["work", "spin", "kernel-sync", "wake-delay", "preempted", "blocked", "unknown"];

fn tables(lines: &[&str], faults: &mut Vec<String>) -> Vec<Sum> {
    let mut tables = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let headings = headings(line);
        let is_table = headings.first().is_some_and(|(name, _)| {
            // If there are several programs, each table's heading names its program: `A: thread`.
            ["thread", "program"].contains(&name.split_once(": ").map_or(name.as_str(), |(_, what)| what))
        });
        let Some((_, wall_end)) = headings.iter().find(|(name, _)| name == "wall").filter(|_| is_table) else {
            continue;
        };
        let mut sum = Sum { rows: 0, wall_s: 0.0, work_s: 0.0, step_s: 0.0 };
        for row in &lines[at + 1..] {
            let Some(wall) = cell(row, *wall_end).and_then(time) else { break };
            let mut parts = 0;
            for (name, end) in headings.iter().filter(|(name, _)| PARTS.contains(&name.as_str())) {
                let Some(part) = cell(row, *end).and_then(time) else {
                    faults.push(format!("no {name} in: {row}"));
                    continue;
                };
                parts += part.steps;
                sum.work_s += if name == "work" { part.seconds() } else { 0.0 };
            }
            if parts != wall.steps {
                faults.push(format!("states sum to {parts} steps, wall is {}: {row}", wall.steps));
            }
            sum.rows += 1;
            sum.wall_s += wall.seconds();
            sum.step_s = wall.step_s;
        }
        tables.push(sum);
    }
    tables
}

fn compare(states: &States, table: &Sum, faults: &mut Vec<String>) {
    let rows = table.rows as f64;
    let (thread_seconds, half_step) = states.thread_seconds;
    let tolerance = half_step + rows * table.step_s;
    if (table.wall_s - thread_seconds).abs() > tolerance + 1e-9 {
        faults.push(format!("rows have {:.3} thread-seconds, the states {thread_seconds}", table.wall_s));
    }
    let Some(work) = states.work.filter(|_| thread_seconds > 0.0) else { return };
    // The share is rounded to a tenth of a percent, and each row may be off by up to two units of its last digit.
    let tolerance = 0.15 + 100.0 * (2.0 * rows * table.step_s + half_step) / thread_seconds;
    let percent = 100.0 * table.work_s / table.wall_s.max(1e-9);
    if (percent - work as f64 / 10.0).abs() > tolerance {
        faults.push(format!("rows did {percent:.1} % work, the states say {:.1} %", work as f64 / 10.0));
    }
}

fn cpus(lines: &[&str], faults: &mut Vec<String>) -> usize {
    let mut rows = 0;
    for (at, line) in lines.iter().enumerate() {
        let headings = headings(line);
        if !headings.iter().any(|(name, _)| name == "busy ours") {
            continue;
        }
        let parts: Vec<usize> = headings
            .iter()
            .filter(|(name, _)| ["busy ours", "others", "idle", "not seen"].contains(&name.as_str()))
            .map(|(_, end)| *end)
            .collect();
        for row in &lines[at + 1..] {
            let share = |end: &usize| cell(row, *end)?.strip_suffix(" %").and_then(tenths);
            let shares: Vec<u64> = parts.iter().filter_map(share).collect();
            if shares.len() != parts.len() {
                break;
            }
            let sum: u64 = shares.iter().sum();
            if sum != 1000 && sum != 0 {
                faults.push(format!("a CPU's time sums to {sum} tenths of a percent: {row}"));
            }
            rows += 1;
        }
    }
    rows
}

/// Returns the headings, which are separated by two or more spaces, with the column where each ends.
fn headings(line: &str) -> Vec<(String, usize)> {
    let mut headings = Vec::new();
    let mut at = 0;
    for piece in line.split("  ") {
        at += piece.width();
        if !piece.trim().is_empty() {
            headings.push((piece.trim().to_owned(), at));
        }
        at += 2;
    }
    headings
}

/// Returns the text of the right-aligned cell that ends at column `end`.
fn cell(row: &str, end: usize) -> Option<&str> {
    let mut used = 0;
    let mut cut = row.len();
    for (at, character) in row.char_indices() {
        if used == end {
            cut = at;
            break;
        }
        used += character.encode_utf8(&mut [0; 4]).width();
    }
    let last = row[..cut].rsplit("  ").next()?;
    (used == end && !last.trim().is_empty()).then(|| last.trim())
}

/// A printed time, as a multiple of its last digit's unit.
struct Time {
    steps: u64,
    step_s: f64,
}

impl Time {
    fn seconds(&self) -> f64 {
        self.steps as f64 * self.step_s
    }
}

fn time(cell: &str) -> Option<Time> {
    let (number, unit) = cell.rsplit_once(' ')?;
    let unit_s = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" | "us" => 1e-6,
        _ => return None,
    };
    let number = number.replace(',', "");
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let steps = number.replace('.', "").parse().ok()?;
    Some(Time { steps, step_s: unit_s / 10f64.powi(decimals as i32) })
}
