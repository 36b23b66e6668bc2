//! Scheduling attributes of standbys and tracked threads: the length of their slices, and their policy.

use crate::thread::usage;

/// The shortest slice that Linux grants (kernel/sched/syscalls.c, since 6.12; older kernels ignore the request).
const SHORTEST_NS: u64 = 100_000;

/// Asks for the shortest slices, if the thread is scheduled as usual (SCHED_OTHER): a thread that has just unblocked then waits less for threads
/// that compute. Changes no other attribute.
pub(crate) fn shorten() {
    change(libc::SCHED_OTHER, |attributes| attributes.sched_runtime = SHORTEST_NS);
}

/// The scheduling policy of a standby. It depends on what the standby's last blocking task has waited for.
///
/// A standby *stands back*: it has the policy SCHED_BATCH, so it preempts no thread when it wakes up. It gets an idle CPU like any other thread, and
/// its share of a busy CPU at the end of a slice. With the usual policy, each standby whose task had blocked and wakes up would take the CPU for a
/// few microseconds from a thread that computes there. In `fifos` of `workloads/blocked`, that thread is the one that wakes the standbys one by one;
/// there a run took 0.26 s instead of 0.21 s.
///
/// Exception: a standby that has read or written storage since it last blocked has the usual policy (SCHED_OTHER), because the disk is idle until the
/// standby begins the next transfer. A program with a critical path and tasks that write (`workloads/apps/path.c`) had an efficiency (lower bound of
/// the run's time ÷ the time, docs/bench.md) of 0.85 if standbys always stood back, 0.95 if they never did, and 0.89 with this rule. It is not
/// checked which of a standby's tasks transferred the data: that would cost a system call for each task, even the shortest.
///
/// *Rejected alternative:* one decision for the whole process, by vote, so that a new standby need not learn by itself. The number of standbys with
/// the usual policy was the same as without a vote, because the same few standbys are rung again and again, and these have learned; the others sleep.
///
/// A thread that the user has given another policy keeps it.
#[derive(Debug)]
pub struct Manners {
    is_back: bool,
    /// What the thread had transferred at the last check.
    transferred: Transferred,
}

impl Manners {
    /// Gives the calling thread the policy SCHED_BATCH, so that it preempts no thread when it wakes up. Returns `None` if the thread does not have
    /// the usual policy (SCHED_OTHER); it then keeps its policy.
    #[must_use]
    pub fn back() -> Option<Manners> {
        let is_back = change_policy(libc::SCHED_OTHER, libc::SCHED_BATCH);
        is_back.then(|| Manners { is_back, transferred: Transferred::now() })
    }

    /// Called at the end of a task in which the calling thread has blocked: chooses the policy anew.
    pub fn has_blocked(&mut self) {
        let now = Transferred::now();
        let before = std::mem::replace(&mut self.transferred, now);
        self.stand(before == now);
    }

    fn stand(&mut self, back: bool) {
        if self.is_back != back {
            let (from, to) =
                if back { (libc::SCHED_OTHER, libc::SCHED_BATCH) } else { (libc::SCHED_BATCH, libc::SCHED_OTHER) };
            change_policy(from, to);
            self.is_back = back;
        }
    }
}

/// How much a thread has read from storage, and how much it has written or marked to be written, in blocks of 512 bytes (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Transferred {
    read: i64,
    written: i64,
}

impl Transferred {
    /// Reads the calling thread's counts. A kernel that does not count reports 0.
    fn now() -> Transferred {
        let used = usage();
        Transferred { read: used.ru_inblock, written: used.ru_oublock }
    }
}

/// Runs `sleep` so that the caller, when it wakes up, does not preempt the thread that has woken it. For callers that are woken for work that can
/// wait. Has an effect only for a thread with the usual policy (SCHED_OTHER). A batch thread that wakes up preempts no thread (kernel/sched/fair.c,
/// `check_preempt_wakeup_fair`), and gets an idle CPU like any other.
pub fn wake_behind<T>(sleep: impl FnOnce() -> T) -> T {
    let is_behind = change_policy(libc::SCHED_OTHER, libc::SCHED_BATCH);
    let slept = sleep();
    if is_behind {
        change_policy(libc::SCHED_BATCH, libc::SCHED_OTHER);
    }
    slept
}

/// Gives the calling thread the policy `to` if it has the policy `from`. Returns whether that was done.
fn change_policy(from: libc::c_int, to: libc::c_int) -> bool {
    change(from, |attributes| attributes.sched_policy = to as u32)
}

/// If the calling thread has the policy `policy`, lets `how` change its scheduling attributes. Returns whether they were changed.
fn change(policy: libc::c_int, how: impl FnOnce(&mut libc::sched_attr)) -> bool {
    // SAFETY: all zero is a valid value: a thread that is scheduled as usual.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: `attributes` has room for `size` bytes.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } == 0;
    if !read || attributes.sched_policy != policy as u32 {
        return false;
    }
    how(&mut attributes);
    // SAFETY: `attributes` is what the kernel returned, with the changes of `how`; the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the calling thread's policy and slice.
    fn own() -> (u32, u64) {
        // SAFETY: all zero is a valid value: a thread that is scheduled as usual.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>() as u32;
        // SAFETY: `attributes` has room for `size` bytes.
        let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        assert_eq!(read, 0);
        (attributes.sched_policy, attributes.sched_runtime)
    }

    #[test]
    fn who_wakes_behind_is_a_batch_thread_for_so_long_and_keeps_its_slice() {
        std::thread::spawn(|| {
            shorten();
            let (usual, slice_ns) = own();
            assert_eq!(usual, libc::SCHED_OTHER as u32);
            assert_eq!(wake_behind(own), (libc::SCHED_BATCH as u32, slice_ns));
            assert_eq!(own(), (usual, slice_ns));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_stands_back_is_a_batch_thread_with_its_slice() {
        std::thread::spawn(|| {
            let (_, slice_ns) = own();
            let _manners = Manners::back().unwrap();
            assert_eq!(own(), (libc::SCHED_BATCH as u32, slice_ns));
            assert_eq!(wake_behind(own), (libc::SCHED_BATCH as u32, slice_ns));
            assert_eq!(own(), (libc::SCHED_BATCH as u32, slice_ns));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_wrote_storage_does_not_stand_back() {
        std::thread::spawn(|| {
            let mut manners = Manners::back().unwrap();
            let mut after_a_block = |written: i64| {
                // Lowers the count of written blocks that was stored at the last check, as if the thread had written `written` blocks since then. The
                // test does not write a file: its folder may be in memory (tmpfs), where the kernel counts no written blocks.
                manners.transferred.written -= written;
                manners.has_blocked();
                own().0
            };
            assert_eq!(after_a_block(0), libc::SCHED_BATCH as u32, "it has transferred nothing");
            assert_eq!(after_a_block(8), libc::SCHED_OTHER as u32);
            assert_eq!(after_a_block(0), libc::SCHED_BATCH as u32, "it waited for something else");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_batch_thread_of_the_users_is_not_ours_to_change() {
        std::thread::spawn(|| {
            assert!(change(libc::SCHED_OTHER, |attributes| attributes.sched_policy = libc::SCHED_BATCH as u32));
            assert!(Manners::back().is_none());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_is_scheduled_otherwise_stays_so() {
        std::thread::spawn(|| {
            assert!(change(libc::SCHED_OTHER, |attributes| attributes.sched_policy = libc::SCHED_IDLE as u32));
            assert_eq!(wake_behind(own).0, libc::SCHED_IDLE as u32);
            assert!(Manners::back().is_none());
            assert_eq!(own().0, libc::SCHED_IDLE as u32);
        })
        .join()
        .unwrap();
    }
}
