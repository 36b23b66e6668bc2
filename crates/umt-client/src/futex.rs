//! futex(2) between the threads of this process, without timeouts. errno is preserved, because the program does not make these calls.

use std::sync::atomic::AtomicU32;

use crate::thread::Errno;

/// Sleeps while the word has the value `value`. May return without a wake-up.
pub fn wait(word: &AtomicU32, value: u32) {
    call(word, libc::FUTEX_WAIT, value);
}

/// Wakes up to `count` threads that sleep on the word.
pub fn wake(word: &AtomicU32, count: u32) {
    call(word, libc::FUTEX_WAKE, count);
}

fn call(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let time = std::ptr::null::<libc::timespec>();
    let _errno = Errno::keep();
    // SAFETY: the word is valid during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, time) };
}
