//! What a Rust program can ask for when it runs as a user-level process (ULP) of `cox ulp`: the functions of `cox_ulp.h`.
//!
//! A ULP begins on a kernel task of its own, its *home*: it is *coupled*. When it yields often and makes few system calls, its registers move to a
//! *carrier*, a thread that switches between ULPs in user space: it is *decoupled*. A system call brings it home.
//!
//! In an ordinary process, in the child of a fork and in a program that a ULP executes, functions that return a [`Result`](io::Result) fail with EPERM.
//! Errors are those of the C functions (`man cox_ulp`); [`io::Error::raw_os_error`] has their numbers.
//!
//! Only the main thread of a ULP is decoupled; in other threads, [`yield_now`] is sched_yield(2). Do not call these functions from signal handlers, nor in
//! the child of vfork(2). No other thread may execute a program ([`CommandExt::exec`](std::os::unix::process::CommandExt::exec)) while the main thread is
//! decoupled. A program that uses the GS base register cannot use them. The first call in an ordinary process may change errno.
//!
//! ```
//! // In an ordinary process:
//! assert_eq!((cox_ulp::number(), cox_ulp::count()), (None, 1));
//! cox_ulp::yield_now();
//! ```
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(unsafe_code, reason = "the functions are in a table of C functions, whose address is in the auxiliary vector")]

mod mutex;

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

pub use mutex::{Mutex, MutexGuard};

unsafe extern "C" {
    fn getauxval(key: c_ulong) -> c_ulong;
    fn sched_yield() -> c_int;
}

/// The functions of the host, as `struct cox_ulp_calls` of `cox_ulp.h`.
#[repr(C)]
struct Calls {
    bytes: c_ulong,
    number: unsafe extern "C" fn() -> c_int,
    count: unsafe extern "C" fn() -> c_int,
    yield_now: unsafe extern "C" fn(*const c_void),
    yield_to: unsafe extern "C" fn(c_int) -> c_int,
    couple: unsafe extern "C" fn() -> c_int,
    decouple: unsafe extern "C" fn() -> c_int,
    suspend: unsafe extern "C" fn() -> c_int,
    resume: unsafe extern "C" fn(c_int) -> c_int,
    export: unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int,
    import: unsafe extern "C" fn(c_int, *const c_char, *mut *mut c_void) -> c_int,
    spawn: unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int,
    wait: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    pid: unsafe extern "C" fn(c_int) -> c_int,
}

/// The entry of the auxiliary vector with the address of the table.
const ENTRY: c_ulong = 0x0043_4f58_0001;
const EPERM: c_int = 1;
const EAGAIN: c_int = 11;

/// The address of the table. 0: not looked up yet; 1: an ordinary process.
static KNOWN: AtomicUsize = AtomicUsize::new(0);

/// Returns the table; `None` in an ordinary process.
fn calls() -> Option<&'static Calls> {
    let mut found = KNOWN.load(Ordering::Relaxed);
    if found == 0 {
        // SAFETY: no conditions.
        found = unsafe { getauxval(ENTRY) } as usize;
        // The table begins with its length. That of an older host is shorter, and has not all functions.
        // SAFETY: the host's table, which stays.
        if found == 0 || (unsafe { *ptr::with_exposed_provenance::<c_ulong>(found) } as usize) < size_of::<Calls>() {
            found = 1;
        }
        KNOWN.store(found, Ordering::Relaxed);
    }
    // SAFETY: the host's table, which stays.
    (found != 1).then(|| unsafe { &*ptr::with_exposed_provenance::<Calls>(found) })
}

/// Calls a function of the table. Returns its result if that is not negative.
fn call(function: impl FnOnce(&Calls) -> c_int) -> io::Result<c_int> {
    let result = calls().map_or(-EPERM, function);
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// Returns the number of a ULP as the table has it; one that is too large exists nowhere.
fn of(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// Returns the number of this ULP, from 0 on; `None` in an ordinary process.
#[must_use]
pub fn number() -> Option<u32> {
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.number)() }).ok().and_then(|number| number.try_into().ok())
}

/// Returns the number of ULPs that `cox ulp` has started together, without those of [`spawn`]; 1 in an ordinary process.
#[must_use]
pub fn count() -> u32 {
    // SAFETY: no conditions.
    calls().and_then(|calls| unsafe { (calls.count)() }.try_into().ok()).unwrap_or(1)
}

/// Lets others run. Use it in loops that wait for other ULPs. In an ordinary process: sched_yield(2).
#[inline]
pub fn yield_now() {
    match calls() {
        // SAFETY: no conditions.
        Some(calls) => unsafe { (calls.yield_now)(KNOWN.as_ptr().cast()) },
        None => {
            // SAFETY: no conditions.
            unsafe { sched_yield() };
        }
    }
}

/// Continues ULP `number` at once, if it is ready on this ULP's carrier; this ULP goes to the end of the carrier's queue. Otherwise, and in an ordinary
/// process, yields.
///
/// # Errors
/// EAGAIN if it has yielded instead; EINVAL if there is no such ULP.
pub fn yield_to(number: u32) -> io::Result<()> {
    if calls().is_none() {
        yield_now();
        return Err(io::Error::from_raw_os_error(EAGAIN));
    }
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.yield_to)(of(number)) }).map(drop)
}

/// Moves this ULP home until [`decouple`]. Use it before many system calls; one alone brings it home by itself.
///
/// # Errors
/// When this ULP has asked for it already, or nothing is ever decoupled here.
pub fn couple() -> io::Result<()> {
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.couple)() }).map(drop)
}

/// Moves this ULP to a carrier now, unless a debugger traces this ULP.
///
/// # Errors
/// When nothing is ever decoupled here.
pub fn decouple() -> io::Result<()> {
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.decouple)() }).map(drop)
}

/// Waits until another ULP resumes this one. A resume that has come since the last suspend makes it return at once. It may also return without a resume:
/// call it in a loop that looks at what this ULP waits for.
///
/// # Errors
/// In a thread that is not the main thread, and in an ordinary process.
pub fn suspend() -> io::Result<()> {
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.suspend)() }).map(drop)
}

/// Resumes ULP `number`. Any thread of a ULP may call it.
///
/// # Errors
/// When there is no such ULP.
pub fn resume(number: u32) -> io::Result<()> {
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.resume)(of(number)) }).map(drop)
}

/// Publishes an address under a name of at most 47 bytes. Each ULP has names of its own, which stay. What is at the address must stay as long as others use
/// it, and must be freed by this ULP, because each has an allocator of its own.
///
/// # Errors
/// When the name exists or is too long, or there are too many.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "the address is stored; nobody follows it here")]
pub fn export(name: &CStr, address: *mut c_void) -> io::Result<()> {
    // SAFETY: the name is a C string.
    call(|calls| unsafe { (calls.export)(name.as_ptr(), address) }).map(drop)
}

/// Waits until ULP `number` has exported that name. Returns the address. What is there is gone when that ULP has ended.
///
/// # Errors
/// When it has ended without exporting it, or there is no such ULP.
pub fn import(number: u32, name: &CStr) -> io::Result<*mut c_void> {
    let mut address = ptr::null_mut();
    // SAFETY: the name is a C string, and the address is valid for writing.
    call(|calls| unsafe { (calls.import)(of(number), name.as_ptr(), &raw mut address) })?;
    Ok(address)
}

/// Starts the program `path` as another ULP of this address space, with descriptors (without those with O_CLOEXEC), working directory, blocked signals and
/// limits of this one. PATH is not searched. Returns its number.
///
/// # Errors
/// When the program cannot be started; see `man cox_ulp`.
pub fn spawn(path: &CStr, arguments: &[&CStr], environment: &[&CStr]) -> io::Result<u32> {
    let list = |words: &[&CStr]| -> Vec<*const c_char> {
        words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: C strings, and lists of C strings that end with a null pointer.
    let number = call(|calls| unsafe { (calls.spawn)(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) })?;
    Ok(number.unsigned_abs())
}

/// Waits until ULP `number` has ended. Any ULP may wait for any other one, any number of times.
///
/// # Errors
/// When there is no such ULP, or it is this one.
pub fn wait(number: u32) -> io::Result<ExitStatus> {
    let mut status = 0;
    // SAFETY: the status is valid for writing.
    call(|calls| unsafe { (calls.wait)(of(number), &raw mut status) })?;
    Ok(ExitStatus::from_raw(status))
}

/// Returns the pid of ULP `number`. As any pid, it may be another process's when the ULP has ended.
///
/// # Errors
/// When it has not been started yet, has ended, or does not exist.
pub fn pid(number: u32) -> io::Result<u32> {
    // SAFETY: no conditions.
    call(|calls| unsafe { (calls.pid)(of(number)) }).map(c_int::unsigned_abs)
}

/// One who waits, on its own stack; as `struct cox_ulp_waiter`.
#[repr(C)]
struct Waiter {
    number: c_int,
    released: AtomicI32,
    next: UnsafeCell<*mut Waiter>,
}

impl Waiter {
    fn me() -> Waiter {
        let number = number().map_or(-1, of);
        Waiter { number, released: AtomicI32::new(0), next: UnsafeCell::new(ptr::null_mut()) }
    }

    fn wait(&self) {
        while self.released.load(Ordering::Acquire) == 0 {
            if suspend().is_err() {
                yield_now();
            }
        }
    }

    /// Releases one who waits. It may return at once: do not touch it afterwards.
    ///
    /// # Safety
    /// It must wait.
    unsafe fn release(this: *mut Waiter) {
        // SAFETY: the caller's.
        unsafe {
            let number = (*this).number;
            (*this).released.store(1, Ordering::Release);
            // A number that does not exist is that of a thread of an ordinary process, which looks again by itself.
            let _ = call(|calls| (calls.resume)(number));
        }
    }
}

const _: () = assert!(size_of::<Waiter>() == 16 && std::mem::offset_of!(Waiter, next) == 8);

/// A barrier for a number of ULPs, in memory of one of them; as `struct cox_ulp_barrier`, which C programs can use at the same time. All threads of ULPs
/// may use it; one that is not the main thread waits by sched_yield(2). The memory must stay until all have left the barrier. A ULP that is killed while it
/// waits leaves an address in the barrier that is not valid any more.
#[derive(Debug)]
#[repr(C)]
pub struct Barrier {
    count: c_int,
    arrived: AtomicI32,
    waiters: AtomicPtr<Waiter>,
}

const _: () = assert!(size_of::<Barrier>() == 16 && std::mem::offset_of!(Barrier, waiters) == 8);

impl Barrier {
    /// Makes a barrier for exactly `count` ULPs.
    ///
    /// # Panics
    /// If there cannot be so many ULPs.
    #[must_use]
    pub const fn new(count: u32) -> Barrier {
        assert!(count <= c_int::MAX as u32, "too many ULPs");
        Barrier { count: count as c_int, arrived: AtomicI32::new(0), waiters: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Waits until all have called it. Returns true to the last one.
    pub fn wait(&self) -> bool {
        let (me, count) = (Waiter::me(), self.count);
        let own = (&raw const me).cast_mut();
        // Each is in the list before it counts as arrived, so that the last one finds all.
        let mut first = self.waiters.load(Ordering::Relaxed);
        loop {
            // SAFETY: nobody else knows of it yet.
            unsafe { *me.next.get() = first };
            match self.waiters.compare_exchange_weak(first, own, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        // Afterwards, others may complete the barrier and free it.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < count {
            me.wait();
            return false;
        }
        // Nobody arrives for the next time before it is released.
        let mut each = self.waiters.swap(ptr::null_mut(), Ordering::Acquire);
        self.arrived.store(0, Ordering::Relaxed);
        let mut has_own = false;
        while !each.is_null() {
            // SAFETY: all in the list wait, and stay until they are released.
            unsafe {
                let next = *(*each).next.get();
                if each == own {
                    has_own = true;
                } else {
                    Waiter::release(each);
                }
                each = next;
            }
        }
        // If more have come than the barrier is for, another one has taken this one from the list, and releases it.
        if !has_own {
            me.wait();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_process_gets_what_it_can_do() {
        assert_eq!((number(), count()), (None, 1));
        yield_now();
        let refused = [
            couple().err(),
            decouple().err(),
            suspend().err(),
            resume(0).err(),
            export(c"name", ptr::null_mut()).err(),
            import(0, c"name").err(),
            spawn(c"/bin/true", &[], &[]).err(),
            wait(0).err(),
            pid(0).err(),
        ];
        for error in refused {
            assert_eq!(error.and_then(|error| error.raw_os_error()), Some(EPERM));
        }
        assert_eq!(yield_to(0).err().and_then(|error| error.raw_os_error()), Some(EAGAIN));
        assert!(Barrier::new(1).wait(), "alone");
    }

    #[test]
    fn all_threads_meet_at_a_barrier() {
        let (barrier, arrived) = (Barrier::new(3), AtomicUsize::new(0));
        let meet = |round: usize| {
            arrived.fetch_add(1, Ordering::Relaxed);
            let is_last = barrier.wait();
            assert_eq!(arrived.load(Ordering::Relaxed), 3 * round, "nobody is ahead or behind");
            barrier.wait();
            is_last
        };
        let meets = || (1..=50).filter(|round| meet(*round)).count();
        let last: usize = std::thread::scope(|scope| {
            [0; 3].map(|_| scope.spawn(meets)).into_iter().map(|one| one.join().unwrap_or(0)).sum()
        });
        assert_eq!(last, 50);
    }
}
