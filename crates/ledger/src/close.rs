//! Closes a clock that is still open when the window ends. A thread's [`Clock`] has the time that the thread spent in each state, up to its last
//! event; closing the clock adds the time from that event to the end of the window.
//!
//! A snapshot of the clock contains the thread's state and the time when the state began. The time from then to the end of the window is booked for
//! that state:
//!
//! | state found          | booked                                                            |
//! |----------------------|-------------------------------------------------------------------|
//! | `Unseen`             | unknown                                                           |
//! | `Born`               | wake delay                                                        |
//! | `Run`                | run (its steal and interrupt parts show only at the switch-out)   |
//! | `Preempt`            | preempt wait                                                      |
//! | `Blocked`, woken     | blocked up to the waking, wake delay after it                     |
//! | `Blocked`, not woken | blocked                                                           |
//! | `Dead`               | nothing: it ended at its last switch-out                          |
//!
//! A waking *before* the switch-out counts at a switch-in, but not here. If it had made the thread runnable, the thread would be running again by
//! now. So the waking ended a wait that was over before the switch-out, and the thread blocked after it. The numbers of wake-ups and switches do not
//! change, because the next ones have not happened yet.

use wire::{Clock, State};

use crate::transition::{book_block, book_preempt, book_run, is_woken};

/// Returns the thread's clock (its account) with all time until `end_ns` added. If the clock counts each nanosecond of the thread's life exactly
/// [once](Clock::is_whole), so does the result. If `clock` already contains time after `end_ns`, no time is added. The thread's state is not changed:
/// threads that have not ended keep a state other than `Dead`. The caller must apply no further events. Closing the result again at the same `end_ns`
/// changes nothing.
#[must_use]
pub fn closed(clock: &Clock, end_ns: u64) -> Clock {
    let mut clock = *clock;
    let end_ns = end_ns.max(clock.since_ns);
    let gap_ns = end_ns - clock.since_ns;
    match State::from_wire(clock.state) {
        State::Unseen => clock.unknown_ns += gap_ns,
        State::Born => clock.wake_delay_ns += gap_ns,
        State::Run => book_run(&mut clock, gap_ns),
        State::Preempt => book_preempt(&mut clock, gap_ns),
        State::Blocked => {
            let wake_ns = if is_woken(&clock) { clock.wake_ns.min(end_ns) } else { end_ns };
            book_block(&mut clock, wake_ns, end_ns);
        }
        State::Dead => return clock,
    }
    clock.since_ns = end_ns;
    clock
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transition::{born, enrolled, switch_in, switch_out, waking};
    use wire::Cause;

    fn born_at(t_ns: u64) -> Clock {
        let mut c = Clock::default();
        born(&mut c, t_ns);
        c
    }

    fn running() -> Clock {
        let mut c = born_at(1_000);
        switch_in(&mut c, 1_010, 3, 0, 0);
        c
    }

    fn left(state: State, cause: u8, yielded: bool) -> Clock {
        let mut c = running();
        switch_out(&mut c, 1_110, state, cause, yielded, 0, 0);
        c
    }

    #[test]
    fn a_running_thread_ran_to_the_end_on_its_cpu() {
        let c = closed(&running(), 1_500);
        assert_eq!((c.run_ns, c.cpu_run_ns[0], c.wake_delay_ns), (490, 490, 10));
        assert_eq!(c.cpu_id[0], 4);
        assert!(c.is_whole());
        assert_eq!(c.since_ns, 1_500);
    }

    #[test]
    fn a_preempted_thread_waits_to_the_end() {
        let c = closed(&left(State::Preempt, 0, false), 1_200);
        assert_eq!((c.preempt_wait_ns, c.yield_wait_ns), (90, 0));
        let c = closed(&left(State::Preempt, 0, true), 1_200);
        assert_eq!((c.preempt_wait_ns, c.yield_wait_ns), (90, 90));
        assert!(c.is_whole());
    }

    #[test]
    fn a_blocked_thread_is_blocked_up_to_its_waking() {
        let c = closed(&left(State::Blocked, Cause::Disk as u8, false), 1_200);
        assert_eq!((c.blocked_ns[Cause::Disk as usize], c.wake_delay_ns), (90, 10));
        let mut woken = left(State::Blocked, Cause::Disk as u8, false);
        waking(&mut woken, 1_150);
        let c = closed(&woken, 1_200);
        assert_eq!((c.blocked_ns[Cause::Disk as usize], c.wake_delay_ns), (40, 60));
        assert_eq!(c.wakeups, 1, "only the first start");
        assert!(c.is_whole());
    }

    #[test]
    fn a_waking_after_the_end_does_not_count() {
        let mut woken = left(State::Blocked, 0xff, false);
        waking(&mut woken, 1_900);
        let c = closed(&woken, 1_200);
        assert_eq!((c.blocked_ns[Cause::Other as usize], c.wake_delay_ns), (90, 10));
        assert!(c.is_whole());
    }

    #[test]
    fn an_early_waking_does_not_end_a_block_that_goes_on() {
        let mut c = running();
        waking(&mut c, 1_100);
        switch_out(&mut c, 1_110, State::Blocked, Cause::Futex as u8, false, 0, 0);
        let c = closed(&c, 1_200);
        assert_eq!((c.blocked_ns[Cause::Futex as usize], c.wake_delay_ns), (90, 10));
        assert!(c.is_whole());
    }

    #[test]
    fn a_thread_that_never_ran_waits_and_one_never_seen_is_unknown() {
        let c = closed(&born_at(1_000), 1_200);
        assert_eq!((c.wake_delay_ns, c.wakeups), (200, 0));
        let mut c = Clock::default();
        enrolled(&mut c, 1_000);
        let c = closed(&c, 1_200);
        assert_eq!(c.unknown_ns, 200);
        assert!(c.is_whole());
    }

    #[test]
    fn the_dead_and_readings_after_the_end_stay() {
        let dead = left(State::Dead, 0, false);
        assert_eq!(closed(&dead, 1_200), dead);
        let late = left(State::Preempt, 0, false);
        assert_eq!(closed(&late, 1_050), late);
    }

    #[test]
    fn closing_twice_changes_nothing() {
        for mut c in [running(), left(State::Blocked, 0, false), left(State::Preempt, 0, true), born_at(5)] {
            waking(&mut c, 1_150);
            let once = closed(&c, 1_200);
            assert_eq!(closed(&once, 1_200), once);
        }
    }
}
