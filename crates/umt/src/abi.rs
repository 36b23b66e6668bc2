//! The functions that C calls. `include/cox_umt.h` documents them.

use std::ffi::{c_char, c_int, c_uint};
use std::io;
use std::os::fd::RawFd;

use crate::{Counts, Monitor, Of, Tells};

/// Sets errno and returns -1.
fn fails(why: &io::Error) -> c_int {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__errno_location() = why.raw_os_error().unwrap_or(libc::EIO) };
    -1
}

fn answer<T>(result: io::Result<T>, good: impl FnOnce(T) -> c_int) -> c_int {
    match result {
        Ok(value) => good(value),
        Err(why) => fails(&why),
    }
}

fn enabled() -> io::Result<&'static Monitor> {
    Monitor::current().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOTCONN))
}

/// Converts a C CPU number. Negative values become `usize::MAX`, which no CPU has.
fn cpu(number: c_int) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn cox_umt_enable(flags: c_uint) -> c_int {
    let tells = Tells::from_flags(flags).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL));
    answer(tells.and_then(Monitor::enable), |monitor| monitor.cpus() as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn cox_umt_disable() {
    Monitor::disable();
}

#[unsafe(no_mangle)]
extern "C" fn cox_umt_backend() -> *const c_char {
    Monitor::current().map_or(c"off", Monitor::backend).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cox_umt_fd(number: c_int) -> RawFd {
    let of = if number == -1 { Of::Any } else { Of::Cpu(cpu(number)) };
    answer(enabled().and_then(|monitor| monitor.descriptor(of)), |fd| fd)
}

/// # Safety
/// `counts` is null, or a `struct cox_umt_counts` may be written there.
#[unsafe(no_mangle)]
unsafe extern "C" fn cox_umt_read(number: c_int, counts: *mut Counts) -> c_int {
    let news = enabled().and_then(|monitor| monitor.read(cpu(number)));
    answer(news, |news| {
        // SAFETY: the caller guarantees that `counts` is null or valid for writing.
        if let Some(place) = unsafe { counts.as_mut() } {
            *place = news.unwrap_or_default();
        }
        c_int::from(news.is_some())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cox_umt_ready(number: c_int) -> c_int {
    answer(enabled().and_then(|monitor| monitor.ready(cpu(number))), |ready| ready as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn cox_umt_thread_ctrl(on: c_int) -> c_int {
    let done = enabled().and_then(|monitor| {
        if on != 0 {
            return monitor.register();
        }
        monitor.unregister();
        Ok(())
    });
    answer(done, |()| 0)
}
