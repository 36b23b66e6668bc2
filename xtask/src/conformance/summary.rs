//! The overall result of a conformance run.

use std::collections::{BTreeMap, BTreeSet};

use super::finished::{Counts, Finished};
use super::session::Overlap;

/// The overall result of a conformance run.
#[derive(Debug, Default)]
pub struct Summary {
    counts: BTreeMap<(String, u32), Counts>,
    overlap: BTreeMap<String, Overlap>,
    /// Tests that could not be judged, and why.
    pub set_aside: Vec<(String, String)>,
    /// Descriptions of differences and hangs.
    pub findings: Vec<String>,
}

/// Returns a test's name with a number of threads; 0: any number.
#[must_use]
pub fn name(test: &str, threads: u32) -> String {
    if threads == 0 { test.to_owned() } else { format!("{test} ({threads} threads)") }
}

impl Summary {
    /// Adds the results of a finished test.
    pub fn add(&mut self, finished: &Finished) {
        let aside = finished.aside.iter().map(|(threads, why)| (name(&finished.test, *threads), why.clone()));
        self.set_aside.extend(aside);
        self.findings.extend(finished.findings.iter().map(|(_, finding)| finding.clone()));
        let Some(backend) = &finished.backend else { return };
        for (threads, counts) in &finished.counts {
            self.counts.entry((backend.clone(), *threads)).or_default().add(*counts);
        }
        let sum = self.overlap.entry(backend.clone()).or_default();
        sum.processes += finished.overlap.processes;
        sum.ran += finished.overlap.ran;
    }

    /// Returns whether all runs under cox behaved like the runs without cox, or `None` if there were no runs.
    #[must_use]
    pub fn is_good(&self) -> Option<bool> {
        (!self.counts.is_empty()).then_some(self.findings.is_empty())
    }

    /// Returns the tests that were set aside, the findings (without the commands to repeat them), and the table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // A test that was set aside with several backends is listed once.
        let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, why) in &self.set_aside {
            reasons.entry(why).or_default().insert(name);
        }
        for (why, names) in reasons {
            let tests = Vec::from_iter(names).join(" ");
            text += &format!("set aside: {why}: {tests}\n");
        }
        for finding in &self.findings {
            text += finding.lines().next().unwrap_or_default();
            text.push('\n');
        }
        text += &format!(
            "{:13} {:>7} {:>8} {:>12} {:>8} {:>6}\n",
            "backend", "threads", "same", "other output", "differ", "hang"
        );
        for ((backend, threads), counts) in &self.counts {
            let Counts { same, other_output, differ, hang } = counts;
            text += &format!("{backend:13} {threads:>7} {same:>8} {other_output:>12} {differ:>8} {hang:>6}\n");
        }
        for (backend, overlap) in &self.overlap {
            let Overlap { processes, ran } = overlap;
            text += &format!(
                "{backend}: {processes} processes asked cox to wake their standby threads; these threads ran {ran} tasks\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_runs_is_not_good() {
        let mut summary = Summary::default();
        assert_eq!(summary.is_good(), None);
        let aside = Finished { test: "x".into(), aside: [(4, "fails".to_owned())].into(), ..Finished::default() };
        (0..2).for_each(|_| summary.add(&aside));
        assert_eq!(summary.is_good(), None);
        let counts = Counts { same: 3, hang: 1, ..Counts::default() };
        let mut ran = Finished { backend: Some("bpf".into()), counts: [(4, counts)].into(), ..Finished::default() };
        summary.add(&ran);
        assert_eq!(summary.is_good(), Some(true));
        ran.findings.push((4, "HANGS y".into()));
        summary.add(&ran);
        assert_eq!(summary.is_good(), Some(false));
        let text = summary.text();
        let row: Vec<_> = text.lines().find(|line| line.starts_with("bpf")).unwrap().split_whitespace().collect();
        assert_eq!(row, ["bpf", "4", "6", "0", "0", "2"]);
        assert!(text.contains("set aside: fails: x (4 threads)\n") && text.contains("\nHANGS y\n"), "{text}");
    }
}
