//! gcc's entry points for tasks, which replace those of libgomp.
//!
//! The interposed functions (`dispatch`) jump to them with the program's arguments, and only in a region whose tasks `overlap` runs.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_ulonglong, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use tasks::depend::Access;
use tasks::group::Group;
use tasks::making::New;
use tasks::parts::Parts;
use tasks::worker::Worker;

use super::chunks::{Division, divide};
use super::clauses::{Clauses, NONE};
use super::reductions::Block;
use super::standbys::say;
use super::{allowed_priority, worker_in_region};
use crate::real_symbols::Work;

/// Flags of tasks (gomp-constants.h).
const FINAL: c_uint = 1 << 1;
const DEPEND: c_uint = 1 << 3;
const PRIORITY: c_uint = 1 << 4;
const UP: c_uint = 1 << 8;
const GRAINSIZE: c_uint = 1 << 9;
const IF: c_uint = 1 << 10;
const NOGROUP: c_uint = 1 << 11;
const REDUCTION: c_uint = 1 << 12;
const DETACH: c_uint = 1 << 13;
const STRICT: c_uint = 1 << 14;

type Copy = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

/// Creates a task.
#[allow(clippy::too_many_arguments, reason = "the compiler's")]
pub unsafe extern "C-unwind" fn task(
    work: Work,
    data: *mut c_void,
    copy: Option<Copy>,
    bytes: c_long,
    align: c_long,
    deferrable: bool,
    flags: c_uint,
    depend: *const usize,
    priority: c_int,
    event: *mut usize,
) {
    let Some(worker) = worker_in_region() else { return };
    if copy.is_none() && flags & (FINAL | DEPEND | DETACH) == 0 && (!deferrable || worker.has_enough()) {
        // SAFETY: the compiler's code passes the task's function and the data that this function takes.
        return unsafe { worker.do_at_once(work, data) };
    }
    // SAFETY: if the flag is set, the compiler's code passes a valid array of dependences.
    let accesses = (flags & DEPEND != 0).then(|| unsafe { Clauses::new(depend) }.accesses());
    let new = New {
        work,
        data,
        copy,
        bytes: bytes as usize,
        align: align as usize,
        first_words: None,
        at_once: !deferrable,
        is_final: flags & FINAL != 0,
        priority: if flags & PRIORITY != 0 { allowed_priority(priority) } else { 0 },
        accesses,
        // gcc before version 11 passes neither this argument nor the flag.
        event: (flags & DETACH != 0).then_some(event),
    };
    // SAFETY: gcc's code has passed these arguments, which describe the task.
    unsafe { make(worker, &new) };
}

/// Creates a task; if there is no memory for it, runs its function immediately.
///
/// # Safety
/// As for [`Worker::make`].
unsafe fn make<A: Iterator<Item = Access> + Clone>(worker: &Worker, new: &New<A>) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !worker.make(new) {
            run_without_memory(worker, new);
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn run_without_memory<A>(worker: &Worker, new: &New<A>) {
    // The new task can depend only on children of the current task, so it may run when they have ended.
    worker.wait_for_children();
    let mut room = Room([MaybeUninit::uninit(); STACK_BYTES]);
    let data = match new.copy {
        None => new.data,
        Some(copy) if new.bytes <= STACK_BYTES && new.align <= align_of::<Room>() => {
            let to = room.0.as_mut_ptr().cast();
            // SAFETY: the buffer has the size and alignment that the compiler requires.
            unsafe { copy(to, new.data) };
            to
        }
        Some(_) => without_memory(),
    };
    if new.event.is_some() {
        without_memory();
    }
    if let Some(words) = new.first_words {
        // SAFETY: guaranteed by the caller: data begins with two words.
        unsafe { data.cast::<[usize; 2]>().write(words) };
    }
    // SAFETY: the compiler's function gets the data that the compiler has made for it.
    unsafe { (new.work)(data) };
}

/// Largest size, in bytes, of the data of a task that runs immediately because there is no memory for it.
const STACK_BYTES: usize = 4096;

#[repr(align(256))]
struct Room([MaybeUninit<u8>; STACK_BYTES]);

/// Aborts the program, as libgomp does if there is no memory.
fn without_memory() -> ! {
    say(b"cox: out of memory for a task\n");
    std::process::abort()
}

/// Defines the functions that begin a taskloop, one for each type of the loop counter. `$count` returns the number of iterations.
macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident($number:ty) by $count:path;)*) => { $(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the compiler's")]
        pub unsafe extern "C-unwind" fn $name(
            work: Work,
            data: *mut c_void,
            copy: Option<Copy>,
            bytes: c_long,
            align: c_long,
            flags: c_uint,
            tasks: c_ulong,
            priority: c_int,
            start: $number,
            end: $number,
            step: $number,
        ) {
            let call = Loop { work, data, copy, bytes, align, flags, tasks, priority };
            // SAFETY: the compiler's code passes these arguments for a taskloop.
            unsafe { call.go(start as u64, step as u64, $count(start, end, step, flags)) };
        }
    )* };
}

loops! {
    /// Divides a loop over long into tasks.
    taskloop(c_long) by signed;
    /// Divides a loop over unsigned long long into tasks.
    taskloop_ull(c_ulonglong) by unsigned;
}

/// Returns the number of iterations of a loop that counts upwards if `step` is positive, otherwise downwards.
fn signed(start: c_long, end: c_long, step: c_long, _: c_uint) -> u64 {
    let span = if step > 0 { end.wrapping_sub(start) } else { start.wrapping_sub(end) };
    let runs = if step > 0 { start < end } else { start > end };
    if runs { (span as u64).div_ceil(step.unsigned_abs()) } else { 0 }
}

/// Returns the number of iterations of a loop that counts upwards if the flag `UP` is set, otherwise downwards.
fn unsigned(start: c_ulonglong, end: c_ulonglong, step: c_ulonglong, flags: c_uint) -> u64 {
    if flags & UP != 0 {
        if start < end { (end - start).div_ceil(step) } else { 0 }
    } else if start > end {
        (start - end).div_ceil(step.wrapping_neg())
    } else {
        0
    }
}

/// The arguments of a taskloop that do not depend on the type of the loop counter.
struct Loop {
    work: Work,
    data: *mut c_void,
    copy: Option<Copy>,
    bytes: c_long,
    align: c_long,
    flags: c_uint,
    tasks: c_ulong,
    priority: c_int,
}

impl Loop {
    unsafe fn go(self, start: u64, step: u64, n: u64) {
        let Some(worker) = worker_in_region() else { return };
        let division = match (self.flags & GRAINSIZE != 0, self.flags & STRICT != 0) {
            (true, true) => Division::StrictGrain(self.tasks),
            (true, false) => Division::Grain(self.tasks),
            _ if self.tasks == 0 => Division::Tasks(worker.team().map_or(1, |team| team.size()).into()),
            _ => Division::Tasks(self.tasks),
        };
        // SAFETY: the enclosing group lives longer.
        let group = unsafe { Group::new(worker.group()) };
        let grouped = self.flags & NOGROUP == 0;
        let reduces = grouped && self.flags & REDUCTION != 0;
        if reduces && n == 0 {
            // The compiler's code reads the address of the copies of the reduction variables here; 0 means that there are none.
            //
            // SAFETY: the loop has reductions, so its data contain the address of gcc's block that describes them.
            unsafe { *self.reductions().add(2) = 0 };
            return;
        }
        if grouped {
            // SAFETY: the group is ended below, before it is dropped.
            unsafe { worker.begin_group(&group) };
        }
        if reduces {
            // SAFETY: the loop has reductions, so its data contain the address of gcc's block that describes them.
            unsafe { taskgroup_reduction_register(self.reductions()) };
        }
        let sizes = divide(n, division);
        if self.copy.is_none() && self.flags & FINAL == 0 && self.flags & IF != 0 && !worker.is_final() {
            let parts = Parts {
                work: self.work,
                data: self.data,
                bytes: self.bytes as usize,
                align: self.align as usize,
                priority: allowed_priority(self.priority),
                start,
                step,
                sizes,
            };
            // SAFETY: gcc's code has passed these arguments for the taskloop. Its data begin with two words for the bounds of the iterations that a
            // task runs.
            unsafe { worker.make_parts(&parts) };
        } else {
            // SAFETY: gcc's code has passed these arguments for the taskloop. Its data begin with two words for the bounds of the iterations that a
            // task runs.
            unsafe { self.make_each(worker, start, step, sizes) };
        }
        if grouped {
            worker.end_group();
        }
    }

    /// Creates all tasks of the loop. `sizes`: for the first tasks and for the remaining ones, their number and the iterations in each.
    unsafe fn make_each(&self, worker: &Worker, start: u64, step: u64, sizes: [(u64, u64); 2]) {
        let mut first = start;
        for (count, iterations) in sizes {
            for _ in 0..count {
                let end = first.wrapping_add(step.wrapping_mul(iterations));
                let new = New {
                    work: self.work,
                    data: self.data,
                    copy: self.copy,
                    bytes: self.bytes as usize,
                    align: self.align as usize,
                    first_words: Some([first as usize, end as usize]),
                    at_once: self.flags & IF == 0,
                    is_final: self.flags & FINAL != 0,
                    priority: allowed_priority(self.priority),
                    accesses: NONE,
                    event: None,
                };
                // SAFETY: gcc's code has passed these arguments for the taskloop. Its data begin with two words for the bounds of the task's
                // iterations.
                unsafe { make(worker, &new) };
                first = end;
            }
        }
    }

    /// Returns gcc's block of words that describes the loop's reductions. Its address is the third word of the loop's data, after the two bounds.
    ///
    /// # Safety
    /// The loop has reductions.
    unsafe fn reductions(&self) -> *mut usize {
        // SAFETY: guaranteed by the caller; three words are at the beginning of the data.
        unsafe { *self.data.cast::<*mut usize>().add(2) }
    }
}

/// Begins reductions in the current taskgroup. `data` is gcc's block of words that describes the reduction variables.
pub unsafe extern "C-unwind" fn taskgroup_reduction_register(data: *mut usize) {
    let Some(worker) = worker_in_region() else { return };
    // SAFETY: the innermost group is valid until it ends.
    let Some(group) = (unsafe { worker.group().as_ref() }) else { return };
    let threads = worker.team().map_or(1, |team| team.size()) as usize;
    let by_place = worker.member().is_some();
    // SAFETY: the compiler's code passes a valid block.
    if !unsafe { Block::new(data) }.is_some_and(|block| block.register(group.kept.get(), threads, by_place)) {
        // libgomp also aborts the program if there is no memory.
        std::process::abort();
    }
    group.kept.set(data);
    if by_place {
        leave_to_members(worker, group);
    }
}

/// Restricts the group's tasks to members of the team, because the tasks use the members' copies of the reduction variables.
pub fn leave_to_members(worker: &Worker, group: &Group) {
    group.is_for_members.set(true);
    worker.team().inspect(|team| team.need_members());
}

/// Returns whether [`taskgroup_reduction_register`] (and not libgomp) allocated the copies of the reduction variables in this block.
pub fn has_our_copies(data: *mut usize) -> bool {
    // SAFETY: the compiler's code passes a valid block that has been registered.
    unsafe { Block::new(data) }.is_some_and(Block::is_ours)
}

/// Ends the reductions of a taskgroup: frees the threads' copies of the variables, which the compiler's code has combined.
pub unsafe extern "C-unwind" fn taskgroup_reduction_unregister(data: *mut usize) {
    // SAFETY: the compiler's code passes a valid block that has been registered.
    unsafe { Block::new(data) }.into_iter().for_each(Block::unregister);
}

/// Replaces `count` addresses of reduction variables by the addresses of this thread's copies. After them, stores the addresses of the first
/// `originals` variables themselves.
pub unsafe extern "C-unwind" fn task_reduction_remap(count: usize, originals: usize, addresses: *mut usize) {
    let Some(worker) = worker_in_region() else { return };
    // A task that asks for its thread number holds the number until it ends: it uses the copies until then, and no other task may use them.
    let by_number = || worker.thread_number().unwrap_or(0);
    let whose = |by_place: bool| if by_place { worker.member() } else { None }.unwrap_or_else(by_number) as usize;
    // SAFETY: the innermost group is valid until it ends. It has the address of the compiler's block, or null.
    let block = unsafe { worker.group().as_ref().and_then(|group| Block::new(group.kept.get())) };
    for at in 0..count {
        // SAFETY: the compiler's code passes an array of `count` addresses, followed by space for `originals` more.
        let address = unsafe { &mut *addresses.add(at) };
        let Some((copy, variable)) = block.and_then(|block| block.find(*address, whose)) else {
            // No block contains the variable. gcc does not generate such code.
            std::process::abort();
        };
        *address = copy;
        if at < originals {
            // SAFETY: the compiler's array has space for `originals` more addresses after the first `count`.
            unsafe { *addresses.add(count + at) = variable };
        }
    }
}

/// Waits for the children of the present task.
pub extern "C-unwind" fn taskwait() {
    worker_in_region().into_iter().for_each(Worker::wait_for_children);
}

/// Waits for the calling task's children whose `depend` clauses match these dependences.
pub unsafe extern "C-unwind" fn taskwait_depend(depend: *const usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { depend_on(depend, true) };
}

/// Does not wait. A child that is created later and whose `depend` clauses match these dependences starts after the earlier children that
/// match.
pub unsafe extern "C-unwind" fn taskwait_depend_nowait(depend: *const usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { depend_on(depend, false) };
}

/// Creates an empty task with the given dependences. With `at_once`, also waits until the task has run.
unsafe fn depend_on(depend: *const usize, at_once: bool) {
    unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}
    let Some(worker) = worker_in_region() else { return };
    let new = New {
        work: nothing,
        data: ptr::null_mut(),
        copy: None,
        bytes: 0,
        align: 1,
        first_words: None,
        at_once,
        is_final: false,
        priority: 0,
        // SAFETY: the compiler's code passes a valid array of dependences.
        accesses: Some(unsafe { Clauses::new(depend) }.accesses()),
        event: None,
    };
    // SAFETY: the function takes no data.
    unsafe { make(worker, &new) };
}

/// Lets another task run on this thread before the current task continues.
pub extern "C-unwind" fn taskyield() {
    worker_in_region().into_iter().for_each(Worker::give_way);
}

/// Begins a taskgroup.
pub extern "C-unwind" fn taskgroup_start() {
    begin_group(Group::new);
}

/// Begins a task group, which `new` makes from the address of the enclosing group. [`taskgroup_end`] ends it.
pub fn begin_group(new: unsafe fn(*const Group) -> Group) {
    if let Some(worker) = worker_in_region() {
        // SAFETY: the enclosing group lives longer.
        let group = Box::into_raw(Box::new(unsafe { new(worker.group()) }));
        // SAFETY: the group lives until `taskgroup_end` frees it; gcc's code calls `taskgroup_end` once for each group.
        unsafe { worker.begin_group(&*group) };
    }
}

/// Waits for a taskgroup's tasks.
pub extern "C-unwind" fn taskgroup_end() {
    let Some(worker) = worker_in_region() else { return };
    let group = worker.group().cast_mut();
    worker.end_group();
    if !group.is_null() {
        // SAFETY: `begin_group` created this group, because groups end in the reverse order of their beginning. All tasks of the group have ended.
        drop(unsafe { Box::from_raw(group) });
    }
}

/// Fulfils an event of a task that cox's runtime runs.
pub unsafe extern "C-unwind" fn fulfill_event(event: usize) {
    // SAFETY: the program passes the handle of an event that it was given, and the event belongs to the crate `tasks`.
    unsafe { tasks::fulfilling::fulfil(event) };
}

/// Returns whether the current task is final, so that new tasks run immediately.
pub extern "C" fn in_final() -> c_int {
    worker_in_region().is_some_and(Worker::is_final).into()
}
