//! futex(2) among the threads of this process, without a time. errno stays as it was: the program has called something that sets none.

use std::sync::atomic::AtomicU32;

/// Sleeps while the word is `value`; may end for no reason.
pub fn wait(word: &'static AtomicU32, value: u32) {
    call(word, libc::FUTEX_WAIT, value);
}

/// Wakes so many of those who sleep on the word.
pub fn wake(word: &'static AtomicU32, count: u32) {
    call(word, libc::FUTEX_WAKE, count);
}

fn call(word: &'static AtomicU32, operation: libc::c_int, value: u32) {
    let time = std::ptr::null::<libc::timespec>();
    // SAFETY: a static word; errno is this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, time);
        *libc::__errno_location() = errno;
    }
}
