//! What the home tasks hand to a carrier: a stack that anybody may push to and one thread empties, and the sleep of that thread.
//!
//! 1. The carrier says that it sleeps, and looks once more whether something is there; then it sleeps on the word.
//! 2. A home task pushes, and then looks whether the carrier sleeps; if so, it takes the word back and wakes it.
//! 3. A home task that was killed between the two parts of step 2 leaves the carrier asleep, and others do not wake it. So the host wakes the carrier when
//!    the process of a ULP has ended.
//!
//! Both exchange the word, because one of two exchanges comes first: if it is the carrier's, the home task sees that it sleeps; if it is the home task's,
//! the carrier sees what was pushed before. With plain stores and loads, each could miss what the other has written. The models below are checked by loom.

use std::ptr;

use super::sync::{AtomicPtr, AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// What is handed over contains one of these.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link {
    next: AtomicPtr<Link>,
}

impl Link {
    /// A link that is in no inbox.
    pub(crate) fn new() -> Link {
        Link { next: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// The inbox of a carrier.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Inbox {
    head: AtomicPtr<Link>,
    /// Whether the carrier sleeps; it sleeps on this word.
    asleep: AtomicU32,
    /// Whether a ULP of this carrier has been called (see [`Inbox::call`]).
    called: AtomicU32,
    /// Whether the carrier sleeps in a page fault, as far as is known: it takes nothing then.
    stuck: AtomicU32,
}

impl Inbox {
    /// An empty inbox of a carrier that is awake.
    pub(crate) fn new() -> Inbox {
        Inbox {
            head: AtomicPtr::new(ptr::null_mut()),
            asleep: AtomicU32::new(AWAKE),
            called: AtomicU32::new(0),
            stuck: AtomicU32::new(0),
        }
    }

    /// Hands `link` over. Calls `wake` with the word on which the carrier sleeps, if it does.
    ///
    /// # Safety
    /// `link` must be valid until it has been taken, and be in no inbox.
    pub(crate) unsafe fn push(&self, link: *mut Link, wake: impl FnOnce(&AtomicU32)) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller promises that the link is valid and that nobody else uses it.
            unsafe { (*link).next.store(head, Ordering::Relaxed) };
            match self.head.compare_exchange_weak(head, link, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        if self.asleep.swap(AWAKE, Ordering::AcqRel) == ASLEEP {
            wake(&self.asleep);
        }
    }

    /// Calls `wake` with the word on which the carrier may sleep.
    pub(crate) fn rouse(&self, wake: impl FnOnce(&AtomicU32)) {
        wake(&self.asleep);
    }

    /// Tells the carrier that one of its ULPs has been called, after that ULP's record says so. It does not wake the carrier: one that sleeps has no ULP in
    /// its queue, and looks at those that come in.
    pub(crate) fn call(&self) {
        self.called.store(1, Ordering::Release);
    }

    /// Whether a ULP has been called. For the carrier.
    #[inline(always)]
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) != 0
    }

    /// Whether a ULP has been called since the last time. Before the carrier looks at the records. For the carrier.
    pub(crate) fn take_calls(&self) -> bool {
        self.is_called() && self.called.swap(0, Ordering::AcqRel) != 0
    }

    /// Says whether the carrier sleeps in a page fault.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.stuck.store(is_stuck.into(), Ordering::Relaxed);
    }

    /// Whether the carrier sleeps in a page fault. What is handed over all the same waits until it wakes up, or until the host looks again.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) != 0
    }

    /// Whether nothing is there. For the carrier.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all, the oldest first, and calls `each` with them. For the carrier, and the host in its place.
    pub(crate) fn take(&self, mut each: impl FnMut(*mut Link)) {
        let mut newest = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut oldest: *mut Link = ptr::null_mut();
        while !newest.is_null() {
            // SAFETY: whoever pushed the link promised that it is valid; it has been taken out by this thread alone.
            let next = unsafe { (*newest).next.load(Ordering::Relaxed) };
            // SAFETY: as above.
            unsafe { (*newest).next.store(oldest, Ordering::Relaxed) };
            oldest = newest;
            newest = next;
        }
        while !oldest.is_null() {
            // SAFETY: as above. `each` may push the link elsewhere, so that the next one is read before.
            let next = unsafe { (*oldest).next.load(Ordering::Relaxed) };
            each(oldest);
            oldest = next;
        }
    }

    /// Sleeps until something is there. `wait` sleeps on the word while it has the value, and may return early. For the carrier.
    pub(crate) fn sleep(&self, wait: impl FnOnce(&AtomicU32, u32)) {
        self.asleep.swap(ASLEEP, Ordering::AcqRel);
        if self.head.load(Ordering::Relaxed).is_null() {
            wait(&self.asleep, ASLEEP);
        }
        self.asleep.store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_first_is_taken_first() {
        let inbox = Inbox::new();
        let mut links: Vec<Link> = (0..5).map(|_| Link::new()).collect();
        let pushed: Vec<*mut Link> = links.iter_mut().map(|link| link as *mut Link).collect();
        for link in &pushed {
            // SAFETY: the links outlive the inbox's use of them.
            unsafe { inbox.push(*link, |_| panic!("the carrier is awake")) };
        }
        let mut taken = Vec::new();
        inbox.take(|link| taken.push(link));
        assert_eq!(taken, pushed);
        assert!(inbox.is_empty());
        inbox.take(|_| panic!("it is empty"));
    }

    #[test]
    fn a_sleeping_carrier_is_woken_once() {
        let inbox = Inbox::new();
        let mut links = [Link::new(), Link::new()];
        let [first, second] = links.each_mut().map(|link| link as *mut Link);
        let mut woken = 0;
        inbox.sleep(|_, _| {
            // SAFETY: the links outlive the inbox's use of them.
            unsafe { inbox.push(first, |_| woken += 1) };
            // SAFETY: as above.
            unsafe { inbox.push(second, |_| woken += 1) };
        });
        assert_eq!(woken, 1);
        inbox.sleep(|_, _| panic!("something is there"));
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc;

    use loom::sync::{Condvar, Mutex};
    use loom::thread::spawn;

    use super::*;

    /// The kernel's side of a futex: it compares the word and queues the sleeper under a lock, and a waker takes the same lock.
    struct Kernel {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Kernel {
        fn new() -> Kernel {
            Kernel { lock: Mutex::new(()), sleepers: Condvar::new() }
        }

        fn wait(&self, word: &AtomicU32, value: u32) {
            let guard = self.lock.lock().unwrap();
            if word.load(Ordering::Relaxed) == value {
                drop(self.sleepers.wait(guard));
            }
        }

        fn wake(&self) {
            let _guard = self.lock.lock().unwrap();
            self.sleepers.notify_one();
        }
    }

    /// Two home tasks push; the carrier takes both, and sleeps while nothing is there.
    fn check(wakes: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new((Inbox::new(), Kernel::new()));
            let links: Vec<usize> = (0..2).map(|_| Box::into_raw(Box::new(Link::new())) as usize).collect();
            let homes: Vec<_> = links
                .iter()
                .map(|&link| {
                    let shared = shared.clone();
                    spawn(move || {
                        // SAFETY: the link is freed when both have been taken.
                        unsafe {
                            shared.0.push(link as *mut Link, |_| {
                                if wakes {
                                    shared.1.wake()
                                }
                            })
                        };
                    })
                })
                .collect();
            let mut taken = 0;
            while taken < 2 {
                shared.0.take(|_| taken += 1);
                if taken < 2 {
                    shared.0.sleep(|word, value| shared.1.wait(word, value));
                }
            }
            for home in homes {
                home.join().unwrap();
            }
            for link in links {
                // SAFETY: made by Box::into_raw above, and no longer in the inbox.
                drop(unsafe { Box::from_raw(link as *mut Link) });
            }
        });
    }

    #[test]
    fn a_call_that_is_taken_is_seen_and_none_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Inbox::new(), AtomicU32::new(0)));
            let caller = {
                let shared = shared.clone();
                spawn(move || {
                    shared.1.store(1, Ordering::Relaxed);
                    shared.0.call();
                })
            };
            let is_taken = shared.0.take_calls();
            assert!(!is_taken || shared.1.load(Ordering::Relaxed) == 1);
            caller.join().unwrap();
            assert!(is_taken || shared.0.take_calls());
        });
    }

    /// A home task hands over its context, and then asks for it. The carrier takes what has come in, looks for calls in its queue, and does so again later. With
    /// `looks`, it also looks at what it takes.
    fn check_calls(looks: bool) {
        loom::model(move || {
            let shared = Arc::new((Inbox::new(), AtomicU32::new(0)));
            let home = {
                let shared = shared.clone();
                spawn(move || {
                    let link = Box::into_raw(Box::new(Link::new()));
                    // SAFETY: the link is freed by the carrier.
                    unsafe { shared.0.push(link, |_| {}) };
                    shared.1.store(1, Ordering::Release);
                    shared.0.call();
                })
            };
            let (inbox, called) = (&shared.0, &shared.1);
            let (mut is_queued, mut is_sent) = (false, false);
            let mut look = || {
                inbox.take(|link| {
                    // SAFETY: made by Box::into_raw above, and in no inbox.
                    drop(unsafe { Box::from_raw(link) });
                    is_queued = true;
                    if looks && called.load(Ordering::Acquire) != 0 {
                        inbox.call();
                    }
                });
                is_sent |= inbox.take_calls() && is_queued && called.load(Ordering::Acquire) != 0;
            };
            look();
            home.join().unwrap();
            look();
            assert!(is_sent, "a call was lost");
        });
    }

    #[test]
    fn who_is_called_before_the_carrier_has_it_goes_home() {
        check_calls(true);
    }

    #[test]
    #[should_panic(expected = "a call was lost")]
    fn the_carrier_has_to_look_at_what_it_takes() {
        check_calls(false);
    }

    #[test]
    fn nothing_that_is_pushed_waits_for_a_sleeping_carrier() {
        check(true);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_sleeping_carrier_needs_a_wake_up() {
        check(false);
    }
}
