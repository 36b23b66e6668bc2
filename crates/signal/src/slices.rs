//! How the kernel's scheduler treats a thread of ours among those of its kind: long enough on a CPU to be worth it, and in nobody's way.

/// The shortest slice that Linux gives (kernel/sched/syscalls.c, since 6.12; older kernels do not look).
const SHORTEST_NS: u64 = 100_000;

/// Asks for slices as short as there are, for a thread that is scheduled as usual: who has just unblocked waits less then for those that
/// compute. Nothing else of it is changed.
pub(crate) fn shorten() {
    change(libc::SCHED_OTHER, |attributes| attributes.sched_runtime = SHORTEST_NS);
}

/// The calling thread, if it is scheduled as usual, takes the CPU from no thread when it wakes up: it is a batch thread from now on, to which the
/// kernel gives an idle CPU as to others, and its share of a busy one at the end of a slice.
///
/// For standbys: of many that sleep in tasks, each that wakes up would take the CPU from whatever computes there, for a few microseconds. If
/// that is the process that wakes them one by one (`fifos` of `workloads/blocked`), a run took 0.26 s in the place of 0.21.
pub fn stand_back() {
    change(libc::SCHED_OTHER, |attributes| attributes.sched_policy = libc::SCHED_BATCH as u32);
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
            stand_back();
            assert_eq!(own(), (libc::SCHED_BATCH as u32, slice_ns));
            assert_eq!(wake_behind(own), (libc::SCHED_BATCH as u32, slice_ns));
            assert_eq!(own(), (libc::SCHED_BATCH as u32, slice_ns));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_is_scheduled_otherwise_stays_so() {
        std::thread::spawn(|| {
            assert!(change(libc::SCHED_OTHER, |attributes| attributes.sched_policy = libc::SCHED_IDLE as u32));
            assert_eq!(wake_behind(own).0, libc::SCHED_IDLE as u32);
            stand_back();
            assert_eq!(own().0, libc::SCHED_IDLE as u32);
        })
        .join()
        .unwrap();
    }
}
