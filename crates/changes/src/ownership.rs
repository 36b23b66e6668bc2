//! Ownership of a knob's value. The value is the session's if the session has set it, or if the kernel has replaced it
//! because none of the CPUs that the session had set is available. Otherwise somebody else has set it, such as the
//! program itself.

use machine::CpuSet;

use crate::claim::Claim;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::value::Value;

/// Returns whether `now`, the present value of `knob`, is the session's. `claim` is the session's claim on this knob,
/// or on the knob from which its thread inherited the value.
///
/// A mask that the session has set may lose all its CPUs: the cpuset has shrunk, or the CPUs went offline. The kernel
/// then lets the thread use all possible CPUs, and remembers the mask, which applies again when the cpuset grows
/// (`user_cpus_ptr`, Linux 6.2 and later). This case is recognised by the missing CPUs. If the program itself sets
/// exactly all possible CPUs at that time, its mask is mistaken for the kernel's.
pub(crate) fn is_ours(knob_io: &dyn KnobIo, knob: &Knob, claim: &Claim, now: &Value) -> bool {
    if claim.covers(now) {
        return true;
    }
    let (Knob::Affinity(thread), Value::Cpus(cpus)) = (knob, now) else { return false };
    // If the possible CPUs are unknown, the value counts as set by somebody else.
    knob_io.possible_cpus(*thread).is_ok_and(|possible| *cpus == possible && claim.may_be_overruled(&possible))
}

/// Returns the CPUs that the kernel lets an affinity have at present; `None` for other knobs, or if they are unknown.
pub(crate) fn possible(knob_io: &dyn KnobIo, knob: &Knob) -> Option<CpuSet> {
    let Knob::Affinity(thread) = knob else { return None };
    knob_io.possible_cpus(*thread).ok()
}
