//! Cpusets of version 1 that were made while a session had shrunk the one around them.
//!
//! Who makes a cpuset of version 1 copies the CPUs of the one around it, because a new one has none (`runc` and systemd do).
//! The copy lacks the CPUs that the session has taken, and no journal knows it. So after everything else has been restored,
//! a cpuset that is in no journal and has exactly the CPUs that sessions had left to the one around it gets what that has
//! now. One with other CPUs was given these by its owner, and keeps them.
//!
//! The journal has all cpusets that existed and had CPUs, also those that the session did not change: one with the same CPUs
//! for another reason is never taken for a copy, unless it was made meanwhile.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use machine::CpuSet;

use crate::error::Error;
use crate::knob::Knob;
use crate::knob_io::KnobIo;
use crate::undone::{Left, Undone};
use crate::value::Value;

/// Depth to which copies of copies are looked for.
const DEEPEST: usize = 64;

/// A cpuset that has been restored.
pub(crate) struct Shrunk {
    /// Its file.
    pub(crate) file: PathBuf,
    /// The CPUs that sessions had left to it.
    pub(crate) to: CpuSet,
    /// The CPUs that it gets back.
    pub(crate) from: CpuSet,
}

/// Restores the copies of these cpusets. Cpusets in `known` are left unchanged: they have journal entries of their own.
pub(crate) fn restore_copies(knob_io: &dyn KnobIo, shrunk: &[Shrunk], known: &BTreeSet<Knob>, undone: &mut Undone) {
    for shrunk in shrunk.iter().filter(|shrunk| shrunk.to != shrunk.from) {
        // Another program may have changed it meanwhile, or it may be gone.
        let now = knob_io.read(&Knob::CpuList(shrunk.file.clone()));
        let is_back = matches!(now, Ok(Value::Cpus(now)) if now == shrunk.from);
        look_in(knob_io, shrunk, &shrunk.file, is_back, known, DEEPEST, undone);
    }
}

/// Restores the copies directly in the cpuset with this file, and then those in them.
fn look_in(
    knob_io: &dyn KnobIo,
    shrunk: &Shrunk,
    file: &Path,
    is_back: bool,
    known: &BTreeSet<Knob>,
    depth: usize,
    undone: &mut Undone,
) {
    // A cpuset that is gone has no copies.
    for inner in knob_io.nested_cpusets(file).unwrap_or_default() {
        let knob = Knob::CpuList(inner.clone());
        if depth == 0 || known.contains(&knob) {
            continue;
        }
        let (to, from) = (Value::Cpus(shrunk.to.clone()), Value::Cpus(shrunk.from.clone()));
        let left = |reason, is_theirs| Left { knob: knob.clone(), reason, is_theirs, original: from.clone() };
        match knob_io.exchange(&knob, &|now| (is_back && *now == to).then(|| from.clone())) {
            Ok(now) if now == to && is_back => undone.born += 1,
            Ok(now) if now == to => {
                let reason = "it was made meanwhile, and the cpuset around it has other CPUs now".to_owned();
                undone.left.push(left(reason, true));
                continue;
            }
            // A session that was killed while it did this has restored it.
            Ok(now) if now == from => {}
            Ok(_) | Err(Error::Gone(_)) => continue,
            Err(error) => {
                undone.left.push(left(error.to_string(), false));
                continue;
            }
        }
        look_in(knob_io, shrunk, &inner, is_back, known, depth - 1, undone);
    }
}
