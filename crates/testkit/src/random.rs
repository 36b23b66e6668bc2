//! Reproducible pseudorandom numbers.

use crate::NUMBERS;

/// The generator, with methods for tests.
#[derive(Clone, Debug)]
pub struct Random(random::Random);

impl Random {
    /// Makes a sequence that depends only on `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(random::Random::new(seed))
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// Returns a number below `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    /// Returns true with a probability of one in `many`.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Returns a boundary value, a number near one, or a random number with a random number of bits.
    pub fn nasty(&mut self) -> u64 {
        match self.below(4) {
            0 => self.number() >> self.below(64),
            1 => NUMBERS[self.below(NUMBERS.len())].wrapping_add(self.number() % 16).wrapping_sub(8),
            _ => NUMBERS[self.below(NUMBERS.len())],
        }
    }
}
