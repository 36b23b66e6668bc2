//! Times between ticks of an engine that must not disturb the program: each tick wakes cox up, on a CPU that the program may use.

use std::time::Duration;

/// A time between ticks. It doubles with each tick, because short programs need to be looked at early, and long ones need not be looked at often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses(Duration);

impl Pauses {
    /// The first time between two ticks.
    pub const SHORTEST: Duration = Duration::from_millis(100);
    /// The longest time between two ticks.
    pub const LONGEST: Duration = Duration::from_secs(1);

    /// Returns the time until the next tick.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.0
    }

    /// Chooses the next time. `in_a_hurry`: so much had to be done in this tick that the next one must come early.
    pub fn ticked(&mut self, in_a_hurry: bool) {
        self.0 = if in_a_hurry { Pauses::SHORTEST } else { (self.0 * 2).min(Pauses::LONGEST) };
    }
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(Pauses::SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_rare_unless_there_is_much_to_do() {
        let mut pauses = Pauses::default();
        let mut lengths = Vec::new();
        for hurry in [false, false, false, false, false, true, false] {
            lengths.push(pauses.length().as_millis());
            pauses.ticked(hurry);
        }
        assert_eq!(lengths, [100, 200, 400, 800, 1000, 1000, 100]);
    }
}
