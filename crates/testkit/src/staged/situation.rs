//! A situation to stage, and how quiet the machine must be for it.

use crate::group::Group;

/// Largest share of CPU time that other programs may use: above it, advice rightly mentions them. It is less than the share that is worth a headline,
/// because time taken on one CPU also makes the threads on other CPUs wait: 4.5 % led to a bound of 1.07×.
pub(super) const QUIET: f64 = 0.6 * advise::thresholds::WORTH_SHARE;

/// A situation to stage.
#[derive(Default)]
pub struct Situation {
    /// The program and its arguments; a name without `/` is that of a workload or of a program on PATH.
    pub program: Vec<String>,
    /// Additional environment variables.
    pub environment: Vec<(&'static str, &'static str)>,
    /// A command line that starts cox.
    pub outside: Vec<String>,
    /// A control group for cox and the program.
    pub group: Option<Group>,
    /// True if a hog runs on every CPU at the same time.
    pub hogs: bool,
    /// True if the situation is about the disk.
    pub slow_disk: bool,
}
