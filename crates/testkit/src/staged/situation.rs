//! What is staged, and how quiet the machine has to be for it.

use super::group::Group;

/// Others may use this part of the CPUs: from there on advice rightly takes them for a reason. Less than the
/// share that is worth a headline, as what they took on one CPU the threads on the others wait for as well:
/// 4.5 % made a bound of 1.07×.
pub(super) const QUIET: f64 = 0.6 * advise::thresholds::WORTH_SHARE;

/// What is staged.
#[derive(Default)]
pub struct Situation {
    /// The program and its arguments; a name without `/` is that of a workload or on PATH.
    pub program: Vec<String>,
    /// What is added to its environment.
    pub environment: Vec<(&'static str, &'static str)>,
    /// A command line that starts cox.
    pub outside: Vec<String>,
    /// A control group for both.
    pub group: Option<Group>,
    /// Whether somebody burns time on every CPU beside it.
    pub hogs: bool,
    /// Whether it is about the disk.
    pub slow_disk: bool,
}
