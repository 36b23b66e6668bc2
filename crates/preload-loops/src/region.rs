//! Which team the calling thread is in: the thread's word points to its [`Member`].
//!
//! libgomp calls our `share` instead of the region's function. It makes a member on the thread's stack, stores its address in the word, and restores
//! the word when the region's function returns, so nested regions need no bookkeeping. It does so, too, if the program leaves the region by
//! pthread_exit(3), which unwinds the stack.
//!
//! A thread that is in no region of ours is one of two:
//!
//! - At the top level, it is a team of one thread. It gets a member that lives as long as the thread.
//! - In a region that was begun in a way that we do not know, its loops belong to the runtime.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::sync::OnceLock;

use wire::loop_records::Clause as Written;

use crate::bounds::Bounds;
use crate::clause::Clause;
use crate::member::Member;
use crate::runtime::{self, Work};
use crate::team::Borrowed;
use loops::options::Options;

arch::thread_local_word!();

/// The options, if there are valid ones.
pub static OPTIONS: OnceLock<Options> = OnceLock::new();

/// Returns the calling thread's member; null if it is in no region of ours.
#[inline]
pub fn member() -> *mut Member {
    std::ptr::with_exposed_provenance_mut(word())
}

/// Returns the calling thread's member, if a loop with this clause is to be changed. Otherwise, notes that the current loop belongs to the runtime.
///
/// # Safety
/// The result is not kept beyond the call that the program has made.
#[inline]
pub unsafe fn changing<'a>(written: Written) -> Option<&'a mut Member> {
    let mut member = member();
    if member.is_null() {
        member = top_level();
    }
    // SAFETY: the word is null or the address of a member of this thread, to which no other reference exists during a call of the program.
    let member = unsafe { member.as_mut() }?;
    if is_changed(member.options(), written) {
        return Some(member);
    }
    member.leave_loop();
    None
}

/// Sets the thread's word, and restores it.
struct Entered(usize);

impl Entered {
    /// Lets the word point to `member`, which may be null, until the result is dropped.
    #[inline]
    fn new(member: *mut Member) -> Entered {
        let outer = word();
        set_word(member.expose_provenance());
        Entered(outer)
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        set_word(self.0);
    }
}

/// What a thread needs to begin its share of a region.
#[repr(C)]
pub struct Region<'a> {
    /// The first word of the program's data, which `GOMP_parallel_reductions` reads.
    first_word: usize,
    work: Work,
    data: *mut c_void,
    options: &'static Options,
    borrowed: &'a Borrowed,
    /// The loop of a combined construct, if it is ours.
    combined: Option<(Bounds, Clause)>,
}

/// Runs a parallel construct in a team of ours. `go` calls libgomp's function, with the function and data that each thread has to use instead of
/// `work` and `data`. If `reads_data` is true, libgomp itself reads the first word of the data.
///
/// # Safety
/// `work` may be called with `data`, as often as there are threads.
#[inline]
pub unsafe fn run<R>(
    work: Work,
    data: *mut c_void,
    reads_data: bool,
    combined: Option<(Bounds, Clause)>,
    go: impl FnOnce(Work, *mut c_void) -> R,
) -> R {
    let Some(options) = OPTIONS.get() else { return go(work, data) };
    let borrowed = Borrowed::new();
    // SAFETY: the compiler passes at least one word where libgomp reads it.
    let first_word = if reads_data { unsafe { *data.cast() } } else { 0 };
    let mut region = Region { first_word, work, data, options, borrowed: &borrowed, combined };
    go(share, (&raw mut region).cast())
}

/// The function that libgomp calls in each thread.
unsafe extern "C-unwind" fn share(region: *mut c_void) {
    // SAFETY: `run` passes a region that lives until all threads have come to its end.
    let region: &Region<'_> = unsafe { &*region.cast() };
    let (thread, threads) = runtime::place();
    // SAFETY: the team lives as long as the region.
    let member = unsafe { Member::new(region.borrowed.team(), region.options, thread, threads) };
    let member = UnsafeCell::new(member);
    let _entered = Entered::new(member.get());
    if let Some((bounds, clause)) = region.combined {
        // SAFETY: each thread of the region begins this loop first. No other reference to the member exists.
        unsafe { (*member.get()).begin_loop(bounds, clause) };
    }
    // SAFETY: the program's function is called with the data that the program has passed for it.
    unsafe { (region.work)(region.data) };
}

/// Runs a construct that may run the program's code on the calling thread as if it were in no region: a `target` construct without a device.
pub fn outside<R>(go: impl FnOnce() -> R) -> R {
    let _entered = Entered::new(std::ptr::null_mut());
    go()
}

thread_local! {
    /// The words of regions around those that an old compiler has begun.
    static OUTER: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Begins a region of an old compiler (before gcc 4.9), whose first thread runs its share between two calls. All its loops belong to the runtime.
pub fn begin_unknown() {
    let _ = OUTER.try_with(|outer| outer.try_borrow_mut().map(|mut outer| outer.push(word())));
    set_word(0);
}

/// Ends the region that the last call of [`begin_unknown`] has begun.
pub fn end_unknown() {
    let outer = OUTER.try_with(|outer| outer.try_borrow_mut().ok().and_then(|mut outer| outer.pop()));
    outer.ok().flatten().into_iter().for_each(set_word);
}

/// A member for loops outside all regions.
struct TopLevel {
    member: UnsafeCell<Member>,
    /// Dropped after the member.
    _borrowed: Borrowed,
}

thread_local! {
    static TOP_LEVEL: RefCell<Option<Box<TopLevel>>> = const { RefCell::new(None) };
}

impl Drop for TopLevel {
    fn drop(&mut self) {
        set_word(0);
    }
}

/// Makes a member for the calling thread, if it is in no region at all.
#[cold]
fn top_level() -> *mut Member {
    let null = std::ptr::null_mut();
    let Some(options) = OPTIONS.get() else { return null };
    if runtime::level() != 0 {
        return null;
    }
    let made = TOP_LEVEL.try_with(|place| {
        let Ok(mut place) = place.try_borrow_mut() else { return null };
        let top = place.get_or_insert_with(|| {
            let borrowed = Borrowed::new();
            // SAFETY: the team lives as long as the member.
            let member = unsafe { Member::new(borrowed.team(), options, 0, 1) };
            Box::new(TopLevel { member: UnsafeCell::new(member), _borrowed: borrowed })
        });
        top.member.get()
    });
    let member = made.unwrap_or(null);
    set_word(member.expose_provenance());
    member
}

/// Returns whether loops change whose schedule is `runtime`, or `dynamic` or `guided`.
#[inline]
pub fn changes(written: Written) -> bool {
    OPTIONS.get().is_some_and(|options| is_changed(options, written))
}

#[inline]
fn is_changed(options: &Options, written: Written) -> bool {
    options.all || matches!(written, Written::Runtime | Written::Auto)
}
