//! A carrier: a thread of the host that runs the contexts of decoupled ULPs, one after the other.
//!
//! It is bound to one CPU. A ULP that yields continues the next one directly, without the carrier's main loop. The loop runs when a context has to part
//! with the carrier: its ULP wants to go home, has been called home, waits for another one, or is dead. Everything here is used by the carrier's thread
//! only, on the stack of its loop or on that of a ULP, except the inbox, and what relieves a carrier that sleeps (`relieving`).

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use arch::{CONTINUES_AT, Context, Exchange, WANTS_BELOW, prefetch};

use super::inbox::Inbox;
use super::queue::Queue;
use super::record::{Kind, Record, Task};
use super::relief::Relief;
use super::{home, machine};

/// Numbers of system calls from this one on are counted together.
pub(super) const LAST_CALL: usize = 511;

/// From this number of ULPs in the queue on, their contexts are prefetched: fewer are in the nearest cache anyway.
const PREFETCH_FROM: u32 = 8;

/// A carrier. What a yield needs is in the first two cache lines.
#[derive(Debug)]
#[repr(C, align(256))]
pub(super) struct Carrier {
    task: Task,
    /// The ULP that runs; null: the loop.
    pub current: *mut Record,
    /// Number of switches to a ULP.
    pub switches: u64,
    queue: Queue<Record>,
    pub inbox: Inbox,
    /// The loop's registers, while a ULP runs.
    pub context: Context,
    /// A ULP that goes home as soon as its context is complete.
    leaving: *mut Record,
    /// A ULP that waits for another one as soon as its context is complete.
    suspending: *mut Record,
    /// Number of switches at the last tick.
    pub switches_at_tick: u64,
    /// The stack of its signal handlers.
    pub handlers: (u64, u64),
    /// Its thread; 0 before that is ready.
    pub tid: AtomicI32,
    /// Who may use the queue while the carrier sleeps in a page fault.
    pub relief: Relief,
    /// Whether its sentinel has found that it may sleep in a page fault, since the host last looked.
    pub is_alarmed: AtomicBool,
    /// Whether it has a sentinel. For the host.
    pub has_sentinel: bool,
    /// Number of ULPs that went home because the carrier slept in a page fault of another one.
    pub relieved: AtomicU64,
    /// How often each system call has sent a ULP home, by the number of the call.
    pub calls: [AtomicU64; LAST_CALL + 1],
}

impl Carrier {
    /// A carrier. `this` is where it will be.
    pub fn new(this: *const Carrier, handlers: (u64, u64), queue: Queue<Record>) -> Carrier {
        Carrier {
            task: Task::new(this.cast(), Kind::Carrier),
            current: ptr::null_mut(),
            switches: 0,
            queue,
            inbox: Inbox::new(),
            context: Context::default(),
            leaving: ptr::null_mut(),
            suspending: ptr::null_mut(),
            switches_at_tick: 0,
            handlers,
            tid: AtomicI32::new(0),
            relief: Relief::new(),
            is_alarmed: AtomicBool::new(false),
            has_sentinel: false,
            relieved: AtomicU64::new(0),
            calls: [const { AtomicU64::new(0) }; LAST_CALL + 1],
        }
    }

    /// Appends a ULP to the run queue.
    ///
    /// # Safety
    /// The caller must be the carrier's thread, and the ULP in no queue.
    #[inline(always)]
    pub unsafe fn push(this: *mut Carrier, record: *mut Record) {
        // SAFETY: the queue has room for all ULPs of the carrier.
        unsafe { (*this).queue.push(record) }
    }

    /// Appends to the run queue what has come in.
    unsafe fn take(this: *mut Carrier) {
        // SAFETY: the caller is the carrier's thread. What is in the inbox is the link of a record whose home task is parked.
        unsafe {
            if !(*this).inbox.is_empty() {
                (*this).inbox.take(|link| {
                    let record = Record::of_link(link);
                    Carrier::push(this, record);
                    // The carrier may have looked for calls when this one was in no queue.
                    if (*record).called.load(Ordering::Acquire) != 0 {
                        (*this).inbox.call();
                    }
                });
            }
        }
    }

    /// Sends home those in the run queue that have been called.
    unsafe fn part(this: *mut Carrier) {
        // SAFETY: the caller is the carrier's thread, in its loop: all contexts in the queue are complete.
        unsafe {
            if !(*this).inbox.take_calls() {
                return;
            }
            for ahead in 0..(*this).queue.length() {
                let record = (*this).queue.look(ahead);
                if !record.is_null() && (*record).called.load(Ordering::Acquire) != 0 {
                    (*this).queue.remove(record);
                    home::send(record);
                }
            }
        }
    }

    /// Empties the run queue and the inbox. Returns the ULPs.
    ///
    /// # Safety
    /// The carrier must sleep, and the caller have its queue (`relief`).
    pub unsafe fn drain(this: *mut Carrier) -> Vec<*mut Record> {
        // SAFETY: the caller is in place of the carrier's thread.
        unsafe {
            Carrier::take(this);
            let queue = &mut (*this).queue;
            std::iter::from_fn(|| Some(queue.pop()).filter(|next| !next.is_null())).collect()
        }
    }

    /// Whether others wait to run.
    pub unsafe fn has_others(this: *mut Carrier) -> bool {
        // SAFETY: the caller is the carrier's thread.
        unsafe { (*this).queue.length() != 0 || !(*this).inbox.is_empty() }
    }

    /// Leaves the running ULP for the loop. Returns when somebody continues that one.
    unsafe fn switch_to_loop(this: *mut Carrier, me: *mut Record) {
        // SAFETY: `me` runs on this carrier.
        unsafe {
            (*this).current = ptr::null_mut();
            machine::switch(&raw mut (*me).context, &raw mut (*this).context);
        }
    }

    /// The running ULP yields. Returns which contexts the caller must exchange, if any.
    ///
    /// # Safety
    /// The caller must be the running ULP of this carrier.
    pub unsafe extern "C" fn yield_now(this: *mut Carrier) -> Exchange {
        // SAFETY: the carrier's thread runs this.
        unsafe {
            let me = (*this).current;
            (*me).yields += 1;
            if (*this).inbox.is_called() {
                // This one stays in the queue, too, and the loop looks at all.
                Carrier::push(this, me);
                Carrier::switch_to_loop(this, me);
                return Exchange { to: ptr::null_mut(), from: ptr::null_mut() };
            }
            Carrier::take(this);
            let next = (*this).queue.pop();
            if next.is_null() {
                // Whoever it waits for may be at home, on this CPU.
                machine::yield_to_kernel();
                return Exchange { to: ptr::null_mut(), from: ptr::null_mut() };
            }
            Carrier::prefetch(this);
            Carrier::push(this, me);
            Carrier::run_next(this, me, next)
        }
    }

    /// Makes `next`, which is in no queue, the running ULP instead of `me`. Returns the contexts to exchange.
    #[inline(always)]
    unsafe fn run_next(this: *mut Carrier, me: *mut Record, next: *mut Record) -> Exchange {
        // SAFETY: the carrier's thread runs this.
        unsafe {
            (*this).current = next;
            (*this).switches += 1;
            Exchange { to: &raw mut (*next).context, from: &raw mut (*me).context }
        }
    }

    /// Prefetches what the next ULPs need first: the record of the third one, stack and thread-local storage of the second one, code and
    /// data of the first one.
    #[inline(always)]
    unsafe fn prefetch(this: *mut Carrier) {
        // SAFETY: the carrier's thread runs this, and its queue has valid records.
        unsafe {
            let queue = &(*this).queue;
            if queue.length() >= PREFETCH_FROM {
                prefetch(queue.look(2) as u64);
                let second = queue.look(1);
                if !second.is_null() {
                    prefetch((*second).context.stack_pointer);
                    prefetch((*second).context.stack_pointer + 64);
                    // Variables are below the address.
                    prefetch((*second).context.tls.wrapping_sub(64));
                }
                let first = queue.look(0);
                // With a frame, the stack pointer is not the context's.
                if !first.is_null() && (*first).context.frame == 0 {
                    let stack_pointer = (*first).context.stack_pointer;
                    prefetch(((stack_pointer + CONTINUES_AT) as *const u64).read());
                    // A context that was saved elsewhere has another word there, which does no harm.
                    prefetch(((stack_pointer - WANTS_BELOW) as *const u64).read());
                }
            }
        }
    }

    /// The running ULP yields to `next`. Returns `false` if that one is not ready on this carrier.
    ///
    /// # Safety
    /// As for `yield_now`; `next` must be a record.
    pub unsafe fn yield_to(this: *mut Carrier, next: *mut Record) -> bool {
        // SAFETY: the carrier's thread runs this. The queue of another carrier's ULP is not looked at.
        unsafe {
            if !ptr::eq((*next).inbox, &raw const (*this).inbox) || (*this).inbox.is_called() {
                return false;
            }
            Carrier::take(this);
            if !(*this).queue.remove(next) {
                return false;
            }
            let me = (*this).current;
            (*me).yields += 1;
            Carrier::push(this, me);
            let Exchange { to, from } = Carrier::run_next(this, me, next);
            machine::switch(from, to);
            true
        }
    }

    /// The running ULP goes home. Returns there.
    ///
    /// # Safety
    /// As for `yield_now`.
    pub unsafe fn go_home(this: *mut Carrier) {
        // SAFETY: the carrier's thread runs this. The loop sends the context home when it is complete.
        unsafe {
            let me = (*this).current;
            (*this).leaving = me;
            Carrier::switch_to_loop(this, me);
        }
    }

    /// The running ULP waits until it is resumed, or is called home.
    ///
    /// # Safety
    /// As for `yield_now`.
    pub unsafe fn suspend(this: *mut Carrier) {
        // SAFETY: the carrier's thread runs this. The loop looks whether the ULP has been resumed when its context is complete.
        unsafe {
            let me = (*this).current;
            (*me).yields += 1;
            (*this).suspending = me;
            Carrier::switch_to_loop(this, me);
        }
    }

    /// Runs ULPs for ever.
    ///
    /// # Safety
    /// Called once by the carrier's thread, when it is set up.
    pub unsafe fn run(this: *mut Carrier) -> ! {
        // SAFETY: the carrier's thread runs this.
        unsafe {
            loop {
                Carrier::take(this);
                Carrier::part(this);
                let next = (*this).queue.pop();
                if next.is_null() {
                    (*this).inbox.sleep(machine::wait);
                    continue;
                }
                match (*next).called.load(Ordering::Acquire) {
                    0 => {
                        (*this).current = next;
                        (*this).switches += 1;
                        machine::switch(&raw mut (*this).context, &raw mut (*next).context);
                    }
                    _ => home::send(next),
                }
                let leaving = std::mem::replace(&mut (*this).leaving, ptr::null_mut());
                if !leaving.is_null() {
                    home::send(leaving);
                }
                let suspending = std::mem::replace(&mut (*this).suspending, ptr::null_mut());
                // The resume that came with a call may have been taken by an earlier suspend. So the call itself is looked at, too.
                if !suspending.is_null() {
                    if (*suspending).called.load(Ordering::Acquire) != 0 {
                        home::send(suspending);
                    } else if !(*suspending).waiting.suspend_on_carrier() {
                        Carrier::push(this, suspending);
                    }
                }
            }
        }
    }
}
