//! Throttle of libgomp's spinning.
//!
//! libgomp counts the CPUs once, when it is loaded. A waiting thread spins for milliseconds, unless libgomp manages more threads than the CPUs it
//! counted; in that case the thread sleeps almost immediately (libgomp, config/linux/wait.h, `do_spin`). If a program is packed onto fewer CPUs
//! later, its threads continue to spin, and each one takes a CPU from a thread that works.
//!
//! Therefore this module gives the library more threads to manage: a helper thread begins a team of its own, with one thread more than there were
//! CPUs, and lets the team sleep. libgomp counts the threads of all teams (team.c, `gomp_managed_threads`). When the helper ends, its thread pool is
//! freed and the count is as before.
//!
//! 1. At a barrier or at the start of a region, a thread reads from cox's page that the program now has fewer CPUs than at its start, and fewer CPUs
//!    than threads.
//! 2. The thread starts the helper, with all signals blocked.
//! 3. libgomp aborts the program if it cannot create a thread. So the helper first creates the same number of threads as a test.
//! 4. The team exists, and spinning is throttled, until cox withdraws this order, stops renewing it (cox was killed), or the program's teams are
//!    small enough.
//!
//! *Rejected:* changing libgomp's variables directly (hidden symbols of a stripped library); using fewer threads for the team (the program's own
//! threads cannot be counted exactly, and a team that begins or ends would change the result); checking by process id whether cox is alive (wrong in
//! a container).

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};

use umt_client::{Errno, futex};
use wire::preload::{AS_IT_WAS, REFUSED, THROTTLED};

use crate::real_symbols::{BEGUN, IDLE, IMPOSSIBLE, Library};
use crate::{memory, start, thread};

/// Longest time between two checks by which the helper decides whether it is still needed.
const LOOK_NS: u64 = 500_000_000;
/// Largest number of threads in the helper's team.
const MAX_TEAM: usize = 1024;
/// Number of additional threads that `rehearse` creates, because the program may create threads at the same time.
const SPARE: usize = 8;

/// Data shared by the threads of the helper's team: the additional team whose existence makes libgomp's waiting threads sleep.
struct HelperTeam {
    library: &'static Library,
    /// Number of threads that the team should have.
    team: c_int,
    helper: libc::pthread_t,
    /// 1 once the team has had its intended size.
    was_active: AtomicU32,
    over: AtomicU32,
}

/// Starts the throttle of `library` if cox has asked for it. Called at barriers and when a region begins.
#[inline]
pub fn look(library: &'static Library) {
    if memory::orders().is_some_and(|orders| orders.cpus_now.load(Ordering::Relaxed) != 0) {
        begin(library);
    }
}

#[cold]
fn begin(library: &'static Library) {
    let state = &library.throttle;
    if state.load(Ordering::Relaxed) != IDLE || time_left_ns().is_none() {
        return;
    }
    if state.compare_exchange(IDLE, BEGUN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        let _errno = Errno::keep();
        if thread::start(None, help, ptr::from_ref(library).cast_mut().cast()).is_err() {
            give_up(library);
        }
    }
}

fn give_up(library: &Library) {
    say(REFUSED);
    library.throttle.store(IMPOSSIBLE, Ordering::Release);
}

/// Returns for how much longer cox wants libgomp's spinning throttled, in nanoseconds. `None` if cox does not ask for that (any longer), or if
/// spinning does no harm now.
fn time_left_ns() -> Option<u64> {
    let (page, orders) = (memory::page()?, memory::orders()?);
    let cpus_now = orders.cpus_now.load(Ordering::Relaxed);
    let team_threads = page.team_threads.load(Ordering::Relaxed);
    // Spinning does harm only if there are more threads than CPUs now. If there are also more threads than the CPUs that libgomp counted at its
    // start, libgomp does not spin.
    let spins = team_threads > cpus_now && team_threads <= start::cpus();
    if cpus_now == 0 || cpus_now >= start::cpus() || !spins {
        return None;
    }
    orders.until_ns.load(Ordering::Relaxed).checked_sub(umt_client::now_ns()).filter(|left| *left > 0)
}

fn say(throttle: u32) {
    if let Some(page) = memory::page() {
        page.throttle.store(throttle, Ordering::Relaxed);
    }
}

/// Function of the helper thread, which keeps an additional team in existence, so that libgomp's waiting threads sleep instead of spinning.
extern "C" fn help(library: *mut c_void) -> *mut c_void {
    // SAFETY: `begin` passes a library, which is static.
    let library: &'static Library = unsafe { &*library.cast() };
    // The helper is registered before it creates threads, because cox identifies these threads by their creator.
    let Some(place) = enlist() else {
        give_up(library);
        return ptr::null_mut();
    };
    // The helper's threads inherit the name.
    // SAFETY: the argument is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"cox-throttle".as_ptr()) };
    let team = start::cpus() as usize + 1;
    let parallel = library.parallel().filter(|_| team <= MAX_TEAM && !start::teams_show() && rehearse(team));
    let hold = HelperTeam {
        library,
        team: team as c_int,
        // SAFETY: the function takes no arguments.
        helper: unsafe { libc::pthread_self() },
        was_active: AtomicU32::new(0),
        over: AtomicU32::new(0),
    };
    if let Some(parallel) = parallel {
        // SAFETY: `parallel` is libgomp's GOMP_parallel. It returns when all threads of the team have returned from `hold_up`; `hold` lives longer
        // than that.
        unsafe { parallel(hold_up, ptr::from_ref(&hold).cast_mut().cast(), team as u32, 0) };
    }
    if hold.was_active.load(Ordering::Relaxed) == 0 {
        give_up(library);
    } else {
        library.throttle.store(IDLE, Ordering::Release);
    }
    place.store(0, Ordering::Relaxed);
    // When this thread ends, libgomp frees its thread pool.
    ptr::null_mut()
}

/// Registers the calling thread in the shared memory as a helper: a thread of this library, which does no work of the program. Returns its entry
/// there; `None` if all entries are taken.
fn enlist() -> Option<&'static AtomicU32> {
    // SAFETY: the function takes no arguments and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let mut places = memory::page()?.helpers.iter();
    places.find(|place| place.compare_exchange(0, tid, Ordering::Release, Ordering::Relaxed).is_ok())
}

/// Function of each thread in the helper's team: sleeps until the throttle ends.
unsafe extern "C-unwind" fn hold_up(hold: *mut c_void) {
    // SAFETY: `help` passes its `HelperTeam`.
    let hold: &HelperTeam = unsafe { &*hold.cast() };
    // OMP_THREAD_LIMIT or OMP_DYNAMIC can make the team smaller; all threads see the same size.
    if hold.library.team_size() < hold.team {
        return;
    }
    // SAFETY: the function takes no arguments.
    if unsafe { libc::pthread_self() } != hold.helper {
        while hold.over.load(Ordering::Acquire) == 0 {
            futex::wait(&hold.over, 0);
        }
        return;
    }
    hold.was_active.store(1, Ordering::Relaxed);
    say(THROTTLED);
    while let (Some(left_ns), Some(orders)) = (time_left_ns(), memory::orders()) {
        let cpus_now = orders.cpus_now.load(Ordering::Relaxed);
        sleep_on(&orders.cpus_now, cpus_now, left_ns.min(LOOK_NS));
    }
    say(AS_IT_WAS);
    hold.over.store(1, Ordering::Release);
    futex::wake(&hold.over, c_int::MAX as u32);
}

/// Sleeps while `word`, in the page that cox writes, has the value `value`, but at most `at_most_ns` nanoseconds. cox wakes the thread when it
/// changes the word. May also return without a wake-up.
fn sleep_on(word: &AtomicU32, value: u32, at_most_ns: u64) {
    let time = libc::timespec {
        tv_sec: (at_most_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_most_ns % 1_000_000_000) as libc::c_long,
    };
    // cox wakes the futex when it changes the word, so it is not a private one.
    //
    // SAFETY: the word and the time are valid during the sleep.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time) };
}

/// Tests whether `threads` more threads can exist at the same time, with the same stack size as libgomp's threads.
fn rehearse(threads: usize) -> bool {
    let threads = threads + SPARE;
    let mut created = [0; MAX_TEAM + SPARE];
    let mut attributes = thread::gomp_attributes();
    let gate = RwLock::new(());
    let closed = gate.write();
    let argument = ptr::from_ref(&gate).cast_mut().cast();
    // SAFETY: `attributes` is valid, and `gate` lives until all threads are joined.
    let create = |thread| unsafe { libc::pthread_create(thread, &raw const attributes, pass, argument) } == 0;
    let count = created.iter_mut().map(|thread| create(thread)).take(threads).take_while(|created| *created).count();
    drop(closed);
    // SAFETY: the threads were created above and are joined once.
    unsafe {
        for thread in &created[..count] {
            libc::pthread_join(*thread, ptr::null_mut());
        }
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    count == threads
}

/// Function of each thread that `rehearse` creates as a test: waits until `rehearse` releases the lock `gate`.
extern "C" fn pass(gate: *mut c_void) -> *mut c_void {
    // SAFETY: `rehearse` passes a lock that outlives this thread.
    let gate: &RwLock<()> = unsafe { &*gate.cast() };
    drop(gate.read());
    ptr::null_mut()
}
