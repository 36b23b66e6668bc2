//! One CPU's detours, in terms of its undisturbed time.

use crate::recording::Detour;

/// A detour.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Undisturbed time of the CPU before the detour.
    free: u64,
    /// Time in detours before the detour.
    before: u64,
}

/// A CPU's detours with running sums. The recording repeats at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// The detours, and the end of the recording, before which there is no limit of undisturbed time.
    marks: Vec<Mark>,
    /// Cause of each detour.
    causes: Vec<u16>,
    /// Length of the recording, and the undisturbed part of it.
    length: u64,
    undisturbed: u64,
}

impl Lane {
    /// Makes a lane of detours in order of time.
    pub(crate) fn new(length: u64, detours: &[Detour]) -> Lane {
        let mut before = 0;
        let mut marks = Vec::with_capacity(detours.len() + 1);
        marks.extend(detours.iter().map(|detour| {
            let mark = Mark { free: detour.start_ns - before, before };
            before += detour.length_ns;
            mark
        }));
        marks.push(Mark { free: u64::MAX, before });
        let causes = detours.iter().map(|detour| detour.cause).collect();
        Lane { marks, causes, length, undisturbed: length - before }
    }

    /// Makes `other` the same lane without the detours of one cause. Each run of detours between two that are left out
    /// is copied as a whole: most causes are rare.
    pub(crate) fn without(&self, cause: u16, other: &mut Lane) {
        other.marks.clear();
        other.causes.clear();
        other.marks.reserve(self.marks.len());
        other.causes.reserve(self.causes.len());
        let (mut from, mut removed) = (0, 0);
        for run in self.causes.split(|of| *of == cause) {
            let to = from + run.len();
            let moved = |mark: &Mark| Mark { free: mark.free + removed, before: mark.before - removed };
            other.marks.extend(self.marks[from..to].iter().map(moved));
            other.causes.extend_from_slice(run);
            // After the last run is the end of the recording, not a detour.
            let next = self.marks.get(to + 1).map_or(self.marks[to].before, |next| next.before);
            removed += next - self.marks[to].before;
            from = to + 1;
        }
        other.marks.push(Mark { free: u64::MAX, before: self.disturbed() - removed });
        (other.length, other.undisturbed) = (self.length, self.undisturbed + removed);
    }

    /// Returns the number of detours.
    pub(crate) fn len(&self) -> usize {
        self.marks.len() - 1
    }

    fn end(&self, detour: usize) -> u64 {
        self.marks[detour].free + self.marks[detour + 1].before
    }

    /// Returns the index of the first detour that ends after `at`.
    pub(crate) fn next(&self, at: u64) -> usize {
        self.next_near((self.len() as f64 / self.length as f64 * at as f64) as usize, at)
    }

    /// The same, with a guess of the index.
    pub(crate) fn next_near(&self, guess: usize, at: u64) -> usize {
        partition_near(self.len(), guess, |detour| self.end(detour) <= at)
    }

    /// Returns the delay of a phase with `work` of undisturbed time that begins at `at`, which must be in the recording.
    pub(crate) fn delay(&self, at: u64, work: u64) -> u64 {
        self.delay_from(self.next(at), at, work)
    }

    /// The same, if the first detour that ends after `at` is known.
    pub(crate) fn delay_from(&self, next: usize, at: u64, work: u64) -> u64 {
        let Mark { free, before } = self.marks[next];
        let target = free.min(at - before) + work;
        // A detour that begins at the instant at which the work is done is not part of the phase.
        if target <= self.undisturbed {
            return target + self.before(next, target) - at - work;
        }
        let passes = (target - 1) / self.undisturbed;
        let rest = target - passes * self.undisturbed;
        passes * self.length + rest + self.before(0, rest) - at - work
    }

    /// Returns the time in detours before the CPU has had `free` undisturbed time, which it has not before the detour
    /// `from`. `from` is at most the number of detours.
    fn before(&self, from: usize, free: u64) -> u64 {
        // If detours are about as dense everywhere, the guess is near.
        let guess = match self.marks[from].free {
            passed if passed < free => {
                from + (self.len() as f64 / self.undisturbed as f64 * (free - passed) as f64) as usize
            }
            _ => from,
        };
        self.marks[partition_near(self.len(), guess, |detour| self.marks[detour].free < free)].before
    }

    /// Returns the time in detours.
    pub(crate) fn disturbed(&self) -> u64 {
        self.length - self.undisturbed
    }

    /// Returns the begin and length of the detour in which the time in detours reaches `sum`, and which part of it is
    /// reached.
    pub(crate) fn place(&self, sum: u64) -> (u64, u64, u64) {
        let at = self.marks.partition_point(|mark| mark.before <= sum) - 1;
        let Mark { free, before } = self.marks[at];
        (free + before, self.marks[at + 1].before - before, sum - before)
    }

    /// Returns the end of the detour that began before `at` and is in progress.
    pub(crate) fn in_progress(&self, at: u64) -> Option<u64> {
        let next = self.next(at);
        self.begins_before(next, at).then(|| self.end(next))
    }

    /// Returns true if the detour `next` exists and begins before `at`.
    pub(crate) fn begins_before(&self, next: usize, at: u64) -> bool {
        let Mark { free, before } = self.marks[next];
        free != u64::MAX && free + before < at
    }
}

/// Returns the first of `len` indices for which `is_before` is false; for all larger ones it must be, too. The search
/// goes from a guess outwards in steps that double, so it costs little if the guess is near. A search by halves would
/// read a new cache line in most of its steps, and long phases on many CPUs need hundreds of thousands of searches.
fn partition_near(len: usize, guess: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    let (mut low, mut high) = (0, len);
    if guess < len && is_before(guess) {
        low = guess + 1;
        while low + step <= len {
            if !is_before(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess.min(len);
        while high > 0 {
            let probe = high.saturating_sub(step);
            if is_before(probe) {
                low = probe + 1;
                break;
            }
            high = probe;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guess_does_not_change_what_is_found() {
        for len in 0..20 {
            for first in 0..=len {
                for guess in 0..25 {
                    assert_eq!(partition_near(len, guess, |at| at < first), first, "{len} {first} {guess}");
                }
            }
        }
    }

    /// Detours at 10 to 14 and 20 to 25 of 100.
    fn lane() -> Lane {
        let detour = |(start_ns, length_ns)| Detour { start_ns, length_ns, cause: 0 };
        Lane::new(100, &[(10, 4), (20, 5)].map(detour))
    }

    #[test]
    fn delays_of_some_phases() {
        // Begin, work, delay; the last four end after one or more passes.
        for (at, work, delay) in [
            (0, 10, 0),
            (0, 11, 4),
            (0, 17, 9),
            (12, 5, 2),
            (12, 7, 7),
            (10, 1, 4),
            (14, 6, 0),
            (90, 20, 0),
            (90, 21, 4),
            (0, 91, 9),
            (0, 101, 9),
            (0, 102, 13),
            (0, 182, 18),
        ] {
            assert_eq!(lane().delay(at, work), delay, "{at} {work}");
        }
    }

    #[test]
    fn places_of_disturbed_time() {
        assert_eq!([0, 3, 4, 8].map(|sum| lane().place(sum)), [(10, 4, 0), (10, 4, 3), (20, 5, 0), (20, 5, 4)]);
        assert_eq!([10, 11, 13, 14, 22].map(|at| lane().in_progress(at)), [None, Some(14), Some(14), None, Some(25)]);
    }
}
