//! The doorbell protocol, apart from the pages and the kernel; the crate's text says why it loses no task.

/// The words that both sides write.
pub trait Words {
    /// Says whether a queue may have a task.
    fn set_pending(&self, pending: bool);
    /// CPUs less runnable threads; negative where there are too many threads.
    fn idle_cpus(&self) -> i32;
    /// Whether a queue has a task.
    fn has_ready(&self) -> bool;
    /// Bells with a standby, a bit for each.
    fn parked(&self) -> u64;
    /// A standby is at this bell.
    fn park(&self, bell: u32);
    /// Takes it away; whether it was there.
    fn take(&self, bell: u32) -> bool;
    /// A full fence.
    fn fence(&self);
}

/// A task was put where `pending` was not set. The bell to ring, if there is a CPU and a standby for it.
pub fn announce(words: &impl Words) -> Option<u32> {
    words.set_pending(true);
    words.fence();
    if words.idle_cpus() > 0 { take_any(words) } else { None }
}

/// Takes a standby that is parked.
pub fn take_any(words: &impl Words) -> Option<u32> {
    loop {
        let parked = words.parked();
        if parked == 0 {
            return None;
        }
        // The lowest, again and again: its memory is in the caches, and the others sleep on.
        let bell = parked.trailing_zeros();
        if words.take(bell) {
            return Some(bell);
        }
    }
}

/// A standby lies down at its bell, where nothing was left to do, or because too many were runnable. `heavy` is the fence that reaches the
/// threads that put tasks. Whether it may sleep: else it was not rung, and there is work for it.
pub fn settle(words: &impl Words, bell: u32, found_nothing: bool, heavy: impl FnOnce()) -> bool {
    words.park(bell);
    if found_nothing {
        words.set_pending(false);
    }
    heavy();
    if !words.has_ready() {
        return true;
    }
    words.set_pending(true);
    words.fence();
    // Itself is runnable, too. Who cannot take its own bit has been rung: its sleep ends at once.
    words.idle_cpus() < 0 || !words.take(bell)
}
