//! A seat's ticker: a real-time thread on the seat's CPU that ends its turns.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};

use watch::sampling::period_of_turn_ns;

use super::realtime;
use super::shared::Shared;
use crate::policy::Seat;

/// Ticks until the session is over. Parks while nobody wants ticks; the manager unparks.
pub fn run(shared: &Arc<Shared>, seat: Seat) {
    let seats = shared.eyes.cpus.len() as u64;
    // A CPU that has gone offline has no turns to end; a ticker elsewhere would interrupt the wrong thread.
    if realtime::stay_on(shared.eyes.cpus[seat]).is_err() {
        shared.without_ticker.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // Without real-time priority a tick comes late, when the kernel lets it; rotation may still pay.
    let _ = realtime::become_realtime(realtime::TICKER);
    let mut next_ns = None;
    let mut ticks = 0u32;
    while !shared.over.load(Ordering::Acquire) {
        let tick_ns = shared.tick_ns.load(Ordering::Acquire);
        if tick_ns == 0 {
            next_ns = None;
            thread::park();
            continue;
        }
        ticks = ticks.wrapping_add(1);
        let now_ns = arch::monotonic_ns();
        // Seats begin evenly spread over a turn. Its length varies: a program's phases may be as long as a turn, and
        // every look would then find it at the same place.
        let planned_ns = next_ns
            .map_or(now_ns + tick_ns * seat as u64 / seats, |planned| planned + period_of_turn_ns(tick_ns, ticks));
        // After a tick that was late by more than a turn, what was missed is not made up for.
        let at_ns = if planned_ns < now_ns { now_ns + tick_ns / 2 } else { planned_ns };
        next_ns = Some(at_ns);
        sleep_until(at_ns);
        if shared.tick_ns.load(Ordering::Acquire) == 0 || shared.over.load(Ordering::Acquire) {
            continue;
        }
        if let Ok(mut core) = shared.core.lock() {
            core.decide(&shared.eyes, |conductor, now_ns, sense, orders| conductor.tick(seat, now_ns, sense, orders));
        }
    }
}

fn sleep_until(at_ns: u64) {
    let at = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    // An interrupted sleep is a tick too early, no harm.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
