//! What a thread measures of its own chunks, and what it publishes.
//!
//! A thread adds each chunk that it has finished ([`Finished`]) to its [`Statistics`] and publishes the resulting
//! [`Pace`], two numbers, for the others. Nobody else changes them. Times are nanoseconds in f64 and never rounded.

use crate::cpu_share::Share;
use crate::kind::Kind;

/// The time that counts: `--timing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Wall time. A preempted chunk is slow.
    #[default]
    Wall,
    /// CPU time: how fast the thread is while it runs.
    Cpu,
    /// CPU time divided by the thread's share of its CPU, which is smoothed ([`Share`]).
    Both,
}

impl Timing {
    /// All timings.
    pub const ALL: [Timing; 3] = [Timing::Wall, Timing::Cpu, Timing::Both];

    /// Returns the name, as in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Timing::Wall => "wall",
            Timing::Cpu => "cpu",
            Timing::Both => "both",
        }
    }

    /// Finds a timing by its name. The error lists the names.
    pub fn find(text: &str) -> Result<Timing, String> {
        let found = Timing::ALL.into_iter().find(|timing| timing.name() == text);
        found.ok_or_else(|| format!("unknown timing '{text}': use wall, cpu or both"))
    }

    /// Returns the timing of a schedule if the user asks for none.
    ///
    /// It is decided by the simulated and the measured table of docs/loops.md. With weighted blocks, nothing corrects a
    /// wrong weight within the instance, so `both` is as good as `wall` where the share of the CPU is steady or changes
    /// at random, and better where it changes slowly. Schedules that distribute chunks on request correct their weights
    /// themselves: there, both timings gave the same times, and wall time needs no reading of a thread's CPU time.
    #[must_use]
    pub fn of(kind: Kind) -> Timing {
        if kind == Kind::StaticWeighted { Timing::Both } else { Timing::Wall }
    }
}

/// Which chunks count how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The k-th chunk counts k times: π of `awf_b` to `awf_e`.
    Recent,
    /// Mean and variance of an iteration, for `af` and `maf`.
    Spread,
}

/// A finished chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finished {
    /// Number of iterations.
    pub iterations: u64,
    /// Wall time from the first to the last iteration.
    pub wall_ns: f64,
    /// CPU time of the thread in `wall_ns`. With [`Timing::Wall`], it is ignored.
    pub cpu_ns: f64,
    /// Time of the request for this chunk.
    pub dispatch_ns: f64,
}

/// How fast a thread is, as others read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Mean time of an iteration, nanoseconds; 0 if unknown.
    pub mean_ns: f64,
    /// Variance of the time of an iteration, nanoseconds squared; NaN if unknown.
    pub variance_ns2: f64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { mean_ns: 0.0, variance_ns2: f64::NAN }
    }
}

impl Pace {
    /// Returns iterations per nanosecond; `None` if unknown.
    #[inline]
    #[must_use]
    pub fn speed(self) -> Option<f64> {
        Some(1.0 / self.mean_ns).filter(|speed| speed.is_finite() && *speed > 0.0)
    }
}

/// Mean and variance of the time of an iteration, from chunks of different sizes.
///
/// The mean is Σt/Σn. The variance is Σ n_k(t_k/n_k − mean)² / (K − 1) over K chunks: the mean of n iterations has an
/// n-th of the variance of one, so this is unbiased if iterations are independent. The recursion is West's (CACM
/// 22(9), 1979), a weighted form of Welford's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    chunks: u64,
    iterations: f64,
    mean_ns: f64,
    squares: f64,
}

impl Spread {
    /// Adds a chunk. One without iterations, or with a time that is negative or not finite, does not count.
    #[inline]
    pub fn add(&mut self, iterations: u64, time_ns: f64) {
        if iterations == 0 || !time_ns.is_finite() || time_ns < 0.0 {
            return;
        }
        let n = iterations as f64;
        let difference = time_ns / n - self.mean_ns;
        self.chunks += 1;
        self.iterations += n;
        // The quotient does not depend on the time, so the processor computes it at the same time as the one above.
        let change = difference * (n / self.iterations);
        self.mean_ns += change;
        self.squares += n * difference * (difference - change);
    }

    /// Adds the chunks of another thread (Chan, Golub and LeVeque, 1979).
    pub fn merge(&mut self, other: &Spread) {
        if other.chunks == 0 {
            return;
        }
        let difference = other.mean_ns - self.mean_ns;
        let sum = self.iterations + other.iterations;
        self.squares += other.squares + difference * difference * self.iterations * other.iterations / sum;
        self.mean_ns += difference * other.iterations / sum;
        self.iterations = sum;
        self.chunks += other.chunks;
    }

    /// Returns the number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the mean time of an iteration, nanoseconds; `None` without a chunk.
    #[inline]
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.chunks > 0).then_some(self.mean_ns)
    }

    /// Returns the variance of the time of an iteration, nanoseconds squared; `None` with fewer than two chunks.
    #[inline]
    #[must_use]
    pub fn variance_ns2(&self) -> Option<f64> {
        (self.chunks > 1).then(|| self.squares.max(0.0) / (self.chunks - 1) as f64)
    }
}

/// What a thread knows about its chunks. It lives as long as the loop's plan, and an instance begins with
/// [`Statistics::begin`].
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    measure: Measure,
    timing: Timing,
    with_dispatch: bool,
    chunks: f64,
    /// Σ k·t_k, nanoseconds.
    time_ns: f64,
    /// Σ k·n_k.
    iterations: f64,
    spread: Spread,
    share: Share,
}

impl Statistics {
    pub(crate) fn new(measure: Measure, timing: Timing, with_dispatch: bool) -> Statistics {
        Statistics {
            measure,
            timing,
            with_dispatch,
            chunks: 0.0,
            time_ns: 0.0,
            iterations: 0.0,
            spread: Spread::default(),
            share: Share::default(),
        }
    }

    /// Continues with what is known of the thread's share of its CPU from elsewhere.
    #[must_use]
    pub fn with_share(self, share: Share) -> Statistics {
        Statistics { share, ..self }
    }

    /// Returns the thread's share of its CPU.
    #[inline]
    #[must_use]
    pub fn share(&self) -> Share {
        self.share
    }

    /// Begins an instance: forgets the chunks, and keeps the share of the CPU.
    #[inline]
    pub fn begin(&mut self) {
        let share = self.share;
        *self = Statistics { share, ..Statistics::new(self.measure, self.timing, self.with_dispatch) };
    }

    /// Adds a finished chunk, and returns what the thread publishes.
    #[inline]
    pub fn finish(&mut self, chunk: &Finished) -> Pace {
        let time_ns = match self.timing {
            Timing::Wall => chunk.wall_ns,
            Timing::Cpu | Timing::Both => chunk.cpu_ns,
        };
        let time_ns = time_ns + if self.with_dispatch { chunk.dispatch_ns } else { 0.0 };
        self.share.add(chunk.cpu_ns, chunk.wall_ns);
        match self.measure {
            Measure::Spread => self.spread.add(chunk.iterations, time_ns),
            Measure::Recent if chunk.iterations > 0 && time_ns.is_finite() && time_ns >= 0.0 => {
                self.chunks += 1.0;
                self.time_ns += self.chunks * time_ns;
                self.iterations += self.chunks * chunk.iterations as f64;
            }
            Measure::Recent => {}
        }
        self.pace()
    }

    /// Returns what the thread publishes. For `af` and `maf`, a pace is known from the second chunk on.
    #[inline]
    #[must_use]
    pub fn pace(&self) -> Pace {
        let share = if self.timing == Timing::Both { self.share.get() } else { 1.0 };
        match self.measure {
            Measure::Recent if self.iterations > 0.0 => {
                Pace { mean_ns: self.time_ns / (self.iterations * share), variance_ns2: f64::NAN }
            }
            Measure::Spread => match (self.spread.mean_ns(), self.spread.variance_ns2()) {
                (Some(mean_ns), Some(variance)) => {
                    Pace { mean_ns: mean_ns / share, variance_ns2: variance / (share * share) }
                }
                _ => Pace::default(),
            },
            Measure::Recent => Pace::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    #[test]
    fn later_chunks_count_more() {
        let mut statistics = Statistics::new(Measure::Recent, Timing::Wall, false);
        assert_eq!(statistics.pace().speed(), None);
        let chunk = |iterations, wall_ns| Finished { iterations, wall_ns, cpu_ns: 0.0, dispatch_ns: 7.0 };
        assert_eq!(statistics.finish(&chunk(10, 100.0)).mean_ns, 10.0);
        // (1·100 + 2·600) / (1·10 + 2·20)
        assert_eq!(statistics.finish(&chunk(20, 600.0)).mean_ns, 1300.0 / 50.0);
        statistics.begin();
        assert_eq!(statistics.pace().speed(), None);
    }

    #[test]
    fn timing_and_dispatch_are_chosen() {
        let chunk = Finished { iterations: 10, wall_ns: 100.0, cpu_ns: 40.0, dispatch_ns: 10.0 };
        let mean = |timing, dispatch| Statistics::new(Measure::Recent, timing, dispatch).finish(&chunk).mean_ns;
        assert_eq!((mean(Timing::Wall, false), mean(Timing::Cpu, false)), (10.0, 4.0));
        assert_eq!((mean(Timing::Wall, true), mean(Timing::Cpu, true)), (11.0, 5.0));
    }

    /// A time below a microsecond counts, and a fraction of a nanosecond, too.
    #[test]
    fn short_times_are_not_truncated() {
        let mut statistics = Statistics::new(Measure::Recent, Timing::Wall, false);
        let pace = statistics.finish(&Finished { iterations: 8, wall_ns: 2.0, ..Finished::default() });
        assert_eq!(pace.mean_ns, 0.25);
    }

    #[test]
    fn chunks_of_different_sizes_give_the_variance_of_an_iteration() {
        let mut random = Random::new(3);
        let (mut one, mut two) = (Spread::default(), Spread::default());
        let mut all = Spread::default();
        for at in 0..40_000 {
            let n = 1 + random.below(20) as u64;
            // Uniform on 0 to 12: mean 6, variance 12.
            let time: f64 = (0..n).map(|_| 12.0 * random.unit()).sum();
            if at % 3 == 0 {
                one.add(n, time)
            } else {
                two.add(n, time)
            }
            all.add(n, time);
        }
        one.merge(&two);
        assert_eq!(one.chunks(), all.chunks());
        for spread in [one, all] {
            let (mean, variance) = (spread.mean_ns().unwrap(), spread.variance_ns2().unwrap());
            assert!((mean - 6.0).abs() < 0.05 && (variance - 12.0).abs() < 0.4, "{mean} {variance}");
        }
        assert!((one.variance_ns2().unwrap() / all.variance_ns2().unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_variance_needs_two_chunks() {
        let mut statistics = Statistics::new(Measure::Spread, Timing::Wall, false);
        let chunk = |wall_ns| Finished { iterations: 2, wall_ns, ..Finished::default() };
        assert_eq!(statistics.finish(&chunk(2.0)).speed(), None);
        // Means 1 and 3, twice each: 2·(1 + 1)/(2 − 1).
        let pace = statistics.finish(&chunk(6.0));
        assert_eq!((pace.mean_ns, pace.variance_ns2), (2.0, 4.0));
    }
}
