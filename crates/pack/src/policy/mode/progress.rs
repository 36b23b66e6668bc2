//! How fast the program advances without and with rotation.
//!
//! Efficiency is the part of the CPUs' time that is not spent waiting. That is not yet progress: threads that are moved
//! find their data in another CPU's cache, and then the same work takes more CPU time. So rotation must not only make
//! the CPUs busier. It must not let the program pass fewer barriers per second, or if no preload library counts barriers,
//! let its threads block less often per second. Barriers count the program's steps, whoever places its threads. Blocks
//! mostly do, too, if threads only sleep while they wait.

/// Fewest barriers or blocks for a comparison.
const LEAST: f64 = 20.0;

/// The program's speed with rotation, relative to that without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speedup {
    /// The ratio of the speeds.
    pub ratio: f64,
    /// Its standard error, if steps came at random times. Regular steps have a smaller one.
    pub error: f64,
}

/// What was counted in one measuring window or several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Barriers that the threads passed.
    pub meets: f64,
    /// How often the threads blocked.
    pub blocks: f64,
    /// Time, ns.
    pub ns: f64,
}

impl Counted {
    /// Adds a window. Older windows count half as much as before, because programs change.
    fn add(&mut self, window: Counted) {
        self.meets = self.meets / 2.0 + window.meets;
        self.blocks = self.blocks / 2.0 + window.blocks;
        self.ns = self.ns / 2.0 + window.ns;
    }
}

/// How fast the program advances without and with rotation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    without: Counted,
    with: Counted,
}

impl Progress {
    /// Adds a window in which the kernel placed the threads.
    pub fn note_without(&mut self, window: Counted) {
        self.without.add(window);
    }

    /// Adds a window in which the threads were rotated.
    pub fn note_with(&mut self, window: Counted) {
        self.with.add(window);
    }

    /// Called when a rotation begins: forgets the last one.
    pub fn rotation_begins(&mut self) {
        self.with = Counted::default();
    }

    /// Returns the program's speed with rotation relative to that without. `blocks`: the threads wait by sleeping, so it
    /// may be judged from their blocks. `None` if too little was counted.
    pub fn speedup(&self, blocks: bool) -> Option<Speedup> {
        let speedup = |count: fn(&Counted) -> f64| {
            let (without, with) = (count(&self.without), count(&self.with));
            let known = without >= LEAST && with + without * self.with.ns / self.without.ns >= 2.0 * LEAST;
            known.then(|| {
                let ratio = with / self.with.ns / (without / self.without.ns);
                Speedup { ratio, error: ratio * (1.0 / without + 1.0 / with.max(1.0)).sqrt() }
            })
        };
        speedup(|counted| counted.meets).or_else(|| speedup(|counted| counted.blocks).filter(|_| blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window((meets, blocks, ns): (u32, u32, u32)) -> Counted {
        Counted { meets: meets.into(), blocks: blocks.into(), ns: ns.into() }
    }

    fn ratio(without: (u32, u32, u32), with: (u32, u32, u32), blocks: bool) -> Option<f64> {
        let mut progress = Progress::default();
        progress.note_without(window(without));
        progress.rotation_begins();
        progress.note_with(window(with));
        progress.speedup(blocks).map(|speedup| speedup.ratio)
    }

    #[test]
    fn speed_is_barriers_per_second_or_blocks_per_second() {
        assert_eq!(ratio((100, 0, 200), (60, 0, 100), false), Some(1.2));
        assert_eq!(ratio((100, 400, 200), (60, 100, 100), true), Some(1.2), "barriers are the better measure");
        assert_eq!(ratio((0, 400, 200), (0, 100, 100), true), Some(0.5));
        assert_eq!(ratio((0, 400, 200), (0, 100, 100), false), None, "threads that spin block for other reasons");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(ratio((19, 0, 200), (60, 0, 100), false), None);
        assert_eq!(ratio((20, 0, 200), (10, 0, 100), false), None, "10 expected and 10 counted");
        assert_eq!(ratio((200, 0, 200), (0, 0, 100), false), Some(0.0), "100 expected and none counted");
        assert_eq!(Progress::default().speedup(true), None);
        let mut progress = Progress::default();
        progress.note_without(window((100, 0, 100)));
        progress.note_with(window((400, 0, 400)));
        let Speedup { ratio, error } = progress.speedup(false).unwrap();
        assert!((ratio - 1.0).abs() < 1e-9 && (error - 0.1118).abs() < 1e-3, "{error}");
    }

    #[test]
    fn a_new_rotation_is_judged_anew() {
        let mut progress = Progress::default();
        progress.note_without(window((100, 0, 100)));
        progress.note_with(window((50, 0, 100)));
        progress.rotation_begins();
        progress.note_with(window((200, 0, 100)));
        let ratio = |progress: &Progress| progress.speedup(false).unwrap().ratio;
        assert!((ratio(&progress) - 2.0).abs() < 1e-9);
        progress.note_with(window((100, 0, 100)));
        assert!((ratio(&progress) - 4.0 / 3.0).abs() < 1e-9, "the older window counts half");
    }
}
