//! Standby workers: threads of this library that run the program's tasks while the program's own threads are blocked.
//!
//! Each standby is in one of three states:
//!
//! 1. *Parked* at a doorbell (`umt-client`): it sleeps until it is rung.
//! 2. *Working*: it runs tasks of the program's teams until no task is left, or until other threads want its CPU and the next task probably does not
//!    block.
//! 3. *Dormant*: it sleeps without a doorbell, because no doorbell was free. When no standby is parked, a dormant one is woken and takes a free
//!    doorbell.
//!
//! A standby that is rung gives its doorbell back. Before it works, it makes sure that another standby is parked: it wakes a dormant one or, if
//! there is none, creates one. So there is one standby more than the largest number of tasks that were blocked at the same time.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use tasks::helping::Helper;
use umt_client::bell::{Bell, Woken};
use umt_client::connect::Session;
use umt_client::slices::{self, Manners};
use umt_client::{kernel_page, standby};
use wire::umt::{BELLS, How, STANDBYS_AT_MOST, delay_class};

use super::teams;
use super::workers::spare_worker;
use crate::{start, thread};

/// Free doorbells (a standby that waits on a doorbell is woken by ringing it). The last one in the list is taken first: at the start, the one with
/// the lowest number.
static BELLS_FREE: Mutex<Vec<Bell>> = Mutex::new(Vec::new());
/// Signalled when a doorbell becomes free. Wakes dormant standbys: they sleep here because no doorbell was free.
static BELL_IS_FREE: Condvar = Condvar::new();
/// The socket that connects this process to the session of cox. It stays open.
static SESSION: AtomicI32 = AtomicI32::new(-1);
static STANDBYS: AtomicU32 = AtomicU32::new(0);
static DORMANT: AtomicU32 = AtomicU32::new(0);
/// For each doorbell: the time of BPF's latest ring after which the woken standby has begun a task, nanoseconds on CLOCK_MONOTONIC.
static HEARD_NS: [AtomicU64; BELLS] = [const { AtomicU64::new(0) }; BELLS];
/// Signal mask of the thread that called [`begin`]. The standbys use the same mask.
static MASK: OnceLock<libc::sigset_t> = OnceLock::new();

/// Stores the session's data, and creates one standby for each CPU, because so many standbys may have to be woken at the same time.
pub fn begin(session: Session) {
    let cpus = start::cpus().clamp(1, BELLS as u32);
    SESSION.store(session.socket.into_raw_fd(), Ordering::Release);
    umt_client::bell::when_lost(lost);
    let mut mask = MaybeUninit::uninit();
    // SAFETY: the pointer to the mask is valid; the mask is only read.
    let mask = unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    };
    let _ = MASK.set(mask);
    let mut free = session.bells;
    free.reverse();
    *hold() = free;
    (0..cpus).for_each(|_| make());
    match session.how {
        How::Sentinels => allowed_cpus().for_each(|cpu| make_or_count(stand, ptr::without_provenance_mut(cpu))),
        How::Leader => make_or_count(lead, ptr::null_mut()),
        How::Bpf | How::Records => {}
    }
}

/// Returns whether there are standby threads, which may be woken to run tasks.
pub fn are_there() -> bool {
    umt_client::is_live() && STANDBYS.load(Ordering::Relaxed) > 0
}

fn make_or_count(work: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) {
    if let Err(error) = create(work, argument) {
        count_failed(Some(error));
    }
}

/// Counts a thread that could not be created. `why` is the error (errno), or `None` if the process has the largest number of standbys already.
fn count_failed(why: Option<c_int>) {
    let counts = &umt_client::program_page().counts.0;
    match why {
        Some(error) => counts.error.store(error.unsigned_abs().into(), Ordering::Relaxed),
        None => _ = counts.at_limit.fetch_add(1, Ordering::Relaxed),
    }
    counts.failed.fetch_add(1, Ordering::Relaxed);
}

/// Returns the CPUs that this process may use, as it has reported them to the session of cox.
fn allowed_cpus() -> impl Iterator<Item = usize> {
    let words = umt_client::program_page().allowed.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
    words.flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 64 + bit))
}

extern "C" fn stand(cpu: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"cox-sentinel".as_ptr()) };
    umt_client::sentinel::stand(cpu.addr());
    ptr::null_mut()
}

extern "C" fn lead(_: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"cox-leader".as_ptr()) };
    umt_client::leader::lead();
    ptr::null_mut()
}

/// Resets the state in a forked child: threads and doorbells belong to the parent.
pub fn forked() {
    umt_client::forked();
    STANDBYS.store(0, Ordering::Relaxed);
    DORMANT.store(0, Ordering::Relaxed);
}

fn make() {
    let is_room = STANDBYS.fetch_add(1, Ordering::AcqRel) < STANDBYS_AT_MOST;
    let made = if is_room { create(run, ptr::null_mut()).map_err(Some) } else { Err(None) };
    if let Err(why) = made {
        STANDBYS.fetch_sub(1, Ordering::AcqRel);
        count_failed(why);
        alarm();
    } else {
        umt_client::program_page().counts.0.standbys.fetch_add(1, Ordering::Relaxed);
    }
}

/// Creates a thread that calls `work` with `argument`. It has the attributes of libgomp's threads, but blocks all signals at first.
fn create(work: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void) -> Result<(), c_int> {
    let mut attributes = thread::gomp_attributes();
    let created = thread::start(Some(&attributes), work, argument);
    // SAFETY: the attributes are valid until here.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    created
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"cox-standby".as_ptr()) };
    take_signals();
    let Some(worker) = spare_worker() else {
        count_failed(Some(libc::ENOMEM));
        alarm();
        return ptr::null_mut();
    };
    // Only BPF detects which tasks block, so only with BPF a standby adapts its scheduling to its tasks.
    let mut manners = (umt_client::how() == How::Bpf).then(Manners::back).flatten();
    let own_blocks = umt_client::own_blocks();
    let session = SESSION.load(Ordering::Acquire);
    loop {
        let bell = take_bell();
        let number = bell.number;
        let woken = standby::park(&bell, session);
        hold().push(bell);
        match woken {
            Woken::Rung => {}
            Woken::Over => {
                end(b"cox: overlap has ended because cox has ended; blocked threads are no longer noticed\n");
                return ptr::null_mut();
            }
            Woken::Lost => {
                lost();
                return ptr::null_mut();
            }
        }
        see_to_it_that_one_is_parked();
        let mut helped = Helped {
            bell: number,
            blocks: own_blocks,
            manners: manners.as_mut(),
            before: 0,
            ran: 0,
            is_crowded: false,
        };
        let mut at = 0;
        while let (false, Some(team)) = (helped.is_crowded, teams::known(at)) {
            at += 1;
            worker.help(team, &mut helped);
        }
        helped.count();
    }
}

/// Ends overlap: the program's own threads do the remaining work.
fn end(why: &[u8]) {
    let was_live = umt_client::end();
    alarm();
    if was_live {
        say(why);
    }
}

fn lost() {
    end(b"cox: overlap has ended: the program has closed cox's descriptors; blocked threads are no longer noticed\n");
}

/// What a standby has done since it was last woken.
struct Helped<'s> {
    /// Number of the doorbell at which the standby was woken.
    bell: u32,
    /// The kernel's count of how often the standby has blocked; `before` is its value before the present task.
    blocks: Option<&'static AtomicU32>,
    before: u32,
    /// How the standby adapts its scheduling to what its tasks wait for; `None` if it does not adapt.
    manners: Option<&'s mut Manners>,
    ran: u64,
    is_crowded: bool,
}

impl Helper for Helped<'_> {
    fn may_begin(&mut self, blocks: bool) -> bool {
        self.is_crowded = umt_client::is_crowded() && !blocks && umt_client::is_crowded_after_yielding();
        !self.is_crowded
    }

    fn begins(&mut self) {
        if self.ran == 0 {
            heard(self.bell);
        }
        self.before = self.blocks();
    }

    fn has_run(&mut self) -> bool {
        self.ran += 1;
        umt_client::program_page().counts.0.ran.fetch_add(1, Ordering::Relaxed);
        let has_blocked = self.blocks() != self.before;
        if let Some(manners) = self.manners.as_mut().filter(|_| has_blocked) {
            manners.has_blocked();
        }
        has_blocked
    }
}

impl Helped<'_> {
    fn blocks(&self) -> u32 {
        self.blocks.map_or(0, |blocks| blocks.load(Ordering::Relaxed))
    }

    fn count(&self) {
        let counts = &umt_client::program_page().counts.0;
        if self.is_crowded {
            counts.surrendered.fetch_add(1, Ordering::Relaxed);
        } else if self.ran == 0 {
            counts.empty.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sets the program's signal mask, so that tasks receive the signals that the program's threads receive. The mask is set once, at the thread's
/// start: changing it each time the standby is woken would cost two system calls. So sleeping standbys receive signals, too, as libgomp's sleeping
/// threads do.
fn take_signals() {
    // SAFETY: `begin` has initialised the mask; the thread's previous mask is not needed.
    MASK.get().into_iter().for_each(|mask| unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
    });
}

/// Wakes the team members that left their tasks to standbys, so that they run the tasks themselves.
fn alarm() {
    let mut at = 0;
    while let Some(team) = teams::known(at) {
        team.alarm();
        at += 1;
    }
}

/// Prints a line for the user.
pub fn say(line: &[u8]) {
    // SAFETY: the slice is valid. A failed write is ignored, because it cannot be reported.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Records the time from BPF's ring of the doorbell `bell` to the start of the first task that the woken standby runs.
fn heard(bell: u32) {
    let Some(kernel_page) = kernel_page() else { return };
    let rung_ns = kernel_page.rung_ns[bell as usize].load(Ordering::Relaxed);
    // BPF's latest ring was already noticed, so this time a thread of the program has rung the doorbell.
    if HEARD_NS[bell as usize].swap(rung_ns, Ordering::Relaxed) == rung_ns {
        return;
    }
    let delay_ns = umt_client::now_ns().saturating_sub(rung_ns);
    umt_client::program_page().heard.0[delay_class(delay_ns)].fetch_add(1, Ordering::Relaxed);
}

/// Locks the list of free doorbells.
pub fn hold() -> MutexGuard<'static, Vec<Bell>> {
    BELLS_FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_bell() -> Bell {
    let free = hold().pop();
    // The thread that will wake this one is then about to run tasks. `wake_behind` lets it keep its CPU.
    free.unwrap_or_else(|| slices::wake_behind(wait_for_bell))
}

fn wait_for_bell() -> Bell {
    let mut free = hold();
    loop {
        if let Some(bell) = free.pop() {
            return bell;
        }
        DORMANT.fetch_add(1, Ordering::AcqRel);
        free = BELL_IS_FREE.wait(free).unwrap_or_else(PoisonError::into_inner);
        DORMANT.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes sure that a standby is parked at a doorbell. If none is parked and a doorbell is free, wakes a dormant standby (one that sleeps without a
/// doorbell) or creates a standby. If one is parked already, does nothing: no second one is needed, and waking a dormant standby costs as much as
/// ringing a doorbell.
fn see_to_it_that_one_is_parked() {
    if umt_client::program_page().parked.0.load(Ordering::Acquire) != 0 {
        return;
    }
    let free = hold();
    if free.is_empty() {
        return;
    }
    // Read under the lock: a standby that has not yet counted itself as dormant takes the lock later, and then finds the doorbell.
    let is_dormant = DORMANT.load(Ordering::Acquire) != 0;
    drop(free);
    if is_dormant {
        BELL_IS_FREE.notify_one();
    } else {
        make();
    }
}
