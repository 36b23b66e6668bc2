//! The pages that this process shares with who notices blocked threads, and what is in them.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use wire::umt::{How, Queue, Said, Seen};

use crate::thread::sleep_ns;

/// Without a session.
static ALONE: Said = Said::new();

static SAID: AtomicPtr<Said> = AtomicPtr::new((&raw const ALONE).cast_mut());
static SEEN: AtomicPtr<Seen> = AtomicPtr::new(ptr::null_mut());
/// The page of the session that there is, or was; null: never.
static PAGE: AtomicPtr<Said> = AtomicPtr::new(ptr::null_mut());
/// Its page is no session's any more: it is a child's.
static IS_OWN: AtomicBool = AtomicBool::new(false);
/// By whom: a [`How`].
static HOW: AtomicU32 = AtomicU32::new(How::Bpf as u32);

/// Whether standbys may have run tasks of this process, also if they do no more: what tasks were told must stay true.
#[inline]
#[must_use]
pub fn was_ever_live() -> bool {
    !PAGE.load(Ordering::Relaxed).is_null()
}

/// What this process says.
#[inline]
#[must_use]
pub fn said() -> &'static Said {
    // SAFETY: a static, or a mapping that stays.
    unsafe { &*SAID.load(Ordering::Relaxed) }
}

/// What the kernel says; `None` where there is no session.
#[inline]
#[must_use]
pub fn seen() -> Option<&'static Seen> {
    // SAFETY: null, or a mapping that stays.
    unsafe { SEEN.load(Ordering::Relaxed).as_ref() }
}

/// Whether blocking is noticed: there is somebody who says so.
#[inline]
#[must_use]
pub fn is_live() -> bool {
    seen().is_some()
}

/// The pages are there. Before the first task, by one thread.
pub(crate) fn begin(said: &'static Said, seen: &'static Seen, how: How) {
    HOW.store(how as u32, Ordering::Release);
    SAID.store(ptr::from_ref(said).cast_mut(), Ordering::Release);
    PAGE.store(ptr::from_ref(said).cast_mut(), Ordering::Release);
    // Last: from here on it is live.
    SEEN.store(ptr::from_ref(seen).cast_mut(), Ordering::Release);
}

/// After fork, in the child: the page is its parent's.
pub(crate) fn leave_to_parent() {
    // A child's child has its own already.
    if was_ever_live() && !IS_OWN.swap(true, Ordering::Relaxed) {
        become_own(PAGE.load(Ordering::Relaxed).cast());
    }
}

/// Puts a page of the child's own, in which nothing is said, where its parent's is. The child may be in the middle of a task, and go on with its
/// team: ends of queues in there would be those of its parent's queues.
fn become_own(page: *mut libc::c_void) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: a mapping of this size (`connect`), of which nobody else in this process knows. All zero are words like others.
    let own = unsafe { libc::mmap(page, size_of::<Said>(), access, kind, -1, 0) };
    if own == libc::MAP_FAILED {
        // Without a page of its own it must not touch its parent's.
        let why = b"cox: no memory for a child of a program that runs with overlap: it ends\n";
        // SAFETY: so many bytes; and ends the process.
        unsafe {
            libc::write(2, why.as_ptr().cast(), why.len());
            libc::_exit(libc::EXIT_FAILURE)
        };
    }
}

/// There is no session any more. The pages stay mapped, since threads may be looking at them. Whether they were used until now.
pub(crate) fn end() -> bool {
    let was_live = !SEEN.swap(ptr::null_mut(), Ordering::AcqRel).is_null();
    SAID.store((&raw const ALONE).cast_mut(), Ordering::Release);
    was_live
}

/// Ends of so many queues, which lie side by side and stay; BPF looks at them. `None`: there is no room, and they can be anywhere: tasks in
/// them are seen by threads only.
#[must_use]
pub fn queues(count: u32) -> Option<&'static [Queue]> {
    claim(said(), count).filter(|_| is_live())
}

/// So many queues of a page that nobody has yet. The page can be written by others: how many are used may be any number.
fn claim(said: &Said, count: u32) -> Option<&[Queue]> {
    let end = |first: u32| first.checked_add(count).filter(|end| *end as usize <= said.queue.len());
    let first = said.queues.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end).ok()?;
    said.queue.get(first as usize..end(first)? as usize)
}

/// Whether the kernel has seen a thread of this process block, the calling one not least.
#[must_use]
pub fn has_blocked(seen: &Seen) -> bool {
    // Again, if need be: on a busy machine a sleep may be over before it has begun, or begin with a preemption.
    (0..100).any(|_| {
        let has = seen.blocks.load(Ordering::Acquire) > 0;
        if !has {
            sleep_ns(50_000);
        }
        has
    })
}

/// CPUs that this process may use; 0: not known.
#[inline]
#[must_use]
pub fn cpus() -> u32 {
    said().cpus.load(Ordering::Relaxed)
}

/// By whom blocked threads are noticed.
#[inline]
#[must_use]
pub fn how() -> How {
    How::from_number(HOW.load(Ordering::Relaxed))
}

/// Whether a queue that BPF looks at has a task.
#[must_use]
pub fn has_ready() -> bool {
    let said = said();
    let used = (said.queues.load(Ordering::Acquire) as usize).min(said.queue.len());
    said.queue[..used].iter().any(|queue| queue.begin.0.load(Ordering::Relaxed) < queue.end.0.load(Ordering::Relaxed))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wire::umt::QUEUES;

    use super::*;

    #[test]
    fn queues_are_claimed_once_whatever_the_page_says() {
        let said = Box::new(Said::new());
        let all = QUEUES as u32;
        let first = claim(&said, 3).map(<[Queue]>::as_ptr);
        assert_eq!(first, Some(said.queue.as_ptr()));
        assert_eq!(claim(&said, all - 3).map(<[Queue]>::as_ptr), Some(said.queue[3..].as_ptr()));
        assert!(claim(&said, 1).is_none(), "all are taken");
        for used in [all + 1, u32::MAX - 1, u32::MAX] {
            said.queues.store(used, Ordering::Relaxed);
            for count in [1, 2, all, u32::MAX] {
                assert!(claim(&said, count).is_none(), "{used} are used, {count} wanted");
            }
        }
    }
}
