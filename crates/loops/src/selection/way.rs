//! The ways to select, by name.

use crate::selection::Select;
use crate::selection::auto::Auto;
use crate::selection::exhaustive::Exhaustive;
use crate::selection::expert::Expert;
use crate::selection::random::Chance;
use crate::selection::requests::Requests;

/// A way to select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// [`Auto`].
    Auto,
    /// [`Expert`].
    Expert,
    /// [`Exhaustive`].
    Exhaustive,
    /// [`Chance`].
    Random,
}

impl Way {
    /// All ways.
    pub const ALL: [Way; 4] = [Way::Auto, Way::Expert, Way::Exhaustive, Way::Random];

    /// Returns its name, as `--schedule` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Auto => "auto",
            Way::Expert => "expert",
            Way::Exhaustive => "exhaustive",
            Way::Random => "random",
        }
    }

    /// Returns the way with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Way> {
        Way::ALL.into_iter().find(|way| way.name() == name)
    }

    /// Begins to select among schedules that make such requests, for a team of so many threads. The same seed gives the same choices for the same times.
    #[must_use]
    pub fn begin(self, requests: &[Requests], threads: u32, seed: u64) -> Box<dyn Select + Send> {
        let schedules = requests.len();
        match self {
            Way::Auto => Box::new(Auto::new(requests, threads, seed)),
            Way::Expert => Box::new(Expert::new(schedules)),
            Way::Exhaustive => Box::new(Exhaustive::new(schedules)),
            Way::Random => Box::new(Chance::new(schedules, seed)),
        }
    }
}
