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
    /// Whether a carrier slept at the last look.
    is_suspicious: bool,
}

impl Looks {
    pub fn new() -> Looks {
        Looks { has_sentinels: false, last_look: Instant::now(), pause: FIRST_LOOK, is_suspicious: false }
    }

    /// Returns how long the host may wait; `None`: it need not look.
    pub fn patience(&self) -> Option<Duration> {
        let pause = if self.is_suspicious { CONFIRM } else { self.pause };
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

    /// Learns whether a carrier has slept when the host looked. Returns whether sentinels are needed: one has slept twice in a row.
    pub fn found(&mut self, sleeps: bool) -> bool {
        let is_confirmed = sleeps && self.is_suspicious;
        self.is_suspicious = sleeps;
        is_confirmed && !std::mem::replace(&mut self.has_sentinels, true)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_host_looks_ever_more_seldom_until_there_are_sentinels() {
        let mut looks = Looks::new();
        assert!(looks.patience() <= Some(FIRST_LOOK) && !looks.is_due());
        for pause in [2, 4, 8, 16, 20, 20].map(|times| times * FIRST_LOOK) {
            looks.last_look -= looks.pause;
            assert!(looks.is_due() && !looks.is_due());
            assert_eq!(looks.pause, pause);
        }
        assert!(!looks.found(false) && !looks.found(true) && !looks.found(false) && !looks.found(true));
        assert!(looks.patience() <= Some(CONFIRM));
        assert!(looks.found(true) && !looks.found(true));
        looks.last_look -= LONGEST;
        assert!(looks.patience().is_none() && !looks.is_due());
    }
}
