//! The numbers by which BPF identifies the processes of a session. The lowest free number is used first, because the BPF programs search all numbers
//! up to the highest one in use.

use wire::umt::PROCESSES;

/// The process numbers that are in use.
#[derive(Debug)]
pub(super) struct Slots {
    taken: [bool; PROCESSES],
}

impl Slots {
    pub(super) const fn new() -> Slots {
        Slots { taken: [false; PROCESSES] }
    }

    /// Takes the lowest free number. Returns `None` if all are in use.
    pub(super) fn take(&mut self) -> Option<u32> {
        let free = self.taken.iter().position(|taken| !taken)?;
        self.taken[free] = true;
        Some(free as u32)
    }

    /// Marks a number as free.
    pub(super) fn free(&mut self, number: u32) {
        if let Some(taken) = self.taken.get_mut(number as usize) {
            *taken = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_next() {
        let mut slots = Slots::new();
        let all: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, (0..PROCESSES as u32).collect::<Vec<_>>());
        [9, 3, u32::MAX].into_iter().for_each(|number| slots.free(number));
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(3), Some(9), None]);
    }
}
