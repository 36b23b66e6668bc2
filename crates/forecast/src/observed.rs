//! How many independent observations a replay is, and its law of delays.
//!
//! Detours often come in bursts, so that several phases in a row have large delays. They tell less about the tail than
//! as many phases far apart. The estimate of the part that is independent is the one of Ferro and Segers ("Inference for
//! clusters of extreme values", 2003): with gaps T between phases with large delays, 2 (Σ(T−1))² / (k Σ(T−1)(T−2)). It
//! is near 1 if they are at random instants, larger (then 1 is taken) if they are regular, as ticks are, and about
//! 1/size if they come in bursts of some size.

use crate::levels::Levels;
use crate::replay::Delays;

/// Large delays, the gaps between which are examined. With fewer than the second number, the estimate has an error of a
/// third or more, and the delays are taken as independent.
const MOST: usize = 1000;
const FEWEST: usize = 30;

/// Returns the law of the delays of a replay.
#[must_use]
pub fn law(delays: &Delays) -> Levels {
    let passes = f64::from(delays.passes.max(1));
    let law = Levels::of_delays(&delays.positive, delays.zeros, 1.0 / passes);
    let independent = independent(delays, &law);
    if independent < 1.0 { law.with_counts(independent) } else { law }
}

/// Returns the number of independent large delays as a part of all.
fn independent(delays: &Delays, law: &Levels) -> f64 {
    let positive = &delays.positive;
    let wanted = (MOST * delays.passes as usize).min(positive.len() / 2);
    if wanted < FEWEST {
        return 1.0;
    }
    let threshold = law.exceeded(wanted as f64 / (positive.len() as f64 + delays.zeros as f64));
    // If most of the delays are equal, all of them are large.
    let larger = positive.iter().filter(|delay| **delay > threshold).count();
    let is_large = |delay: f64| if larger > wanted / 2 { delay > threshold } else { delay >= threshold };
    let large: Vec<u64> = positive.iter().zip(&delays.phase).filter(|at| is_large(*at.0)).map(|at| *at.1).collect();
    let gaps: Vec<f64> = large.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
    if gaps.len() < FEWEST {
        return 1.0;
    }
    let less = if gaps.iter().all(|gap| *gap <= 2.0) { 0.0 } else { 1.0 };
    let sum: f64 = gaps.iter().map(|gap| gap - less).sum();
    let squares: f64 = gaps.iter().map(|gap| (gap - less) * (gap - 2.0 * less)).sum();
    if squares > 0.0 { (2.0 * sum * sum / (gaps.len() as f64 * squares)).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use random::Random;

    /// Phases with a delay at these gaps; so many in a row have delays of the same size.
    fn delays(gaps: &[u64], burst: usize) -> Delays {
        let mut at = 0;
        let phase: Vec<u64> = gaps
            .iter()
            .map(|gap| {
                at += gap;
                at
            })
            .collect();
        let positive = (0..phase.len()).map(|delay| 5.0 + (delay / burst % 7) as f64).collect();
        Delays { positive, phase, zeros: 1_000_000, passes: 1 }
    }

    #[test]
    fn bursts_count_once() {
        let mut random = Random::new(1);
        let mut gap = || 1 + (-(1.0 - random.unit()).ln() * 500.0) as u64;
        let apart: Vec<u64> = (0..2000).map(|_| gap()).collect();
        let part = |gaps: &[u64], burst: usize| {
            let delays = delays(gaps, burst);
            law(&delays).count() / (delays.zeros + delays.positive.len() as u64) as f64
        };
        let single = part(&apart, 1);
        assert!(single > 0.85, "{single}");
        let bursts: Vec<u64> = apart.iter().flat_map(|gap| [gap * 10, 1, 1, 1, 1, 1, 1, 1]).collect();
        let bursts = part(&bursts, 8);
        assert!((0.1..0.3).contains(&bursts), "{bursts}");
        assert_eq!(part(&[500; 2000], 1), 1.0);
        assert_eq!(part(&[1; 40], 1), 1.0);
    }
}
