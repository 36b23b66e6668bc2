//! `static_weighted`: a block for each thread, in proportion to the speeds that the threads have had in earlier instances.
//!
//! The thread that opens an instance cuts the loop ([`cut`]), so that all threads see the same blocks. Each thread measures the time of its block and adds
//! it to its history when it asks again. A request needs nothing that other threads change.

use std::ops::Range;

use loops::adaptive::team::Team;
use loops::blocks::cut_by_speeds;
use loops::{Finished, Plan};

use crate::clock;
use crate::cpu_time::Stopwatch;
use crate::plans::Prepared;

/// Stores the cut points of an instance: thread i executes the iterations from `cuts[i]` to `cuts[i + 1]`.
pub fn cut(prepared: &Prepared, cuts: &mut [u64]) {
    let threads = prepared.key.threads as usize;
    let speeds = (0..threads).map(|thread| prepared.histories.pace(thread).speed());
    if let (false, Plan::Blocks(blocks)) = (speeds.clone().any(|speed| speed.is_some()), &prepared.plan) {
        // Nothing is known yet: even blocks, or those by the weights that the user has given.
        cuts.iter_mut()
            .zip(std::iter::once(0).chain((0..threads).map(|thread| blocks.of(thread).end)))
            .for_each(|(cut, end)| *cut = end);
        return;
    }
    cut_by_speeds(prepared.key.trips, prepared.smallest, speeds, cuts);
}

/// A thread's block of the current instance.
#[derive(Debug, Default)]
pub struct Weighted {
    /// The block; empty after the thread has got it.
    block: Range<u64>,
    /// Iterations that the thread executes.
    iterations: u64,
    /// When it got them, ticks.
    began: u64,
    stopwatch: Option<Stopwatch>,
}

impl Weighted {
    /// Begins an instance with this block.
    pub fn begin(&mut self, block: Range<u64>) {
        *self = Weighted { block, ..Weighted::default() };
    }

    /// Returns the block at the first call, and nothing at later ones. At the second call, the block has been executed.
    pub fn next(&mut self, thread: usize, prepared: &Prepared) -> Option<Range<u64>> {
        let now = clock::now();
        if self.iterations > 0 {
            let iterations = std::mem::take(&mut self.iterations);
            let wall_ns = now.wrapping_sub(self.began).max(1) as f64;
            let wall = Finished { iterations, wall_ns, ..Finished::default() };
            let block = self.stopwatch.as_mut().map_or(wall, |watch| watch.lap(iterations, self.began, now));
            prepared.histories.add(thread, &block);
        }
        let block = std::mem::take(&mut self.block);
        if block.is_empty() {
            return None;
        }
        self.iterations = block.end - block.start;
        self.began = now;
        self.stopwatch = Stopwatch::start(prepared.timing, now);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::{Key, Rule};
    use loops::Kind;
    use loops::options::Options;

    fn prepared(inputs: Option<&str>, chunk: u64) -> Prepared {
        let options = Options::parse("static_weighted", inputs).unwrap();
        let key = Key { trips: 100, threads: 2, monotonic: true, chunk, place: 0, rule: Rule::Asked };
        Prepared::new(&options, key)
    }

    fn cuts(prepared: &Prepared) -> [u64; 3] {
        let mut cuts = [7; 3];
        cut(prepared, &mut cuts);
        cuts
    }

    #[test]
    fn blocks_follow_the_speeds_of_earlier_instances() {
        let even = prepared(None, 1);
        assert_eq!((even.kind, even.is_substitute, cuts(&even)), (Kind::StaticWeighted, false, [0, 50, 100]));
        let given = prepared(Some("weights=3:1"), 1);
        assert_eq!(cuts(&given), [0, 75, 100]);
        // Thread 1 needs three times as long for as many iterations.
        for (thread, wall_ns) in [(0, 10.0), (1, 30.0)] {
            even.histories.add(thread, &Finished { iterations: 50, wall_ns, cpu_ns: wall_ns, dispatch_ns: 0.0 });
        }
        assert_eq!(cuts(&even), [0, 75, 100]);
        let chunks = prepared(None, 30);
        assert_eq!(cuts(&chunks), [0, 60, 100]);
    }

    #[test]
    fn a_thread_gets_its_block_once_and_measures_it() {
        let prepared = prepared(None, 1);
        let mut weighted = Weighted::default();
        weighted.begin(50..100);
        assert_eq!(weighted.next(1, &prepared), Some(50..100));
        assert_eq!((prepared.histories.pace(1).speed(), weighted.next(1, &prepared)), (None, None));
        let measured_ns = prepared.histories.pace(1).mean_ns;
        assert!(measured_ns > 0.0);
        // A cancelled loop's threads ask again.
        assert_eq!((weighted.next(1, &prepared), prepared.histories.pace(1).mean_ns), (None, measured_ns));
        weighted.begin(100..100);
        assert_eq!(weighted.next(0, &prepared), None);
        assert_eq!(prepared.histories.pace(0).speed(), None);
    }
}
