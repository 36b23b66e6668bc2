//! How long a turn should be: searched for while seats are taken in turns.

use super::mixed;

/// Lengths of turns that are tried.
pub const TURNS_NS: [u64; 7] = [62_500, 125_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];

/// Where the search begins: within a factor of four of the optimum for phases from 0.2 to 50 ms.
pub(super) const FIRST_TURN: usize = 3;

/// Where the paper's search begins, and it never goes below: 0.125 ms.
const PALM_FIRST_TURN: usize = 1;

/// One percent better, or it is only noise.
const BETTER: f64 = 1.01;

/// After so many windows a turn's efficiency is old: it says nothing about the program of now.
const STALE_WINDOWS: u32 = 24;

/// As so many windows counts a rest: what failed is tried again after the fifth in a row.
const REST_WINDOWS: u32 = 6;

/// How turns are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Searched for.
    Adapted,
    /// The PALM paper's rule: 0.125 ms at first; doubled after each window that was better than the one
    /// before, else halved.
    Doubled,
    /// Always this long.
    Fixed(u64),
}

/// What a turn gave when it was used last.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    efficiency: f64,
    /// The controller's part of the seats' time, and what its interrupts cost.
    cost: f64,
    /// The part of the seats' time that was spent waiting in loops.
    spun: f64,
    windows_ago: Option<u32>,
}

impl Tried {
    fn is_known(&self) -> bool {
        self.windows_ago.is_some_and(|ago| ago <= STALE_WINDOWS)
    }
}

/// The turn in use, and what is known about it and others.
#[derive(Clone, Debug)]
pub(super) struct Search {
    turns: Turns,
    tried: [Tried; TURNS_NS.len()],
    turn: usize,
    /// Efficiency in the last window, and in the one before.
    last: (f64, f64),
}

impl Search {
    pub(super) fn new(turns: Turns) -> Search {
        let turn = if turns == Turns::Doubled { PALM_FIRST_TURN } else { FIRST_TURN };
        Search { turns, tried: [Tried::default(); TURNS_NS.len()], turn, last: (0.0, 0.0) }
    }

    /// The length of the turn in use.
    pub(super) fn turn_ns(&self) -> u64 {
        match self.turns {
            Turns::Adapted | Turns::Doubled => TURNS_NS[self.turn],
            Turns::Fixed(turn_ns) => turn_ns,
        }
    }

    /// Of the turn in use, if it has been used before.
    pub(super) fn efficiency(&self) -> Option<f64> {
        let tried = &self.tried[self.turn];
        tried.windows_ago.map(|_| tried.efficiency)
    }

    /// The best efficiency of all turns of which it is known.
    pub(super) fn best_lately(&self) -> Option<f64> {
        self.tried.iter().filter(|tried| tried.is_known()).map(|tried| tried.efficiency).reduce(f64::max)
    }

    /// A window with the turn in use is over.
    pub(super) fn note(&mut self, efficiency: f64, cost: f64, spun: f64) {
        self.age(1);
        let tried = &mut self.tried[self.turn];
        let mean = if tried.is_known() { mixed(tried.efficiency, efficiency) } else { efficiency };
        *tried = Tried { efficiency: mean, cost, spun, windows_ago: Some(0) };
        self.last = (efficiency, self.last.0);
    }

    /// The threads were left to the kernel for a while.
    pub(super) fn rested(&mut self) {
        self.age(REST_WINDOWS);
    }

    fn age(&mut self, windows: u32) {
        for tried in &mut self.tried {
            tried.windows_ago = tried.windows_ago.map(|ago| ago.saturating_add(windows));
        }
    }

    /// Chooses the turn to use next.
    pub(super) fn next(&mut self) {
        self.turn = match self.turns {
            Turns::Adapted => self.adapted(),
            Turns::Doubled if self.last.0 > self.last.1 => (self.turn + 1).min(TURNS_NS.len() - 1),
            Turns::Doubled => (self.turn - 1).max(PALM_FIRST_TURN),
            Turns::Fixed(_) => self.turn,
        };
    }

    /// A neighbour that has not been tried (lately), else the best of three.
    fn adapted(&self) -> usize {
        let neighbours = [self.turn.checked_sub(1), (self.turn + 1 < TURNS_NS.len()).then_some(self.turn + 1)];
        let neighbours = || neighbours.into_iter().flatten();
        let best = neighbours().fold(self.turn, |best, other| {
            let clearly = self.tried[other].efficiency > self.tried[best].efficiency * BETTER;
            if self.tried[other].windows_ago.is_some() && clearly { other } else { best }
        });
        if best != self.turn {
            return best;
        }
        neighbours().find(|&turn| !self.tried[turn].is_known() && self.may_be_better(turn)).unwrap_or(best)
    }

    /// Whether a neighbour of the present turn could be better. Costs double with each halving of the turn;
    /// waiting in loops halves with it, measured and simulated, where phases are longer than turns. So that
    /// nothing good is missed, a halving is given three quarters of the waiting, and a doubling spared half of it.
    fn may_be_better(&self, turn: usize) -> bool {
        let Tried { efficiency, cost, spun, .. } = self.tried[self.turn];
        let gain = if turn < self.turn { 0.75 * spun - cost } else { 0.5 * (cost - spun) };
        cost == 0.0 || efficiency + gain > efficiency * BETTER
    }
}
