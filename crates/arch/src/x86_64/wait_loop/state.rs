//! Abstract interpretation of a loop: what is known about each register and stack slot.
//!
//! A *location* is a general register, the flags, or a slot of the function's own stack. At the start of an iteration every location holds
//! a token that stands for its own value. A [`Value`] records the tokens from which it was made, and how. After one iteration, the value of
//! a location tells how the loop carries it from one iteration to the next.

/// Index of the flags among the locations; general registers are 0 to 15.
pub(super) const FLAGS: usize = 16;
/// Index of the first stack slot.
pub(super) const FIRST_SLOT: usize = 17;
/// Largest number of locations: a set of locations is a bit set in a u64.
pub(super) const MAX_LOCATIONS: usize = 64;

/// A place in the function's own stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Whether the slot is relative to the frame pointer; if not, it is relative to the stack pointer.
    pub frame: bool,
    /// Offset from that pointer, in bytes.
    pub displacement: i64,
}

/// What is known about a value: from what it was computed, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    /// Bit set of locations (registers and stack slots). This value was computed from what these locations held at the start of the iteration.
    pub tokens: u64,
    /// Whether the value comes from memory that other threads may write.
    pub polled: bool,
    /// Whether the value comes from something that changes by itself (time), or is unknown (results of calls).
    pub clock: bool,
    /// Whether a constant was added to the value, as for a counter.
    pub step: bool,
    /// Whether the value was computed, other than by adding a constant, from what a register or stack slot held at the start of the iteration. This
    /// indicates that the loop works instead of waiting.
    pub work: bool,
    /// If the value is the address of a stack slot: this slot.
    pub address_of: Option<Slot>,
}

impl Value {
    /// Returns the value that a location (a register or stack slot) has at the start of an iteration: it depends on this location only.
    pub fn token(location: usize) -> Value {
        Value { tokens: 1 << location, ..Value::default() }
    }

    /// Returns the result of an operation on both values. Also used for a value that can be either of them, where two paths join.
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

/// The values of all locations at one point of the code.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct State(Vec<Value>);

impl State {
    /// Returns the value of a location. If the iteration has not written the location, this is its value from the start of the iteration.
    pub fn get(&self, location: usize) -> Value {
        self.0.get(location).copied().unwrap_or(Value::token(location))
    }

    /// Sets what is known about the content of a location (register or stack slot) to `value`.
    pub fn set(&mut self, location: usize, value: Value) {
        for unwritten in self.0.len()..=location {
            self.0.push(Value::token(unwritten));
        }
        self.0[location] = value;
    }

    /// Merges the state at the end of another path through the code into this one. Returns whether this state changed.
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
