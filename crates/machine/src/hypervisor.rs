//! Whether this machine is a virtual machine.

use crate::cpuinfo;
use crate::root::Root;

/// Returns whether a hypervisor runs this machine. The CPU reports it (CPUID leaf 1, ECX bit 31, shown as the flag
/// `hypervisor`). False if /proc/cpuinfo does not show the flag.
#[must_use]
pub fn is_guest(root: &Root) -> bool {
    cpuinfo::value(root, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(cpuinfo: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        is_guest(&Root::at(folder.path()))
    }

    #[test]
    fn the_flag_decides() {
        assert!(guest("processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!guest("processor\t: 0\nmodel name\t: hypervisor\nflags\t\t: fpu lahf_lm\n"));
        assert!(!guest(""));
    }
}
