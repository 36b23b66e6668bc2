//! When the host looks whether a carrier sleeps in a page fault. Pure policy.
//!
//! Most programs never wait for storage on carriers, and need no sentinels. So the host looks from time to time, until it finds a carrier that sleeps; from then
//! on, sentinels do.

use std::time::{Duration, Instant};

/// How long after its start the host first looks whether a carrier sleeps in a page fault; from then on, ever more seldom.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// When it looks again at a carrier that sleeps: most page faults only wait for a lock.
const CONFIRM: Duration = Duration::from_millis(2);

/// When the host looks.
#[derive(Debug)]
pub(super) struct Looks {
    /// Whether carriers have sentinels.
    has_sentinels: bool,
    last_look: Instant,
    pause: Duration,
    /// The carriers that slept at the last look.
    suspects: Vec<Asleep>,
}

/// A carrier that sleeps in a page fault: its number, the instruction, and how often it has switched. If all are the same later, it still sleeps.
pub(super) type Asleep = (usize, u64, u64);

impl Looks {
    pub fn new() -> Looks {
        Looks { has_sentinels: false, last_look: Instant::now(), pause: FIRST_LOOK, suspects: Vec::new() }
    }

    /// Returns how long the host may wait; `None`: it need not look.
    pub fn patience(&self) -> Option<Duration> {
        let pause = if self.suspects.is_empty() { self.pause } else { CONFIRM };
        (!self.has_sentinels).then(|| pause.saturating_sub(self.last_look.elapsed()))
    }

    /// Whether it is time to look. Then, the next time is later.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.patience().is_some_and(|patience| patience.is_zero());
        if is_due {
            self.last_look = Instant::now();
            self.pause = (2 * self.pause).min(LONGEST);
        }
        is_due
    }

    /// Learns which carriers slept when the host looked. Returns whether one of them has slept since the last look: then sentinels are needed.
    pub fn found(&mut self, asleep: Vec<Asleep>) -> bool {
        let is_confirmed = asleep.iter().any(|one| self.suspects.contains(one));
        self.suspects = if is_confirmed { Vec::new() } else { asleep };
        is_confirmed
    }

    /// All carriers have sentinels: the host need not look any more.
    pub fn end(&mut self) {
        self.has_sentinels = true;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_host_looks_ever_more_seldom_until_there_are_sentinels() {
        let mut looks = Looks::new();
        let waits_at_most = |looks: &Looks, limit| looks.patience().is_some_and(|patience| patience <= limit);
        assert!(waits_at_most(&looks, FIRST_LOOK) && !looks.is_due());
        for pause in [2, 4, 8, 16, 20, 20].map(|times| times * FIRST_LOOK) {
            looks.last_look -= looks.pause;
            assert!(looks.is_due() && !looks.is_due());
            assert_eq!(looks.pause, pause);
        }
        assert!(!looks.found(Vec::new()) && !looks.found(vec![(0, 10, 5)]) && !looks.found(Vec::new()));
        // Another carrier, another fault, the same instruction later.
        for other in [(0, 10, 5), (1, 10, 5), (1, 11, 5), (1, 11, 6)] {
            assert!(!looks.found(vec![other]), "{other:?}");
        }
        assert!(waits_at_most(&looks, CONFIRM));
        assert!(looks.found(vec![(0, 10, 5), (1, 11, 6)]) && !looks.found(vec![(1, 11, 6)]));
        looks.end();
        looks.last_look -= LONGEST;
        assert!(looks.patience().is_none() && !looks.is_due());
    }
}
