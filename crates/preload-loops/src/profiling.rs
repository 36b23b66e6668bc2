//! What a thread measures with `profile`: how long each of its chunks takes. A chunk ends where the thread asks for the next one.

use loops::Spread;

/// The chunks of one thread in one instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiling {
    spread: Spread,
    /// Iterations of the running chunk, and when it began, ticks.
    running: (u64, u64),
}

impl Profiling {
    /// Notes a request that began at `asked` and got `iterations` at `answered`, ticks.
    pub fn note(&mut self, asked: u64, answered: u64, iterations: u64) {
        let (ended, began) = self.running;
        // Nothing is added for the first request: no chunk was running.
        self.spread.add(ended, asked.saturating_sub(began) as f64);
        self.running = (iterations, answered);
    }

    /// Returns mean and variance of an iteration, ticks.
    pub fn spread(&self) -> Spread {
        self.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_lasts_from_the_answer_to_the_next_request() {
        let mut profiling = Profiling::default();
        profiling.note(5, 10, 1);
        profiling.note(30, 40, 2);
        profiling.note(100, 110, 0);
        // 20 ticks for one iteration, 60 for two.
        let spread = profiling.spread();
        assert_eq!(spread.chunks(), 2);
        assert!((spread.mean_ns().unwrap() - 80.0 / 3.0).abs() < 1e-9, "{spread:?}");
    }
}
