//! The methods of selection, by name.

use crate::selection::Select;
use crate::selection::auto::Auto;
use crate::selection::exhaustive::Exhaustive;
use crate::selection::expert::Expert;
use crate::selection::random::Chance;
use crate::selection::requests::Requests;

/// A method of selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// [`Auto`].
    Auto,
    /// [`Expert`].
    Expert,
    /// [`Exhaustive`].
    Exhaustive,
    /// [`Chance`].
    Random,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 4] = [Method::Auto, Method::Expert, Method::Exhaustive, Method::Random];

    /// Returns its name, as `--schedule` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Method::Auto => "auto",
            Method::Expert => "expert",
            Method::Exhaustive => "exhaustive",
            Method::Random => "random",
        }
    }

    /// Returns the method with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Begins to select among schedules that make such requests, for a team of so many threads. The same seed gives the same choices for the same times.
    #[must_use]
    pub fn begin(self, requests: &[Requests], threads: u32, seed: u64) -> Box<dyn Select + Send> {
        let schedules = requests.len();
        match self {
            Method::Auto => Box::new(Auto::new(requests, threads, seed)),
            Method::Expert => Box::new(Expert::new(schedules)),
            Method::Exhaustive => Box::new(Exhaustive::new(schedules)),
            Method::Random => Box::new(Chance::new(schedules, seed)),
        }
    }
}
