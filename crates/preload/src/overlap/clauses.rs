//! gcc's description of a task's dependences: an array of words in one of two forms (libgomp, task.c, at `GOMP_task`).
//!
//! - Short form: the number of addresses; how many of them are `out` or `inout`; then the addresses, first `out` and `inout`, then `in`.
//! - Long form: 0; the number of all addresses, of `out` and `inout`, of `mutexinoutset`, and of `in`; then the addresses in this order, followed by
//!   addresses of depend objects, each of which contains an address and its kind.

use tasks::depend::{Access, Kind};

/// The compiler's array of dependences.
#[derive(Clone, Copy)]
pub struct Clauses(*const usize);

/// Kinds in depend objects (gomp-constants.h).
const IN: usize = 1;
const INOUTSET: usize = 5;

impl Clauses {
    /// # Safety
    /// `array` is an array of dependences that the compiler made, and it stays valid as long as the result is used.
    pub unsafe fn new(array: *const usize) -> Clauses {
        Clauses(array)
    }

    fn word(self, at: usize) -> usize {
        // SAFETY: the caller of `new` guarantees that this is a valid array of the compiler. The array is as long as its first words state, and no
        // later word is read.
        unsafe { *self.0.add(at) }
    }

    /// Returns the memory accesses that the task's `depend` clauses declare, in the order of the array.
    pub fn accesses(self) -> impl Iterator<Item = Access> + Clone {
        let short = self.word(0);
        let long = short == 0;
        let (all, first) = if long { (self.word(1), 5) } else { (short, 2) };
        let out = self.word(if long { 2 } else { 1 });
        let (mutex, of_in) = if long { (self.word(3), self.word(4)) } else { (0, short - out) };
        (0..all).map(move |at| {
            let address = self.word(first + at);
            let (address, kind) = if at < out + mutex {
                (address, Kind::Out)
            } else if at < out + mutex + of_in {
                (address, Kind::In)
            } else {
                let object = address as *const usize;
                // SAFETY: `object` points to a depend object, which consists of an address and a kind.
                let (address, kind) = unsafe { (*object, *object.add(1)) };
                let kind = match kind {
                    IN => Kind::In,
                    INOUTSET => Kind::InOutSet,
                    _ => Kind::Out,
                };
                (address, kind)
            };
            // omp_all_memory has no address.
            if address == 0 { Access::Everything } else { Access::At(address, kind) }
        })
    }
}

/// The accesses of a task without `depend` clauses.
pub const NONE: Option<std::iter::Empty<Access>> = None;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(array: &[usize]) -> Vec<Access> {
        // SAFETY: each test's array is as long as its first words state.
        unsafe { Clauses::new(array.as_ptr()) }.accesses().collect()
    }

    #[test]
    fn the_short_form() {
        let expected = [Access::At(80, Kind::Out), Access::At(88, Kind::In), Access::At(96, Kind::In)];
        assert_eq!(read(&[3, 1, 80, 88, 96]), expected);
    }

    #[test]
    fn the_long_form_with_depend_objects() {
        let set = [112usize, INOUTSET];
        let out = [120usize, 2];
        let array = [0, 5, 1, 1, 1, 80, 88, 96, set.as_ptr() as usize, out.as_ptr() as usize];
        let expected = [
            Access::At(80, Kind::Out),
            Access::At(88, Kind::Out),
            Access::At(96, Kind::In),
            Access::At(112, Kind::InOutSet),
            Access::At(120, Kind::Out),
        ];
        assert_eq!(read(&array), expected);
    }

    #[test]
    fn all_memory_has_no_address() {
        assert_eq!(read(&[2, 1, 0, 88]), [Access::Everything, Access::At(88, Kind::In)]);
    }
}
