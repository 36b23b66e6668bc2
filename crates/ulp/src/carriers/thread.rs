//! The kernel thread of a carrier: its CPU, its signals, its ticks, and the dispatch of its system calls.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use super::carrier::Carrier;
use super::{machine, relief, trap};

/// A ULP that does not yield leaves its carrier after one to two ticks of the carrier's CPU time, ns.
const TICK_NS: i64 = 10_000_000;

/// Syscall user dispatch in the kernel's linux/prctl.h.
const SET_DISPATCH: i32 = 59;
const DISPATCH_OFF: u64 = 0;
const DISPATCH_ON: u64 = 1;

/// Finds out whether system calls can be dispatched: asks for what is the case already, that none are.
///
/// # Errors
/// The kernel does not have it, or a filter refuses it.
pub fn probe_dispatch() -> io::Result<()> {
    // SAFETY: numbers only.
    match unsafe { libc::prctl(SET_DISPATCH, DISPATCH_OFF, 0u64, 0u64, 0u64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the GS base of the calling thread.
pub(super) fn set_task(address: u64) -> io::Result<()> {
    // SAFETY: nothing in this process uses the GS base but this crate.
    match unsafe { machine::set_task_address(address) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    }
}

/// Starts a carrier's thread. Returns when it is ready.
pub(super) fn start(cpu: usize, carrier: *mut Carrier) -> io::Result<()> {
    let address = carrier as usize;
    for signal in trap::SYNCHRONOUS.into_iter().chain([tick_signal(), relief::SIGNAL]) {
        trap::install(signal);
    }
    // SAFETY: the carrier is that thread's alone.
    let set_up = move || unsafe { set_up(cpu, address as *mut Carrier) };
    let run = move || {
        // SAFETY: the thread is set up as `run` needs it.
        unsafe {
            if arm_dispatch() == 0 {
                Carrier::run(address as *mut Carrier)
            }
        }
        // The probe has worked.
        eprintln!("cox: the kernel refuses syscall user dispatch to a carrier");
        std::process::abort()
    };
    begin(thread::Builder::new().name(format!("carrier {cpu}")), set_up, run)
}

/// Starts a thread, which sets itself up and then runs. Returns when it is set up, or why it is not.
pub(super) fn begin(
    builder: thread::Builder,
    set_up: impl FnOnce() -> io::Result<()> + Send + 'static,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let (ready, is_ready) = mpsc::sync_channel(1);
    builder.spawn(move || {
        let is_set_up = set_up();
        let failed = is_set_up.is_err();
        let _ = ready.send(is_set_up);
        // It may never return.
        drop(ready);
        if !failed {
            run();
        }
    })?;
    is_ready.recv().map_err(|_| io::Error::other("a thread has ended"))?
}

/// Binds the calling thread to a CPU.
pub(super) fn bind(cpu: usize) -> io::Result<()> {
    // SAFETY: all fields are numbers, and the structure is valid.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(0, size_of_val(&set), &raw const set))
    }
}

/// The result of a function of the C library.
pub(super) fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The signal of a carrier's ticks.
fn tick_signal() -> i32 {
    libc::SIGRTMIN()
}

/// Prepares the calling thread for its work as a carrier.
///
/// # Safety
/// The carrier must be this thread's alone.
unsafe fn set_up(cpu: usize, carrier: *mut Carrier) -> io::Result<()> {
    bind(cpu)?;
    // SAFETY: all structures are valid; each call is for the calling thread.
    unsafe {
        let (begin, end) = (*carrier).handlers;
        let stack = libc::stack_t { ss_sp: begin as *mut c_void, ss_flags: 0, ss_size: (end - begin) as usize };
        check(libc::sigaltstack(&raw const stack, ptr::null_mut()))?;
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in trap::SYNCHRONOUS.into_iter().chain([tick_signal(), relief::SIGNAL]) {
            libc::sigdelset(blocked.as_mut_ptr(), signal);
        }
        check(libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), ptr::null_mut()))?;
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = tick_signal();
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = ptr::null_mut();
        check(libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer))?;
        let tick = libc::timespec { tv_sec: 0, tv_nsec: TICK_NS };
        let every = libc::itimerspec { it_interval: tick, it_value: tick };
        check(libc::timer_settime(timer, 0, &raw const every, ptr::null_mut()))?;
        set_task(carrier as u64)?;
        (*carrier).tid.store(libc::gettid(), Ordering::Relaxed);
        (*carrier).context.tls = machine::tls();
    }
    Ok(())
}

/// From here on, this thread's system calls outside the gate are dispatched. Returns what the kernel returns.
///
/// # Safety
/// The calling thread must make no other system calls from here on, and use no library that does.
unsafe fn arm_dispatch() -> i64 {
    let gate = machine::gate();
    // SAFETY: numbers only. The call itself is made in the gate.
    unsafe { machine::call(libc::SYS_prctl, SET_DISPATCH as u64, DISPATCH_ON, gate.start, gate.end - gate.start, 0, 0) }
}
