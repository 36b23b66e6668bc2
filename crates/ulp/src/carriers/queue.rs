//! The run queue of a carrier: a ring of pointers. Who leaves it from the middle leaves a hole, which is skipped later.
//!
//! The pointers are dense, so that a carrier knows who comes next and next but one without touching their memory, and can ask the processor for it.

use std::ptr;

/// What is in a queue. It keeps where it is.
pub(super) trait Queued {
    /// Returns its position; any number if it is in no queue.
    ///
    /// # Safety
    /// `this` must be valid.
    unsafe fn position(this: *const Self) -> u32;

    /// Sets its position.
    ///
    /// # Safety
    /// `this` must be valid.
    unsafe fn set_position(this: *mut Self, position: u32);
}

/// A run queue.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Queue<T> {
    places: *mut *mut T,
    /// Number of places, a power of two, minus 1.
    mask: u32,
    /// Positions of the first one, and behind the last one. They only grow, and wrap around; a position modulo the number of places is a place.
    first: u32,
    end: u32,
}

impl<T: Queued> Queue<T> {
    /// Returns the number of places for a queue of at most `most` at a time. Half of them can be holes, so that making room costs each push a constant
    /// time on average.
    pub fn places(most: usize) -> usize {
        (2 * most).next_power_of_two().max(4)
    }

    /// An empty queue.
    ///
    /// # Safety
    /// `places` must be memory for [`Queue::places`] pointers, for as long as the queue is used.
    pub unsafe fn new(places: *mut *mut T, most: usize) -> Queue<T> {
        Queue { places, mask: Queue::<T>::places(most) as u32 - 1, first: 0, end: 0 }
    }

    #[inline(always)]
    fn place(&self, position: u32) -> *mut *mut T {
        // SAFETY: the place is below their number.
        unsafe { self.places.add((position & self.mask) as usize) }
    }

    /// Returns the number of those in the queue, and of holes.
    #[inline(always)]
    pub fn length(&self) -> u32 {
        self.end.wrapping_sub(self.first)
    }

    /// Appends one that is in no queue.
    ///
    /// # Safety
    /// It must be valid until it has left the queue, and there may be at most as many as the queue was made for.
    #[inline(always)]
    pub unsafe fn push(&mut self, one: *mut T) {
        if self.length() > self.mask {
            self.close_holes();
        }
        // SAFETY: there is a free place, and the caller promises that it is valid.
        unsafe {
            self.place(self.end).write(one);
            T::set_position(one, self.end);
        }
        self.end = self.end.wrapping_add(1);
    }

    /// Takes the first one; null if there is none.
    #[inline(always)]
    pub fn pop(&mut self) -> *mut T {
        while self.first != self.end {
            // SAFETY: between the first and the end, all places have been written.
            let one = unsafe { self.place(self.first).read() };
            self.first = self.first.wrapping_add(1);
            if !one.is_null() {
                return one;
            }
        }
        ptr::null_mut()
    }

    /// Returns the one behind `ahead` others; null if there is none, or a hole.
    #[inline(always)]
    pub fn look(&self, ahead: u32) -> *mut T {
        if ahead >= self.length() {
            return ptr::null_mut();
        }
        // SAFETY: between the first and the end, all places have been written.
        unsafe { self.place(self.first.wrapping_add(ahead)).read() }
    }

    /// Removes this one. Returns whether it was there.
    ///
    /// # Safety
    /// It must be valid, and in no other queue.
    pub unsafe fn remove(&mut self, one: *mut T) -> bool {
        // SAFETY: the caller promises that it is valid.
        let position = unsafe { T::position(one) };
        let place = self.place(position);
        // SAFETY: between the first and the end, all places have been written.
        if position.wrapping_sub(self.first) >= self.length() || unsafe { place.read() } != one {
            return false;
        }
        // SAFETY: as above.
        unsafe { place.write(ptr::null_mut()) };
        true
    }

    /// Moves all together. Afterwards at least half of the places are free, if there are no more than the queue was made for.
    #[cold]
    fn close_holes(&mut self) {
        let mut end = self.first;
        for ahead in 0..self.length() {
            let one = self.look(ahead);
            if !one.is_null() {
                // SAFETY: those in the queue are valid, and the place is at or before its old one.
                unsafe {
                    self.place(end).write(one);
                    T::set_position(one, end);
                }
                end = end.wrapping_add(1);
            }
        }
        self.end = end;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    struct One {
        number: usize,
        position: u32,
    }

    impl Queued for One {
        unsafe fn position(this: *const One) -> u32 {
            // SAFETY: valid, as the caller promises.
            unsafe { (*this).position }
        }

        unsafe fn set_position(this: *mut One, position: u32) {
            // SAFETY: valid, as the caller promises.
            unsafe { (*this).position = position }
        }
    }

    const MOST: usize = 5;

    /// One at the front that stays, while another one comes and goes: its holes are closed before the ring is full.
    #[test]
    fn holes_behind_one_that_stays_are_closed() {
        let mut ones: Vec<One> = (0..3).map(|number| One { number, position: 0 }).collect();
        let [stays, goes, last] = [0, 1, 2].map(|at| &raw mut ones[at]);
        let mut places = vec![ptr::null_mut(); Queue::<One>::places(3)];
        // SAFETY: the memory and what is in the queue outlive it.
        unsafe {
            let mut queue = Queue::new(places.as_mut_ptr(), 3);
            queue.push(stays);
            for _ in 0..40 {
                queue.push(goes);
                assert!(queue.remove(goes) && !queue.remove(goes));
            }
            queue.push(last);
            assert_eq!((queue.pop(), queue.pop(), queue.pop()), (stays, last, ptr::null_mut()));
        }
    }

    proptest! {
        /// The queue does what a simple one does. `true`: the number is appended, or removed if it is there; `false`: the first one is taken.
        #[test]
        fn it_is_a_queue_from_whose_middle_one_can_leave(
            steps in prop::collection::vec((prop::bool::weighted(0.95), 0..MOST), 0..300),
            first in prop_oneof![Just(0), Just(u32::MAX - 7)],
        ) {
            let mut ones: Vec<One> = (0..MOST).map(|number| One { number, position: 0 }).collect();
            let mut places = vec![ptr::null_mut(); Queue::<One>::places(MOST)];
            // SAFETY: the memory is long enough, and outlives the queue.
            let mut queue = unsafe { Queue::new(places.as_mut_ptr(), MOST) };
            (queue.first, queue.end) = (first, first);
            let mut right = VecDeque::new();
            for (is_push, number) in steps {
                let one: *mut One = &raw mut ones[number];
                if !is_push {
                    let popped: *mut One = queue.pop();
                    // SAFETY: what is in the queue is valid.
                    let popped = (!popped.is_null()).then(|| unsafe { (*popped).number });
                    prop_assert_eq!(popped, right.pop_front());
                } else if let Some(at) = right.iter().position(|other| *other == number) {
                    right.remove(at);
                    // SAFETY: it is valid.
                    let was_there = unsafe { queue.remove(one) };
                    prop_assert!(was_there);
                } else {
                    // SAFETY: it is valid, and in no queue.
                    let was_there = unsafe { queue.remove(one) };
                    prop_assert!(!was_there);
                    // SAFETY: as above.
                    unsafe { queue.push(one) };
                    right.push_back(number);
                }
                let all = (0..queue.length()).map(|ahead| queue.look(ahead)).filter(|one| !one.is_null());
                // SAFETY: what is in the queue is valid.
                prop_assert_eq!(all.map(|one| unsafe { (*one).number }).collect::<VecDeque<usize>>(), right.clone());
            }
        }
    }
}
