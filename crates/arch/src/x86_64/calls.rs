//! x86-64: what a thread that blocks in a system call waits for.
//!
//! Source of the numbers: arch/x86/entry/syscalls/syscall_64.tbl. Calls that are not listed block for `other` reasons. For calls on a
//! descriptor the reason depends on the kind of descriptor.

use wire::Cause;

use crate::BlockedIn;

/// sched_yield(2).
pub const SYS_SCHED_YIELD: u32 = 24;
/// System call and operation that write the features of the calling thread's shadow stack into a word; bit 0: it has one (arch_prctl(2) with
/// ARCH_SHSTK_STATUS, Linux 6.6).
pub const SHADOW_STACK_STATUS: (i64, u64) = (158, 0x5005);
/// io_uring_enter(2).
pub const SYS_IO_URING_ENTER: u32 = 426;

/// Number of arguments of each system call, by its number: a digit each. Source: include/linux/syscalls.h, as the kernel's own tracepoints have it.
const ARGUMENTS: &[u8] =
    b"3331222336321440344332150533333312022130433366332323345550031421334124533211223211221221232233312221\
      1403011002000222233331111222432223112223232231112221003265212101252214221363266466666603555444333222\
      2163312153316166531044342112224144326635415523455453203244345343453433651236444646321442442132155455\
      2545321423665334533253513366642156400666666666666666666666666666666666666666666666666666666666666666\
      6666666666666666666666664264352533223434565434212544434644444336654555";

/// Returns the number of arguments of system call `nr`; of one that is not known, the most.
#[must_use]
pub fn argument_count(nr: usize) -> usize {
    ARGUMENTS.get(nr).map_or(6, |digit| (digit - b'0').into())
}

/// Returns the cause of a block in system call `nr`.
pub fn blocked_in(nr: u32) -> BlockedIn {
    use BlockedIn::Descriptor;
    let cause = match nr {
        // read write ioctl pread64 pwrite64 readv writev, sendfile (its output), preadv pwritev,
        // preadv2 pwritev2, splice, copy_file_range
        0 | 1 | 16 | 17 | 18 | 19 | 20 | 40 | 295 | 296 | 327 | 328 | 275 | 326 => return Descriptor,
        // connect accept sendto recvfrom sendmsg recvmsg shutdown accept4 recvmmsg sendmmsg close
        42 | 43 | 44 | 45 | 46 | 47 | 48 | 288 | 299 | 307 | 3 => return Descriptor,
        // futex futex_waitv futex_wake futex_wait futex_requeue
        202 | 449 | 454 | 455 | 456 => Cause::Futex,
        // fsync fdatasync msync sync io_getevents sync_file_range fallocate readahead syncfs
        // io_pgetevents; truncate ftruncate rename unlink (journal)
        74 | 75 | 26 | 162 | 208 | 277 | 285 | 187 | 306 | 333 | 76 | 77 | 82 | 87 => Cause::Disk,
        // poll select epoll_wait ppoll pselect6 epoll_pwait epoll_pwait2 io_uring_enter
        7 | 23 | 232 | 271 | 270 | 281 | 441 | SYS_IO_URING_ENTER => Cause::Poll,
        // nanosleep clock_nanosleep
        35 | 230 => Cause::Sleep,
        // wait4 waitid; vfork, clone and clone3 block only for a CLONE_VFORK child
        61 | 247 | 58 | 56 | 435 => Cause::ChildWait,
        // flock fcntl
        73 | 72 => Cause::FileLock,
        _ => Cause::Other,
    };
    BlockedIn::Cause(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the numbers with those of the C library, to find wrong numbers in the table above.
    #[test]
    fn numbers_are_the_c_librarys() {
        for (nr, want) in [
            (libc::SYS_read, BlockedIn::Descriptor),
            (libc::SYS_writev, BlockedIn::Descriptor),
            (libc::SYS_preadv2, BlockedIn::Descriptor),
            (libc::SYS_recvmsg, BlockedIn::Descriptor),
            (libc::SYS_accept4, BlockedIn::Descriptor),
            (libc::SYS_sendmmsg, BlockedIn::Descriptor),
            (libc::SYS_splice, BlockedIn::Descriptor),
            (libc::SYS_copy_file_range, BlockedIn::Descriptor),
            (libc::SYS_futex, BlockedIn::Cause(Cause::Futex)),
            (libc::SYS_fdatasync, BlockedIn::Cause(Cause::Disk)),
            (libc::SYS_io_getevents, BlockedIn::Cause(Cause::Disk)),
            (libc::SYS_syncfs, BlockedIn::Cause(Cause::Disk)),
            (libc::SYS_epoll_pwait, BlockedIn::Cause(Cause::Poll)),
            (libc::SYS_pselect6, BlockedIn::Cause(Cause::Poll)),
            (libc::SYS_io_uring_enter, BlockedIn::Cause(Cause::Poll)),
            (libc::SYS_clock_nanosleep, BlockedIn::Cause(Cause::Sleep)),
            (libc::SYS_waitid, BlockedIn::Cause(Cause::ChildWait)),
            (libc::SYS_vfork, BlockedIn::Cause(Cause::ChildWait)),
            (libc::SYS_flock, BlockedIn::Cause(Cause::FileLock)),
            (libc::SYS_getpid, BlockedIn::Cause(Cause::Other)),
        ] {
            assert_eq!(blocked_in(nr as u32), want, "system call {nr}");
        }
        assert_eq!(libc::SYS_sched_yield as u32, SYS_SCHED_YIELD);
        assert_eq!(libc::SYS_arch_prctl, SHADOW_STACK_STATUS.0);
        assert_eq!(libc::SYS_io_uring_enter as u32, SYS_IO_URING_ENTER);
    }
}
