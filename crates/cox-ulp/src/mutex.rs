//! A mutex whose holder gives it to the one that has waited longest.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Waiter;

/// A mutex for ULPs, in memory of one of them, and the value that it protects. It begins as `struct cox_ulp_mutex`, which C programs can use at the same
/// time. All threads of ULPs may use it; one that is not the main thread waits by sched_yield(2). A ULP that ends while it holds the mutex leaves it locked;
/// one that is killed while it waits leaves an address in the mutex that is not valid any more. There is no poisoning: a panic unlocks it.
#[repr(C)]
pub struct Mutex<T: ?Sized> {
    /// Null: free. Otherwise those that have come since the holder last looked, newest first; the mutex itself stands for the end.
    arrivals: AtomicPtr<Waiter>,
    /// Those that came before, oldest first. Only the holder uses it.
    queue: UnsafeCell<*mut Waiter>,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder uses the queue and the value; waiters are used as their own rules say.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

const _: () = assert!(size_of::<Mutex<()>>() == 16 && std::mem::offset_of!(Mutex<()>, queue) == 8);

impl<T> Mutex<T> {
    /// Makes a mutex that is free.
    #[must_use]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            arrivals: AtomicPtr::new(ptr::null_mut()),
            queue: UnsafeCell::new(ptr::null_mut()),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// What stands for the end of the list.
    fn end(&self) -> *mut Waiter {
        ptr::from_ref(&self.arrivals).cast_mut().cast()
    }

    /// Takes the mutex if it is free.
    #[must_use]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let taken =
            self.arrivals.compare_exchange(ptr::null_mut(), self.end(), Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then(|| MutexGuard { mutex: self, _thread: PhantomData })
    }

    /// Takes the mutex; waits until it can. A ULP that holds it already waits for ever.
    #[must_use]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let me = Waiter::me();
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            let newest = self.arrivals.load(Ordering::Relaxed);
            // SAFETY: nobody else knows of it yet.
            unsafe { *me.next.get() = newest };
            let own = (&raw const me).cast_mut();
            if !newest.is_null()
                && self.arrivals.compare_exchange(newest, own, Ordering::Release, Ordering::Relaxed).is_ok()
            {
                me.wait();
                return MutexGuard { mutex: self, _thread: PhantomData };
            }
        }
    }

    /// Returns the value. There can be no other users.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Gives the mutex to the one that has waited longest, or to nobody.
    ///
    /// # Safety
    /// The caller must hold it.
    unsafe fn unlock(&self) {
        let end = self.end();
        // SAFETY: the holder uses the queue. All in the lists wait, and stay until they are released.
        unsafe {
            let mut next = *self.queue.get();
            if next.is_null() {
                if self.arrivals.compare_exchange(end, ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok() {
                    return;
                }
                // The newest comes last.
                let mut each = self.arrivals.swap(end, Ordering::Acquire);
                while each != end {
                    let before = *(*each).next.get();
                    *(*each).next.get() = next;
                    next = each;
                    each = before;
                }
            }
            *self.queue.get() = *(*next).next.get();
            Waiter::release(next);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => formatter.debug_tuple("Mutex").field(&&*guard).finish(),
            None => formatter.write_str("Mutex(<locked>)"),
        }
    }
}

/// A mutex that is held, until the value is dropped.
#[derive(Debug)]
pub struct MutexGuard<'m, T: ?Sized> {
    mutex: &'m Mutex<T>,
    /// It stays with its thread.
    _thread: PhantomData<*const ()>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the mutex is held.
        unsafe { self.mutex.unlock() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn threads_of_an_ordinary_process_exclude_each_other() {
        let counter = Arc::new(Mutex::new(0_u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let counter = counter.clone();
                thread::spawn(move || {
                    for _ in 0..2000 {
                        let mut held = counter.lock();
                        let before = *held;
                        thread::yield_now();
                        *held = before + 1;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let held = counter.try_lock().unwrap();
        assert_eq!((*held, counter.try_lock().is_none()), (8000, true));
        drop(held);
        assert_eq!(Arc::into_inner(counter).unwrap().into_inner(), 8000);
    }
}
