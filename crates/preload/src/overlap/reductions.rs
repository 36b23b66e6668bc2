//! Task reductions: each thread of the team adds up in a copy of its own, in memory that belongs to a taskgroup.
//!
//! gcc describes the variables in blocks of words (libgomp, task.c, at `gomp_reduction_register`): how many there are, how many
//! bytes one thread's copies take, their alignment, an allocator, the next block; then two words for the runtime, and for each
//! variable its address, its offset in a thread's copies, and a word for the runtime. At the end the compiler's code
//! combines the copies that lie between the third word and the seventh, one thread's after the other's.

use std::ffi::c_void;
use std::ptr;

/// Words of a block.
const VARIABLES: usize = 0;
const BYTES: usize = 1;
/// Given as an alignment, left as where the copies begin.
const COPIES: usize = 2;
const NEXT: usize = 4;
/// Not 0 in the first block of a registration.
const FIRST: usize = 5;
/// What it is in ours.
const OURS: usize = 1;
const END: usize = 6;
const ENTRIES: usize = 7;
const WORDS_OF_ENTRY: usize = 3;

/// A block of the compiler's.
#[derive(Clone, Copy)]
pub struct Block(*mut usize);

impl Block {
    /// # Safety
    /// The compiler's block, or null; it and those that follow stay as long as this is used.
    pub unsafe fn new(block: *mut usize) -> Option<Block> {
        (!block.is_null()).then_some(Block(block))
    }

    fn get(self, word: usize) -> usize {
        // SAFETY: `new`'s promise; a block has as many words as it says.
        unsafe { *self.0.add(word) }
    }

    fn set(self, word: usize, value: usize) {
        // SAFETY: as above.
        unsafe { *self.0.add(word) = value };
    }

    fn next(self) -> Option<Block> {
        // SAFETY: the block says where the next is.
        unsafe { Block::new(self.get(NEXT) as *mut usize) }
    }

    /// The last of those that follow, or this one.
    pub fn last(self) -> Block {
        self.chain().last().unwrap_or(self)
    }

    /// Behind this block, which is the last of its registration, come those of the groups around.
    pub fn goes_on(self, around: *mut usize) {
        self.set(NEXT, around as usize);
    }

    /// Whether [`register`](Block::register) has made its copies: libgomp has an address where we have a mark.
    pub fn is_ours(self) -> bool {
        self.get(FIRST) == OURS
    }

    /// This block, and those that follow.
    fn chain(self) -> impl Iterator<Item = Block> {
        std::iter::successors(Some(self), |block| block.next())
    }

    /// Makes the copies of so many threads, all zero, in this block and those that follow; `around` are the blocks
    /// of the groups around. `false`: there is no memory.
    pub fn register(self, around: *mut usize, threads: usize) -> bool {
        let mut block = self;
        loop {
            let bytes = block.get(BYTES) * threads;
            let align = block.get(COPIES).max(align_of::<usize>());
            let mut copies = ptr::null_mut::<c_void>();
            // SAFETY: a place for the address; an alignment that is a power of two, as the compiler gives them.
            if unsafe { libc::posix_memalign(&raw mut copies, align, bytes.max(1)) } != 0 {
                return false;
            }
            // SAFETY: so many bytes were just allocated.
            unsafe { copies.cast::<u8>().write_bytes(0, bytes) };
            block.set(COPIES, copies as usize);
            block.set(END, copies as usize + bytes);
            block.set(FIRST, if block.0 == self.0 { OURS } else { 0 });
            match block.next() {
                Some(next) => block = next,
                None => {
                    block.set(NEXT, around as usize);
                    return true;
                }
            }
        }
    }

    /// Frees the copies of one registration.
    pub fn unregister(self) {
        let mut block = Some(self);
        while let Some(this) = block {
            // SAFETY: allocated by `register`.
            unsafe { libc::free(this.get(COPIES) as *mut c_void) };
            block = this.next().filter(|next| next.get(FIRST) == 0);
        }
    }

    /// A thread's copy of a variable, and the variable itself; `address` is that of the variable or of anybody's copy.
    pub fn find(self, address: usize, thread: usize) -> Option<(usize, usize)> {
        let copy = |block: Block, offset| block.get(COPIES) + thread * block.get(BYTES) + offset;
        let entries = |block: Block| {
            (0..block.get(VARIABLES)).map(move |at| {
                let entry = ENTRIES + at * WORDS_OF_ENTRY;
                (block.get(entry), block.get(entry + 1))
            })
        };
        self.chain().find_map(|block| {
            let by_variable = entries(block).find(|(variable, _)| *variable == address);
            let by_copy = || {
                (block.get(COPIES)..block.get(END)).contains(&address).then(|| {
                    let offset = (address - block.get(COPIES)) % block.get(BYTES);
                    entries(block).find(|(_, own)| *own == offset)
                })?
            };
            by_variable.or_else(by_copy).map(|(variable, offset)| (copy(block, offset), variable))
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
        // SAFETY: they live to the end of this test.
        let (outer, inner) = unsafe { (Block::new(outer.as_mut_ptr()), Block::new(first.as_mut_ptr())) };
        let (outer, inner) = (outer.unwrap(), inner.unwrap());
        assert!(outer.register(ptr::null_mut(), 3) && inner.register(outer.0, 3));
        let at = |block: Block, thread, offset| block.get(COPIES) + thread * block.get(BYTES) + offset;
        let second = inner.next().unwrap();
        assert_eq!(inner.find(4000, 2), Some((at(inner, 2, 0), 4000)));
        assert_eq!(inner.find(3000, 1), Some((at(second, 1, 16), 3000)));
        assert_eq!(inner.find(2000, 1), Some((at(outer, 1, 8), 2000)));
        // Somebody's copy stands for the variable.
        assert_eq!(inner.find(at(outer, 2, 8), 0), Some((at(outer, 0, 8), 2000)));
        assert_eq!((inner.find(5000, 0), outer.find(4000, 0)), (None, None));
        assert_eq!(second.get(END) - second.get(COPIES), 3 * 128);
        assert_eq!(inner.get(COPIES) % 64, 0);
        // libgomp leaves an address there.
        let mut others = [1, 64, 0, usize::MAX, 0, 0x7000, 0, 1000, 0, 0];
        // SAFETY: a block of one variable.
        let others = unsafe { Block::new(others.as_mut_ptr()) };
        assert_eq!((inner.is_ours(), others.map(Block::is_ours)), (true, Some(false)));
        inner.unregister();
        // The outer ones are still there.
        assert!(outer.find(1000, 0).is_some());
        outer.unregister();
    }
}
