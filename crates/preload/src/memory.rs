//! The shared memory, and each thread's slot in it.
//!
//! The memory is created when a thread first comes to a barrier:
//!
//! 1. Create a memfd at its full size. Reserve its pages, so that no later write can fail, and seal it against shrinking, so that no reader can
//!    fault.
//! 2. Map it; the page that cox writes is mapped read-only.
//! 3. Write the header, the magic last.
//! 4. Close the descriptor, because programs rely on descriptor numbers. cox finds the mapping by its name in /proc/PID/maps and opens it through
//!    /proc/PID/map_files. Only root may do that. Therefore, in programs of other users, the library keeps a close-on-exec descriptor with a number
//!    on which no program relies, and cox opens it through /proc/PID/fd. If a program closes or replaces that descriptor, cox cannot read the memory
//!    without root privileges.
//!
//! *Rejected alternative:* a socket whose path and nonce are in the environment. cox attaches to programs that no session has started, and must find
//! their memory too. A file or a socket would have to be cleaned up after a SIGKILL. A connection is a descriptor, which programs close and reuse.
//!
//! A forked child must not use its parent's memory: a handler unmaps it, and the child creates its own at its next barrier.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use umt_client::Errno;
use wire::preload::{
    BYTES, KEPT_FROM, MAGIC, NAME, ORDERS_AT, Orders, PAGE, PHASES_AT, PhaseLengths, PreloadPage, ROLE_TEAM, SLOTS,
    SLOTS_AT, Slot, VERSION,
};

use crate::start;

/// Address at which the memory shared with cox is mapped; null before it exists.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static MAKING: AtomicU32 = AtomicU32::new(NOT_YET);
const NOT_YET: u32 = 0;
const BEING_MADE: u32 = 1;
const THERE: u32 = 2;
const IMPOSSIBLE: u32 = 3;

/// The descriptor of the shared memory that stays open, so that cox can open the memory without root privileges; negative if there is none.
/// `KEPT_FILE` is its file, by device and inode number.
static KEPT: AtomicI32 = AtomicI32::new(-1);
static KEPT_FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Thread-specific key, whose destructor is called at the end of a thread. Created once, and inherited by forked children.
static KEY: AtomicU32 = AtomicU32::new(0);
static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);

/// Function that resets the other modules of this library in a forked child.
static FORKED: OnceLock<fn()> = OnceLock::new();

/// Largest number of times that a thread yields while another one creates the memory.
const PATIENCE: u32 = 1000;

thread_local! {
    /// This thread's slot (its entry in the shared memory). Null if the thread has not requested a slot; [`NOWHERE`] if no slot is available.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}
const NOWHERE: *const Slot = ptr::without_provenance(1);

/// Returns the header of the memory shared with cox, if the memory exists.
#[inline]
pub fn page() -> Option<&'static PreloadPage> {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: the memory begins with the header, is aligned to pages, and stays mapped as long as BASE is set. It is only unmapped in a forked child,
    // whose single thread is inside fork.
    (!base.is_null()).then(|| unsafe { &*base.cast() })
}

/// Returns the page in which cox tells this library how many CPUs the program has now, if the memory exists.
#[inline]
pub fn orders() -> Option<&'static Orders> {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: this page is a part of the memory, which stays mapped as long as BASE is set. (The memory is only unmapped in a forked
    // child, whose single thread is inside fork.)
    (!base.is_null()).then(|| unsafe { &*base.add(ORDERS_AT).cast() })
}

/// Returns the calling thread's slot: its entry in the memory shared with cox. The first call takes a slot, and creates the memory if needed. `None`
/// if all slots are taken, or if the memory cannot be created.
#[inline]
pub fn thread_slot() -> Option<&'static Slot> {
    let slot = SLOT.get();
    if slot.is_null() {
        return take_slot();
    }
    // SAFETY: `slot` is neither null nor NOWHERE, so it points into the table of slots, which stays mapped.
    (slot != NOWHERE).then(|| unsafe { &*slot })
}

/// Returns the lengths of phases in the memory shared with cox, if the memory exists.
#[inline]
pub fn phase_lengths() -> Option<&'static PhaseLengths> {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: these words are a part of the program's page, which stays mapped as long as BASE is set, and are aligned.
    (!base.is_null()).then(|| unsafe { &*base.add(PHASES_AT).cast() })
}

/// Returns whether this is the first slot that was given to a thread.
#[inline]
pub fn is_first(slot: &Slot) -> bool {
    let base = BASE.load(Ordering::Acquire);
    !base.is_null() && ptr::from_ref(slot).cast() == base.wrapping_add(SLOTS_AT).cast_const()
}

/// Records that the thread has arrived at a barrier.
#[inline]
pub fn arrive(slot: &Slot) {
    slot.in_barrier.store(1, Ordering::Relaxed);
}

/// Records that the thread has passed a barrier.
#[inline]
pub fn leave(slot: &Slot) {
    next_phase(slot);
    let_go(slot);
}

/// Adds one to the number of phases that the thread has begun (a phase begins with a region, and after each barrier). From then on, cox regards
/// waiting threads of the team as released if they have begun fewer phases. Returns the new number.
#[inline]
pub fn next_phase(slot: &Slot) -> u64 {
    let phases = slot.phases.load(Ordering::Relaxed).wrapping_add(1);
    slot.phases.store(phases, Ordering::Relaxed);
    phases
}

/// Records that the thread no longer waits.
#[inline]
pub fn let_go(slot: &Slot) {
    slot.in_barrier.store(0, Ordering::Release);
}

/// Called when the thread begins its share of a parallel region (its call of the region's function). `phases` is the number of the team's phase that
/// begins with the region (a phase begins with a region, and after each barrier).
#[inline]
pub fn begin_share(slot: &Slot, phases: u64) {
    if slot.phases.load(Ordering::Relaxed) < phases {
        slot.phases.store(phases, Ordering::Relaxed);
    }
    let_go(slot);
}

/// Records in the shared memory that the program uses the feature `what`, one of the bits of [`PreloadPage::seen`], such as
/// [`TASKS`](wire::preload::TASKS).
#[inline]
pub fn note_seen(what: u32) {
    if let Some(page) = page().filter(|page| page.seen.load(Ordering::Relaxed) & what == 0) {
        page.seen.fetch_or(what, Ordering::Relaxed);
    }
}

/// Sets the function that is called in forked children that inherit the memory. It has to be async-signal-safe.
pub fn when_forked(forked: fn()) {
    let _ = FORKED.set(forked);
}

#[cold]
fn take_slot() -> Option<&'static Slot> {
    let _errno = Errno::keep();
    let base = made()?;
    // SAFETY: `made` returns the mapped memory.
    let page: &'static PreloadPage = unsafe { &*base.cast() };
    let number = next(&page.given);
    if number >= SLOTS as u32 {
        SLOT.set(NOWHERE);
        return None;
    }
    // SAFETY: the index is within the table.
    let slot: &'static Slot = unsafe { &*base.add(SLOTS_AT).cast::<Slot>().add(number as usize) };
    SLOT.set(slot);
    // SAFETY: the key exists if the memory exists. If this call fails, the slot is not marked as ended when the thread ends. If a later thread has
    // the same thread id, cox uses that thread's later slot.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Acquire), ptr::from_ref(slot).cast()) };
    // SAFETY: the function takes no arguments and cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    slot.tid.store(tid as u32, Ordering::Release);
    Some(slot)
}

/// Returns the next slot number. The count continues when all slots of the table are taken, but it never wraps around to 0.
fn next(given: &AtomicU32) -> u32 {
    if given.load(Ordering::Relaxed) > u32::MAX / 2 { u32::MAX } else { given.fetch_add(1, Ordering::Relaxed) }
}

/// Returns the address of the memory shared with cox, and creates the memory if needed. `None` if it cannot be created. Also `None` if another thread
/// is creating it and takes too long; the calling thread then tries again at its next barrier.
fn made() -> Option<*mut u8> {
    for _ in 0..PATIENCE {
        match MAKING.compare_exchange(NOT_YET, BEING_MADE, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let base = make();
                BASE.store(base.unwrap_or(ptr::null_mut()), Ordering::Release);
                MAKING.store(if base.is_some() { THERE } else { IMPOSSIBLE }, Ordering::Release);
                return base;
            }
            Err(THERE) => return Some(BASE.load(Ordering::Acquire)).filter(|base| !base.is_null()),
            Err(IMPOSSIBLE) => {
                SLOT.set(NOWHERE);
                return None;
            }
            // SAFETY: the function takes no arguments.
            Err(_) => unsafe { libc::sched_yield() },
        };
    }
    None
}

fn make() -> Option<*mut u8> {
    if !HAS_HANDLERS.load(Ordering::Relaxed) {
        let mut key = 0;
        // SAFETY: the pointer to the key is valid, and the function accepts the values passed to pthread_setspecific.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } != 0 {
            return None;
        }
        KEY.store(key, Ordering::Release);
        // SAFETY: the handler makes async-signal-safe calls and only changes our own variables.
        if unsafe { libc::pthread_atfork(None, None, Some(in_child)) } != 0 {
            return None;
        }
        HAS_HANDLERS.store(true, Ordering::Relaxed);
    }
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the argument is a C string.
    let mut fd = unsafe { libc::memfd_create(NAME.as_ptr(), flags | libc::MFD_NOEXEC_SEAL) };
    if fd < 0 {
        // Linux before 6.3 rejects the last flag.
        // SAFETY: the argument is a C string.
        fd = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
    }
    if fd < 0 {
        return None;
    }
    let base = map(fd);
    if base.is_some() {
        keep(fd);
    }
    // SAFETY: `fd` is our own descriptor, and is not used after this.
    unsafe { libc::close(fd) };
    base
}

/// Keeps a second descriptor of the memory, for cox, unless the program runs as root: without root privileges, cox cannot open the mapping.
fn keep(fd: i32) {
    // SAFETY: the function takes no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let Some(file) = file(fd).filter(|_| !is_root) else { return };
    // SAFETY: the call only duplicates our own descriptor. If the new number is beyond the program's limit, the call fails, and no descriptor is
    // kept.
    let kept = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, KEPT_FROM) };
    for (word, value) in KEPT_FILE.iter().zip(file) {
        word.store(value, Ordering::Relaxed);
    }
    KEPT.store(kept, Ordering::Relaxed);
}

/// Returns the file of a descriptor, by device and inode number.
fn file(fd: i32) -> Option<[u64; 2]> {
    // SAFETY: all zero is a valid value of this type.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer to the result is valid.
    (unsafe { libc::fstat(fd, &raw mut status) } == 0).then_some([status.st_dev, status.st_ino])
}

fn map(fd: i32) -> Option<*mut u8> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the calls take no pointers, and act only on our own descriptor.
    let ready = unsafe {
        libc::ftruncate(fd, BYTES as libc::off_t) == 0
            && libc::fallocate(fd, 0, 0, BYTES as libc::off_t) == 0
            && libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0
    };
    if !ready {
        return None;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the call makes a new mapping, at an address that the kernel chooses.
    let base = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let base = base.cast::<u8>();
    // SAFETY: the range is one page of the new mapping.
    if unsafe { libc::mprotect(base.add(ORDERS_AT).cast(), PAGE, libc::PROT_READ) } != 0 {
        // SAFETY: `base` is the new mapping, which no other code uses yet.
        unsafe { libc::munmap(base.cast(), BYTES) };
        return None;
    }
    // SAFETY: the memory begins with the header, all zero now.
    let page: &PreloadPage = unsafe { &*base.cast() };
    page.version.store(VERSION, Ordering::Relaxed);
    page.bytes.store(BYTES as u32, Ordering::Relaxed);
    page.slots.store(SLOTS as u32, Ordering::Relaxed);
    // SAFETY: the function takes no arguments and cannot fail.
    page.pid.store(unsafe { libc::getpid() } as u32, Ordering::Relaxed);
    page.cpus_at_start.store(start::cpus(), Ordering::Relaxed);
    page.magic.store(MAGIC, Ordering::Release);
    Some(base)
}

/// Called at the end of a thread, with the slot that [`take_slot`] set.
unsafe extern "C" fn thread_ends(slot: *mut c_void) {
    SLOT.set(NOWHERE);
    // SAFETY: `slot` points into the table of slots, which is still mapped. (A forked child, which unmaps its parent's table, clears the value
    // inherited from the parent.)
    let slot: &Slot = unsafe { &*slot.cast() };
    if let Some(page) = page().filter(|_| slot.role.load(Ordering::Relaxed) == ROLE_TEAM) {
        page.team_threads.fetch_sub(1, Ordering::Relaxed);
    }
    slot.ended.store(1, Ordering::Release);
}

/// Called in a forked child, whose only thread is the one that forked.
unsafe extern "C" fn in_child() {
    let base = BASE.swap(ptr::null_mut(), Ordering::Relaxed);
    if !base.is_null() {
        // SAFETY: `base` is the parent's memory. This process has no other thread that could use it, and this thread's own pointer (`SLOT`) is
        // cleared below.
        unsafe { libc::munmap(base.cast(), BYTES) };
    }
    let kept = KEPT.swap(-1, Ordering::Relaxed);
    // The program may have closed the descriptor and reused its number.
    if kept >= 0 && file(kept) == Some(KEPT_FILE.each_ref().map(|word| word.load(Ordering::Relaxed))) {
        // SAFETY: `kept` is the descriptor of the parent's memory, which this process does not use.
        unsafe { libc::close(kept) };
    }
    SLOT.set(ptr::null());
    // SAFETY: the key was made before this handler was registered.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), ptr::null()) };
    MAKING.store(NOT_YET, Ordering::Relaxed);
    FORKED.get().into_iter().for_each(|forked| forked());
}
