//! When the host looks whether a carrier sleeps in a page fault. Pure policy.
//!
//! Most programs never wait for storage on carriers, and need no sentinels. So the host looks from time to time, until it finds a carrier that sleeps; from then
//! on, sentinels do.

use std::time::{Duration, Instant};

/// How long after its start the host first looks whether a carrier sleeps in a page fault; from then on, ever more seldom.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// When the host looks.
#[derive(Debug)]
pub(super) struct Looks {
    /// Whether carriers have sentinels.
    pub has_sentinels: bool,
    last_look: Instant,
    pause: Duration,
}

impl Looks {
    pub fn new() -> Looks {
        Looks { has_sentinels: false, last_look: Instant::now(), pause: FIRST_LOOK }
    }

    /// Returns how long the host may wait; `None`: it need not look.
    pub fn patience(&self) -> Option<Duration> {
        (!self.has_sentinels).then(|| self.pause.saturating_sub(self.last_look.elapsed()))
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
        looks.has_sentinels = true;
        looks.last_look -= LONGEST;
        assert!(looks.patience().is_none() && !looks.is_due());
    }
}
