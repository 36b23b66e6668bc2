//! Reads the packed time integrals of `include/cox/cells.h` from a snapshot.
//!
//! Only BPF changes cells. When user space reads a cell, it only adds the interval that is still open. For backends that report events, user space
//! computes [`Levels`] itself, here.

const SHIFT: u32 = 20;
const COUNT: u64 = (1 << SHIFT) - 1;
const SUM: u64 = u64::MAX >> SHIFT;

/// Returns the present count in a cell (a word that packs a count and its time integral).
pub fn count(cell: u64) -> u64 {
    cell & COUNT
}

/// Returns W(t), modulo 2^44 ns: the integral over time of the number of threads that the cell counts, that is, their thread time.
pub fn thread_time_ns(cell: u64, t_ns: u64) -> u64 {
    (cell >> SHIFT).wrapping_add(count(cell).wrapping_mul(t_ns)) & SUM
}

/// Returns I(t) of a presence cell (see `cells.h`): the time for which its count was not 0, modulo 2^44 ns.
pub fn presence_ns(cell: u64, t_ns: u64) -> u64 {
    (cell >> SHIFT).wrapping_add(if count(cell) > 0 { t_ns } else { 0 }) & SUM
}

/// Reduces a sum of readings to the range of a single reading, that is, modulo 2^44 ns.
pub fn reduced_ns(sum: u64) -> u64 {
    sum & SUM
}

/// Returns the time between two readings of one cell, which must be less than 2.4 h apart. Returns 0 if `later` is slightly before `earlier`,
/// since the clocks of different CPUs differ a little.
pub fn since_ns(later: u64, earlier: u64) -> u64 {
    let since = later.wrapping_sub(earlier) & SUM;
    if since > SUM / 2 { 0 } else { since }
}

/// Largest error, ns, of a time computed from a level word (a sum of the time for which more than k CPUs were busy, see `cells.h`). CPUs go on
/// switching while the words are read, so the time can be wrong by as long as the reading takes.
const LEVEL_SLACK_NS: i64 = 100_000_000;

/// The times for which 1, 2, 3, … CPUs were busy: see `cells.h`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// The present number of busy CPUs.
    pub busy: usize,
    /// For each k, a word that sums the time for which more than k CPUs were busy (a level word in `cells.h`).
    pub words: Vec<u64>,
}

impl Levels {
    /// Counts one more busy CPU; it has been busy since `since_ns`.
    pub fn come(&mut self, since_ns: u64) {
        self.add(0u64.wrapping_sub(since_ns));
        self.busy += 1;
    }

    /// Counts one busy CPU less; it was busy until `until_ns`. If no CPU is busy, nothing changes.
    pub fn leave(&mut self, until_ns: u64) {
        if let Some(busy) = self.busy.checked_sub(1) {
            self.busy = busy;
            self.add(until_ns);
        }
    }

    fn add(&mut self, ns: u64) {
        if self.words.len() <= self.busy {
            self.words.resize(self.busy + 1, 0);
        }
        let word = &mut self.words[self.busy];
        *word = word.wrapping_add(ns);
    }

    /// Element k of the result is the time between `start_ns` and `end_ns` for which more than k CPUs were busy. A time may be up to 100 ms longer than
    /// the interval, if CPUs were counted late. Returns `None` if the times are impossible, because the words were read in the middle of a change, or
    /// because events were lost.
    pub fn more_than_ns(&self, start_ns: u64, end_ns: u64) -> Option<Vec<u64>> {
        let window_ns = i64::try_from(end_ns.checked_sub(start_ns)?).ok()?;
        let times = self.words.iter().enumerate().map(|(k, word)| {
            let open_ns = if k < self.busy { end_ns } else { 0 };
            let ns = word.wrapping_add(open_ns) as i64;
            let is_possible = ns >= -LEVEL_SLACK_NS && ns - LEVEL_SLACK_NS <= window_ns;
            is_possible.then(|| ns.max(0) as u64)
        });
        times.collect()
    }
}
