//! How much memory something takes: an allocator that counts, by thread.
//!
//! What C libraries allocate does not come by here; [`peak_kib`] knows of that too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed. Below 0 where it frees what others have allocated.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The most there were since somebody asked.
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which counts. For `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

fn count(bytes: isize) {
    // A thread's cells are gone before its last memory is.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing, since the cells are constants at first and need no
// destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: what the caller promises is what is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Does something, and says how many bytes it had at most at one time on this thread: 0 where [`Counting`] is not the allocator.
pub fn most<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    MOST.set(before);
    let done = work();
    (done, usize::try_from(MOST.get() - before).unwrap_or(0))
}

/// The most memory that this process ever had, KiB; 0 where the kernel does not say. Read here and not by `machine`: this crate is below it.
#[must_use]
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
