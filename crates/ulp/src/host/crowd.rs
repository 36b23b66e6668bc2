//! How many ULPs run at once while further ones are started. Pure policy.
//!
//! Those that end by themselves are waited for: the kernel goes through all mappings of the address space when a process ends (`acct_collect`), so that the
//! end of one takes the longer the more there are, and at last there is no room for more mappings. But those that run may wait for those that have not
//! been started. So if none ends for some time, the others are started at once.

use std::time::Duration;

/// So many may run before it is worth while to wait, and so long. If programs sleep, this is lost for each: so it is short.
const FEW: usize = 16;
const MOMENT: Duration = Duration::from_millis(1);
/// How long the end of a ULP is waited for where there may be no room for more.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many ULPs may run at once.
#[derive(Debug)]
pub(super) struct Crowd {
    /// So many run without a wait.
    few: usize,
    /// The address space has room for so many; `None`: it was in vain to wait for that.
    room: Option<usize>,
}

impl Crowd {
    /// `room`: the address space has room for so many.
    pub fn new(room: usize) -> Crowd {
        Crowd { few: FEW, room: Some(room) }
    }

    /// Returns how long the end of a ULP must be waited for before another one is started. `None`: not at all.
    pub fn patience(&self, running: usize) -> Option<Duration> {
        match self.room {
            Some(room) if running >= room => Some(PATIENCE),
            _ => (running >= self.few).then_some(MOMENT),
        }
    }

    /// Learns that none has ended in that time.
    pub fn was_in_vain(&mut self, running: usize) {
        self.room = self.room.filter(|room| running < *room);
        self.few = 2 * running;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_waits_ever_more_seldom() {
        let mut crowd = Crowd::new(2000);
        assert_eq!((crowd.patience(15), crowd.patience(16)), (None, Some(MOMENT)));
        crowd.was_in_vain(16);
        assert_eq!((crowd.patience(31), crowd.patience(32)), (None, Some(MOMENT)));
        assert_eq!(crowd.patience(2000), Some(PATIENCE));
        crowd.was_in_vain(2000);
        assert_eq!((crowd.patience(3999), crowd.patience(4000)), (None, Some(MOMENT)));
    }
}
