//! The pages that this process shares with the side that notices blocked threads, and access to their contents.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use wire::umt::{How, KernelPage, ProgramPage, Queue};

use crate::thread::sleep_ns;

/// Used in place of the program page while there is no session.
static ALONE: ProgramPage = ProgramPage::empty();

/// The program page in use: that of the session, or [`ALONE`].
static PROGRAM_PAGE: AtomicPtr<ProgramPage> = AtomicPtr::new((&raw const ALONE).cast_mut());
static KERNEL_PAGE: AtomicPtr<KernelPage> = AtomicPtr::new(ptr::null_mut());
/// The program page of the present or last session; null if there never was one.
static LAST_PAGE: AtomicPtr<ProgramPage> = AtomicPtr::new(ptr::null_mut());
/// True in a forked child that uses a private program page in place of its parent's shared one. No session reads the private page.
static IS_OWN: AtomicBool = AtomicBool::new(false);
/// How blocked threads are noticed: a [`How`].
static HOW: AtomicU32 = AtomicU32::new(How::Bpf as u32);

/// Returns whether standbys run tasks of this process or may have run some earlier. The caller needs this because answers that tasks have already
/// got, such as thread numbers, must remain valid.
#[inline]
#[must_use]
pub fn was_ever_live() -> bool {
    !LAST_PAGE.load(Ordering::Relaxed).is_null()
}

/// Returns the program page: what this process writes for the session.
#[inline]
#[must_use]
pub fn program_page() -> &'static ProgramPage {
    // SAFETY: `PROGRAM_PAGE` points to a static or to a mapping that is never unmapped.
    unsafe { &*PROGRAM_PAGE.load(Ordering::Relaxed) }
}

/// Returns the kernel page; `None` if there is no session.
#[inline]
#[must_use]
pub fn kernel_page() -> Option<&'static KernelPage> {
    // SAFETY: `KERNEL_PAGE` is null, or points to a mapping that is never unmapped.
    unsafe { KERNEL_PAGE.load(Ordering::Relaxed).as_ref() }
}

/// Returns whether a session notices when threads of this process block.
#[inline]
#[must_use]
pub fn is_live() -> bool {
    kernel_page().is_some()
}

/// Publishes the pages of a session. Called by one thread, before the first task.
pub(crate) fn begin(program_page: &'static ProgramPage, kernel_page: &'static KernelPage, how: How) {
    HOW.store(how as u32, Ordering::Release);
    PROGRAM_PAGE.store(ptr::from_ref(program_page).cast_mut(), Ordering::Release);
    LAST_PAGE.store(ptr::from_ref(program_page).cast_mut(), Ordering::Release);
    // Stored last: from here on the session is live.
    KERNEL_PAGE.store(ptr::from_ref(kernel_page).cast_mut(), Ordering::Release);
}

/// Replaces the program page in a forked child, since that page belongs to its parent.
pub(crate) fn leave_to_parent() {
    // If this child's parent was itself a forked child, it had already replaced the page by a private one, of which fork(2) has given this child a
    // copy.
    if was_ever_live() && !IS_OWN.swap(true, Ordering::Relaxed) {
        become_own(LAST_PAGE.load(Ordering::Relaxed).cast());
    }
}

/// Replaces the parent's page, in this forked child, by an empty page that only the child uses. If the fork happened inside a task, the child may
/// continue with its copy of the team and the team's queues. It must not use the queues' end positions in the parent's page, because these belong to
/// the parent's queues.
fn become_own(page: *mut libc::c_void) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the call replaces a mapping of this size (made in `connect`) that only this module knows. All zero is a valid value of its words.
    let own = unsafe { libc::mmap(page, size_of::<ProgramPage>(), access, kind, -1, 0) };
    if own == libc::MAP_FAILED {
        // Without a page of its own, the child must not continue: it would write to its parent's page.
        let why = b"cox: no memory for a forked child of a program that runs with overlap; the child exits\n";
        // SAFETY: the first call writes as many bytes as `why` has; the second one ends the process.
        unsafe {
            libc::write(2, why.as_ptr().cast(), why.len());
            libc::_exit(libc::EXIT_FAILURE)
        };
    }
}

/// Stops using the session's pages in this process. The pages stay mapped, because threads may still read them. Returns whether the pages were in use
/// until now.
pub(crate) fn end() -> bool {
    let was_live = !KERNEL_PAGE.swap(ptr::null_mut(), Ordering::AcqRel).is_null();
    PROGRAM_PAGE.store((&raw const ALONE).cast_mut(), Ordering::Release);
    was_live
}

/// Reserves consecutive entries in the program page for `count` task queues. An entry contains the positions of a queue's two ends. The entries stay
/// reserved, and BPF reads them to see whether the queues have tasks. Returns `None` if there is no room or no session. The caller can then store the
/// positions elsewhere, where BPF does not see them.
#[must_use]
pub fn queues(count: u32) -> Option<&'static [Queue]> {
    claim(program_page(), count).filter(|_| is_live())
}

/// Reserves `count` queue entries of the program page that are still unused, and returns them; `None` if there are too few. Other processes can write
/// the page, so the stored number of used entries may have any value.
fn claim(program_page: &ProgramPage, count: u32) -> Option<&[Queue]> {
    let end = |first: u32| first.checked_add(count).filter(|end| *end as usize <= program_page.queue.len());
    let first = program_page.queues.fetch_update(Ordering::AcqRel, Ordering::Relaxed, end).ok()?;
    program_page.queue.get(first as usize..end(first)? as usize)
}

/// Returns whether the kernel has counted any block of a thread of this process. If it has not, the calling thread first sleeps for a short time: a
/// working session counts this as a block.
#[must_use]
pub fn has_blocked(kernel_page: &KernelPage) -> bool {
    // Repeats the sleep: on a busy machine the time may expire before the thread blocks, or the thread may be preempted first, so that it does not
    // block at all.
    (0..100).any(|_| {
        let has = kernel_page.blocks.load(Ordering::Acquire) > 0;
        if !has {
            sleep_ns(50_000);
        }
        has
    })
}

/// Returns the number of CPUs that this process may use; 0 if unknown.
#[inline]
#[must_use]
pub fn cpus() -> u32 {
    program_page().cpus.load(Ordering::Relaxed)
}

/// Returns how blocked threads are noticed.
#[inline]
#[must_use]
pub fn how() -> How {
    How::from_number(HOW.load(Ordering::Relaxed))
}

/// Returns whether any queue that BPF looks at has a task.
#[must_use]
pub fn has_ready() -> bool {
    let program_page = program_page();
    let used = (program_page.queues.load(Ordering::Acquire) as usize).min(program_page.queue.len());
    program_page.queue[..used]
        .iter()
        .any(|queue| queue.begin.0.load(Ordering::Relaxed) < queue.end.0.load(Ordering::Relaxed))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wire::umt::QUEUES;

    use super::*;

    #[test]
    fn queues_are_claimed_once_whatever_the_page_says() {
        let program_page = Box::new(ProgramPage::empty());
        let all = QUEUES as u32;
        let first = claim(&program_page, 3).map(<[Queue]>::as_ptr);
        assert_eq!(first, Some(program_page.queue.as_ptr()));
        assert_eq!(claim(&program_page, all - 3).map(<[Queue]>::as_ptr), Some(program_page.queue[3..].as_ptr()));
        assert!(claim(&program_page, 1).is_none(), "all are taken");
        for used in [all + 1, u32::MAX - 1, u32::MAX] {
            program_page.queues.store(used, Ordering::Relaxed);
            for count in [1, 2, all, u32::MAX] {
                assert!(claim(&program_page, count).is_none(), "{used} are used, {count} wanted");
            }
        }
    }
}
