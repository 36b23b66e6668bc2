//! Memory for tasks: blocks of two sizes, a list of free ones for each thread.
//!
//! A block is never given back to the system, and is always a task: a thief may look at a task that somebody else
//! takes, runs and frees meanwhile (`deque`), and must not fault. What is too large for a block lies elsewhere,
//! since nobody but the task itself looks at it.
//!
//! A thread that frees more than it makes (it runs what others have made) hands blocks on by the chain.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::task::{Edge, Task};
use crate::work::Work;

/// Room behind the task itself, by class: arguments and edges.
const ROOM: [usize; 2] = [128, 512];
/// The class of tasks whose data lies elsewhere: a block of the first, and memory that is to be freed.
const ELSEWHERE: u32 = 2;
/// Blocks that are made at once.
const SLAB: usize = 32;
/// Free blocks that a thread keeps, per class.
const KEPT: u32 = 256;

/// Chains of free blocks that no thread has, by class.
static SPARE: Mutex<[Chains; 2]> = Mutex::new([const { Chains(Vec::new()) }; 2]);

pub(crate) struct Chains(Vec<Chain>);

/// Free blocks, linked by their `data`.
#[derive(Clone, Copy)]
struct Chain {
    first: *mut Task,
    count: u32,
}

// SAFETY: free blocks belong to whoever has the chain.
unsafe impl Send for Chains {}

/// A thread's free blocks.
pub struct Pool([Cell<Chain>; 2]);

/// What a task needs besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Size of its arguments.
    pub bytes: usize,
    /// Their alignment, a power of two.
    pub align: usize,
    /// Edges to tasks that it may have to wait for.
    pub edges: usize,
}

/// A new task's memory.
pub struct Made {
    /// The task.
    pub task: NonNull<Task>,
    /// Room for its arguments.
    pub arguments: *mut c_void,
    /// Room for its edges, which are there.
    pub edges: *mut Edge,
}

impl Pool {
    /// Without a block yet.
    pub const fn new() -> Pool {
        Pool([const { Cell::new(Chain { first: ptr::null_mut(), count: 0 }) }; 2])
    }

    /// A task that nobody knows. `None`: there is no memory.
    #[inline]
    pub fn make(&self, work: Work, parent: *const Task, needs: Needs) -> Option<Made> {
        let align = needs.align.max(align_of::<Edge>());
        // The room begins where a task ends, at a multiple of 64: first the edges, then the arguments.
        let arguments_at = (needs.edges * size_of::<Edge>()).next_multiple_of(align);
        let bytes = (arguments_at + needs.bytes).max(1);
        let fits = align <= align_of::<Task>();
        let class = ROOM.iter().position(|room| fits && bytes <= *room);
        let block = self.take(class.unwrap_or(0))?;
        let room = match class {
            // SAFETY: so much lies behind a task of this class.
            Some(_) => unsafe { block.as_ptr().add(1).cast::<u8>() },
            None => match elsewhere(bytes, align) {
                Some(room) => room,
                None => {
                    self.give(0, block);
                    return None;
                }
            },
        };
        // SAFETY: `bytes` of room, of which the arguments are the last part.
        let arguments = unsafe { room.add(arguments_at) };
        let edges = room.cast::<Edge>();
        for at in 0..needs.edges {
            // SAFETY: room for so many edges, aligned as the block or as asked for.
            unsafe { edges.add(at).write(Edge::new()) };
        }
        // SAFETY: a block is a task, and this one is ours.
        let task = unsafe { block.as_ref() };
        task.renew(work, arguments.cast(), parent);
        task.class.set(class.map_or(ELSEWHERE, |class| class as u32));
        if class.is_none() {
            // SAFETY: the block's own room is not used otherwise.
            unsafe { block.as_ptr().add(1).cast::<Room>().write(Room { at: room, bytes, align }) };
        }
        Some(Made { task: block, arguments: arguments.cast(), edges })
    }

    /// A task's memory is free.
    ///
    /// # Safety
    /// Made by a pool, and nobody uses it any more.
    #[inline]
    pub unsafe fn free(&self, task: NonNull<Task>) {
        // SAFETY: the caller's promise.
        let class = unsafe { task.as_ref() }.class.get();
        // SAFETY: as above; its table may hold memory.
        unsafe { drop(std::mem::take(&mut *task.as_ref().own.table.get())) };
        // SAFETY: as above.
        unsafe { task.as_ref() }.leave();
        if class == ELSEWHERE {
            // SAFETY: written by `make`.
            let room = unsafe { task.as_ptr().add(1).cast::<Room>().read() };
            // SAFETY: made by `elsewhere` with these.
            unsafe { dealloc(room.at, Layout::from_size_align_unchecked(room.bytes, room.align)) };
        }
        self.give(if class == ELSEWHERE { 0 } else { class as usize }, task);
    }

    #[inline]
    fn take(&self, class: usize) -> Option<NonNull<Task>> {
        let chain = self.0[class].get();
        let Some(first) = NonNull::new(chain.first) else { return self.refill(class) };
        // SAFETY: free blocks are tasks, and this thread's.
        let next = unsafe { first.as_ref() }.data.get().cast();
        self.0[class].set(Chain { first: next, count: chain.count - 1 });
        Some(first)
    }

    #[inline]
    fn give(&self, class: usize, block: NonNull<Task>) {
        let chain = self.0[class].get();
        // SAFETY: a free block, this thread's.
        unsafe { block.as_ref() }.data.set(chain.first.cast());
        self.0[class].set(Chain { first: block.as_ptr(), count: chain.count + 1 });
        if chain.count >= KEPT {
            self.hand_on(class);
        }
    }

    /// All free blocks of a class to whoever needs some.
    #[cold]
    fn hand_on(&self, class: usize) {
        let chain = self.0[class].replace(Chain { first: ptr::null_mut(), count: 0 });
        if !chain.first.is_null() {
            let mut spare = hold();
            if spare[class].0.try_reserve(1).is_ok() {
                spare[class].0.push(chain);
            } else {
                // Without memory to note it this thread keeps it.
                self.0[class].set(chain);
            }
        }
    }

    #[cold]
    fn refill(&self, class: usize) -> Option<NonNull<Task>> {
        let chain = { hold()[class].0.pop() };
        self.0[class].set(match chain {
            Some(chain) => chain,
            None => slab(class)?,
        });
        self.take(class)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        (0..ROOM.len()).for_each(|class| self.hand_on(class));
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}

/// The lock on blocks that no thread has.
pub(crate) fn hold() -> MutexGuard<'static, [Chains; 2]> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// New blocks, which stay for ever.
fn slab(class: usize) -> Option<Chain> {
    let size = (size_of::<Task>() + ROOM[class]).next_multiple_of(align_of::<Task>());
    let layout = Layout::from_size_align(size * SLAB, align_of::<Task>()).ok()?;
    // SAFETY: not of size 0.
    let memory = NonNull::new(unsafe { alloc(layout) })?;
    let mut first: *mut Task = ptr::null_mut();
    for at in 0..SLAB {
        // SAFETY: within the slab, whose blocks are aligned as tasks.
        let block = unsafe { memory.as_ptr().add(at * size) }.cast::<Task>();
        // SAFETY: as above.
        unsafe { block.write(Task::new(nothing, first.cast(), ptr::null())) };
        first = block;
    }
    Some(Chain { first, count: SLAB as u32 })
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void) {}

/// Memory that a task's data has for itself: said in the room of the task's block.
struct Room {
    at: *mut u8,
    bytes: usize,
    align: usize,
}

fn elsewhere(bytes: usize, align: usize) -> Option<*mut u8> {
    let layout = Layout::from_size_align(bytes, align).ok()?;
    // SAFETY: not of size 0.
    NonNull::new(unsafe { alloc(layout) }).map(NonNull::as_ptr)
}
