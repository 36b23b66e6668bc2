//! How many CPUs of each node to leave to the system.
//!
//! The system's threads and interrupts move to the CPUs that are left to it, so the program's CPUs have less noise, but
//! there are fewer of them. From recordings with different numbers of CPUs left, the throughput of a node is compared:
//! the program's CPUs divided by their slowdown. The number of nodes is the same for all.

use std::fmt;

use crate::answer::{Node, Slowdown};
use crate::largest::Estimate;
use crate::question::{Question, Unanswerable};
use crate::recording::Recording;
use crate::replay::Delays;
use crate::timeline::Timeline;

/// A recording of a node, some CPUs of which are left to the system.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// CPUs that are left to the system.
    pub cpus_left: u32,
    /// CPUs of the node.
    pub cpus_total: u32,
    /// Noise on the CPUs of the program. There must be one for each CPU that is not left to the system.
    pub recording: &'a Recording,
}

/// A number of CPUs to leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// CPUs that are left to the system.
    pub cpus_left: u32,
    /// The slowdown of the program on the other CPUs.
    pub slowdown: Slowdown,
    /// Throughput of a node in CPUs without noise, with a 95 % interval; none if there is no estimate of the slowdown.
    pub throughput: Option<Estimate>,
    /// With 95 % confidence, the throughput is not larger.
    pub at_most: f64,
}

/// Which number of CPUs to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This number: the interval of its throughput is above all others.
    Leave(u32),
    /// The intervals overlap.
    NoSignificantDifference,
    /// Of some choice, only a bound of the throughput is known, and no other choice is better than the bound.
    NotDecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Leave(0) => write!(f, "leave no CPU to the system"),
            Verdict::Leave(1) => write!(f, "leave 1 CPU to the system"),
            Verdict::Leave(cpus) => write!(f, "leave {cpus} CPUs to the system"),
            Verdict::NoSignificantDifference => write!(f, "no significant difference"),
            Verdict::NotDecided => write!(f, "not decided"),
        }
    }
}

/// The comparison for a work and a number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Work of a phase.
    pub work_ns: u64,
    /// Nodes of the program.
    pub nodes: u64,
    /// The choices, in the order of the recordings.
    pub choices: Vec<Choice>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Compares recordings with different numbers of CPUs left to the system, for each work and number of ranks of the
/// question. The number of nodes is that of the ranks if all CPUs are used. The question's ranks per node are not used.
///
/// # Errors
/// Returns an error if a recording is invalid or lacks CPUs of the program, if two recordings leave the same number of
/// CPUs, or if the nodes differ in size.
pub fn leave(files: &[Left], question: &Question) -> Result<Vec<Comparison>, Unanswerable> {
    let Some(first) = files.first() else { return Err(Unanswerable::NoRecordings) };
    let mut numbers: Vec<u32> = files.iter().map(|file| file.cpus_left).collect();
    numbers.sort_unstable();
    if let Some(same) = numbers.windows(2).find(|two| two[0] == two[1]) {
        return Err(Unanswerable::SameCpusLeft(same[0]));
    }
    let nodes: Vec<u64> =
        question.ranks.iter().map(|ranks| ranks.div_ceil(u64::from(first.cpus_total.max(1)))).collect();
    let mut slowdowns = Vec::new();
    for file in files {
        let cpus = file.cpus_total.checked_sub(file.cpus_left).filter(|cpus| *cpus > 0);
        let Some(cpus) = cpus.filter(|_| file.cpus_total == first.cpus_total) else {
            return Err(Unanswerable::CpusLeft(file.cpus_left));
        };
        let ranks = nodes.iter().map(|nodes| nodes * u64::from(cpus)).collect();
        let question = Question { ranks, ranks_per_node: cpus, ..question.clone() };
        question.check(file.recording)?;
        let timeline = Timeline::new(file.recording, cpus as usize);
        let node = Node::new(&timeline, &question);
        let mut delays = Delays::default();
        let at = |work: &u64| node.at(*work, &mut delays).scales;
        slowdowns.push(question.work_ns.iter().map(at).collect::<Vec<Vec<Slowdown>>>());
    }
    let mut comparisons = Vec::new();
    for (work, work_ns) in question.work_ns.iter().enumerate() {
        for (scale, nodes) in nodes.iter().enumerate() {
            let choices = files.iter().zip(&slowdowns).map(|(file, slowdowns)| choice(file, slowdowns[work][scale]));
            let choices: Vec<Choice> = choices.collect();
            let verdict = verdict(&choices);
            comparisons.push(Comparison { work_ns: *work_ns, nodes: *nodes, choices, verdict });
        }
    }
    Ok(comparisons)
}

fn choice(file: &Left, slowdown: Slowdown) -> Choice {
    let cpus = f64::from(file.cpus_total - file.cpus_left);
    let throughput = slowdown.estimate.map(|slowdown| Estimate {
        value: cpus / slowdown.value,
        low: cpus / slowdown.high,
        high: cpus / slowdown.low,
    });
    Choice { cpus_left: file.cpus_left, slowdown, throughput, at_most: cpus / slowdown.at_least }
}

/// Returns the choice the interval of which is above the others. Without an estimate, the bound limits a throughput.
fn verdict(choices: &[Choice]) -> Verdict {
    let low = |choice: &Choice| choice.throughput.map_or(0.0, |throughput| throughput.low);
    let high = |choice: &Choice| choice.throughput.map_or(choice.at_most, |throughput| throughput.high);
    let is_best = |at: usize| (0..choices.len()).all(|other| other == at || high(&choices[other]) < low(&choices[at]));
    match (0..choices.len()).find(|at| choices.len() > 1 && is_best(*at)) {
        Some(best) => Verdict::Leave(choices[best].cpus_left),
        None if choices.iter().any(|choice| choice.throughput.is_none()) => Verdict::NotDecided,
        None => Verdict::NoSignificantDifference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Cpu, Detour};
    use random::Random;

    /// CPUs with a detour of `length` about each 10 ms, for 20 s.
    fn node(cpus: u32, length_ns: u64, seed: u64) -> Recording {
        let mut random = Random::new(seed);
        let mut lane = |cpu: u32| {
            let start = |at: u64, random: &mut Random| at * 10_000_000 + random.below(9_000_000) as u64;
            let detours = (0..2000).map(|at| Detour { start_ns: start(at, &mut random), length_ns, cause: 0 });
            Cpu { cpu, detours: detours.collect() }
        };
        Recording { length_ns: 20_000_000_000, cpus: (0..cpus).map(&mut lane).collect(), causes: vec!["d".into()] }
    }

    fn question() -> Question {
        Question { ranks: vec![64], ranks_per_node: 1, work_ns: vec![1_000_000], sync_ns: 0, seed: 1 }
    }

    fn compare(noise: [u64; 3]) -> Comparison {
        let recordings: Vec<Recording> = (0..3).map(|left| node(8 - left, noise[left as usize], 1)).collect();
        let left = |at: usize| Left { cpus_left: at as u32, cpus_total: 8, recording: &recordings[at] };
        leave(&[left(0), left(1), left(2)], &question()).unwrap().remove(0)
    }

    /// 8 nodes. Without a CPU for the system, nearly each phase has a detour of 0.9 ms: 8/1.9 CPUs. With one, 10 µs.
    #[test]
    fn one_cpu_is_worth_more_than_it_costs() {
        let compared = compare([900_000, 10_000, 10_000]);
        assert_eq!((compared.nodes, compared.verdict), (8, Verdict::Leave(1)), "{compared:?}");
        let throughputs: Vec<f64> = compared.choices.iter().map(|choice| choice.throughput.unwrap().value).collect();
        for (is, expected) in throughputs.iter().zip([8.0 / 1.9, 7.0 / 1.01, 6.0 / 1.01]) {
            assert!((is / expected - 1.0).abs() < 0.05, "{throughputs:?}");
        }
        let first = compared.choices[0];
        let (throughput, slowdown) = (first.throughput.unwrap(), first.slowdown.estimate.unwrap());
        assert_eq!((throughput.low, throughput.high), (8.0 / slowdown.high, 8.0 / slowdown.low));
        assert!(throughput.low < throughput.high && throughput.value <= first.at_most, "{first:?}");
    }

    #[test]
    fn quiet_nodes_need_no_cpu_for_the_system() {
        assert_eq!(compare([1_000, 500, 500]).verdict.to_string(), "leave no CPU to the system");
    }

    #[test]
    fn intervals_that_overlap_are_no_verdict() {
        let estimate = |low, high| Some(Estimate { value: 0.5 * (low + high), low, high });
        let slowdown = compare([1_000, 500, 500]).choices[0].slowdown;
        let choice = |cpus_left, throughput| Choice { cpus_left, slowdown, throughput, at_most: 6.0 };
        let says = |choices: &[Choice]| verdict(choices).to_string();
        assert_eq!(says(&[choice(0, estimate(4.0, 6.0)), choice(1, estimate(5.0, 6.5))]), "no significant difference");
        assert_eq!(says(&[choice(0, estimate(4.0, 4.9)), choice(1, estimate(5.0, 6.5))]), "leave 1 CPU to the system");
        assert_eq!(says(&[choice(0, None), choice(2, estimate(5.0, 6.5))]), "not decided");
        assert_eq!(says(&[choice(0, None), choice(2, None)]), "not decided");
        assert_eq!(says(&[choice(0, None), choice(2, estimate(6.1, 6.5))]), "leave 2 CPUs to the system");
        assert_eq!(says(&[choice(0, estimate(4.0, 4.9))]), "no significant difference");
    }

    #[test]
    fn nodes_must_have_the_same_size() {
        let recording = node(2, 10, 1);
        let left = |cpus_left, cpus_total| Left { cpus_left, cpus_total, recording: &recording };
        let fails = |files: &[Left], sentence: &str| {
            let error = leave(files, &question()).unwrap_err().to_string();
            assert!(error.contains(sentence), "{error}");
        };
        fails(&[], "no recordings");
        fails(&[left(0, 2), left(1, 3)], "with 1 CPU left to the system");
        fails(&[left(0, 2), left(1, 2), left(0, 2)], "two recordings have 0 CPUs left");
        fails(&[left(2, 2)], "more than are left");
        fails(&[left(0, 4)], "the recording has 2 CPUs");
    }
}
