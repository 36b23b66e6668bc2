//! What a whole run came to.

use std::collections::BTreeMap;

use super::judge::Verdict;
use super::session::Overlap;

/// Counts of one backend with one number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    same: u64,
    other_output: u64,
    differ: u64,
    hang: u64,
}

/// What a whole run came to.
#[derive(Debug, Default)]
pub struct Summary {
    counts: BTreeMap<(String, u32), Counts>,
    overlap: BTreeMap<String, Overlap>,
    /// Tests that could not be judged, and why.
    pub set_aside: Vec<(String, String)>,
    /// Differences and hangs, in words.
    pub findings: Vec<String>,
}

impl Summary {
    /// Counts runs.
    pub fn count(&mut self, backend: &str, threads: u32, verdict: Verdict, times: u32) {
        let counts = self.counts.entry((backend.to_owned(), threads)).or_default();
        *match verdict {
            Verdict::Same => &mut counts.same,
            Verdict::OtherOutput => &mut counts.other_output,
            Verdict::Differs => &mut counts.differ,
            Verdict::Hangs => &mut counts.hang,
        } += u64::from(times);
    }

    /// Adds what cox's runtime did.
    pub fn took_over(&mut self, backend: &str, overlap: Overlap) {
        let sum = self.overlap.entry(backend.to_owned()).or_default();
        sum.processes += overlap.processes;
        sum.ran += overlap.ran;
    }

    /// Whether there were runs, and all were the same as plain ones. `None`: there were none.
    #[must_use]
    pub fn is_good(&self) -> Option<bool> {
        (!self.counts.is_empty()).then_some(self.findings.is_empty())
    }

    /// What was set aside, what was found (without commands), and the table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, why) in &self.set_aside {
            reasons.entry(why).or_default().push(name);
        }
        for (why, names) in reasons {
            text += &format!("set aside: {why}: {}\n", names.join(" "));
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
            text += &format!("{backend}: {processes} processes asked for doorbells, standbys ran {ran} tasks\n");
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
        summary.count("bpf", 4, Verdict::Same, 3);
        summary.count("bpf", 4, Verdict::Hangs, 1);
        assert_eq!(summary.is_good(), Some(true));
        summary.findings.push("HANG x".into());
        assert_eq!(summary.is_good(), Some(false));
        let text = summary.text();
        let row: Vec<_> = text.lines().find(|line| line.starts_with("bpf")).unwrap().split_whitespace().collect();
        assert_eq!(row, ["bpf", "4", "3", "0", "0", "1"]);
    }
}
