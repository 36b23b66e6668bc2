//! A seat's ticker: a real-time thread on the seat's CPU that ends its turns.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};

use super::realtime;
use super::shared::Shared;
use crate::policy::Seat;

/// What a thread that was sent off its seat is let run before the seat's CPU chooses again.
///
/// The kernel does not drop a thread that becomes SCHED_IDLE: it still owes it a little, and lets it go on
/// until the next choice, a whole turn later (seen in traces of Linux 6.18). In SCHED_IDLE a thread's dues
/// are used up 341 times faster (its weight is 3 of 1024): after 25 us it has had 8 ms' worth and is not
/// chosen again. Threads that work are not hurried: what they run is useful.
const DUES_NS: u64 = 25_000;

/// Ticks until the session is over. Parks while nobody wants ticks; the manager unparks.
pub fn run(shared: &Arc<Shared>, seat: Seat) {
    let seats = shared.eyes.cpus.len();
    // A CPU that has gone offline has no turns to end; a ticker elsewhere would interrupt the wrong thread.
    if realtime::stay_on(shared.eyes.cpus[seat]).is_err() {
        return;
    }
    // Without real-time priority a tick comes late, when the kernel lets it; rotation may still pay.
    let _ = realtime::become_realtime(realtime::TICKER);
    while !shared.over.load(Ordering::Acquire) {
        let tick_ns = shared.tick_ns.load(Ordering::Acquire);
        if tick_ns == 0 {
            thread::park();
            continue;
        }
        sleep_until(next_tick(arch::monotonic_ns(), tick_ns, seat, seats));
        if shared.tick_ns.load(Ordering::Acquire) == 0 || shared.over.load(Ordering::Acquire) {
            continue;
        }
        let rotating = shared.rotating.load(Ordering::Acquire);
        let at_once = shared.core.lock().is_ok_and(|mut core| core.tick(seat, rotating, &shared.eyes));
        if at_once {
            sleep_until(arch::monotonic_ns() + DUES_NS);
        }
    }
}

/// Seats tick in turn, evenly spread over a period, and keep their places in it whatever a tick costs: so
/// that the pack looks at somebody every `tick / seats`, and seats do not queue for the lock.
fn next_tick(now_ns: u64, tick_ns: u64, seat: Seat, seats: usize) -> u64 {
    let offset_ns = tick_ns * seat as u64 / seats.max(1) as u64;
    // A tick that would come within a sixteenth of a period is skipped: this one was late.
    let from_ns = (now_ns + tick_ns / 16).saturating_sub(offset_ns);
    from_ns / tick_ns * tick_ns + tick_ns + offset_ns
}

fn sleep_until(at_ns: u64) {
    let at = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    // An interrupted sleep is a tick too early, no harm.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_spread_and_never_in_the_past() {
        assert_eq!(next_tick(1000, 100, 0, 2), 1100);
        assert_eq!(next_tick(1000, 100, 1, 2), 1050);
        assert_eq!(next_tick(1049, 100, 1, 2), 1150, "a late tick does not come twice");
        for now in 1000..1300 {
            for seat in 0..4 {
                let next = next_tick(now, 100, seat, 4);
                assert!(next > now && next <= now + 107, "{now} {seat}: {next}");
                assert_eq!(next % 100, 25 * seat as u64);
            }
        }
    }
}
