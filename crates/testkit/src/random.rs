//! Numbers that look random, the same each time.

use crate::NUMBERS;

/// The generator, with what tests want of it.
#[derive(Clone, Debug)]
pub struct Random(random::Random);

impl Random {
    /// A sequence that is determined by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(random::Random::new(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `limit`; 0 where there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    /// Whether one of `many` throws falls to this one.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// A number at which something may go wrong, or any of some bits.
    pub fn nasty(&mut self) -> u64 {
        match self.below(4) {
            0 => self.number() >> self.below(64),
            1 => NUMBERS[self.below(NUMBERS.len())].wrapping_add(self.number() % 16).wrapping_sub(8),
            _ => NUMBERS[self.below(NUMBERS.len())],
        }
    }
}
