//! One CPU's detours, in terms of its undisturbed time.

/// A detour.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Undisturbed time of the CPU before the detour.
    free: u64,
    /// Time in detours before the detour.
    before: u64,
}

/// A CPU's detours with running sums. The recording repeats at its end.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The detours, and the end of the recording, before which there is no limit of undisturbed time.
    marks: Vec<Mark>,
    /// Length of the recording, and the undisturbed part of it.
    length: u64,
    undisturbed: u64,
}

impl Lane {
    /// Makes a lane without detours.
    pub(crate) fn new(length: u64) -> Lane {
        let mut lane = Lane { marks: Vec::new(), length, undisturbed: length };
        lane.clear(length);
        lane
    }

    /// Removes all detours.
    pub(crate) fn clear(&mut self, length: u64) {
        self.marks.clear();
        self.marks.push(Mark { free: u64::MAX, before: 0 });
        (self.length, self.undisturbed) = (length, length);
    }

    /// Adds a detour after all others.
    pub(crate) fn push(&mut self, start: u64, length: u64) {
        let last = self.marks.len() - 1;
        let before = self.marks[last].before;
        self.marks[last].free = start - before;
        self.marks.push(Mark { free: u64::MAX, before: before + length });
        self.undisturbed -= length;
    }

    /// Repasses the number of detours.
    pub(crate) fn len(&self) -> usize {
        self.marks.len() - 1
    }

    fn end(&self, detour: usize) -> u64 {
        self.marks[detour].free + self.marks[detour + 1].before
    }

    /// Repasses the index of the first detour that ends after `at`.
    pub(crate) fn next(&self, at: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.end(middle) <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Repasses the delay of a phase with `work` of undisturbed time that begins at `at`, which must be in the recording.
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

    /// Repasses the time in detours before the CPU has had `free` undisturbed time, which it has not before the detour
    /// `from`. The search doubles its steps, because short phases end near their begin.
    fn before(&self, from: usize, free: u64) -> u64 {
        let mut step = 1;
        let mut low = from;
        while low + step <= self.len() && self.marks[low + step - 1].free < free {
            low += step;
            step *= 2;
        }
        let high = (low + step - 1).min(self.len());
        let detours = low + self.marks[low..high].partition_point(|mark| mark.free < free);
        self.marks[detours].before
    }

    /// Repasses the time in detours.
    pub(crate) fn disturbed(&self) -> u64 {
        self.length - self.undisturbed
    }

    /// Repasses the begin and length of the detour in which the time in detours reaches `sum`, and which part of it is
    /// reached.
    pub(crate) fn place(&self, sum: u64) -> (u64, u64, u64) {
        let at = self.marks.partition_point(|mark| mark.before <= sum) - 1;
        let Mark { free, before } = self.marks[at];
        (free + before, self.marks[at + 1].before - before, sum - before)
    }

    /// Repasses the end of the detour that began before `at` and is in progress.
    pub(crate) fn in_progress(&self, at: u64) -> Option<u64> {
        let next = self.next(at);
        self.begins_before(next, at).then(|| self.end(next))
    }

    /// Repasses true if the detour `next` exists and begins before `at`.
    pub(crate) fn begins_before(&self, next: usize, at: u64) -> bool {
        let Mark { free, before } = self.marks[next];
        free != u64::MAX && free + before < at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Detours at 10 to 14 and 20 to 25 of 100.
    fn lane() -> Lane {
        let mut lane = Lane::new(100);
        lane.push(10, 4);
        lane.push(20, 5);
        lane
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
