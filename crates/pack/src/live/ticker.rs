//! A ticker: a thread on one CPU of the pack (a slot), real-time if that is allowed. At the end of each scheduling
//! period of this CPU, it lets the policy give the CPU to another thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use watch::sampling::period_of_turn_ns;

use super::alarm::Alarm;
use super::realtime;
use super::shared::Shared;
use crate::policy::Slot;

/// Runs the ticker of one CPU of the pack, `slot`, until the session is over. The thread parks while no periods have to
/// be ended; the manager unparks it.
pub fn run(shared: &Arc<Shared>, slot: Slot) {
    // Get the real-time priority before moving to the program's CPU. If that fails for lack of privilege, scheduling
    // periods end late, but rotating the threads may still be worth its cost.
    let _ = realtime::become_punctual(realtime::TICKER);
    // If the CPU has gone offline, end the ticker: this CPU has no periods to end, and on another CPU the ticker would
    // preempt the wrong thread.
    if realtime::stay_on(shared.sensors.cpus[slot]).is_err() {
        shared.without_ticker.fetch_add(1, Ordering::Relaxed);
        return;
    }
    while !shared.no_more_ticks.load(Ordering::Acquire) {
        let tick_ns = shared.tick_ns.load(Ordering::Acquire);
        if tick_ns == 0 {
            thread::park();
        } else if tick(shared, slot, tick_ns).is_err() {
            shared.without_ticker.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

/// Ends the scheduling periods of one CPU, `slot`, until no more are wanted. The first periods are about `tick_ns`
/// long.
fn tick(shared: &Shared, slot: Slot, tick_ns: u64) -> std::io::Result<()> {
    let slots = shared.sensors.cpus.len() as u64;
    // The periods of the pack's CPUs end at different times, spread evenly over one period.
    let first_ns = arch::monotonic_ns() + tick_ns * slot as u64 / slots;
    let mut alarm = Alarm::new([first_ns, first_ns + tick_ns])?;
    let mut number = 0u32;
    loop {
        number = number.wrapping_add(1);
        match alarm.wait() {
            // A signal makes the tick come too early, which does no harm.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            waited => waited?,
        }
        let is_wanted = || shared.tick_ns.load(Ordering::Acquire) != 0 && !shared.no_more_ticks.load(Ordering::Acquire);
        if !is_wanted() {
            return Ok(());
        }
        let next_ns = alarm.next_ns();
        let mut core = shared.core.lock().map_err(|_| std::io::Error::other("poisoned"))?;
        let period_ns = core.decide(&shared.sensors, |controller, now_ns, sense, orders| {
            controller.tick(slot, now_ns, sense, orders);
            controller.next_tick_ns(next_ns)
        });
        drop(core);
        // The length of periods varies. Otherwise, if a program's phases are as long as a period, every tick would find
        // the program at the same place of its phase.
        let period_ns = period_of_turn_ns(period_ns.unwrap_or(tick_ns), number, 0);
        let now_ns = arch::monotonic_ns();
        if next_ns > now_ns {
            alarm.then(next_ns + period_ns)?;
        } else {
            // Skip missed ticks. If the ticker caught up with them, and each tick took as long as a period, nothing
            // else would run on this CPU.
            alarm.set([now_ns + period_ns / 2, now_ns + period_ns / 2 + period_ns])?;
        }
    }
}
