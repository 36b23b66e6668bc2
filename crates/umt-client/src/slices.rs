//! How the kernel's scheduler treats a thread of ours among those of its kind: long enough on a CPU to be worth it, and in nobody's way.

/// The shortest slice that Linux gives (kernel/sched/syscalls.c, since 6.12; older kernels do not look).
const SHORTEST_NS: u64 = 100_000;

/// Asks for slices as short as there are, for a thread that is scheduled as usual: who has just unblocked waits less then for those that
/// compute. Nothing else of it is changed.
pub(crate) fn shorten() {
    change(libc::SCHED_OTHER, |attributes| attributes.sched_runtime = SHORTEST_NS);
}

/// How a standby is scheduled, by what its last task that blocked waited for.
///
/// A standby *stands back*: it is a batch thread, which takes the CPU from no thread when it wakes up. The kernel gives it an idle CPU as
/// to others, and its share of a busy one at the end of a slice. Of many standbys that sleep in tasks, each that wakes up would else take the CPU
/// from whatever computes there, for a few microseconds. If that is the process that wakes them one by one (`fifos` of
/// `workloads/blocked`), a run took 0.26 s in the place of 0.21.
///
/// A standby that read or wrote storage since it blocked last is scheduled as usual: a disk is idle until the standby has begun the next transfer. A
/// critical path beside tasks that write (`workloads/apps/path.c`) was at 0.85 of the bound with standbys that always stood back, and at 0.95 with others; with this rule it is at 0.89.
/// Which of a standby's tasks transferred something is not asked: that would be a system call for each task, also for the shortest.
///
/// *Turned down:* one vote for the process, so that a new standby need not learn by itself. The same few standbys are rung again and again, and
/// have learned it; others sleep. As many were scheduled as usual with a vote as without.
///
/// A thread that is not scheduled as usual, by the user's wish, stays as it is.
#[derive(Debug)]
pub struct Manners {
    is_back: bool,
    /// What the thread had transferred when it was asked last.
    transferred: Transferred,
}

impl Manners {
    /// The calling thread stands back. `None`: it is not scheduled as usual, and stays so.
    #[must_use]
    pub fn back() -> Option<Manners> {
        let is_back = change(libc::SCHED_OTHER, |attributes| attributes.sched_policy = libc::SCHED_BATCH as u32);
        is_back.then(|| Manners { is_back, transferred: Transferred::now() })
    }

    /// A task has ended in which the calling thread has blocked.
    pub fn has_blocked(&mut self) {
        let now = Transferred::now();
        let before = std::mem::replace(&mut self.transferred, now);
        self.stand(before == now);
    }

    fn stand(&mut self, back: bool) {
        if self.is_back != back {
            let (from, to) =
                if back { (libc::SCHED_OTHER, libc::SCHED_BATCH) } else { (libc::SCHED_BATCH, libc::SCHED_OTHER) };
            change(from, |attributes| attributes.sched_policy = to as u32);
            self.is_back = back;
        }
    }
}

/// Blocks of 512 bytes that a thread has read from storage, and that it has written or left to be written: getrusage(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Transferred {
    read: i64,
    written: i64,
}

impl Transferred {
    /// The calling thread's. A kernel that does not count them says 0.
    fn now() -> Transferred {
        // SAFETY: numbers, of which zero is a value.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: room for what is written.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut used) };
        Transferred { read: used.ru_inblock, written: used.ru_oublock }
    }
}

/// Whoever wakes the calling thread from `sleep` keeps the CPU that it is woken on: it is asked to do something that can wait. For a thread that
/// is scheduled as usual. The kernel has nobody give way to a batch thread that wakes up (kernel/sched/fair.c, `check_preempt_wakeup_fair`), and
/// gives it an idle CPU as to others.
pub fn wake_behind<T>(sleep: impl FnOnce() -> T) -> T {
    let is_behind = change(libc::SCHED_OTHER, |attributes| attributes.sched_policy = libc::SCHED_BATCH as u32);
    let slept = sleep();
    if is_behind {
        change(libc::SCHED_BATCH, |attributes| attributes.sched_policy = libc::SCHED_OTHER as u32);
    }
    slept
}

/// Changes the calling thread's scheduling, if it has this policy. Whether it was changed.
fn change(policy: libc::c_int, how: impl FnOnce(&mut libc::sched_attr)) -> bool {
    // SAFETY: all zero is a thread that is scheduled as usual.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: room for as many bytes.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } == 0;
    if !read || attributes.sched_policy != policy as u32 {
        return false;
    }
    how(&mut attributes);
    // SAFETY: what was read, but for what is changed.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The calling thread's policy and slice.
    fn own() -> (u32, u64) {
        // SAFETY: as in `change`.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>() as u32;
        // SAFETY: room for as many bytes.
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
                // As if that much had been written: whether a test's folder is on a disk is not known here.
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
