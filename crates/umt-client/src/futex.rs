//! futex(2) between the threads of this process, without timeouts. errno is preserved, because the program does not make these calls.

use std::sync::atomic::AtomicU32;

/// Sleeps while the word has the value `value`. May return without a wake-up.
pub fn wait(word: &'static AtomicU32, value: u32) {
    call(word, libc::FUTEX_WAIT, value);
}

/// Wakes up to `count` threads that sleep on the word.
pub fn wake(word: &'static AtomicU32, count: u32) {
    call(word, libc::FUTEX_WAKE, count);
}

fn call(word: &'static AtomicU32, operation: libc::c_int, value: u32) {
    let time = std::ptr::null::<libc::timespec>();
    // SAFETY: a static word; errno belongs to this thread.
    unsafe {
        let errno = *libc::__errno_location();
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, time);
        *libc::__errno_location() = errno;
    }
}
