//! Memory for tasks: blocks of two sizes, with a free list for each thread.
//!
//! A block is never given back to the system, and always contains a task: a thief may read a task that another thread takes, runs and frees
//! meanwhile (`deque`), and must not fault. Data that is too large for a block has an allocation of its own, which is freed, because only
//! the task itself reads it.
//!
//! A thread that frees more blocks than it makes, because it runs other threads' tasks, gives whole chains of them to other threads.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::task::{Edge, Task, Work, nothing};

/// For each size class: the number of bytes that follow the task in its block. They hold the task's edges (entries in the successor lists of
/// tasks that it waits for) and its arguments.
const ROOM: [usize; 2] = [128, 512];
/// Class number of a task whose edges and arguments did not fit into a block. They are in a separate allocation, which has to be freed with the task;
/// the task itself is in a block of class 0.
const ELSEWHERE: u32 = 2;
/// Number of blocks allocated together.
const SLAB: usize = 32;
/// Largest number of free blocks that a thread keeps, per class.
const KEPT: u32 = 256;

/// Chains of free blocks that belong to no thread, one list for each size class.
static SPARE: Mutex<[Chains; 2]> = Mutex::new([const { Chains(Vec::new()) }; 2]);

pub(crate) struct Chains(Vec<Chain>);

/// A list of free blocks. The field `data` of the task in a block points to the next block.
#[derive(Clone, Copy)]
struct Chain {
    first: *mut Task,
    count: u32,
}

// SAFETY: free blocks belong to the thread that has the chain.
unsafe impl Send for Chains {}

/// A thread's free blocks.
pub struct Pool([Cell<Chain>; 2]);

/// The memory that a task needs in addition to itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Size of the task's arguments.
    pub bytes: usize,
    /// Alignment of the arguments, a power of two.
    pub align: usize,
    /// Number of edges: tasks that the task may have to wait for.
    pub edges: usize,
}

/// A new task's memory.
pub struct Made {
    /// The task.
    pub task: NonNull<Task>,
    /// Memory for the task's arguments.
    pub arguments: *mut c_void,
    /// Memory for the task's edges, which are initialised.
    pub edges: *mut Edge,
}

impl Pool {
    /// Makes a pool without blocks.
    pub const fn new() -> Pool {
        Pool([const { Cell::new(Chain { first: ptr::null_mut(), count: 0 }) }; 2])
    }

    /// Makes a task that is not visible to other threads. `None`: there is no memory.
    #[inline]
    pub fn make(&self, work: Work, parent: *const Task, needs: Needs) -> Option<Made> {
        let align = needs.align.max(align_of::<Edge>());
        // After the task, at a multiple of 64 bytes, the block has room for data: first the edges, then the arguments.
        let arguments_at = (needs.edges * size_of::<Edge>()).next_multiple_of(align);
        let bytes = (arguments_at + needs.bytes).max(1);
        let fits = align <= align_of::<Task>();
        let class = ROOM.iter().position(|room| fits && bytes <= *room);
        let block = self.take(class.unwrap_or(0))?;
        let room = match class {
            // SAFETY: a block of this class has room after the task for at least `bytes` bytes.
            Some(_) => unsafe { block.as_ptr().add(1).cast::<u8>() },
            None => match elsewhere(bytes, align) {
                Some(room) => room,
                None => {
                    self.give(0, block);
                    return None;
                }
            },
        };
        // SAFETY: the room has `bytes` bytes, and the arguments are its last part.
        let arguments = unsafe { room.add(arguments_at) };
        let edges = room.cast::<Edge>();
        for at in 0..needs.edges {
            // SAFETY: the memory has room for `needs.edges` edges, and is aligned for them.
            unsafe { edges.add(at).write(Edge::new()) };
        }
        // SAFETY: a block always contains a task, and this thread owns the block.
        let task = unsafe { block.as_ref() };
        task.renew(work, arguments.cast(), parent);
        task.class.set(class.map_or(ELSEWHERE, |class| class as u32));
        if class.is_none() {
            // SAFETY: nothing else uses the bytes after the task in this block.
            unsafe { block.as_ptr().add(1).cast::<Room>().write(Room { at: room, bytes, align }) };
        }
        Some(Made { task: block, arguments: arguments.cast(), edges })
    }

    /// Frees a task's memory.
    ///
    /// # Safety
    /// A pool has made the task, and no thread uses it.
    #[inline]
    pub unsafe fn free(&self, task: NonNull<Task>) {
        // SAFETY: guaranteed by the caller.
        let class = unsafe { task.as_ref() }.class.get();
        // SAFETY: no thread uses the task. The table is dropped because it may own memory.
        unsafe { drop(std::mem::take(&mut *task.as_ref().own.table.get())) };
        // SAFETY: no thread uses the task.
        unsafe { task.as_ref() }.leave();
        if class == ELSEWHERE {
            // SAFETY: `make` has written a `Room` after each task of this class.
            let room = unsafe { task.as_ptr().add(1).cast::<Room>().read() };
            // SAFETY: `elsewhere` has allocated this memory with this size and alignment.
            unsafe { dealloc(room.at, Layout::from_size_align_unchecked(room.bytes, room.align)) };
        }
        self.give(if class == ELSEWHERE { 0 } else { class as usize }, task);
    }

    #[inline]
    fn take(&self, class: usize) -> Option<NonNull<Task>> {
        let chain = self.0[class].get();
        let Some(first) = NonNull::new(chain.first) else { return self.refill(class) };
        // SAFETY: free blocks contain tasks, and these belong to this thread.
        let next = unsafe { first.as_ref() }.data.get().cast();
        self.0[class].set(Chain { first: next, count: chain.count - 1 });
        Some(first)
    }

    #[inline]
    fn give(&self, class: usize, block: NonNull<Task>) {
        let chain = self.0[class].get();
        // SAFETY: `block` is a free block that belongs to this thread.
        unsafe { block.as_ref() }.data.set(chain.first.cast());
        self.0[class].set(Chain { first: block.as_ptr(), count: chain.count + 1 });
        if chain.count >= KEPT {
            self.hand_on(class);
        }
    }

    /// Puts all free blocks of a class into the common list, for threads that need some.
    #[cold]
    fn hand_on(&self, class: usize) {
        let chain = self.0[class].replace(Chain { first: ptr::null_mut(), count: 0 });
        if !chain.first.is_null() {
            let mut spare = hold();
            if spare[class].0.try_reserve(1).is_ok() {
                spare[class].0.push(chain);
            } else {
                // If there is no memory for the list entry, this thread keeps the chain of blocks.
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

/// Takes the lock on the blocks that belong to no thread.
pub(crate) fn hold() -> MutexGuard<'static, [Chains; 2]> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates new blocks, which are never freed.
fn slab(class: usize) -> Option<Chain> {
    let size = (size_of::<Task>() + ROOM[class]).next_multiple_of(align_of::<Task>());
    let layout = Layout::from_size_align(size * SLAB, align_of::<Task>()).ok()?;
    // SAFETY: the layout's size is not 0.
    let memory = NonNull::new(unsafe { alloc(layout) })?;
    let mut first: *mut Task = ptr::null_mut();
    for at in 0..SLAB {
        // SAFETY: the block lies within the slab, whose blocks are aligned as tasks.
        let block = unsafe { memory.as_ptr().add(at * size) }.cast::<Task>();
        // SAFETY: the block lies within the slab, whose blocks are aligned as tasks.
        unsafe { block.write(Task::new(nothing, first.cast(), ptr::null())) };
        first = block;
    }
    Some(Chain { first, count: SLAB as u32 })
}

/// Describes the separate allocation of a task's data. Lies in the task's block, after the task.
struct Room {
    at: *mut u8,
    bytes: usize,
    align: usize,
}

fn elsewhere(bytes: usize, align: usize) -> Option<*mut u8> {
    let layout = Layout::from_size_align(bytes, align).ok()?;
    // SAFETY: the layout's size is not 0.
    NonNull::new(unsafe { alloc(layout) }).map(NonNull::as_ptr)
}
