//! How one scheduler event changes one thread's clock (its time account): the rules of `wire/include/cox/clock.h` in Rust.
//!
//! The C version runs inside BPF, the Rust version on the event path. `tests/native_clock.rs` applies random and impossible sequences of events to
//! both, and requires equal clocks after every step.
//!
//! Each event books the time since the previous event. The table shows how, by the state of the clock before the event:
//!
//! | state found | switch-in                     | switch-out                    |
//! |-------------|-------------------------------|-------------------------------|
//! | `Unseen`    | unknown                       | unknown: ran when first seen  |
//! | `Born`      | wake delay                    | **impossible**, unknown       |
//! | `Run`       | **impossible**, unknown       | run                           |
//! | `Preempt`   | preempt wait                  | **impossible**, unknown       |
//! | `Blocked`   | blocked, then wake delay      | **impossible**, unknown       |
//! | `Dead`      | **impossible**, unknown       | **impossible**, unknown       |
//!
//! Each impossible transition means that an event between the two was lost:
//! - at a switch-in of a running thread: its switch-out was lost. How long it ran cannot be known.
//! - at a switch-out of a thread that is not running (born, preempted or blocked): its switch-in was lost.
//! - at any event of a dead thread: the creation of a new thread with the same id was lost.
//!
//! The interval goes to `unknown_ns`, `impossible` counts it, and the clock continues in the state that the event itself proves. Wakings and
//! migrations are possible in every state and book no time.
//!
//! If an event's time is before the start of the present state, that start is used instead, so [`Clock::is_whole`](wire::Clock::is_whole) holds after
//! every event.

use wire::layout::ENROLLED_ALIVE;
use wire::{CPU_SLOTS, Cause, Clock, Interval, Migration, State};

use crate::latency::Closed;

/// Starts a new clock (a thread's time account) at the thread's creation. The caller passes an empty clock: a clock that already has times belongs to
/// an earlier thread with the same id.
pub fn born(clock: &mut Clock, t_ns: u64) {
    start(clock, t_ns, State::Born);
}

/// Starts a new clock (a thread's time account) for a thread that already existed when it was first seen. Its state is unknown until its next switch.
pub fn enrolled(clock: &mut Clock, t_ns: u64) {
    start(clock, t_ns, State::Unseen);
    clock.flags |= ENROLLED_ALIVE;
}

fn start(clock: &mut Clock, t_ns: u64, state: State) {
    clock.born_ns = t_ns;
    clock.since_ns = t_ns;
    clock.state = state as u8;
}

/// Stores the time of a waking. Books no time, because a waking may be seen before the switch-out that it cancels; the next switch-in divides the
/// time off the CPU into blocked time and wake delay. If a block has several wakings, the first counts.
pub fn waking(clock: &mut Clock, t_ns: u64) {
    if !is_woken(clock) {
        clock.wake_ns = t_ns;
    }
}

/// Returns whether the thread is blocked and has been woken since it blocked.
pub(crate) fn is_woken(clock: &Clock) -> bool {
    clock.state == State::Blocked as u8 && clock.wake_ns >= clock.since_ns
}

/// Returns whether the thread was woken between its last switch-in and its switch-out, so that it was runnable again as soon as it was off its CPU.
fn is_woken_early(clock: &Clock) -> bool {
    clock.wake_ns != 0 && (clock.in_ns..clock.since_ns).contains(&clock.wake_ns)
}

/// Returns the index of the cause for which the thread is blocked. If the byte in the clock is not a known cause, returns the index of `Other`.
pub(crate) fn cause_index(clock: &Clock) -> usize {
    let cause = usize::from(clock.cause);
    if cause < Cause::ALL.len() { cause } else { Cause::Other as usize }
}

/// Divides the time from `clock.since_ns` to `now_ns`: up to the waking at `wake_ns` the thread was blocked, the rest is wake delay. Adds both
/// parts to the clock.
pub(crate) fn book_block(clock: &mut Clock, wake_ns: u64, now_ns: u64) {
    clock.blocked_ns[cause_index(clock)] += wake_ns - clock.since_ns;
    clock.wake_delay_ns += now_ns - wake_ns;
}

/// Adds a preempt wait of `gap_ns` to the clock.
pub(crate) fn book_preempt(clock: &mut Clock, gap_ns: u64) {
    clock.preempt_wait_ns += gap_ns;
    if clock.yielded != 0 {
        clock.yield_wait_ns += gap_ns;
    }
}

/// Adds `stint_ns` to the thread's run time, and to its run time on the present CPU.
pub(crate) fn book_run(clock: &mut Clock, stint_ns: u64) {
    clock.run_ns += stint_ns;
    match clock.cpu_run_ns.get_mut(usize::from(clock.slot)) {
        Some(slot) => *slot += stint_ns,
        None => clock.elsewhere_run_ns += stint_ns,
    }
}

fn book_contradiction(clock: &mut Clock, gap_ns: u64) {
    clock.unknown_ns += gap_ns;
    clock.impossible = clock.impossible.wrapping_add(1);
}

/// Called when other events prove that the thread is no longer in the state that its clock has. It left this state at an unknown time, so the time
/// since its last event becomes unknown, and so does its present state. This counts as a contradiction, like an impossible event.
pub fn contradicted(clock: &mut Clock, t_ns: u64) {
    unseen_since(clock, t_ns);
    clock.impossible = clock.impossible.wrapping_add(1);
}

/// Marks the time since the thread's last event as unknown; the thread's state becomes unknown, too. Does not count as a contradiction.
pub fn unseen_since(clock: &mut Clock, t_ns: u64) {
    let now_ns = t_ns.max(clock.since_ns);
    clock.unknown_ns += now_ns - clock.since_ns;
    clock.state = State::Unseen as u8;
    clock.since_ns = now_ns;
}

/// Shortens the running thread's time on its CPU, because another thread held this CPU until `until_ns`. The thread counts as running from
/// `until_ns` on; its time from the switch-in to `until_ns` becomes unknown. This counts as a contradiction.
pub fn came_later(clock: &mut Clock, until_ns: u64) {
    let until_ns = until_ns.max(clock.since_ns);
    book_contradiction(clock, until_ns - clock.since_ns);
    clock.since_ns = until_ns;
    clock.in_ns = until_ns;
}

/// Applies a switch-in on `cpu`. `steal_ns` and `irq_ns` are the CPU's hypervisor-steal and interrupt clocks (0 if they cannot be read).
/// Returns the intervals that the switch-in ends.
pub fn switch_in(clock: &mut Clock, t_ns: u64, cpu: u16, steal_ns: u64, irq_ns: u64) -> Closed {
    let now_ns = t_ns.max(clock.since_ns);
    let gap_ns = now_ns - clock.since_ns;
    let mut closed = Closed::default();
    match State::from_wire(clock.state) {
        State::Unseen => clock.unknown_ns += gap_ns,
        State::Born => {
            clock.wake_delay_ns += gap_ns;
            clock.wakeups += 1;
            closed[0] = Some((Interval::WakeDelay, gap_ns));
        }
        State::Preempt => {
            book_preempt(clock, gap_ns);
            closed[0] = Some((Interval::PreemptWait, gap_ns));
        }
        State::Blocked => {
            let wake_ns = if is_woken(clock) {
                clock.wake_ns.min(now_ns)
            } else if is_woken_early(clock) {
                clock.since_ns
            } else {
                now_ns
            };
            // If no voluntary switch was counted, the thread blocked before cox began to track it, and the length of this block is unknown.
            let blocked_ns = (clock.switches_voluntary > 0).then_some(wake_ns - clock.since_ns);
            closed = [blocked_ns.map(|ns| (Interval::Blocked, ns)), Some((Interval::WakeDelay, now_ns - wake_ns))];
            book_block(clock, wake_ns, now_ns);
            clock.wakeups += 1;
        }
        State::Run | State::Dead => book_contradiction(clock, gap_ns),
    }
    clock.state = State::Run as u8;
    clock.since_ns = now_ns;
    clock.in_ns = now_ns;
    clock.steal_in_ns = steal_ns;
    clock.irq_in_ns = irq_ns;
    clock.cpu = cpu;
    clock.slot = slot_of(&mut clock.cpu_id, cpu);
    closed
}

/// Returns the index of the slot in a clock that counts run time on `cpu`. If `cpu` has no slot yet, returns the first free one, or [`CPU_SLOTS`] if
/// none is free. Slots are filled in order and never freed.
fn slot_of(cpu_ids: &mut [u16; CPU_SLOTS], cpu: u16) -> u16 {
    let id = cpu.wrapping_add(1);
    let slot = cpu_ids.iter().position(|taken| *taken == id || *taken == 0).unwrap_or(CPU_SLOTS);
    if let Some(taken) = cpu_ids.get_mut(slot) {
        *taken = id;
    }
    slot as u16
}

/// Applies a switch-out. `state` is the thread's state after it: `Preempt` (`yielded` is true if the thread called sched_yield), `Blocked` (`cause`
/// is then a [`Cause`] as a number) or `Dead`. `steal_ns` and `irq_ns` are the CPU's clocks, as in [`switch_in`]. Their increase since the switch-in
/// is booked as steal and interrupt time. If both together exceed the time since the switch-in, interrupt time is reduced first.
///
/// A yield counts as an involuntary switch, as in the kernel. Returns the time slice that the switch-out ends.
pub fn switch_out(
    clock: &mut Clock,
    t_ns: u64,
    state: State,
    cause: u8,
    yielded: bool,
    steal_ns: u64,
    irq_ns: u64,
) -> Closed {
    let now_ns = t_ns.max(clock.since_ns);
    let gap_ns = now_ns - clock.since_ns;
    let mut closed = Closed::default();
    match State::from_wire(clock.state) {
        State::Run => {
            let stolen_ns = steal_ns.saturating_sub(clock.steal_in_ns).min(gap_ns);
            clock.steal_ns += stolen_ns;
            clock.irq_ns += irq_ns.saturating_sub(clock.irq_in_ns).min(gap_ns - stolen_ns);
            book_run(clock, gap_ns);
            closed[0] = Some((Interval::Slice, gap_ns));
        }
        State::Unseen => clock.unknown_ns += gap_ns,
        State::Born | State::Preempt | State::Blocked | State::Dead => book_contradiction(clock, gap_ns),
    }
    match state {
        State::Blocked => clock.switches_voluntary += 1,
        State::Preempt => clock.switches_involuntary += 1,
        _ => {}
    }
    clock.state = state as u8;
    clock.cause = cause;
    clock.yielded = yielded.into();
    clock.since_ns = now_ns;
    closed
}

/// Records that the thread was moved to `cpu`, and counts the migration under its kind.
pub fn moved(clock: &mut Clock, cpu: u16, kind: Migration) {
    let count = &mut clock.migrations[kind as usize];
    *count = count.wrapping_add(1);
    clock.cpu = cpu;
}
