//! How many ULPs run at once while further ones are started. Pure policy.
//!
//! Those that end by themselves are waited for: the kernel goes through all mappings of the address space when a process ends (`acct_collect`), so that the
//! end of one takes the longer the more there are, and at last there is no room for more mappings. But those that run may wait for those that have not
//! been started. So if none ends for some time, the others are started at once.

use std::time::Duration;

/// So many may run before it is worth while to wait, and so long.
const FEW: (usize, Duration) = (64, Duration::from_millis(10));
/// How long the end of a ULP is waited for where there may be no room for more.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many ULPs may run at once.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Numbers above which the end of one is waited for, and how long. The last one applies.
    steps: Vec<(usize, Duration)>,
}

impl Crowd {
    /// `room`: the address space has room for so many.
    pub fn new(room: usize) -> Crowd {
        Crowd { steps: vec![(room, PATIENCE), FEW] }
    }

    /// Returns how long the end of a ULP must be waited for before another one is started. `None`: not at all.
    pub fn patience(&self, running: usize) -> Option<Duration> {
        self.steps.last().filter(|(most, _)| running >= *most).map(|(_, patience)| *patience)
    }

    /// Learns that none has ended in that time.
    pub fn was_in_vain(&mut self) {
        self.steps.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_does_not_wait_for_that_again() {
        let mut crowd = Crowd::new(2000);
        assert_eq!((crowd.patience(63), crowd.patience(64)), (None, Some(FEW.1)));
        crowd.was_in_vain();
        assert_eq!((crowd.patience(1999), crowd.patience(2000)), (None, Some(PATIENCE)));
        crowd.was_in_vain();
        assert_eq!(crowd.patience(5000), None);
    }
}
