//! Loops, sections and scopes with reductions in which tasks take part (`reduction(task, …)`).
//!
//! libgomp divides the iterations, and allocates the copies: one set for the team, whose address each thread finds in its own block (`reductions`).
//! For that, libgomp makes every thread begin a taskgroup. We let it do so, and each thread begins a group of ours in addition, because libgomp's
//! groups do not contain our tasks. The compiler adds a barrier, in which all tasks end, and one thread combines the copies. Then all threads come to
//! [`workshare_task_reduction_unregister`], which contains another barrier: ours. It tells libgomp that the construct was cancelled, so that libgomp
//! omits its own barrier.
//!
//! In a cancelled region, libgomp would let each thread leave the construct without waiting for the others, although tasks, or threads that reach the
//! construct later, still use the copies or blocks. Our threads wait for each other nevertheless, at the region's last barrier.

use std::ffi::{c_long, c_uint, c_ulonglong, c_void};
use std::mem::transmute;

use tasks::group::Group;
use tasks::worker::Worker;

use super::current::{real_fn, worker_in_region};
use super::entries::{self, taskgroup_end};
use super::reductions::Block;

/// The blocks that describe a construct's reductions in which tasks take part: the first and the last one.
struct Begun {
    block: *mut usize,
    last: Block,
}

/// Returns the first and the last block of the list that describes the construct's reductions. `block` is the first one; if it is null, the construct
/// has no reductions, and the result is `None`.
fn begin(block: *mut usize) -> Option<Begun> {
    // SAFETY: the compiler's code passes a valid block, or null.
    let last = unsafe { Block::new(block) }?.last();
    Some(Begun { block, last })
}

impl Begun {
    /// Begins a group of the crate `tasks` for the construct, with the reductions that libgomp has registered.
    fn register(self) {
        entries::begin_group(Group::implied);
        let Some(worker) = worker_in_region() else { return };
        // SAFETY: the group was begun above, and lasts as long as the construct.
        if let Some(group) = unsafe { worker.group().as_ref() } {
            self.last.append(group.kept.replace(self.block));
            entries::leave_to_members(worker, group);
        }
    }
}

/// Defines the functions that begin a loop, sections or a scope. They have the same arguments as libgomp's functions.
macro_rules! worksharing {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) reduces $block:ident $(-> $result:ty)?;)*) => { $(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the compiler's")]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            type RealFn = unsafe extern "C-unwind" fn($($type),*) $(-> $result)?;
            // SAFETY: `real_fn` returns libgomp's function that begins this construct; its type is `RealFn`.
            let real_fn = unsafe { transmute::<*mut c_void, RealFn>(real_fn()) };
            let begun = begin($block);
            // SAFETY: libgomp's function is called with the program's own arguments.
            let result = unsafe { real_fn($($argument),*) };
            begun.into_iter().for_each(Begun::register);
            result
        }
    )* };
}

worksharing! {
    /// Begins a loop over long.
    loop_start(start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, first: *mut c_long,
        last: *mut c_long, block: *mut usize, memory: *mut *mut c_void) reduces block -> bool;
    /// Begins a loop over unsigned long long.
    loop_ull_start(up: bool, start: c_ulonglong, end: c_ulonglong, step: c_ulonglong, schedule: c_long,
        chunk: c_ulonglong, first: *mut c_ulonglong, last: *mut c_ulonglong, block: *mut usize,
        memory: *mut *mut c_void) reduces block -> bool;
    /// Begins a loop in which an iteration can wait for earlier ones (doacross). `counts`, `first` and `last` point to long or to unsigned long long.
    loop_doacross_start(dimensions: c_uint, counts: *mut c_void, schedule: c_long, chunk: c_ulonglong,
        first: *mut c_void, last: *mut c_void, block: *mut usize, memory: *mut *mut c_void) reduces block -> bool;
    /// Begins sections.
    sections_start(count: c_uint, block: *mut usize, memory: *mut *mut c_void) reduces block -> c_uint;
    /// Begins a scope.
    scope_start(block: *mut usize) reduces block;
}

/// Ends a construct with reductions in which tasks take part.
pub unsafe extern "C-unwind" fn workshare_task_reduction_unregister(_: bool) {
    // `real_fn` reads a thread-local variable: libgomp's function for the program's present call. It is read before the barrier, because this thread
    // may run tasks in the barrier. If such a task calls another interposed function, for example to begin a loop of a nested region, the variable is
    // overwritten.
    let real_fn = real_fn();
    taskgroup_end();
    worker_in_region().into_iter().for_each(Worker::barrier);
    type RealFn = unsafe extern "C-unwind" fn(bool);
    // SAFETY: `real_fn` is libgomp's GOMP_workshare_task_reduction_unregister, whose type is `RealFn`. It frees the copies of the reduction
    // variables; no thread uses them after the barrier above.
    unsafe { transmute::<*mut c_void, RealFn>(real_fn)(true) };
}
