//! The functions of the program's own OpenMP library that this library interposes.
//!
//! A program linked to libgomp has it in the global scope: the next function of the same name is the one that all callers would have reached without
//! interposition. If dlopen(3) loaded libgomp with a module (Python), it is in that module's scope only. There may then be several libraries, each
//! with its own teams and thread numbers, and a call must reach the one that its caller is linked to. The caller is identified by the address of the
//! region function, which the compiler puts into the same object, or else by the return address (`caller`).

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::calls::{Call, NAMES};
use crate::object::object_of;

/// [`Library::throttle`]: the spin throttle, which makes libgomp's waiting threads sleep, is not active.
pub const IDLE: u32 = 0;
/// [`Library::throttle`]: the spin throttle has been started, and has a helper thread.
pub const BEGUN: u32 = 1;
/// [`Library::throttle`]: the spin throttle cannot work in this program, so it is not started again.
pub const IMPOSSIBLE: u32 = 2;

/// An OpenMP library with libgomp's functions.
pub struct Library {
    /// Handle for looking up names; null while this entry is free.
    handle: AtomicPtr<c_void>,
    calls: [AtomicPtr<c_void>; NAMES.len()],
    /// Not 0 for libomp. It has functions with libgomp's names, for programs built by gcc, and reports its barriers itself (`ompt`).
    is_libomp: AtomicU32,
    /// State of the library's spin throttle (`throttle`): [`IDLE`], [`BEGUN`] or [`IMPOSSIBLE`].
    pub throttle: AtomicU32,
}

impl Library {
    const fn new() -> Library {
        Library {
            handle: AtomicPtr::new(ptr::null_mut()),
            calls: [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()],
            is_libomp: AtomicU32::new(0),
            throttle: AtomicU32::new(IDLE),
        }
    }

    /// Returns one of the library's functions; null if the library has no function of this name.
    #[inline]
    pub fn get(&self, call: Call) -> *mut c_void {
        let known = self.calls[call as usize].load(Ordering::Relaxed);
        if known.is_null() { self.look_up(call) } else { known }
    }

    #[cold]
    fn look_up(&self, call: Call) -> *mut c_void {
        // SAFETY: the arguments are a handle from dlopen(3) or RTLD_NEXT, and a C string.
        let found = unsafe { libc::dlsym(self.handle.load(Ordering::Acquire), NAMES[call as usize].as_ptr()) };
        self.calls[call as usize].store(found, Ordering::Relaxed);
        found
    }

    /// Returns the number of threads in the calling thread's team.
    #[inline]
    pub fn team_size(&self) -> c_int {
        self.number(Call::omp_get_num_threads).max(1)
    }

    /// Calls the OpenMP function `call`, which takes no arguments, and returns its result; 0 if the library has no such function.
    #[inline]
    pub fn number(&self, call: Call) -> c_int {
        // SAFETY: `get` returns null or the function `call`. Callers name only functions of this type.
        let number: Option<unsafe extern "C" fn() -> c_int> = unsafe { std::mem::transmute(self.get(call)) };
        // SAFETY: a program may call this OpenMP function at any point.
        number.map_or(0, |number| unsafe { number() })
    }

    /// Calls the OpenMP function `call` with the nesting level `level`, and returns its result; -1 if the library has no such function.
    pub fn number_at(&self, call: Call, level: c_int) -> c_int {
        // SAFETY: `get` returns null or the function `call`. Callers name only functions of this type.
        let number: Option<unsafe extern "C" fn(c_int) -> c_int> = unsafe { std::mem::transmute(self.get(call)) };
        // SAFETY: a program may call this OpenMP function at any point.
        number.map_or(-1, |number| unsafe { number(level) })
    }

    /// Calls the OpenMP function `call`, which sets an integer, with `value`. Does nothing if the library has no such function.
    pub fn set(&self, call: Call, value: c_int) {
        // SAFETY: `get` returns null or the function `call`. Callers name only functions of this type.
        let set: Option<unsafe extern "C" fn(c_int)> = unsafe { std::mem::transmute(self.get(call)) };
        // SAFETY: a program may call this OpenMP function at any point.
        set.into_iter().for_each(|set| unsafe { set(value) });
    }

    /// Calls the libgomp function `call`, which has no arguments and no result. Does nothing if the library has no such function.
    #[inline]
    pub fn invoke(&self, call: Call) {
        // SAFETY: `get` returns null or the function `call`. Callers name only functions of this type.
        let function: Option<unsafe extern "C-unwind" fn()> = unsafe { std::mem::transmute(self.get(call)) };
        // SAFETY: the program has called a libgomp function that does the same and more, for example `GOMP_loop_end` in the case of
        // `GOMP_loop_end_nowait`.
        function.into_iter().for_each(|function| unsafe { function() });
    }

    /// Returns the library's own GOMP_parallel (not this library's wrapper of it), if it exists.
    pub fn parallel(&self) -> Option<unsafe extern "C-unwind" fn(Work, *mut c_void, c_uint, c_uint)> {
        // SAFETY: `get` returns null or the function GOMP_parallel, which has this type.
        unsafe { std::mem::transmute(self.get(Call::GOMP_parallel)) }
    }

    /// Returns whether the library is libomp, which reports its barriers itself, through OMPT.
    #[inline]
    pub fn is_libomp(&self) -> bool {
        self.is_libomp.load(Ordering::Relaxed) != 0
    }

    fn begin(&self, handle: *mut c_void) {
        self.handle.store(handle, Ordering::Release);
        // SAFETY: the arguments are a handle from dlopen(3) or RTLD_NEXT, and a C string.
        let other = unsafe { libc::dlsym(handle, c"__kmpc_barrier".as_ptr()) };
        let ours = self.get(Call::GOMP_barrier);
        let same = !other.is_null() && object_of(other as usize).is_some_and(|object| object.contains(ours as usize));
        self.is_libomp.store(same.into(), Ordering::Relaxed);
    }
}

/// Type of a region's function, which each thread of the team runs.
pub type Work = unsafe extern "C-unwind" fn(*mut c_void);

/// The OpenMP library in the global scope of the dynamic loader.
static GLOBAL: Library = Library::new();
/// OpenMP libraries outside the global scope. An entry is filled at the first call from an object that is linked to that library.
static OTHERS: [Library; MAX_OTHERS] = [const { Library::new() }; MAX_OTHERS];
const MAX_OTHERS: usize = 8;

fn all() -> impl Iterator<Item = &'static Library> {
    std::iter::once(&GLOBAL).chain(&OTHERS)
}

/// Whether all callers use the OpenMP library in the global scope, or each caller's library has to be found. The first call decides. If libgomp is
/// loaded into the global scope after the first call, only new callers use it: earlier callers keep their library.
static SCOPE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
const BEING_DECIDED: u32 = 1;
const ALL_GLOBAL: u32 = 2;
const BY_CALLER: u32 = 3;

/// A loaded object (program or library) that calls libgomp, and the number of the OpenMP library to which it is linked: 0 for GLOBAL, else the index
/// in OTHERS plus one.
struct Caller {
    /// 0 while this entry is free; written last.
    end: AtomicUsize,
    start: AtomicUsize,
    library: AtomicU32,
}
const MAX_CALLERS: usize = 64;
static CALLERS: [Caller; MAX_CALLERS] =
    [const { Caller { end: AtomicUsize::new(0), start: AtomicUsize::new(0), library: AtomicU32::new(0) } };
        MAX_CALLERS];
/// Lock: held while a caller or a library is entered into its table.
static ENTERING: AtomicU32 = AtomicU32::new(0);

/// Returns the OpenMP library to which the code at the address `caller` is linked; `None` if it is linked to none. (Such code can call an OpenMP
/// function through a weak reference, which this preloaded library resolves.)
#[inline]
pub fn library(caller: usize) -> Option<&'static Library> {
    if SCOPE.load(Ordering::Acquire) == ALL_GLOBAL { Some(&GLOBAL) } else { find(caller) }
}

/// Returns whether all callers, now and later, use the OpenMP library in the global scope. False until the first call decides this (`SCOPE`).
pub fn is_one_for_all() -> bool {
    SCOPE.load(Ordering::Acquire) == ALL_GLOBAL
}

/// Returns the OpenMP library to which the code at the address `caller` is linked, and this library's function `call`. `None` if there is no such
/// library or function.
#[inline]
pub fn resolve(call: Call, caller: usize) -> Option<(&'static Library, *mut c_void)> {
    let library = library(caller)?;
    let real_fn = library.get(call);
    (!real_fn.is_null()).then_some((library, real_fn))
}

/// Returns a function of the only known library, for a call whose caller is unknown. (A tail call is a jump, so its return address does not belong to
/// the caller.) Null if no library or several libraries are known.
pub fn resolve_without_caller(call: Call) -> *mut c_void {
    let known = |library: &&Library| !library.handle.load(Ordering::Relaxed).is_null();
    let mut known = all().filter(known);
    match (known.next(), known.next()) {
        (Some(library), None) => library.get(call),
        _ => ptr::null_mut(),
    }
}

/// Called in the child after fork(2): marks the spin throttles as not active, because their helper threads exist only in the parent.
pub fn forget_throttles() {
    for library in all() {
        // Changes only BEGUN: a throttle that is IMPOSSIBLE in the parent stays so in the child.
        let _ = library.throttle.compare_exchange(BEGUN, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }
    ENTERING.store(0, Ordering::Relaxed);
}

#[cold]
fn find(caller: usize) -> Option<&'static Library> {
    if let Some(known) = known_caller(caller) {
        return Some(known);
    }
    while ENTERING.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        // SAFETY: the function takes no arguments.
        unsafe { libc::sched_yield() };
    }
    let found = known_caller(caller).or_else(|| enter(caller));
    ENTERING.store(0, Ordering::Release);
    found
}

fn known_caller(caller: usize) -> Option<&'static Library> {
    if SCOPE.load(Ordering::Acquire) == ALL_GLOBAL {
        return Some(&GLOBAL);
    }
    let known = CALLERS.iter().take_while(|known| known.end.load(Ordering::Acquire) != 0);
    let mut known = known
        .filter(|known| (known.start.load(Ordering::Relaxed)..known.end.load(Ordering::Relaxed)).contains(&caller));
    known.next().map(|known| by_number(known.library.load(Ordering::Relaxed)))
}

fn by_number(number: u32) -> &'static Library {
    match number {
        0 => &GLOBAL,
        other => &OTHERS[(other as usize - 1) % MAX_OTHERS],
    }
}

/// Finds the OpenMP library to which the code at the address `caller` is linked, and enters the loaded object that contains this code into CALLERS.
/// The lock ENTERING must be held.
fn enter(caller: usize) -> Option<&'static Library> {
    let first = SCOPE.swap(BEING_DECIDED, Ordering::Relaxed) == UNDECIDED;
    // SAFETY: the name is a C string. The result is the next loaded object's function of this name.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, NAMES[Call::GOMP_barrier as usize].as_ptr()) };
    let is_global = !next.is_null();
    if is_global && GLOBAL.handle.load(Ordering::Relaxed).is_null() {
        GLOBAL.begin(libc::RTLD_NEXT);
    }
    if first && is_global {
        SCOPE.store(ALL_GLOBAL, Ordering::Release);
        return Some(&GLOBAL);
    }
    SCOPE.store(BY_CALLER, Ordering::Release);
    let object = object_of(caller)?;
    let number = if is_global { 0 } else { other(object.handle()?)? };
    // If the table is full, the libraries of further callers are looked up at each call, which is slow, but correct.
    if let Some(free) = CALLERS.iter().find(|known| known.end.load(Ordering::Relaxed) == 0) {
        free.start.store(object.start, Ordering::Relaxed);
        free.library.store(number, Ordering::Relaxed);
        free.end.store(object.end, Ordering::Release);
    }
    Some(by_number(number))
}

/// Returns the number of the library to which an object is linked. Closes `handle`, which is a handle of the object.
fn other(handle: *mut c_void) -> Option<u32> {
    // SAFETY: the arguments are a handle from dlopen(3), and a C string.
    let barrier = unsafe { libc::dlsym(handle, NAMES[Call::GOMP_barrier as usize].as_ptr()) };
    // SAFETY: `handle` was opened by `Object::handle`, and is not used after this.
    unsafe { libc::dlclose(handle) };
    let library = object_of(barrier as usize)?;
    // The object may be the wrong one: if the calling function made a tail call, the return address is that of an earlier caller, for example in the
    // program itself. If that object is not linked to libgomp, dlsym(3) has found this library's own GOMP_barrier.
    if library.contains(other as *const () as usize) {
        return None;
    }
    let same =
        |other: &Library| !other.handle.load(Ordering::Relaxed).is_null() && other.get(Call::GOMP_barrier) == barrier;
    if let Some(known) = OTHERS.iter().position(same) {
        return Some(known as u32 + 1);
    }
    let free = OTHERS.iter().position(|other| other.handle.load(Ordering::Relaxed).is_null())?;
    // The handle stays open, because the library's functions are called from now on.
    OTHERS[free].begin(library.handle()?);
    Some(free as u32 + 1)
}
