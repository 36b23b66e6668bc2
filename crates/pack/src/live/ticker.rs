//! A ticker: a thread on a slot's CPU, real-time if that is allowed, that ends the slot's periods.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use watch::sampling::period_of_turn_ns;

use super::alarm::Alarm;
use super::realtime;
use super::shared::Shared;
use crate::policy::Slot;

/// Ticks until the session is over. Parks while no ticks are wanted; the manager unparks it.
pub fn run(shared: &Arc<Shared>, slot: Slot) {
    // The real-time priority is set before the ticker moves to the program's CPUs. If it cannot be set for lack of
    // privilege, ticks come late, but rotation may still be worth its cost.
    let _ = realtime::become_punctual(realtime::TICKER);
    // A CPU that has gone offline has no periods to end; a ticker on another CPU would interrupt the wrong thread.
    if realtime::stay_on(shared.sensors.cpus[slot]).is_err() {
        shared.without_ticker.fetch_add(1, Ordering::Relaxed);
        return;
    }
    while !shared.over.load(Ordering::Acquire) {
        let tick_ns = shared.tick_ns.load(Ordering::Acquire);
        if tick_ns == 0 {
            thread::park();
        } else if tick(shared, slot, tick_ns).is_err() {
            shared.without_ticker.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

/// Ends the slot's periods until no more ticks are wanted. The first periods are about `tick_ns` long.
fn tick(shared: &Shared, slot: Slot, tick_ns: u64) -> std::io::Result<()> {
    let slots = shared.sensors.cpus.len() as u64;
    // The slots' ticks are spread evenly over a period.
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
        let is_wanted = || shared.tick_ns.load(Ordering::Acquire) != 0 && !shared.over.load(Ordering::Acquire);
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
        // the program at the same place.
        let period_ns = period_of_turn_ns(period_ns.unwrap_or(tick_ns), number);
        let now_ns = arch::monotonic_ns();
        if next_ns > now_ns {
            alarm.then(next_ns + period_ns)?;
        } else {
            // Missed ticks are not made up for: if a tick took as long as a period, nothing else would run.
            alarm.set([now_ns + period_ns / 2, now_ns + period_ns / 2 + period_ns])?;
        }
    }
}
