//! Judges whether one loop only waits.

use super::code::Code;
use super::cycles::Cycle;
use super::state::{FIRST_SLOT, MAX_LOCATIONS, State, Value};
use super::step::{Effects, Stepper};
use crate::wait_loop::{CallTarget, Callee, Verdict};

/// Returns whether the loop `cycle` only waits, moves data or works, by the rule in the documentation of the parent module.
pub(super) fn judge(code: &Code, cycle: &Cycle, callee: &dyn Fn(CallTarget) -> Callee) -> Verdict {
    let mut stepper = Stepper::new(code.frame_pointer, callee);
    let Some((states, round)) = settle(code, cycle, &mut stepper) else { return Verdict::Works };
    let effects: Vec<Effects> = cycle
        .body
        .iter()
        .zip(&states)
        .map(|(&node, state)| {
            let mut state = state.clone().unwrap_or_default();
            stepper.step(&code.instructions[node as usize], &mut state)
        })
        .collect();
    let carried = Carried::new(&round, effects.iter().fold(0, |read, effect| read | effect.inputs.tokens));

    let along = |effect: &Effects| effect.stores && carried.expand(effect.addresses).progresses;
    if effects.iter().any(|effect| effect.moves_data || along(effect)) {
        return Verdict::Moves;
    }
    if effects.iter().any(|effect| effect.opaque || effect.stores) {
        return Verdict::Works;
    }
    if effects.iter().any(|effect| effect.relaxes) {
        return Verdict::Waits;
    }
    let works = carried.work != 0
        || effects.iter().any(|effect| {
            let address = carried.expand(effect.addresses);
            let offered = effect.offered.is_some_and(|offer| {
                let value = carried.expand(offer.value);
                value.progresses || (offer.must_be_constant && value.polled)
            });
            address.progresses || effect.advances_memory || offered
        });
    if works {
        return Verdict::Works;
    }
    let branches = cycle.body.iter().zip(&effects).filter(|&(&node, _)| is_branch(code, node));
    let tests: Vec<_> =
        branches.map(|(&node, effect)| (leaves(code, cycle, node), carried.expand(effect.inputs))).collect();
    if tests.iter().any(|(_, test)| !test.polled && !test.progresses && !test.own_stack) {
        return Verdict::Works;
    }
    let waits = tests.iter().any(|(leaves, test)| {
        *leaves && !test.progresses && (test.polled || (test.own_stack && carried.progress == 0))
    });
    if waits { Verdict::Waits } else { Verdict::Works }
}

/// Computes, up to a fixed point, the state before each instruction of the body, and the state after one iteration. `None` if there is no
/// fixed point: the lattice is finite, so only a defect in this code could cause that.
fn settle(code: &Code, cycle: &Cycle, stepper: &mut Stepper) -> Option<(Vec<Option<State>>, State)> {
    const ROUNDS: usize = 1000;
    let index = |node: u32| cycle.body.binary_search(&node).ok();
    let mut states: Vec<Option<State>> = vec![None; cycle.body.len()];
    let mut round: Option<State> = None;
    let first = index(cycle.header)?;
    states[first] = Some(State::default());
    let mut pending = vec![first];
    for _ in 0..ROUNDS * cycle.body.len() {
        let Some(at) = pending.pop() else { return Some((states, round?)) };
        let mut state = states[at].clone()?;
        stepper.step(&code.instructions[cycle.body[at] as usize], &mut state);
        for to in code.successors(cycle.body[at]) {
            if to == cycle.header {
                match &mut round {
                    Some(round) => {
                        round.join(&state);
                    }
                    None => round = Some(state.clone()),
                }
            } else if let Some(to) = index(to) {
                let changed = match &mut states[to] {
                    Some(known) => known.join(&state),
                    None => {
                        states[to] = Some(state.clone());
                        true
                    }
                };
                if changed {
                    pending.push(to);
                }
            }
        }
    }
    None
}

fn is_branch(code: &Code, node: u32) -> bool {
    code.instructions[node as usize].flow_control() == iced_x86::FlowControl::ConditionalBranch
}

/// Returns whether the conditional branch `node` may leave the loop.
fn leaves(code: &Code, cycle: &Cycle, node: u32) -> bool {
    code.successors(node).filter(|to| cycle.body.binary_search(to).is_ok()).count() < 2
}

/// How a loop changes the values in registers and stack slots from one iteration to the next.
struct Carried {
    round: Vec<Value>,
    /// For each location (register or stack slot), a bit set: the locations whose values in earlier iterations can influence its value.
    reach: Vec<u64>,
    /// Bit set of the locations whose values the loop itself changes from one iteration to the next.
    progress: u64,
    /// Bit set of those locations in `progress` that change by more than a constant step.
    work: u64,
    /// Bit set of the stack slots that the loop never writes.
    untouched_slots: u64,
}

/// The properties of a value, found by tracing its origin back through any number of earlier iterations of the loop.
struct Expanded {
    polled: bool,
    progresses: bool,
    own_stack: bool,
}

impl Carried {
    /// Makes the summary of a loop. `round`: the state after one iteration. `read`: a bit set of the locations (registers and stack slots)
    /// whose values from the start of an iteration are read by an instruction of the loop. If a value changes but no instruction reads it,
    /// the change does not count as progress of the loop.
    fn new(round: &State, read: u64) -> Carried {
        let round: Vec<Value> = (0..MAX_LOCATIONS).map(|location| round.get(location)).collect();
        let mut reach: Vec<u64> = round.iter().map(|value| value.tokens).collect();
        for via in 0..MAX_LOCATIONS {
            for from in 0..MAX_LOCATIONS {
                if reach[from] & (1 << via) != 0 {
                    reach[from] |= reach[via];
                }
            }
        }
        let (mut progress, mut work) = (0u64, 0u64);
        for token in bits(read) {
            let members = bits(reach[token]).filter(|&member| reach[member] & (1 << token) != 0);
            for member in members {
                let value = round[member];
                if value.step || value.work || value.clock {
                    progress |= 1 << token;
                }
                if value.work || value.clock {
                    work |= 1 << token;
                }
            }
        }
        let untouched_slots = (FIRST_SLOT..MAX_LOCATIONS)
            .filter(|&slot| round[slot] == Value::token(slot))
            .fold(0, |slots, slot| slots | 1 << slot);
        Carried { round, reach, progress, work, untouched_slots }
    }

    fn expand(&self, value: Value) -> Expanded {
        let tokens = bits(value.tokens).fold(value.tokens, |all, token| all | self.reach[token]);
        Expanded {
            polled: value.polled || bits(tokens).any(|token| self.round[token].polled),
            progresses: value.clock || tokens & self.progress != 0 || bits(tokens).any(|token| self.round[token].clock),
            own_stack: tokens & self.untouched_slots != 0,
        }
    }
}

/// Returns the numbers of the bits that are set in `mask`.
fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..MAX_LOCATIONS).filter(move |bit| mask & (1 << bit) != 0)
}
