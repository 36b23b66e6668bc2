//! Which tracepoints the running kernel has. The kernel's types (BTF) contain a type `btf_trace_NAME` for each of them.

use std::collections::BTreeSet;

use super::excerpt::KernelTypes;
use crate::btf::{Types, kind};

/// What the name of a tracepoint's type begins with.
const PREFIX: &[u8] = b"btf_trace_";

/// Returns those of `names` that are tracepoints of the running kernel. If the kernel's types cannot be read, returns all of them: the kernel then
/// refuses the programs with a reason of its own.
pub(super) fn existing<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<&'n str> {
    let wanted: BTreeSet<&str> = names.collect();
    let Ok(bytes) = KernelTypes::open() else { return wanted };
    match Types::read(bytes.as_slice()) {
        Some(types) => existing_in(&types, &wanted),
        None => wanted,
    }
}

fn existing_in<'n>(types: &Types<'_>, wanted: &BTreeSet<&'n str>) -> BTreeSet<&'n str> {
    let tracepoint = |id| {
        let of =
            types.get(id).filter(|of| of.kind() == kind::TYPEDEF && types.first_of_name(of.name()) == PREFIX[0])?;
        std::str::from_utf8(types.name(of.name()).strip_prefix(PREFIX)?).ok()
    };
    types.ids().filter_map(tracepoint).filter_map(|name| wanted.get(name).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel with BTF has the scheduler's switch; none has a tracepoint of this other name.
    #[test]
    fn the_running_kernel_has_a_switch() {
        let asked = ["sched_switch", "cox_no_such_tracepoint"];
        assert_eq!(existing(asked.into_iter()), BTreeSet::from(["sched_switch"]));
    }
}
