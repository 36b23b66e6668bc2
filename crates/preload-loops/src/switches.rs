//! Whether the kernel has taken the CPU from the calling thread since it began to watch. The answer is one load from the thread's own memory.
//!
//! The kernel offers *restartable sequences* (rseq(2)): a thread stores the address of a descriptor, which says where a sequence of instructions begins
//! and ends, in a word that glibc has registered for it. If the kernel takes the CPU from the thread while it executes other instructions, it stores 0
//! there (linux/rseq.h, `rseq_cs`). It does so at signals, too. The sequence of our descriptor is never executed, so the word keeps its address until
//! the thread loses its CPU.
//!
//! Needs glibc 2.35 and Linux 4.18. It needs no privilege, and works where a container forbids perf_event_open(2). If another library of the program
//! uses the same word (tcmalloc does), ours is overwritten, and the answer is yes too often. A forked child inherits all of it.
//!
//! *Rejected:* a perf event with a mapped page for each thread, whose `lock` changes at each switch. Reading it costs as little. But each switch of a
//! thread with an event took 1.1 to 4.2 µs longer (of 8 to 10 µs, on the development machine), unprivileged programs may not have one in most containers and
//! distributions, and a forked child that touches its parent's page crashes. Its times without a system call (`cap_user_time`) are not available in guests
//! whose scheduler uses the hypervisor's clock.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use arch::restartable::{SIGNATURE, thread_pointer};

/// struct rseq_cs of linux/rseq.h.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: *const u32,
    bytes: u64,
    abort: *const u32,
}
// SAFETY: nobody writes it.
unsafe impl Sync for Descriptor {}

/// The sequence: a byte of data, which no thread executes. The kernel checks that the signature precedes the address to which it would jump.
static SEQUENCE: [u32; 3] = [0, SIGNATURE, 0];
static DESCRIPTOR: Descriptor =
    Descriptor { version: 0, flags: 0, start: &raw const SEQUENCE[0], bytes: 1, abort: &raw const SEQUENCE[2] };

/// Offsets in struct rseq.
const CPU_AT: usize = 4;
const DESCRIPTOR_AT: usize = 8;

/// Distance of a thread's struct rseq from its thread pointer; `NONE` if the answer is not available.
static OFFSET: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = usize::MAX;

/// Finds out whether the answer is available: called once, before the program runs. It sleeps for some 60 us.
pub fn at_load() {
    let Some(offset) = offset() else { return };
    OFFSET.store(offset, Ordering::Relaxed);
    watch();
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    // SAFETY: the first argument is valid, and the second may be null.
    unsafe { libc::nanosleep(&raw const moment, std::ptr::null_mut()) };
    // A kernel that clears the word only when it preempts a thread would hide the time in which the thread sleeps.
    if is_watched() || arch::supported().is_err() {
        OFFSET.store(NONE, Ordering::Relaxed);
    }
}

/// Returns whether threads can be watched.
pub fn is_available() -> bool {
    OFFSET.load(Ordering::Relaxed) != NONE
}

/// Returns where glibc keeps the words of a thread; `None` if it does not register them.
fn offset() -> Option<usize> {
    // SAFETY: the names are C strings.
    let [offset, size] =
        unsafe { [c"__rseq_offset", c"__rseq_size"].map(|name| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr())) };
    // SAFETY: null, or the constants of these names and types (sys/rseq.h).
    let (offset, size) = unsafe { (offset.cast::<c_long>().as_ref()?, size.cast::<u32>().as_ref()?) };
    // A distance may be negative; it is added modulo 2^64.
    (*size as usize >= DESCRIPTOR_AT + 8).then_some(*offset as usize)
}

/// The calling thread's word at this distance in its struct rseq; null if there is none.
#[inline]
fn at<T>(bytes: usize) -> *const UnsafeCell<T> {
    match OFFSET.load(Ordering::Relaxed) {
        NONE => std::ptr::null(),
        offset => std::ptr::with_exposed_provenance(thread_pointer().wrapping_add(offset).wrapping_add(bytes)),
    }
}

/// Begins to watch the calling thread.
#[inline]
pub fn watch() {
    let (cpu, word) = (at::<c_int>(CPU_AT), at::<*const Descriptor>(DESCRIPTOR_AT));
    if word.is_null() {
        return;
    }
    // SAFETY: the words live as long as the thread. The CPU's number is negative if the thread is not registered. The kernel changes them only while
    // the thread is not executing, as volatile accesses assume.
    unsafe {
        if (*cpu).get().read_volatile() >= 0 {
            (*word).get().write_volatile(&raw const DESCRIPTOR);
        }
    }
    // What is read later must not be read before.
    compiler_fence(Ordering::SeqCst);
}

/// Returns whether the calling thread has had its CPU all the time since it last called [`watch`].
#[inline]
pub fn is_watched() -> bool {
    compiler_fence(Ordering::SeqCst);
    let word = at::<*const Descriptor>(DESCRIPTOR_AT);
    // SAFETY: as in `watch`.
    !word.is_null() && unsafe { (*word).get().read_volatile() } == &raw const DESCRIPTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_no_longer_watched() {
        at_load();
        assert!(is_available(), "glibc 2.35 or later, and a kernel that clears the word");
        let sleeps = || {
            assert!(!is_watched());
            // A thread that loses its CPU just now is watched again.
            let stays = (0..1000).any(|_| {
                watch();
                is_watched()
            });
            assert!(stays);
            std::thread::sleep(std::time::Duration::from_micros(1));
            assert!(!is_watched());
        };
        std::thread::spawn(sleeps).join().unwrap();
        // A thread that is preempted, by others on the same CPU.
        std::thread::spawn(|| {
            watch();
            let begin = std::time::Instant::now();
            let other = std::thread::spawn(|| {
                let begin = std::time::Instant::now();
                while begin.elapsed().as_millis() < 300 {}
            });
            bind();
            while is_watched() && begin.elapsed().as_secs() < 20 {}
            assert!(!is_watched());
            other.join().unwrap();
        })
        .join()
        .unwrap();
    }

    /// Binds the calling thread to a CPU, on which other threads of the tests run.
    fn bind() {
        // SAFETY: a zeroed set is an empty one; the calls read and write it only.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
    }
}
