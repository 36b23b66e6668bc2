//! Parses what the measured programs and cox print. Unexpected output is an error.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The fields of `cox pack --json` that are used here. A field that another version of cox does not write is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PackFigures {
    /// Time from packing the first thread to the end of cox's session, ns.
    pub wall_ns: u64,
    /// CPU time of cox, ns.
    pub own_ns: u64,
    /// Time in which cox rotated the threads, so that they took turns on the CPUs, ns.
    pub rotating_ns: u64,
    /// Number of times that a thread was moved to another CPU.
    pub moves: u64,
    /// Problems that cox reported.
    #[serde(alias = "complaints")]
    pub diagnostics: BTreeSet<String>,
}

impl PackFigures {
    /// Reads the report from the file that cox wrote, and removes the file.
    ///
    /// # Errors
    /// When the file is missing or not a report.
    pub fn take(file: &Path) -> Result<PackFigures> {
        let text = std::fs::read(file).context("cannot read cox's JSON report")?;
        std::fs::remove_file(file).context("cannot remove cox's JSON report")?;
        serde_json::from_slice(&text).context("cannot parse cox's JSON report")
    }

    /// Returns the CPU time of cox, in percent of one CPU.
    pub fn own_percent(&self) -> f64 {
        100.0 * self.own_ns as f64 / self.wall_ns.max(1) as f64
    }

    /// Returns how many times per second a thread was moved to another CPU.
    pub fn moves_per_s(&self) -> f64 {
        1e9 * self.moves as f64 / self.wall_ns.max(1) as f64
    }
}

/// Returns the number that follows `before` in the text.
fn number_after(text: &str, before: &str) -> Option<f64> {
    let rest = &text[text.find(before)? + before.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the word that precedes `after` in the text.
fn word_before<'t>(text: &'t str, after: &str) -> Option<&'t str> {
    text[..text.find(after)?].split_whitespace().next_back()
}

fn wanted<T>(found: Option<T>, text: &str, program: &str) -> Result<T> {
    found.with_context(|| format!("unexpected output of {program}: {text:?}"))
}

/// Returns the elapsed time in s of `barriers: 3 threads, 400 rounds, futex: 6.7068 s, ideal 6.0000 s`.
///
/// # Errors
/// When the text has another form.
pub fn barriers_elapsed_s(text: &str) -> Result<f64> {
    let elapsed = word_before(text, " s, ideal").and_then(|word| word.parse().ok());
    wanted(elapsed, text, "barriers")
}

/// Returns this machine's speed from `885.0 iterations/us`.
///
/// # Errors
/// When the text has another form.
pub fn iterations_per_us(text: &str) -> Result<f64> {
    let rate = word_before(text, " iterations/us").and_then(|word| word.parse().ok());
    wanted(rate, text, "barriers")
}

/// Returns the time per region in us of `regions: … 1000 regions in 0.8000 s, 800.0 us each`.
///
/// # Errors
/// When the text has another form.
pub fn region_us(text: &str) -> Result<f64> {
    let each = word_before(text, " us each").and_then(|word| word.parse().ok());
    wanted(each, text, "regions")
}

/// Returns the process ID of `regions: process 4711 waits for SIGUSR1`.
pub fn waiting_process(text: &str) -> Option<u32> {
    text.contains("waits for SIGUSR1").then(|| number_after(text, "process "))?.map(|pid| pid as u32)
}

/// What a benchmark kernel prints at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSaid {
    /// Time of the parallel part, s.
    pub elapsed_s: f64,
    /// Number of times that all threads synchronised.
    pub phases: u64,
    /// Checksum of the kernel's result.
    pub checksum: String,
}

/// Parses `kernel-lu: 2 threads, …, 500 phases in 1.2099 s` and the checksum.
///
/// # Errors
/// When the text has another form.
pub fn kernel(text: &str) -> Result<KernelSaid> {
    let said = || {
        Some(KernelSaid {
            elapsed_s: number_after(text, " phases in ")?,
            phases: word_before(text, " phases in ")?.parse().ok()?,
            checksum: text.split("checksum ").nth(1)?.split_whitespace().next()?.to_owned(),
        })
    };
    wanted(said(), text, "a kernel")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIERS: &str = "barriers: 3 threads, 400 rounds, futex: 6.7068 s, ideal 6.0000 s\n\
                            885.0 iterations/us, checksum 0xa9c801751ccc8fe8\n";

    #[test]
    fn what_programs_say_is_read() {
        assert_eq!(barriers_elapsed_s(BARRIERS).unwrap(), 6.7068);
        assert_eq!(iterations_per_us(BARRIERS).unwrap(), 885.0);
        let said = "kernel-lu: 2 threads, 48^3 cells, 5 steps, 500 phases in 1.2099 s\nchecksum 0xb9b4\n";
        let expected = KernelSaid { elapsed_s: 1.2099, phases: 500, checksum: "0xb9b4".to_owned() };
        assert_eq!(kernel(said).unwrap(), expected);
        let said =
            "regions: process 4711 waits for SIGUSR1\nregions: 3 threads, 20 regions in 0.0158 s, 788.9 us each\n";
        assert_eq!(region_us(said).unwrap(), 788.9);
        assert_eq!(waiting_process(said), Some(4711));
    }

    #[test]
    fn what_is_something_else_is_an_error() {
        for text in ["", "killed", "checksum 0x1", "phases in s", "x s, ideal 1 s"] {
            assert!(barriers_elapsed_s(text).is_err(), "{text}");
            assert!(kernel(text).is_err(), "{text}");
            assert!(region_us(text).is_err(), "{text}");
            assert!(iterations_per_us(text).is_err(), "{text}");
            assert_eq!(waiting_process(text), None, "{text}");
        }
    }

    #[test]
    fn a_report_is_taken_once_and_fields_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report");
        std::fs::write(&file, r#"{"wall_ns": 2000000000, "own_ns": 50000000, "moves": 300, "new": 1}"#).unwrap();
        let told = PackFigures::take(&file).unwrap();
        assert_eq!((told.own_percent(), told.moves_per_s()), (2.5, 150.0));
        assert_eq!(told.rotating_ns, 0);
        assert!(PackFigures::take(&file).is_err());
        std::fs::write(&file, "cox: no").unwrap();
        assert!(PackFigures::take(&file).is_err());
    }
}
