//! Knobs that several sessions hold.

use std::collections::BTreeMap;

use machine::CpuSet;

use crate::claim::Claim;
use crate::format::Change;
use crate::housekeeping::Base;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::ownership::possible;
use crate::value::Value;

/// The claims of other sessions, by knob.
pub(crate) type Held<'h> = BTreeMap<&'h Knob, Vec<&'h Claim>>;

/// Turns a claim on a knob without some CPUs into one on its present value, if sessions have set that. The value to which
/// the knob is restored then still lacks the CPUs of the `others` that have such a claim. A knob with its original value
/// stays: the kernel has not let the sessions change it (an interrupt), or somebody has restored it. Returns other changes as
/// they are.
pub(crate) fn plainly(knob_io: &dyn KnobIo, change: &Change, others: &[&Claim]) -> Change {
    let (Claim::Without { cpus: mine, otherwise }, Value::Cpus(original)) = (&change.claim, &change.original) else {
        return change.clone();
    };
    let of_others: Vec<&CpuSet> = others.iter().filter_map(|claim| claim.kept_free()).collect();
    let base = Base::of(&change.knob, original, otherwise).within(possible(knob_io, &change.knob));
    let all: Vec<&CpuSet> = of_others.iter().copied().chain([mine]).collect();
    let now = match knob_io.read(&change.knob) {
        Ok(Value::Cpus(now)) if now == *original || base.is_without(&now, &all) => now,
        _ => base.without(all),
    };
    let original = if of_others.is_empty() || now == *original { original.clone() } else { base.without(of_others) };
    Change { original: Value::Cpus(original), claim: Claim::Exactly(Value::Cpus(now)), ..change.clone() }
}
