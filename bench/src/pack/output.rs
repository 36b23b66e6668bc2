//! What the measured programs and cox say: read, never guessed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What `cox pack --json` says that is of use here. What another version of cox does not say is 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// From the first thread's packing to the end.
    pub wall_ns: u64,
    /// CPU time of cox.
    pub own_ns: u64,
    /// How long slots were taken in turns.
    pub rotating_ns: u64,
    /// Threads that came from another CPU's queue.
    pub moves: u64,
    /// What could not be done.
    pub complaints: BTreeSet<String>,
}

impl Told {
    /// Read from the file that cox was told to write, which is removed.
    ///
    /// # Errors
    /// When there is no such file, or it is no report.
    pub fn take(file: &Path) -> Result<Told> {
        let text = std::fs::read(file).context("cox wrote no report")?;
        std::fs::remove_file(file).context("cannot remove the report of cox")?;
        serde_json::from_slice(&text).context("the report of cox is not legible")
    }

    /// CPU time of cox, in percent of one CPU.
    pub fn own_percent(&self) -> f64 {
        100.0 * self.own_ns as f64 / self.wall_ns.max(1) as f64
    }

    /// Moves per second.
    pub fn moves_per_s(&self) -> f64 {
        1e9 * self.moves as f64 / self.wall_ns.max(1) as f64
    }
}

/// The number behind `before`, up to something that belongs to no number.
fn number_after(text: &str, before: &str) -> Option<f64> {
    let rest = &text[text.find(before)? + before.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The word before `after`.
fn word_before<'t>(text: &'t str, after: &str) -> Option<&'t str> {
    text[..text.find(after)?].split_whitespace().next_back()
}

fn wanted<T>(found: Option<T>, text: &str, program: &str) -> Result<T> {
    found.with_context(|| format!("{program} said something else than expected: {text:?}"))
}

/// `barriers: 3 threads, 400 rounds, futex: 6.7068 s, ideal 6.0000 s`: elapsed time, s.
///
/// # Errors
/// When it says anything else.
pub fn barriers_elapsed_s(text: &str) -> Result<f64> {
    let elapsed = word_before(text, " s, ideal").and_then(|word| word.parse().ok());
    wanted(elapsed, text, "barriers")
}

/// `885.0 iterations/us`: how fast this machine works.
///
/// # Errors
/// When it says anything else.
pub fn iterations_per_us(text: &str) -> Result<f64> {
    let rate = word_before(text, " iterations/us").and_then(|word| word.parse().ok());
    wanted(rate, text, "barriers")
}

/// `regions: … 1000 regions in 0.8000 s, 800.0 us each`: time of a region, us.
///
/// # Errors
/// When it says anything else.
pub fn region_us(text: &str) -> Result<f64> {
    let each = word_before(text, " us each").and_then(|word| word.parse().ok());
    wanted(each, text, "regions")
}

/// `regions: process 4711 waits for SIGUSR1`.
pub fn waiting_process(text: &str) -> Option<u32> {
    text.contains("waits for SIGUSR1").then(|| number_after(text, "process "))?.map(|pid| pid as u32)
}

/// What a kernel says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSaid {
    /// Time of the parallel part, s.
    pub elapsed_s: f64,
    /// Times that all threads had met.
    pub phases: u64,
    /// Of the result.
    pub checksum: String,
}

/// `kernel-lu: 2 threads, …, 500 phases in 1.2099 s`, and the checksum.
///
/// # Errors
/// When it says anything else.
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
        let told = Told::take(&file).unwrap();
        assert_eq!((told.own_percent(), told.moves_per_s()), (2.5, 150.0));
        assert_eq!(told.rotating_ns, 0);
        assert!(Told::take(&file).is_err());
        std::fs::write(&file, "cox: no").unwrap();
        assert!(Told::take(&file).is_err());
    }
}
