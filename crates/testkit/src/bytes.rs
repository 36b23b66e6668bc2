//! Random changes to bytes.

use crate::{NUMBERS, Random};

/// Changes some bytes: flips bits, replaces bytes and numbers, removes or repeats pieces, or cuts off the end.
pub fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        let length = 1 + random.below(64).min(bytes.len() - at.min(bytes.len()));
        let end = (at + length).min(bytes.len());
        match random.below(7) {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.number() as u8),
            2 | 3 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let width = [2, 4, 8][random.below(3)];
                bytes.iter_mut().skip(at).zip(&number[..width]).for_each(|(byte, new)| *byte = *new);
            }
            4 => bytes.truncate(at),
            5 => {
                let copied = bytes[at.min(end)..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copied);
            }
            _ => {
                bytes.drain(at.min(end)..end);
            }
        }
    }
}
