//! cox's output for a staged situation, and the checks that every output must pass.

use std::path::Path;

use advise::thresholds::{HALF_INTERVAL, STEAL_SHARE, TURNS_COST, WIDEST_RANGE};
use advise::{NextStep, Sentence, Verdict};
use ledger::summary::Sums;
use report::Document;
use serde_json::Value;

use super::situation::{QUIET, Situation};
use crate::built::DOCS;

/// The parsed JSON of a run.
pub struct Judged {
    document: Document,
    figures: Value,
}

impl Judged {
    /// Parses the JSON that `--json` wrote.
    pub fn read(text: &str) -> Judged {
        let json: Value = serde_json::from_str(text).expect("JSON");
        let document = serde_json::from_str(text).expect("a document");
        Judged { document, figures: json["figures"].clone() }
    }

    fn verdict(&self) -> &Verdict {
        &self.document.verdict[0]
    }

    /// Returns the name of the situation that costs most.
    pub fn headline(&self) -> String {
        self.verdict().headline.to_string()
    }

    /// Returns the sentences with their next steps.
    pub fn sentences(&self) -> &[Sentence] {
        &self.verdict().sentences
    }

    /// Returns all next steps.
    pub fn steps(&self) -> impl Iterator<Item = &NextStep> {
        self.sentences().iter().flat_map(|sentence| &sentence.next)
    }

    /// Returns one figure.
    pub fn figure(&self, name: &str) -> f64 {
        self.figures[name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", self.figures))
    }

    /// Returns the disturbance from outside of the situation, if it was so large that the verdict may rightly be about it.
    pub fn disturbance(&self, situation: &Situation) -> Option<String> {
        let others = if situation.hogs { self.waited_for_strangers("hog") } else { self.used_by_others() };
        let stolen = self.figure("steal_ns") / self.figure("run_ns").max(1.0);
        // If other programs have evicted the program's pages, they have to be read again.
        let read = self.figure("blocked_by.disk") / self.figure("thread_ns").max(1.0);
        if others > QUIET {
            Some(format!("others ({:.0} %)", others * 100.0))
        } else if stolen > STEAL_SHARE {
            Some(format!("the hypervisor ({:.0} %)", stolen * 100.0))
        } else if read > QUIET && !situation.slow_disk {
            Some(format!("storage ({:.0} %)", read * 100.0))
        } else {
            None
        }
    }

    /// Returns the share of CPU time that other programs used.
    pub fn used_by_others(&self) -> f64 {
        let cpus = &self.document.account.cpus;
        let window: u64 = cpus.len() as u64 * self.document.account.window_ns;
        cpus.iter().map(|cpu| cpu.busy_others_ns).sum::<u64>() as f64 / window.max(1) as f64
    }

    /// Returns the share of thread time spent waiting while other programs had the CPU, except the program named `hog`.
    fn waited_for_strangers(&self, hog: &str) -> f64 {
        let others =
            self.document.account.preemptors.iter().filter(|preemptor| preemptor.kind == ledger::PreemptorKind::Other);
        others.filter(|preemptor| preemptor.comm != hog).map(|preemptor| preemptor.wait_ns).sum::<u64>() as f64
            / self.figure("thread_ns").max(1.0)
    }

    /// Returns a summary for people.
    pub fn summary(&self) -> String {
        let share = |name: &str| self.figure(name) / self.figure("thread_ns").max(1.0) * 100.0;
        let mut text = format!(
            "  {} ({:?}): work {:.0} %, for threads {:.0} %, for a CPU {:.0} %, blocked {:.0} %\n",
            self.headline(),
            self.verdict().confidence,
            share("work_ns"),
            share("waiting_for_threads_ns"),
            share("waiting_for_cpu_ns"),
            share("blocked_ns"),
        );
        for sentence in self.sentences() {
            text.push_str(&format!("    {}\n", sentence.text));
            for step in &sentence.next {
                let range = (step.expected_low, step.expected_high, step.bound);
                text.push_str(&format!("      → {} {range:?}\n", step.action));
            }
        }
        text
    }

    /// Asserts that the headline is one of `right`, and that all sentences and steps are consistent.
    pub fn assert(&self, right: &[&str]) {
        assert!(right.contains(&self.headline().as_str()), "{right:?} expected\n{}", self.summary());
        let nothing = self.headline() == "nothing_to_gain";
        let count = self.sentences().len();
        assert!((if nothing { 1 } else { 3 }..=6).contains(&count), "{count} sentences\n{}", self.summary());
        // A program in one thread is told to use more, without a forecast.
        assert!(
            !nothing || self.steps().all(|step| step.expected_low.is_none()),
            "a gain is forecast although nothing can be gained\n{}",
            self.summary()
        );
        for sentence in self.sentences() {
            self.assert_evidence(sentence);
        }
        for step in self.steps() {
            self.assert_forecast(step);
        }
    }

    /// Asserts that a sentence's evidence is in the same JSON.
    fn assert_evidence(&self, sentence: &Sentence) {
        assert!(!sentence.evidence.is_empty(), "no evidence: {}", sentence.text);
        for evidence in &sentence.evidence {
            assert_eq!(self.figure(&evidence.figure), evidence.value, "{} of: {}", evidence.figure, sentence.text);
        }
    }

    /// Asserts that a forecast's range is in order and has a page, and that it does not promise more than the work on all CPUs allows.
    fn assert_forecast(&self, step: &NextStep) {
        let page = Path::new(DOCS).join(format!("advice/{}.md", step.topic));
        assert!(page.is_file(), "no {}", step.topic);
        let (Some(low), Some(high)) = (step.expected_low, step.expected_high) else {
            assert!(step.expected_low.is_none() && step.expected_high.is_none() && step.bound.is_none(), "{step:?}");
            return;
        };
        let bound = step.bound.unwrap_or(high);
        assert!(1.0 <= low && low <= high && high <= bound, "{step:?}");
        assert!(high <= WIDEST_RANGE * low, "{step:?}");
        if step.topic == "hypervisor_steal" {
            return;
        }
        let sums = Sums::over(ledger::summary::threads(&self.document.account));
        let work = sums.work_ns();
        let cpus = self.document.facts.online_cpus.len().min(sums.threads as usize) as f64;
        // Without a bound, the forecast allows for work that shrinks.
        let shrinks = if step.bound.is_none() { TURNS_COST } else { 1.0 };
        // The work is sampled, and a forecast allows for the error.
        let sure = 1.0 - (HALF_INTERVAL * sums.work_error_ns() / work.max(1) as f64).min(0.5);
        let most = shrinks * self.figure("wall_ns") * cpus / work.max(1) as f64 / sure;
        assert!(
            bound <= most.max(1.0),
            "{step:?} promises more than the work on all CPUs allows, {most}\n{}",
            self.summary()
        );
    }
}
