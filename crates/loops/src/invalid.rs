//! Why a schedule cannot be used. Each reason is one line.

use std::fmt;

/// A mistake in a schedule or in its inputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Invalid {
    /// No schedule has this name. The second part lists the names that are most similar, or all names.
    Name(String, Vec<&'static str>),
    /// The chunk is not a whole number above 0.
    Chunk(String),
    /// The schedule does not have this parameter. The last part lists the parameters that it has.
    Parameter(&'static str, String, &'static [&'static str]),
    /// The value of a parameter is not in its range.
    Value {
        /// Name of the parameter.
        parameter: &'static str,
        /// The text of the value.
        value: String,
        /// The range.
        range: &'static str,
    },
    /// The schedule needs an input that is missing.
    Missing {
        /// Name of the schedule.
        schedule: &'static str,
        /// The input.
        input: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// An input is not a number in its range.
    Input(&'static str, f64),
    /// The number of weights is not the number of threads.
    Weights {
        /// Number of weights.
        weights: usize,
        /// Number of threads.
        threads: usize,
    },
    /// A team needs at least one thread.
    NoThreads,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Invalid::Name(name, similar) => {
                write!(f, "unknown schedule '{name}': use {}", similar.join(", "))
            }
            Invalid::Chunk(chunk) => write!(f, "invalid chunk '{chunk}': use a whole number from 1"),
            Invalid::Parameter(schedule, parameter, []) => {
                write!(f, "schedule '{schedule}' has no parameter '{parameter}', only a chunk")
            }
            Invalid::Parameter(schedule, parameter, known) => {
                write!(f, "schedule '{schedule}' has no parameter '{parameter}': use {}", known.join(", "))
            }
            Invalid::Value { parameter, value, range } => write!(f, "invalid {parameter} '{value}': use {range}"),
            Invalid::Missing { schedule, input, remedy } => {
                write!(f, "schedule '{schedule}' needs {input}: {remedy}")
            }
            Invalid::Input(input, value) => write!(f, "invalid value {value} for {input}"),
            Invalid::Weights { weights, threads } => {
                write!(f, "the number of weights ({weights}) is not the number of threads ({threads})")
            }
            Invalid::NoThreads => write!(f, "a loop needs at least one thread"),
        }
    }
}

impl std::error::Error for Invalid {}
