//! Ownership of a knob's value. The value is the session's if the session has set it, or if the kernel has replaced it
//! because none of the CPUs that the session had set is available. Otherwise somebody else has set it, such as the
//! program itself.

use crate::claim::Claim;
use crate::housekeeping::Possible;
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
    if shows(knob_io, knob, claim, now) {
        return true;
    }
    let (Knob::Affinity(thread), Value::Cpus(cpus)) = (knob, now) else { return false };
    // If the possible CPUs are unknown, the value counts as set by somebody else.
    let Ok(possible) = knob_io.possible_cpus(*thread) else { return false };
    // In the root cpuset, the kernel lets the thread use all CPUs, also those that are offline.
    let online = knob_io.online_cpus().map_or_else(|_| cpus.clone(), |online| cpus.intersection(&online));
    online == possible && claim.may_be_overruled(&possible)
}

/// Returns whether `now` is a value that the session may have set, as the kernel shows it.
pub(crate) fn shows(knob_io: &dyn KnobIo, knob: &Knob, claim: &Claim, now: &Value) -> bool {
    let is_cut = |set: &Value| lacks_only_offline(knob_io, knob, now, set);
    claim.covers(now) || matches!(claim, Claim::Exactly(set) | Claim::AtTimes(set) if is_cut(set))
}

/// Returns whether `now` is the affinity `set` without CPUs that are offline. The kernel leaves these out of a mask that
/// somebody sets: in the root cpuset before Linux 6.3, in the other ones always (cpuset_cpus_allowed in
/// kernel/cgroup/cpuset.c).
pub(crate) fn lacks_only_offline(knob_io: &dyn KnobIo, knob: &Knob, now: &Value, set: &Value) -> bool {
    let (Knob::Affinity(_), Value::Cpus(now), Value::Cpus(set)) = (knob, now, set) else { return false };
    let is_part = !now.is_empty() && now.is_subset(set);
    is_part && knob_io.online_cpus().is_ok_and(|online| set.difference(now).intersection(&online).is_empty())
}

/// Returns the CPUs that the kernel lets an affinity have at present; `None` for other knobs, or if they are unknown.
pub(crate) fn possible(knob_io: &dyn KnobIo, knob: &Knob) -> Option<Possible> {
    let Knob::Affinity(thread) = knob else { return None };
    Some(Possible { cpus: knob_io.possible_cpus(*thread).ok()?, online: knob_io.online_cpus().ok()? })
}
