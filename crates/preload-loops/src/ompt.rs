//! Which team a thread is in, with libomp: it reports regions to a tool (OMPT, OpenMP 5.2 chapter 19). Types and numbers are those of the specification,
//! because there is no header to build against if libomp is not installed.
//!
//!  1. *parallel-begin*, in the thread that encounters the region: it borrows a team, and libomp keeps its address for the region.
//!  2. *implicit-task-begin*, in each thread: it gets a member, and the thread's word points to it.
//!  3. *implicit-task-end*, in each thread: the word is restored. In other threads than the first this may happen after step 4, even after the thread
//!     has begun its share of another region, or not at all. So an end belongs to the beginning with the same number, and touches only memory of the
//!     thread.
//!  4. *parallel-end*: all threads have come to the region's last barrier, and the team is given back.
//!
//! *Rejected:* a wrapper of `__kmpc_fork_call`, which has any number of arguments, and is not the only function that begins a region.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::member::Member;
use crate::region::{OPTIONS, set_word, word};
use crate::runtime::RuntimeFunction;
use crate::team::Borrowed;

/// Values of ompt_callbacks_t.
const PARALLEL_BEGIN: c_int = 3;
const PARALLEL_END: c_int = 4;
const IMPLICIT_TASK: c_int = 7;
/// Values of ompt_scope_endpoint_t.
const BEGIN: c_int = 1;
const END: c_int = 2;
/// Value of ompt_task_flag_t.
const INITIAL: c_int = 1;
/// Value of ompt_set_result_t: the callback is called for each event.
const ALWAYS: c_int = 5;

/// The word of ompt_data_t that belongs to the tool.
type Data = *mut c_void;
type LookUp = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type SetCallback = unsafe extern "C" fn(c_int, *const c_void) -> c_int;

/// ompt_start_tool_result_t.
#[repr(C)]
pub struct Tool {
    initialize: unsafe extern "C" fn(LookUp, c_int, *mut Data) -> c_int,
    finalize: unsafe extern "C" fn(*mut Data),
    data: UnsafeCell<u64>,
}
// SAFETY: only the runtime uses the data.
unsafe impl Sync for Tool {}

static TOOL: Tool = Tool { initialize, finalize, data: UnsafeCell::new(0) };

/// Whether libomp reports all regions.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Returns whether libomp reports all regions. Otherwise, it keeps its loops.
#[inline]
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

type StartTool = unsafe extern "C" fn(c_uint, *const c_char) -> *const Tool;

/// Called by an OpenMP runtime at its start, to find a tool. A runtime accepts only one tool, so this function returns ours only if there is no other.
///
/// # Safety
/// Only an OpenMP runtime may call this function, with its version as a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompt_start_tool(version: c_uint, runtime: *const c_char) -> *const Tool {
    static NEXT: RuntimeFunction = RuntimeFunction::new("ompt_start_tool\0");
    // SAFETY: null, or another tool's function of this name, or libomp's own, which continues the search for a tool.
    if let Some(next) = unsafe { transmute::<*mut c_void, Option<StartTool>>(NEXT.get()) } {
        // SAFETY: guaranteed by the caller.
        let other = unsafe { next(version, runtime) };
        if !other.is_null() {
            return other;
        }
    }
    if OPTIONS.get().is_some() { &raw const TOOL } else { std::ptr::null() }
}

unsafe extern "C" fn initialize(look_up: LookUp, _: c_int, _: *mut Data) -> c_int {
    // SAFETY: the argument is a C string.
    let set = unsafe { look_up(c"ompt_set_callback".as_ptr()) };
    // SAFETY: `set` is null or the function of this name, which has this type.
    let Some(set) = (unsafe { transmute::<*mut c_void, Option<SetCallback>>(set) }) else { return 0 };
    let callbacks = [
        (PARALLEL_BEGIN, parallel_begin as *const c_void),
        (PARALLEL_END, parallel_end as *const c_void),
        (IMPLICIT_TASK, implicit_task as *const c_void),
    ];
    // SAFETY: each callback has the type of its event.
    let are_set = callbacks.into_iter().all(|(event, callback)| unsafe { set(event, callback) } == ALWAYS);
    ACTIVE.store(are_set, Ordering::Relaxed);
    are_set.into()
}

unsafe extern "C" fn finalize(_: *mut Data) {
    ACTIVE.store(false, Ordering::Relaxed);
}

unsafe extern "C" fn parallel_begin(
    _task: *mut Data,
    _frame: *const c_void,
    region: *mut Data,
    _threads: c_uint,
    _flags: c_int,
    _code: *const c_void,
) {
    let borrowed = Box::new(Borrowed::new());
    // SAFETY: the runtime keeps this word for the tool.
    unsafe { *region = (&raw const *borrowed).cast_mut().cast() };
    let _ = BEGUN.try_with(|begun| begun.try_borrow_mut().map(|mut begun| begun.push(borrowed)));
}

thread_local! {
    /// Teams of the regions that this thread has begun, the innermost last.
    #[allow(clippy::vec_box, reason = "the runtime keeps their addresses")]
    static BEGUN: RefCell<Vec<Box<Borrowed>>> = const { RefCell::new(Vec::new()) };
}

/// The region's word is not read: libomp 19 reports the end of a nested region after it has given the region's memory to others.
unsafe extern "C" fn parallel_end(_region: *mut Data, _task: *mut Data, _flags: c_int, _code: *const c_void) {
    let last = BEGUN.try_with(|begun| begun.try_borrow_mut().ok().and_then(|mut begun| begun.pop()));
    drop(last);
}

/// A member in a region, until the thread has left it.
struct Entry {
    /// What the runtime keeps for the tool in this implicit task. No other task has this number.
    number: usize,
    /// The thread's word outside of the region.
    outer: usize,
    _member: Option<Box<UnsafeCell<Member>>>,
}

static NUMBERS: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    /// The regions that the thread is in, the innermost last.
    static ENTRIES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    region: *mut Data,
    task: *mut Data,
    threads: c_uint,
    thread: c_uint,
    flags: c_int,
) {
    if flags & INITIAL != 0 || task.is_null() {
        return;
    }
    let change = |entries: &RefCell<Vec<Entry>>| {
        let Ok(mut entries) = entries.try_borrow_mut() else { return };
        // SAFETY: the runtime keeps this word for the tool.
        let data = unsafe { &mut *task };
        if endpoint == BEGIN {
            if thread != 0 {
                // Only the first thread of a team may be in another region at the same time.
                entries.clear();
                set_word(0);
            }
            // SAFETY: null, or the word that `parallel_begin` has stored, which lives as long as the region.
            let borrowed = unsafe { region.as_ref().and_then(|data| data.cast::<Borrowed>().as_ref()) };
            let member = OPTIONS.get().zip(borrowed).map(|(options, borrowed)| {
                // SAFETY: the team lives as long as the region.
                let member = unsafe { Member::new(borrowed.team(), options, thread, threads.max(thread + 1)) };
                Box::new(UnsafeCell::new(member))
            });
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let outer = word();
            set_word(member.as_ref().map_or(0, |member| member.get().expose_provenance()));
            *data = std::ptr::without_provenance_mut(number);
            entries.push(Entry { number, outer, _member: member });
        } else if endpoint == END
            && let Some(at) = entries.iter().position(|entry| entry.number == data.addr())
        {
            // libomp reports some ends late, when the thread is in another region already: then the word stays.
            let Entry { outer, .. } = entries.remove(at);
            match entries.get_mut(at) {
                Some(inner) => inner.outer = outer,
                None => set_word(outer),
            }
        }
    };
    // A thread that is ending is in no region.
    let _ = ENTRIES.try_with(change);
}
