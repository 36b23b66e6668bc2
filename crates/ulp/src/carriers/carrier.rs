//! A carrier: a thread of the host that runs the contexts of decoupled ULPs, one after the other.
//!
//! It is bound to one CPU. A ULP that yields continues the next one directly, without the carrier's main loop. The loop runs when a context has to part
//! with the carrier: its ULP wants to go home, has been called home, waits for another one, or is dead. Everything here is used by the carrier's thread
//! only, on the stack of its loop or on that of a ULP, except the inbox.

use std::ptr;
use std::sync::atomic::Ordering;

use arch::Context;

use super::inbox::Inbox;
use super::record::{Kind, Record, Task};
use super::{home, machine};

/// A carrier.
#[derive(Debug)]
#[repr(C, align(256))]
pub(super) struct Carrier {
    task: Task,
    /// The ULP that runs; null: the loop.
    pub current: *mut Record,
    /// The loop's registers, while a ULP runs.
    pub context: Context,
    first: *mut Record,
    last: *mut Record,
    /// A ULP that goes home as soon as its context is complete.
    leaving: *mut Record,
    /// A ULP that waits for another one as soon as its context is complete.
    suspending: *mut Record,
    /// Number of switches to a ULP.
    pub switches: u64,
    /// The same at the last tick.
    pub switches_at_tick: u64,
    /// The stack of its signal handlers.
    pub handlers: (u64, u64),
    pub inbox: Inbox,
}

impl Carrier {
    /// A carrier. `this` is where it will be.
    pub fn new(this: *const Carrier, handlers: (u64, u64)) -> Carrier {
        Carrier {
            task: Task::new(this.cast(), Kind::Carrier),
            current: ptr::null_mut(),
            context: Context::default(),
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            leaving: ptr::null_mut(),
            suspending: ptr::null_mut(),
            switches: 0,
            switches_at_tick: 0,
            handlers,
            inbox: Inbox::new(),
        }
    }

    /// Appends a ULP to the run queue.
    #[inline(always)]
    pub unsafe fn push(this: *mut Carrier, record: *mut Record) {
        // SAFETY: the caller is the carrier's thread, and the record is in no queue.
        unsafe {
            (*record).next = ptr::null_mut();
            (*record).previous = (*this).last;
            if (*this).last.is_null() {
                (*this).first = record;
            } else {
                (*(*this).last).next = record;
            }
            (*this).last = record;
        }
    }

    /// Removes a ULP from the run queue.
    #[inline(always)]
    unsafe fn remove(this: *mut Carrier, record: *mut Record) {
        // SAFETY: the caller is the carrier's thread, and the record is in its queue.
        unsafe {
            let (previous, next) = ((*record).previous, (*record).next);
            if previous.is_null() {
                (*this).first = next;
            } else {
                (*previous).next = next;
            }
            if next.is_null() {
                (*this).last = previous;
            } else {
                (*next).previous = previous;
            }
            (*record).next = ptr::null_mut();
            (*record).previous = ptr::null_mut();
        }
    }

    /// Whether a ULP is in the run queue.
    unsafe fn has(this: *mut Carrier, record: *mut Record) -> bool {
        // SAFETY: the caller is the carrier's thread; only it changes the queue of a record that it carries.
        unsafe { !(*record).previous.is_null() || (*this).first == record }
    }

    /// Appends to the run queue what has come in.
    #[inline(always)]
    unsafe fn take(this: *mut Carrier) {
        // SAFETY: the caller is the carrier's thread. What is in the inbox is the link of a record whose home task is parked.
        unsafe {
            if !(*this).inbox.is_empty() {
                (*this).inbox.take(|link| Carrier::push(this, Record::of_link(link)));
            }
        }
    }

    /// Whether others wait to run.
    pub unsafe fn has_others(this: *mut Carrier) -> bool {
        // SAFETY: the caller is the carrier's thread.
        unsafe { !(*this).first.is_null() || !(*this).inbox.is_empty() }
    }

    /// Continues the ULP `next`, which is in no queue, and leaves the running one. Returns when somebody continues that one.
    #[inline(always)]
    unsafe fn switch_to(this: *mut Carrier, me: *mut Record, next: *mut Record) {
        // SAFETY: the contexts are those of two ULPs of this carrier, and `me` runs.
        unsafe {
            (*this).current = next;
            (*this).switches += 1;
            machine::switch(&raw mut (*me).context, &raw mut (*next).context);
        }
        home::settle();
    }

    /// Leaves the running ULP for the loop. Returns when somebody continues that one.
    unsafe fn switch_to_loop(this: *mut Carrier, me: *mut Record) {
        // SAFETY: `me` runs on this carrier.
        unsafe {
            (*this).current = ptr::null_mut();
            machine::switch(&raw mut (*me).context, &raw mut (*this).context);
        }
        home::settle();
    }

    /// The running ULP yields.
    ///
    /// # Safety
    /// The caller must be the running ULP of this carrier.
    #[inline(always)]
    pub unsafe fn yield_now(this: *mut Carrier) {
        // SAFETY: the carrier's thread runs this.
        unsafe {
            let me = (*this).current;
            (*me).yields += 1;
            Carrier::take(this);
            let next = (*this).first;
            let calls = (*me).called.load(Ordering::Relaxed)
                | if next.is_null() { 0 } else { (*next).called.load(Ordering::Relaxed) };
            if calls != 0 {
                // Both stay in the queue, and the loop looks at their calls.
                Carrier::push(this, me);
                return Carrier::switch_to_loop(this, me);
            }
            if next.is_null() {
                // Whoever it waits for may be at home, on this CPU.
                return machine::yield_to_kernel();
            }
            Carrier::remove(this, next);
            Carrier::push(this, me);
            Carrier::switch_to(this, me, next);
        }
    }

    /// The running ULP yields to `next`. Returns `false` if that one is not ready on this carrier.
    ///
    /// # Safety
    /// As for `yield_now`; `next` must be a record.
    pub unsafe fn yield_to(this: *mut Carrier, next: *mut Record) -> bool {
        // SAFETY: the carrier's thread runs this. The queue of another carrier's ULP is not looked at.
        unsafe {
            if !ptr::eq((*next).inbox, &raw const (*this).inbox) {
                return false;
            }
            Carrier::take(this);
            let me = (*this).current;
            if !Carrier::has(this, next)
                || (*next).called.load(Ordering::Relaxed) | (*me).called.load(Ordering::Relaxed) != 0
            {
                return false;
            }
            (*me).yields += 1;
            Carrier::remove(this, next);
            Carrier::push(this, me);
            Carrier::switch_to(this, me, next);
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
                let next = (*this).first;
                if next.is_null() {
                    (*this).inbox.sleep(machine::wait);
                    continue;
                }
                Carrier::remove(this, next);
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
                if !suspending.is_null()
                    && ((*suspending).called.load(Ordering::Acquire) != 0
                        || !(*suspending).waiting.suspend_on_carrier())
                {
                    Carrier::push(this, suspending);
                }
            }
        }
    }
}
