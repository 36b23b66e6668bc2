//! Numbers that look random, the same each time.

use crate::NUMBERS;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence that is determined by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
