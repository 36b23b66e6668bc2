//! Task reductions: each thread of the team accumulates in a copy of its own, in memory that belongs to a taskgroup.
//!
//! gcc describes the variables in blocks of words (libgomp, task.c, at `gomp_reduction_register`): the number of variables, the size in bytes of one
//! thread's copies, their alignment, an allocator, the next block; then two words for the runtime; and for each variable its address, its offset in a
//! thread's copies, and a word for the runtime. At the end, the compiler's code combines as many copies as the team has members, one thread's after
//! the other's.
//!
//! **Which copy a task uses.** A copy must never have two users at the same time.
//!
//! 1. In `parallel`, loops, sections and scopes (`reduction(task, …)`), every member initializes its copy when it begins the construct. So a task may
//!    only use the copy of a member that has begun the construct. Only members run such tasks, after they have begun the construct
//!    (`Group::is_for_members`), and each uses the copy that belongs to its own place (member number) in the team.
//! 2. In a taskgroup, the first task that uses a copy initializes it, so the copy could belong to any thread. If a member has begun the group, rule 1
//!    applies nevertheless, because thread numbers are not safe: in the worst case, two tasks have the same thread number at the same time.
//! 3. If a standby has begun the taskgroup, rule 1 cannot be applied: a standby is not a member, so no copy belongs to it. Therefore each task uses
//!    the copy of its thread number, in spite of the risk that rule 2 names. The task holds this number until it ends.

use std::ffi::c_void;
use std::ptr;

/// Indexes of the words in a block of reductions (see the module's documentation).
const VARIABLES: usize = 0;
const BYTES: usize = 1;
/// This word contains the alignment before registration, and the address of the copies afterwards.
const COPIES: usize = 2;
const NEXT: usize = 4;
/// In the first of the blocks that were registered together, this word is not 0; in the others it is 0.
const FIRST: usize = 5;
/// Values of the word `FIRST` in our blocks: a task finds its copy by its place (member number) in the team, or by its thread number. In libgomp's
/// blocks the word is an address, and a task finds its copy by its place.
const OURS_BY_PLACE: usize = 1;
const OURS_BY_NUMBER: usize = 2;
const END: usize = 6;
const ENTRIES: usize = 7;
const WORDS_OF_ENTRY: usize = 3;

/// A block of words, allocated by the compiler, that describes reduction variables. Blocks form a list.
#[derive(Clone, Copy)]
pub struct Block(*mut usize);

impl Block {
    /// # Safety
    /// `block` is null or the address of a block that the compiler allocated. This block and the later blocks of its list stay valid as long as the
    /// result is used.
    pub unsafe fn new(block: *mut usize) -> Option<Block> {
        (!block.is_null()).then_some(Block(block))
    }

    fn get(self, word: usize) -> usize {
        // SAFETY: the caller of `new` guarantees that the block is valid. It has as many words as its first word (the number of variables) implies.
        unsafe { *self.0.add(word) }
    }

    fn set(self, word: usize, value: usize) {
        // SAFETY: the caller of `new` guarantees that the block is valid. It has as many words as its first word (the number of variables) implies.
        unsafe { *self.0.add(word) = value };
    }

    fn next(self) -> Option<Block> {
        // SAFETY: the word `NEXT` of a block is null or the address of the next block of its list.
        unsafe { Block::new(self.get(NEXT) as *mut usize) }
    }

    /// Returns the last block of the list that begins with this block.
    pub fn last(self) -> Block {
        self.chain().last().unwrap_or(self)
    }

    /// Links this block to `around`, the first block of the enclosing groups. This block must be the last of those that were registered together.
    pub fn append(self, around: *mut usize) {
        self.set(NEXT, around as usize);
    }

    /// Returns whether [`register`](Block::register) (and not libgomp) allocated the block's copies: libgomp stores an address where we store a mark.
    pub fn is_ours(self) -> bool {
        matches!(self.get(FIRST), OURS_BY_PLACE | OURS_BY_NUMBER)
    }

    /// Returns this block and the later blocks of its list.
    fn chain(self) -> impl Iterator<Item = Block> {
        std::iter::successors(Some(self), |block| block.next())
    }

    /// Registers the reductions that this block and the later blocks of its list describe. For each block, allocates a copy of the block's variables
    /// for each of `threads` threads, fills the copies with zeros, and stores their address in the block. Then links the last block to `around`, the
    /// first block of the enclosing groups. With `by_place`, a task finds its copy by its place (member number) in the team, otherwise by its thread
    /// number. Returns false if there is no memory.
    pub fn register(self, around: *mut usize, threads: usize, by_place: bool) -> bool {
        let first = if by_place { OURS_BY_PLACE } else { OURS_BY_NUMBER };
        for block in self.chain() {
            let bytes = block.get(BYTES) * threads;
            let align = block.get(COPIES).max(align_of::<usize>());
            let mut copies = ptr::null_mut::<c_void>();
            // SAFETY: the pointer to the address is valid; the compiler's alignment is a power of two.
            if unsafe { libc::posix_memalign(&raw mut copies, align, bytes.max(1)) } != 0 {
                return false;
            }
            // SAFETY: at least `bytes` bytes were just allocated at this address.
            unsafe { copies.cast::<u8>().write_bytes(0, bytes) };
            block.set(COPIES, copies as usize);
            block.set(END, copies as usize + bytes);
            block.set(FIRST, if block.0 == self.0 { first } else { 0 });
        }
        self.last().append(around);
        true
    }

    /// Frees the copies that one call of [`register`](Block::register) allocated.
    pub fn unregister(self) {
        let mut block = Some(self);
        while let Some(this) = block {
            // SAFETY: `register` allocated the copies, and stored their address in this word.
            unsafe { libc::free(this.get(COPIES) as *mut c_void) };
            block = this.next().filter(|next| next.get(FIRST) == 0);
        }
    }

    /// Returns the address of the copy that a task uses, and that of the variable. `address` is the address of the variable or of any thread's copy.
    /// `whose` returns the number of the copy that the task uses: `whose(true)` is the task's place (member number) in the team, `whose(false)` its
    /// thread number.
    pub fn find(self, address: usize, whose: impl Fn(bool) -> usize) -> Option<(usize, usize)> {
        let entries = |block: Block| {
            (0..block.get(VARIABLES)).map(move |at| {
                let entry = ENTRIES + at * WORDS_OF_ENTRY;
                (block.get(entry), block.get(entry + 1))
            })
        };
        let mut by_place = true;
        self.chain().find_map(|block| {
            // Of the blocks that were registered together, only the first has a value in this word; it applies to all of them.
            match block.get(FIRST) {
                0 => {}
                first => by_place = first != OURS_BY_NUMBER,
            }
            let by_variable = entries(block).find(|(variable, _)| *variable == address);
            let by_copy = || {
                (block.get(COPIES)..block.get(END)).contains(&address).then(|| {
                    let offset = (address - block.get(COPIES)) % block.get(BYTES);
                    entries(block).find(|(_, start)| *start == offset)
                })?
            };
            let (variable, offset) = by_variable.or_else(by_copy)?;
            Some((block.get(COPIES) + whose(by_place) * block.get(BYTES) + offset, variable))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(variables: &[(usize, usize)], bytes: usize, next: usize) -> Vec<usize> {
        let mut words = vec![variables.len(), bytes, 64, usize::MAX, next, 9, 9];
        variables.iter().for_each(|(address, offset)| words.extend([*address, *offset, 0]));
        words
    }

    #[test]
    fn each_thread_has_copies_and_groups_inside_know_those_around() {
        let mut outer = block(&[(1000, 0), (2000, 8)], 64, 0);
        let mut second = block(&[(3000, 16)], 128, 0);
        let mut first = block(&[(4000, 0)], 64, second.as_mut_ptr() as usize);
        // SAFETY: the blocks live to the end of this test.
        let (outer, inner) = unsafe { (Block::new(outer.as_mut_ptr()), Block::new(first.as_mut_ptr())) };
        let (outer, inner) = (outer.unwrap(), inner.unwrap());
        assert!(outer.register(ptr::null_mut(), 3, false) && inner.register(outer.0, 3, true));
        let at = |block: Block, thread, offset| block.get(COPIES) + thread * block.get(BYTES) + offset;
        let second = inner.next().unwrap();
        // The task uses copy 2 in blocks that are registered by place, and copy 1 in blocks that are registered by thread number.
        let whose = |by_place| if by_place { 2 } else { 1 };
        assert_eq!(inner.find(4000, whose), Some((at(inner, 2, 0), 4000)));
        assert_eq!(inner.find(3000, whose), Some((at(second, 2, 16), 3000)));
        assert_eq!(inner.find(2000, whose), Some((at(outer, 1, 8), 2000)));
        // The address of any thread's copy is accepted in place of the variable's own address.
        assert_eq!(inner.find(at(outer, 2, 8), whose), Some((at(outer, 1, 8), 2000)));
        assert_eq!((inner.find(5000, whose), outer.find(4000, whose)), (None, None));
        assert_eq!(second.get(END) - second.get(COPIES), 3 * 128);
        assert_eq!(inner.get(COPIES) % 64, 0);
        // In blocks that libgomp registers, the word `FIRST` is an address.
        let mut others = [1, 64, 0, usize::MAX, 0, 0x7000, 0, 1000, 0, 0];
        // SAFETY: the array is a valid block with one variable.
        let others = unsafe { Block::new(others.as_mut_ptr()) };
        assert_eq!((inner.is_ours(), others.map(Block::is_ours)), (true, Some(false)));
        assert!(others.unwrap().find(1000, whose).is_some_and(|(copy, _)| copy == 2 * 64), "by place");
        inner.unregister();
        // `unregister` has not freed the copies of the outer block.
        assert!(outer.find(1000, whose).is_some());
        outer.unregister();
    }
}
