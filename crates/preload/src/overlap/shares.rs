//! Loops, sections and scopes that tasks take part in the reduction of (`reduction(task, …)`).
//!
//! libgomp shares the iterations out, and makes the copies: one set for the team, whose place each thread finds in its own block
//! (`reductions`). To that it has every thread begin a taskgroup. So we let it, and each thread begins one of ours besides, for our
//! tasks are in no group of libgomp's. The compiler then has a barrier, in which all tasks end; one thread combines the
//! copies; and all come to [`workshare_task_reduction_unregister`], with another barrier, ours: libgomp is told that the construct was
//! cancelled, and has none.
//!
//! In a region that was cancelled libgomp would let each thread go by itself, with the copies or the block that others, who come to the
//! construct later, or tasks still use. Ours meet there as ever: it is the region's last barrier.

use std::ffi::{c_long, c_uint, c_ulonglong, c_void};
use std::mem::transmute;

use tasks::group::Group;
use tasks::worker::Worker;

use super::beyond::beyond;
use super::doors::{self, taskgroup_end};
use super::here::here;
use super::reductions::Block;

/// What is known of a construct before libgomp has entered its reductions.
struct Begun {
    block: *mut usize,
    last: Block,
}

/// `None`: there are no reductions.
fn begin(block: *mut usize) -> Option<Begun> {
    // SAFETY: the compiler's, or null.
    let last = unsafe { Block::new(block) }?.last();
    Some(Begun { block, last })
}

impl Begun {
    /// libgomp has entered them: they are those of a group of ours.
    fn register(self) {
        doors::begin_group(Group::implied);
        // SAFETY: begun above, and not over before the construct.
        if let Some((worker, group)) = here().and_then(|worker| Some((worker, unsafe { worker.group().as_ref() }?))) {
            self.last.goes_on(group.kept.replace(self.block));
            doors::leave_to_members(worker, group);
        }
    }
}

/// Defines the beginnings of such constructs, all arguments as libgomp's.
macro_rules! shares {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) reduces $block:ident $(-> $result:ty)?;)*) => { $(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the compiler's")]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            type Real = unsafe extern "C-unwind" fn($($type),*) $(-> $result)?;
            // SAFETY: libgomp's function of this name, which has this type.
            let real = unsafe { transmute::<*mut c_void, Real>(beyond()) };
            let begun = begin($block);
            // SAFETY: called as the program has called us.
            let result = unsafe { real($($argument),*) };
            begun.into_iter().for_each(Begun::register);
            result
        }
    )* };
}

shares! {
    /// A loop over long.
    loop_start(start: c_long, end: c_long, step: c_long, schedule: c_long, chunk: c_long, first: *mut c_long,
        last: *mut c_long, block: *mut usize, memory: *mut *mut c_void) reduces block -> bool;
    /// A loop over unsigned long long.
    loop_ull_start(up: bool, start: c_ulonglong, end: c_ulonglong, step: c_ulonglong, schedule: c_long,
        chunk: c_ulonglong, first: *mut c_ulonglong, last: *mut c_ulonglong, block: *mut usize,
        memory: *mut *mut c_void) reduces block -> bool;
    /// A loop over either, whose iterations wait for each other; `counts` and the others are of its number type.
    loop_doacross_start(dimensions: c_uint, counts: *mut c_void, schedule: c_long, chunk: c_ulonglong,
        first: *mut c_void, last: *mut c_void, block: *mut usize, memory: *mut *mut c_void) reduces block -> bool;
    /// Sections.
    sections_start(count: c_uint, block: *mut usize, memory: *mut *mut c_void) reduces block -> c_uint;
    /// A scope.
    scope_start(block: *mut usize) reduces block;
}

/// Ends reductions of such a construct.
pub unsafe extern "C-unwind" fn workshare_task_reduction_unregister(_: bool) {
    // Read before tasks are run at the barrier, which may begin such constructs in regions of their own.
    let real = beyond();
    taskgroup_end();
    here().into_iter().for_each(Worker::barrier);
    type Real = unsafe extern "C-unwind" fn(bool);
    // SAFETY: libgomp's function of this name, which has this type; nobody uses the copies any more.
    unsafe { transmute::<*mut c_void, Real>(real)(true) };
}
