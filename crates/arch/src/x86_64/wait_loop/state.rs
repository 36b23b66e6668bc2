//! What is known of each register and stack slot inside a loop: an abstract interpretation.
//!
//! A *location* is a general register, the flags, or a slot of the function's own stack. At the start of
//! an iteration every location holds a token that stands for itself; a [`Value`] says which tokens it was
//! made from, and how. After one iteration, the value of a location tells how it goes round the loop.

/// Index of the flags among the locations; general registers are 0 to 15.
pub(super) const FLAGS: usize = 16;
/// Index of the first stack slot.
pub(super) const FIRST_SLOT: usize = 17;
/// Tokens are bits of a u64.
pub(super) const MAX_LOCATIONS: usize = 64;

/// A place in the function's own stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Against the frame pointer; otherwise against the stack pointer.
    pub frame: bool,
    /// Bytes from there.
    pub displacement: i64,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    /// Tokens it was made from, a bit each.
    pub tokens: u64,
    /// From memory that other threads may write.
    pub polled: bool,
    /// From something that changes without anybody's doing (time), or is unknown (results of calls).
    pub clock: bool,
    /// A constant was added on the way: how a counter goes.
    pub step: bool,
    /// Other arithmetic happened on the way to what has a token in it: how work goes.
    pub work: bool,
    /// It is the address of this slot.
    pub address_of: Option<Slot>,
}

impl Value {
    /// The token of a location.
    pub fn token(location: usize) -> Value {
        Value { tokens: 1 << location, ..Value::default() }
    }

    /// What an operation on both yields, and also what one or the other yields.
    pub fn union(self, other: Value) -> Value {
        Value {
            tokens: self.tokens | other.tokens,
            polled: self.polled || other.polled,
            clock: self.clock || other.clock,
            step: self.step || other.step,
            work: self.work || other.work,
            address_of: self.address_of.filter(|_| self.address_of == other.address_of),
        }
    }
}

/// The values of all locations at one point.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct State(Vec<Value>);

impl State {
    /// The value of a location; its own token as long as the iteration has not written it.
    pub fn get(&self, location: usize) -> Value {
        self.0.get(location).copied().unwrap_or(Value::token(location))
    }

    /// Writes a location.
    pub fn set(&mut self, location: usize, value: Value) {
        for unwritten in self.0.len()..=location {
            self.0.push(Value::token(unwritten));
        }
        self.0[location] = value;
    }

    /// Adds what another path brings; whether that changed anything.
    pub fn join(&mut self, other: &State) -> bool {
        let mut changed = false;
        for location in 0..self.0.len().max(other.0.len()) {
            let (own, brought) = (self.get(location), other.get(location));
            let joined = own.union(brought);
            if joined != own {
                self.set(location, joined);
                changed = true;
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_locations_keep_their_token() {
        let mut state = State::default();
        state.set(3, Value { polled: true, ..Value::default() });
        assert_eq!(state.get(0), Value::token(0));
        assert_eq!(state.get(20), Value::token(20));
        assert!(state.get(3).polled && state.get(3).tokens == 0);
    }

    #[test]
    fn joining_adds_and_then_settles() {
        let mut one = State::default();
        let mut other = State::default();
        other.set(1, Value { polled: true, ..Value::default() });
        assert!(one.join(&other));
        assert_eq!(one.get(1), Value { polled: true, ..Value::token(1) });
        assert!(!one.join(&other));
    }

    #[test]
    fn two_addresses_are_no_address() {
        let at = |displacement| Value { address_of: Some(Slot { frame: true, displacement }), ..Value::default() };
        assert_eq!(at(8).union(at(8)).address_of, Some(Slot { frame: true, displacement: 8 }));
        assert_eq!(at(8).union(at(16)).address_of, None);
    }
}
