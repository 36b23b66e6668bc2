//! Memory for optional objects: standbys (additional threads that run tasks) and their slots in teams. If there is no memory for one of them, the
//! program must continue without it.

use std::alloc::{Layout, alloc};

/// Puts the result of `make` on the heap. Without memory for it, returns `None` and does not call `make`.
pub fn boxed<T>(make: impl FnOnce() -> T) -> Option<Box<T>> {
    let layout = Layout::new::<T>();
    assert_ne!(layout.size(), 0, "cannot allocate a value of size 0");
    // SAFETY: the layout's size is not 0.
    let place = unsafe { alloc(layout) }.cast::<T>();
    if place.is_null() {
        return None;
    }
    // SAFETY: the memory has the size and alignment of one `T`, and comes from the allocator that `Box` uses.
    unsafe {
        place.write(make());
        Some(Box::from_raw(place))
    }
}
