//! Whether the kernel can stop its timer tick.

use crate::root::Root;

/// Returns whether the kernel can stop its tick on CPUs that are busy (`CONFIG_NO_HZ_FULL`). Only such a kernel has this file, also if no CPU was named
/// at boot.
#[must_use]
pub fn can_be_stopped(root: &Root) -> bool {
    root.exists("/sys/devices/system/cpu/nohz_full")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!can_be_stopped(&Root::at(folder.path())));
        std::fs::create_dir_all(folder.path().join("sys/devices/system/cpu")).unwrap();
        std::fs::write(folder.path().join("sys/devices/system/cpu/nohz_full"), "(null)\n").unwrap();
        assert!(can_be_stopped(&Root::at(folder.path())));
    }
}
