//! Whose doing a value is: the session's, the kernel's for want of what the session had set, or somebody else's.

use crate::knob::{Claim, Knob, Value};
use crate::knob_io::KnobIo;

/// Whether a knob of this or an inherited claim reads `now` because of the session.
///
/// A mask of ours may have lost all its CPUs: the cpuset has shrunk, or they went offline. The kernel then gives the
/// thread all that are possible, and remembers our mask, so that it is ours when the cpuset grows again
/// (`user_cpus_ptr`, Linux 6.2 and later). That is told from the program's own wish by the CPUs that are missing; a
/// program that wishes for exactly all that are possible meanwhile is mistaken.
pub(crate) fn is_ours(knob_io: &dyn KnobIo, knob: &Knob, claim: &Claim, now: &Value) -> bool {
    if claim.covers(now) {
        return true;
    }
    let (Knob::Affinity(thread), Value::Cpus(cpus)) = (knob, now) else { return false };
    // Without knowing what is possible, nobody is overruled.
    knob_io.possible_cpus(*thread).is_ok_and(|possible| *cpus == possible && claim.may_be_overruled(&possible))
}
