//! Computes a thread's clock (account of time) from its sums in /proc, which are read repeatedly. Pure.
//!
//! Each reading of a thread's files (type `Look`) gives the run time `run`, the run delay `delay` and the state. Over the thread's life so far
//!
//! ```text
//! wall = run + delay + rest
//! ```
//!
//! and `rest` is blocked time. This is exact if the reading finds the thread blocked, because the kernel's sums then contain all its runs and waits.
//! If the thread is runnable, part of `rest` may be its present wait, which the kernel adds to the sums when the wait ends. Or it may be run time
//! since the last timer tick. That part is *undecided*. It began after the end of the thread's last time slice, so it is
//!
//! * all of `rest` beyond the blocked time that the previous reading found, if the thread has begun no time slice since that reading;
//! * otherwise that amount, but no more than the time since that reading.
//!
//! Time that a reading proves to be blocked stays blocked. If `rest` is smaller than that time at a later reading, the kernel has counted sleep as
//! delay (see the parent module). The difference is then subtracted from the delay.
//!
//! The sums are cumulative, so a later reading decides what an earlier one could not. What is undecided at the last reading becomes unknown. So does
//! the time between the last reading and the death of a thread whose death was not observed, and the tick within which a thread was born.

use machine::process::{Doing, SchedStat, Stat, Switches};
use wire::layout::{CPU_SLOTS, ENROLLED_ALIVE};
use wire::{Cause, Clock, State};

/// Maximum time by which the kernel's run time of a running thread is out of date: a tick of the slowest kernel timer, 100 Hz.
const TICK_NS: u64 = 10_000_000;

/// When a thread's account begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// The thread existed before it was tracked: the account begins when its files are first read.
    Enrolled,
    /// The thread was born while its process was tracked, at this time or later.
    NotBefore {
        /// Time of the last poll that did not find the thread.
        seen_absent_ns: u64,
        /// The start of the clock tick in which the thread was born, according to /proc.
        tick_ns: u64,
        /// Length of a clock tick.
        tick_length_ns: u64,
    },
}

/// The values of one thread that were read from /proc at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// When the values were read.
    pub(crate) t_ns: u64,
    /// The thread's sums.
    pub(crate) sums: SchedStat,
    /// The thread's state and name.
    pub(crate) stat: Stat,
    /// The thread's switch counts.
    pub(super) switches: Switches,
}

/// A tracked thread.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    tid: u32,
    tgid: u32,
    parent_tgid: u32,
    flags: u32,
    born_ns: u64,
    birth_unknown_ns: u64,
    base: SchedStat,
    base_switches: Switches,
    last: Look,
    blocked_ns: u64,
    undecided_ns: u64,
    /// Value of `blocked_ns` at the last reading that found the thread blocked.
    proven_ns: u64,
    /// The amount by which the kernel's run delay is too large.
    false_delay_ns: u64,
}

impl Thread {
    /// Makes a tracked thread from the first values that were read.
    pub(super) fn new(tid: u32, tgid: u32, parent_tgid: u32, birth: Birth, look: Look) -> Thread {
        let (born_ns, birth_unknown_ns, base, base_switches, flags) = match birth {
            Birth::Enrolled => (look.t_ns, 0, look.sums, look.switches, ENROLLED_ALIVE),
            Birth::NotBefore { seen_absent_ns, tick_ns, tick_length_ns } => {
                let used_ns = look.sums.run_ns.saturating_add(look.sums.run_delay_ns);
                let latest_ns = look.t_ns.saturating_sub(used_ns).min(tick_ns.saturating_add(tick_length_ns));
                let earliest_ns = seen_absent_ns.max(tick_ns).min(latest_ns);
                (earliest_ns, latest_ns - earliest_ns, SchedStat::default(), Switches::default(), 0)
            }
        };
        let mut thread = Thread {
            tid,
            tgid,
            parent_tgid,
            flags,
            born_ns,
            birth_unknown_ns,
            base,
            base_switches,
            last: Look { t_ns: born_ns, sums: base, ..look.clone() },
            blocked_ns: 0,
            undecided_ns: 0,
            proven_ns: 0,
            false_delay_ns: 0,
        };
        thread.update(look);
        thread
    }

    /// Updates the account with newly read values.
    pub(super) fn update(&mut self, look: Look) {
        let room_ns = look.t_ns.saturating_sub(self.born_ns).saturating_sub(self.birth_unknown_ns);
        let run_ns = self.run_ns(&look);
        let delay_ns = self.delay_ns(&look).saturating_sub(self.false_delay_ns);
        let proven_over_ns = run_ns.saturating_add(delay_ns).saturating_add(self.proven_ns).saturating_sub(room_ns);
        let false_ns = proven_over_ns.min(self.proven_ns).min(delay_ns);
        self.false_delay_ns += false_ns;
        let rest_ns = room_ns.saturating_sub(run_ns.saturating_add(delay_ns - false_ns));
        let on_top_ns = rest_ns.saturating_sub(self.blocked_ns);
        let interval_ns = look.t_ns.saturating_sub(self.last.t_ns);
        self.undecided_ns = match look.stat.doing() {
            Doing::Off => 0,
            Doing::Ready if look.sums.timeslices == self.last.sums.timeslices => on_top_ns,
            // A thread that has ended may have run since the last reading before it died. So at most the time since that reading is undecided.
            Doing::Ready | Doing::Ended => on_top_ns.min(interval_ns),
        };
        self.blocked_ns = rest_ns - self.undecided_ns;
        if look.stat.doing() == Doing::Off {
            self.proven_ns = self.blocked_ns;
        }
        self.last = look;
    }

    /// Returns whether the thread existed before it was tracked.
    pub(super) fn was_there_before(&self) -> bool {
        self.flags & ENROLLED_ALIVE != 0
    }

    /// Returns when the thread was born, in clock ticks.
    pub(super) fn start_ticks(&self) -> u64 {
        self.last.stat.start_ticks
    }

    /// Returns whether the thread's sums are the same as at the last reading.
    pub(super) fn is_unchanged(&self, sums: SchedStat) -> bool {
        self.last.sums == sums
    }

    /// Returns whether these values belong to a later thread that got the same id.
    pub(super) fn is_reused(&self, look: &Look) -> bool {
        look.stat.start_ticks != self.last.stat.start_ticks
    }

    /// Returns whether another thread of the process has replaced this one by an exec. That thread gets the main thread's id and start time, and
    /// keeps its own sums. Only detected if its sums are smaller.
    pub(super) fn is_replaced(&self, look: &Look) -> bool {
        look.sums.timeslices < self.last.sums.timeslices
    }

    /// Returns whether the thread was on a CPU, or waiting for one, when its files were last read.
    pub(super) fn is_ready(&self) -> bool {
        self.last.stat.doing() == Doing::Ready
    }

    /// Returns whether the thread was dead when its files were last read. Its sums are then final.
    pub(super) fn has_ended(&self) -> bool {
        self.last.stat.doing() == Doing::Ended
    }

    /// Returns the values that were read last.
    pub(super) fn last_look(&self) -> &Look {
        &self.last
    }

    /// Returns the thread's switch counts at the last reading.
    pub(super) fn switches(&self) -> Switches {
        self.last.switches
    }

    /// Returns the thread's name at the last reading.
    pub(super) fn name(&self) -> String {
        wire::layout::comm_text(&self.last.stat.comm_bytes)
    }

    /// Returns the account of a thread that no longer exists at `t_ns`. If the last reading found the thread dead, the account ends at the time of
    /// that reading; otherwise the time after the last reading is unknown.
    pub(super) fn gone(&self, t_ns: u64) -> Clock {
        if self.has_ended() { self.clock(self.last.t_ns, State::Dead) } else { self.clock(t_ns, State::Dead) }
    }

    /// Returns the account of a thread that is alive at `t_ns`, just after its files were last read. /proc does not distinguish running from waiting
    /// for a CPU; in both cases the state is running.
    pub(super) fn alive(&self, t_ns: u64) -> Clock {
        self.clock(t_ns, if self.is_ready() { State::Run } else { State::Blocked })
    }

    fn clock(&self, end_ns: u64, state: State) -> Clock {
        let end_ns = end_ns.max(self.last.t_ns);
        let (run_ns, delay_ns) = self.within_window();
        let mut clock = Clock {
            since_ns: end_ns,
            state: state as u8,
            cause: Cause::Unspecified as u8,
            cpu: u16::try_from(self.last.stat.processor).unwrap_or(u16::MAX),
            slot: CPU_SLOTS as u16,
            run_ns,
            elsewhere_run_ns: run_ns,
            preempt_wait_ns: delay_ns,
            unknown_ns: self.birth_unknown_ns + self.undecided_ns + (end_ns - self.last.t_ns),
            switches_voluntary: self.last.switches.voluntary.saturating_sub(self.base_switches.voluntary),
            switches_involuntary: self.last.switches.involuntary.saturating_sub(self.base_switches.involuntary),
            born_ns: self.born_ns,
            tid: self.tid,
            tgid: self.tgid,
            parent_tgid: self.parent_tgid,
            flags: self.flags,
            comm: self.last.stat.comm_bytes,
            exit_code: self.last.stat.exit_code,
            kernel_cpu_ns: self.run_ns(&self.last),
            kernel_delay_ns: self.delay_ns(&self.last),
            ..Clock::default()
        };
        clock.blocked_ns[Cause::Unspecified as usize] = self.blocked_ns;
        clock
    }

    /// Returns run time and delay, limited to the thread's wall time. The kernel's sums can be larger than that: it adds a run or a wait as a whole
    /// when it ends, even if it began before the enrolment. For a running thread the excess is at most a tick; for a wait it has no bound.
    fn within_window(&self) -> (u64, u64) {
        let run_ns = self.run_ns(&self.last);
        let delay_ns = self.delay_ns(&self.last).saturating_sub(self.false_delay_ns);
        let room_ns = (self.last.t_ns - self.born_ns).saturating_sub(self.birth_unknown_ns);
        let excess_ns = run_ns.saturating_add(delay_ns).saturating_sub(room_ns);
        let late_run_ns = excess_ns.min(TICK_NS).min(run_ns);
        let late_delay_ns = (excess_ns - late_run_ns).min(delay_ns);
        (run_ns - late_run_ns - (excess_ns - late_run_ns - late_delay_ns), delay_ns - late_delay_ns)
    }

    fn run_ns(&self, look: &Look) -> u64 {
        look.sums.run_ns.saturating_sub(self.base.run_ns)
    }

    fn delay_ns(&self, look: &Look) -> u64 {
        look.sums.run_delay_ns.saturating_sub(self.base.run_delay_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn look(t_ms: u64, run_ms: u64, delay_ms: u64, slices: u64, state: u8) -> Look {
        Look {
            t_ns: t_ms * MS,
            sums: SchedStat { run_ns: run_ms * MS, run_delay_ns: delay_ms * MS, timeslices: slices },
            stat: Stat { state: state.into(), start_ticks: 7, processor: 1, ..Stat::default() },
            switches: Switches { voluntary: slices, involuntary: 0 },
        }
    }

    fn enrolled(first: Look) -> Thread {
        Thread::new(11, 10, 1, Birth::Enrolled, first)
    }

    /// (run, delay, blocked, unknown) in ms of a clock that must be whole.
    fn parts(clock: &Clock) -> [u64; 4] {
        assert!(clock.is_whole(), "{clock:?}");
        assert_eq!(clock.elsewhere_run_ns, clock.run_ns);
        [clock.run_ns, clock.preempt_wait_ns, clock.blocked_total_ns(), clock.unknown_ns].map(|ns| ns / MS)
    }

    #[test]
    fn what_was_before_enrolment_is_not_counted() {
        let mut thread = enrolled(look(1000, 500, 40, 9, b'S'));
        thread.update(look(1100, 530, 45, 12, b'S'));
        let clock = thread.alive(1100 * MS);
        assert_eq!(parts(&clock), [30, 5, 65, 0]);
        assert_eq!((clock.switches_voluntary, clock.flags), (3, ENROLLED_ALIVE));
        assert_eq!((clock.kernel_cpu_ns, clock.kernel_delay_ns), (30 * MS, 5 * MS));
    }

    #[test]
    fn a_wait_that_goes_on_is_unknown_until_it_ends() {
        let mut thread = enrolled(look(0, 0, 0, 1, b'S'));
        thread.update(look(100, 10, 0, 2, b'S'));
        // Woken after 100, waiting ever since: how long it had been blocked cannot be seen.
        thread.update(look(200, 10, 0, 2, b'R'));
        thread.update(look(300, 10, 0, 2, b'R'));
        assert_eq!(parts(&thread.alive(300 * MS)), [10, 0, 90, 200]);
        // It got a CPU, and the kernel books a wait of 150.
        thread.update(look(400, 60, 150, 3, b'S'));
        assert_eq!(parts(&thread.alive(400 * MS)), [60, 150, 190, 0]);
    }

    #[test]
    fn a_busy_thread_leaves_at_most_an_interval_undecided() {
        let mut thread = enrolled(look(0, 0, 0, 1, b'R'));
        // 5 ms of run and 5 of sleep in turn, met running by chance at every look.
        for k in 1..=10 {
            thread.update(look(k * 100, k * 50 - 2, 0, 1 + k * 10, b'R'));
        }
        assert_eq!(parts(&thread.alive(1000 * MS)), [498, 0, 402, 100]);
        assert_eq!(parts(&thread.alive(1003 * MS)), [498, 0, 402, 103]);
    }

    #[test]
    fn sleep_the_kernel_calls_delay_is_not_believed() {
        let mut thread = enrolled(look(0, 0, 0, 1, b'S'));
        thread.update(look(90, 0, 0, 1, b'S'));
        // It has slept to 90 at least; the kernel books a wait of 96 and one of 3.
        thread.update(look(100, 1, 99, 2, b'S'));
        let clock = thread.alive(100 * MS);
        assert_eq!(parts(&clock), [1, 9, 90, 0]);
        assert_eq!(clock.kernel_delay_ns, 99 * MS);
        // True waits still count.
        thread.update(look(200, 11, 149, 3, b'S'));
        assert_eq!(parts(&thread.alive(200 * MS)), [11, 59, 130, 0]);
    }

    #[test]
    fn a_thread_seen_dead_is_known_but_for_its_last_interval() {
        let mut thread = enrolled(look(0, 0, 0, 1, b'S'));
        thread.update(look(100, 10, 0, 2, b'S'));
        thread.update(look(200, 50, 10, 3, b'Z'));
        assert!(thread.has_ended());
        let clock = thread.gone(900 * MS);
        assert_eq!(parts(&clock), [50, 10, 90, 50]);
        assert_eq!((clock.since_ns, State::from_wire(clock.state)), (200 * MS, State::Dead));
    }

    #[test]
    fn a_thread_not_seen_dying_is_unknown_after_the_last_look() {
        let mut thread = enrolled(look(0, 0, 0, 1, b'S'));
        thread.update(look(100, 10, 0, 2, b'S'));
        assert_eq!(parts(&thread.gone(200 * MS)), [10, 0, 90, 100]);
    }

    #[test]
    fn a_birth_is_known_within_its_tick_and_its_looks() {
        let born = |seen_absent_ms: u64, first| {
            let birth =
                Birth::NotBefore { seen_absent_ns: seen_absent_ms * MS, tick_ns: 1000 * MS, tick_length_ns: 10 * MS };
            let clock = Thread::new(11, 10, 10, birth, first).alive(1100 * MS);
            (clock.born_ns / MS, parts(&clock))
        };
        // Somewhere in 1000..1010, and everything since is known.
        assert_eq!(born(900, look(1100, 20, 5, 3, b'S')), (1000, [20, 5, 65, 10]));
        // It has run and waited since 1004, and was not there at 1003.
        assert_eq!(born(1003, look(1100, 90, 6, 3, b'S')), (1003, [90, 6, 0, 1]));
        // Not there at 1050 contradicts the tick: the sums win.
        assert_eq!(born(1050, look(1100, 60, 0, 3, b'S')), (1010, [60, 0, 30, 0]));
    }

    #[test]
    fn what_was_under_way_at_enrolment_does_not_overfill_the_wall() {
        // 4 ms of run were not booked yet.
        let mut runner = enrolled(look(0, 100, 0, 1, b'R'));
        runner.update(look(50, 154, 0, 1, b'R'));
        assert_eq!(parts(&runner.alive(50 * MS)), [50, 0, 0, 0]);
        // It had waited for 80 ms.
        let mut waiter = enrolled(look(0, 100, 0, 1, b'R'));
        waiter.update(look(50, 130, 100, 2, b'S'));
        assert_eq!(parts(&waiter.alive(50 * MS)), [20, 30, 0, 0]);
    }

    #[test]
    fn another_thread_of_the_same_id_is_told() {
        let thread = enrolled(look(0, 100, 0, 5, b'S'));
        let same = look(1, 100, 0, 5, b'S');
        assert!(!thread.is_reused(&same) && !thread.is_replaced(&same));
        assert!(thread.is_replaced(&look(1, 100, 0, 4, b'S')));
        let mut reused = look(1, 100, 0, 6, b'S');
        reused.stat.start_ticks = 8;
        assert!(thread.is_reused(&reused));
    }
}
