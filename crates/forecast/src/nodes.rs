//! The law of a node's delay in a program of N nodes.
//!
//! The phases of one node are chained: none begins within a detour of its slowest CPU. In a program of N nodes, the
//! slowest node decides when the next phase begins. The others wait, and detours that begin while a node waits can
//! still be in progress when the next phase begins. The longer the waits, the more the begins are like random instants.
//! Two simple laws are right at the ends only:
//!
//! - the law of one node alone (`replay`) misses these detours. If the work is much shorter than a detour, and there is
//!   nearly always one in progress on some node, it is too low by orders of magnitude;
//! - the law at random instants counts them also for few nodes. With a detour of 3 ms per second and 10 µs of work, its
//!   slowdown for one node is 1.45. The truth is 1.003.
//!
//! The model between them:
//!
//! 1. If the largest delay of a phase was M, a node with the delay D has waited M − D. Its next phase can begin within a
//!    detour that is not older than this wait. So begins at random instants within such detours are added to the law
//!    of one node alone.
//! 2. The largest delay of the next phase follows from the laws of the N nodes. So M is a Markov chain over the phases,
//!    the stationary law of which is computed on a grid. The chain is necessary: a long wait is common to all nodes, and
//!    follows on another. *Rejected:* independent waits of each node. With 64 nodes, a detour of 3 ms each 100 ms and
//!    10 µs of work, their slowdown is 95, not 7.
//! 3. The law of M is expressed as that of the largest of N independent delays, to which the rest of the forecast applies.
//!
//! `tests/nodes.rs` compares the slowdown with simulations of 1 to 256 nodes with chained phases, and states the error.

use random::Random;

use crate::chain::stationary;
use crate::lane::Lane;
use crate::levels::{Level, Levels};
use crate::timeline::Timeline;

/// Delays that are computed at instants within detours: of all CPUs together, and at most and at least of each.
const LOOK_UPS: usize = 1 << 13;
const MOST: usize = 2048;
const FEWEST: usize = 256;
/// Limits between ranges of the largest delay: delays of a node alone, of begins within detours, and evenly distributed.
const ALONE: usize = 14;
const BEGINS: usize = 12;
const EVEN: usize = 18;
/// A node's own delays that are subtracted from the largest one.
const OWN: usize = 8;
/// Added to the probability of each step of the chain: with rounding, some steps would be impossible, and the stationary
/// law not unique.
const RAREST: f64 = 1e-15;
/// Least probability of a state that counts.
const USED: f64 = 1e-9;
/// Begins within detours that add less to the expected number of nodes with a delay are left out.
const NEGLIGIBLE: f64 = 1e-4;

/// An instant within a detour.
#[derive(Clone, Copy, Debug)]
struct Instant {
    at: u64,
    /// Time since the detour began.
    age: f64,
    /// Length of the detour.
    length: f64,
    /// Part of the recording's time that the instant stands for.
    mass: f64,
}

/// Instants within detours, evenly distributed over the time in detours.
#[derive(Clone, Debug)]
pub struct Instants {
    instants: Vec<Instant>,
    /// For each instant and CPU: the first detour that ends later.
    next: Vec<usize>,
}

impl Instants {
    /// Chooses the instants.
    #[must_use]
    pub fn new(timeline: &Timeline, random: &mut Random) -> Instants {
        let total: u64 = timeline.lanes.iter().map(Lane::disturbed).sum();
        let cpus = timeline.lanes.len();
        let number = (LOOK_UPS / cpus.max(1)).clamp(FEWEST, MOST);
        let step = total as f64 / number as f64;
        let mut chosen = Instants { instants: Vec::with_capacity(number), next: Vec::with_capacity(number * cpus) };
        let mut wanted = step * random.unit();
        for lane in &timeline.lanes {
            let of_lane = lane.disturbed() as f64;
            while wanted < of_lane {
                let (start, length, age) = lane.place(wanted as u64);
                wanted += step;
                if age > 0 {
                    chosen
                        .add(timeline, Instant { at: start + age, age: age as f64, length: length as f64, mass: step });
                }
            }
            wanted -= of_lane;
        }
        chosen
    }

    /// Adds an instant. If several CPUs are in detours then, it is chosen for each of them.
    fn add(&mut self, timeline: &Timeline, instant: Instant) {
        let first = self.next.len();
        self.next.extend(timeline.lanes.iter().map(|lane| lane.next(instant.at)));
        let lanes = timeline.lanes.iter().zip(&self.next[first..]);
        let disturbed = lanes.filter(|(lane, next)| lane.begins_before(**next, instant.at)).count();
        let mass = instant.mass / timeline.length as f64 / disturbed as f64;
        self.instants.push(Instant { mass, ..instant });
    }

    /// Returns the delay of a phase that begins at an instant.
    fn delay(&self, timeline: &Timeline, instant: usize, work: u64) -> u64 {
        let cpus = timeline.lanes.len();
        let at = self.instants[instant].at;
        let lanes = timeline.lanes.iter().zip(&self.next[instant * cpus..]);
        lanes.map(|(lane, next)| lane.delay_from(*next, at, work)).max().unwrap_or(0)
    }
}

/// A begin of a phase within a detour.
#[derive(Clone, Copy, Debug)]
struct Begin {
    delay: f64,
    age: f64,
    mass: f64,
    /// Independent observations per probability. All begins within a detour are one.
    density: f64,
}

/// The laws of a node's delay for any number of nodes.
#[derive(Clone, Debug)]
pub struct NodeLaw {
    alone: Levels,
    /// Descending by delay.
    begins: Vec<Begin>,
    /// Lower ends of the ranges of the largest delay, ascending from 0.
    grid: Vec<f64>,
    /// For each range and begin: the part of the nodes that have waited long enough.
    waited: Vec<Vec<f32>>,
    /// For each range: probability of a begin within a detour.
    within: Vec<f64>,
}

impl NodeLaw {
    /// Prepares the laws for a work in nanoseconds. `alone` is the law of a node alone.
    #[must_use]
    pub fn new(alone: Levels, instants: &Instants, timeline: &Timeline, work: u64) -> NodeLaw {
        let length = timeline.length as f64;
        let begin = |(at, instant): (usize, &Instant)| Begin {
            delay: instants.delay(timeline, at, work) as f64,
            age: instant.age,
            mass: instant.mass,
            density: length / (work as f64 + instant.length),
        };
        let mut begins: Vec<Begin> = instants.instants.iter().enumerate().map(begin).collect();
        begins.sort_unstable_by(|one, two| two.delay.total_cmp(&one.delay));
        let grid = grid(&alone, &begins);
        let own: Vec<f64> = (0..OWN).rev().map(|at| alone.exceeded((at as f64 + 0.5) / OWN as f64)).collect();
        let part = |largest: f64, begin: &Begin| {
            let shorter = own.iter().take_while(|own| **own + begin.age <= largest).count();
            shorter as f32 / OWN as f32
        };
        let largest = typical(&grid, &alone, &begins);
        let waited: Vec<Vec<f32>> =
            largest.iter().map(|largest| begins.iter().map(|begin| part(*largest, begin)).collect()).collect();
        let mass =
            |waited: &Vec<f32>| begins.iter().zip(waited).map(|(begin, part)| begin.mass * f64::from(*part)).sum();
        let within = waited.iter().map(mass).collect();
        NodeLaw { alone, begins, grid, waited, within }
    }

    /// Returns the law of a node alone.
    #[must_use]
    pub fn alone(&self) -> &Levels {
        &self.alone
    }

    /// Returns a law of delays, the largest of `nodes` independent ones of which has the law of the node that is the
    /// slowest of so many.
    /// `None` if it is the law of a node alone.
    #[must_use]
    pub fn among(&self, nodes: f64) -> Option<Levels> {
        if nodes <= 1.0 || self.begins.is_empty() {
            return None;
        }
        let states = self.states(nodes);
        let within: f64 = states.iter().zip(&self.within).map(|(state, within)| state * within).sum();
        if within < NEGLIGIBLE * self.alone.at_least(f64::MIN_POSITIVE) {
            return None;
        }
        Some(self.mixed(nodes, &states))
    }

    /// Returns ln P(largest delay < x), if a node alone reaches x with probability `alone`, and begins within detours
    /// reach it with probability `begins` in this state.
    fn ln_below(&self, nodes: f64, state: usize, alone: f64, begins: f64) -> f64 {
        // The slowest node of the phase before has not waited.
        let others = ((1.0 - self.within[state]) * alone + begins).min(1.0);
        (nodes - 1.0) * (-others).ln_1p() + (-alone).ln_1p()
    }

    /// Returns the probability of each range of the largest delay.
    fn states(&self, nodes: f64) -> Vec<f64> {
        let alone: Vec<f64> = self.grid.iter().map(|delay| self.alone.at_least(*delay)).collect();
        let moves = |from: usize| {
            // P(largest delay >= lower end), from the largest down.
            let (mut begins, mut at, mut above) = (0.0, 0, 0.0);
            let mut moves = vec![0.0; self.grid.len()];
            for to in (0..self.grid.len()).rev() {
                while let Some(begin) = self.begins.get(at).filter(|begin| begin.delay >= self.grid[to]) {
                    begins += begin.mass * f64::from(self.waited[from][at]);
                    at += 1;
                }
                let reached = if to == 0 { 1.0 } else { -self.ln_below(nodes, from, alone[to], begins).exp_m1() };
                moves[to] = (reached - above).max(0.0) + RAREST;
                above = reached;
            }
            moves
        };
        stationary((0..self.grid.len()).map(moves).collect())
    }

    /// Returns the law the largest of `nodes` of which is the mixture of the states' largest delays.
    fn mixed(&self, nodes: f64, states: &[f64]) -> Levels {
        let used = states.iter().enumerate().filter(|state| *state.1 > USED);
        let used: Vec<(usize, f64)> = used.map(|(state, chance)| (state, chance.ln())).collect();
        let mut sums = vec![0.0; states.len()];
        let observed = self.alone.count();
        let mut levels = Vec::new();
        let mut at = 0;
        let mut before = 0.0;
        for (index, level) in self.alone.levels().iter().enumerate() {
            let mut add = |value: f64, density: f64, alone: f64, sums: &[f64]| {
                let ln_below =
                    ln_sum(used.iter().map(|&(state, ln)| ln + self.ln_below(nodes, state, alone, sums[state])));
                let reached = -(ln_below / nodes).exp_m1();
                let mass = (reached - before).max(0.0);
                before = f64::max(before, reached);
                levels.push(Level { value, least: value, mass, count: mass * density });
            };
            while let Some(begin) = self.begins.get(at).filter(|begin| begin.delay > level.value) {
                for &(state, _) in &used {
                    sums[state] += begin.mass * f64::from(self.waited[state][at]);
                }
                add(begin.delay, begin.density, self.alone.reached(index), &sums);
                at += 1;
            }
            add(level.value, observed, self.alone.reached(index + 1), &sums);
        }
        Levels::new(levels)
    }
}

/// Returns the lower ends of the ranges of the largest delay: delays of a node alone with falling probabilities, and
/// delays of begins within detours.
fn grid(alone: &Levels, begins: &[Begin]) -> Vec<f64> {
    let positive = alone.at_least(f64::MIN_POSITIVE);
    let least = alone.levels()[0].mass;
    let step = (least / positive).powf(1.0 / ALONE as f64);
    let of_alone = (0..=ALONE).map(|at| alone.exceeded(positive * step.powi(at as i32) * (1.0 - 1e-9)));
    let of_begins = (0..BEGINS).filter_map(|at| begins.get(begins.len() * at / BEGINS)).map(|begin| begin.delay);
    let longest = begins.first().map_or(0.0, |begin| begin.delay);
    let even = (1..EVEN).map(|at| longest * at as f64 / EVEN as f64);
    let mut grid: Vec<f64> = of_alone.chain(of_begins).chain(even).chain([0.0]).collect();
    grid.sort_unstable_by(f64::total_cmp);
    grid.dedup();
    grid
}

/// Returns a typical delay of each range: the mean of the delays in it.
fn typical(grid: &[f64], alone: &Levels, begins: &[Begin]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); grid.len()];
    let alone = alone.levels().iter().map(|level| (level.value, level.mass));
    for (delay, mass) in alone.chain(begins.iter().map(|begin| (begin.delay, begin.mass))) {
        let range = &mut sums[grid.partition_point(|lower| *lower <= delay) - 1];
        range.0 += delay * mass;
        range.1 += mass;
    }
    sums.iter().zip(grid).map(|((sum, mass), lower)| if *mass > 0.0 { sum / mass } else { *lower }).collect()
}

/// Returns ln ∑ exp(x), also if each exp(x) is too small for a number.
fn ln_sum(logarithms: impl Iterator<Item = f64>) -> f64 {
    let (mut largest, mut sum) = (f64::NEG_INFINITY, 0.0);
    for ln in logarithms {
        if ln > largest {
            sum = sum * (largest - ln).exp() + 1.0;
            largest = ln;
        } else if ln > f64::NEG_INFINITY {
            sum += (ln - largest).exp();
        }
    }
    largest + f64::ln(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tests::periodic;

    /// 0.5 ms each 10 ms on two CPUs: 5 % of time is within detours in step, and 10 % half a period apart.
    #[test]
    fn instants_on_several_cpus_count_once() {
        for (offset, expected) in [(1_000_000, 0.05), (6_000_000, 0.1)] {
            let timeline = Timeline::new(&periodic(10_000_000, 500_000, &[1_000_000, offset]), 2);
            let instants = Instants::new(&timeline, &mut Random::new(1));
            let mass: f64 = instants.instants.iter().map(|instant| instant.mass).sum();
            assert!((mass / expected - 1.0).abs() < 0.01, "{mass}, not {expected}");
        }
    }

    #[test]
    fn sums_of_tiny_numbers() {
        assert!((ln_sum([-2000.0, -2001.0, -1999.0].into_iter()) - (-1999.0 + 1.503_214_725f64.ln())).abs() < 1e-9);
        assert_eq!(ln_sum([f64::NEG_INFINITY, -3.0].into_iter()), -3.0);
        assert_eq!(ln_sum([f64::NEG_INFINITY; 2].into_iter()), f64::NEG_INFINITY);
    }
}
