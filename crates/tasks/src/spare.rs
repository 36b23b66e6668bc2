//! Memory for what can be done without: standbys and their seats. A program that has none left must not end for want of a helper.

use std::alloc::{Layout, alloc};

/// What `make` gives, on the heap; without memory for it nothing is made.
pub fn boxed<T>(make: impl FnOnce() -> T) -> Option<Box<T>> {
    let layout = Layout::new::<T>();
    assert_ne!(layout.size(), 0, "nothing to make room for");
    // SAFETY: not of size 0.
    let place = unsafe { alloc(layout) }.cast::<T>();
    if place.is_null() {
        return None;
    }
    // SAFETY: room for one, from the allocator that a box gives it back to.
    unsafe {
        place.write(make());
        Some(Box::from_raw(place))
    }
}
