//! The sentinel of a carrier: a thread of the class SCHED_IDLE on its CPU. It runs only if the CPU has nothing else to do. If the carrier has had the same ULP
//! each time that it looks, the carrier may sleep in a page fault, and the sentinel tells the host.
//!
//! eBPF would notice it at once, but needs privileges.
//!
//! On a busy CPU, a sentinel is ready to run and waits. It gets about 0.3 % of the CPU's time, of which it uses microseconds.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::carrier::Carrier;
use super::record::Record;
use super::thread::{begin, bind, check};

/// How long a sentinel sleeps when it has run: the longer, the less has happened. At most so long while the carrier runs a ULP, and while it does not.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(4);
const LONGEST_WITHOUT_ULP: Duration = Duration::from_millis(64);
/// Length of its stack, bytes.
const STACK_BYTES: usize = 64 << 10;

/// Starts the sentinel of a carrier. Returns when it stands.
pub(super) fn start(cpu: usize, carrier: *mut Carrier) -> io::Result<()> {
    let address = carrier as usize;
    let builder = thread::Builder::new().name(format!("sentinel {cpu}")).stack_size(STACK_BYTES);
    // SAFETY: carriers are never freed.
    begin(builder, move || set_up(cpu), move || unsafe { stand(address as *mut Carrier) })
}

/// Prepares the calling thread.
fn set_up(cpu: usize) -> io::Result<()> {
    // SAFETY: all structures are valid; each call is for the calling thread.
    unsafe {
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(blocked.as_mut_ptr());
        check(libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), ptr::null_mut()))?;
        bind(cpu)?;
        let parameters = libc::sched_param { sched_priority: 0 };
        check(libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters))
    }
}

/// Watches a carrier for ever.
unsafe fn stand(carrier: *mut Carrier) -> ! {
    let mut pause = SHORTEST;
    let mut before = (ptr::null_mut(), 0);
    loop {
        thread::sleep(pause);
        // SAFETY: carriers are never freed. Both words are the carrier's, which writes them without synchronisation; what is read may be old.
        let (current, switches, is_empty) = unsafe {
            let current = AtomicPtr::<Record>::from_ptr(&raw mut (*carrier).current).load(Ordering::Relaxed);
            let switches = AtomicU64::from_ptr(&raw mut (*carrier).switches).load(Ordering::Relaxed);
            (current, switches, (*carrier).inbox.is_empty())
        };
        let has_moved = before != (current, switches);
        before = (current, switches);
        pause = if has_moved || !is_empty {
            SHORTEST
        } else {
            (2 * pause).min(if current.is_null() { LONGEST_WITHOUT_ULP } else { LONGEST })
        };
        if !current.is_null() && !has_moved {
            // SAFETY: as above. The host waits for this signal.
            unsafe {
                (*carrier).is_alarmed.store(true, Ordering::Release);
                libc::kill(libc::getpid(), libc::SIGCHLD);
            }
        }
    }
}
