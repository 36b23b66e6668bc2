//! Whether the CPUs' time-stamp counters can be used as a clock.

use crate::cpuinfo;
use crate::error::Error;
use crate::root::Root;

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Returns the clock source that the kernel uses: `tsc`, `kvm-clock`, `hpet` or another one.
///
/// # Errors
/// When the file cannot be read.
pub fn current(root: &Root) -> Result<String, Error> {
    root.read_text(CURRENT)
}

/// Returns why the time-stamp counter of an x86 processor is no clock: it changes its speed, or stops in deep idle states. `None` if it is one, or
/// on another processor.
#[must_use]
pub fn unstable_counter(root: &Root) -> Option<String> {
    let flags = cpuinfo::value(root, "flags")?;
    let has = |flag: &str| flags.split_ascii_whitespace().any(|of| of == flag);
    let needed = [
        ("constant_tsc", "it changes its speed with the CPU's frequency"),
        ("nonstop_tsc", "it stops when the CPU is in a deep idle state"),
    ];
    let missing = needed.into_iter().find(|(flag, _)| !has(flag));
    missing
        .map(|(flag, why)| format!("the time-stamp counter is not a stable clock: {why} (no {flag} in /proc/cpuinfo)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(flags: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(folder.path().join("proc/cpuinfo"), format!("processor\t: 0\nflags\t\t: {flags}\n\n")).unwrap();
        unstable_counter(&Root::at(folder.path()))
    }

    #[test]
    fn a_counter_that_stops_or_changes_its_speed_is_no_clock() {
        assert_eq!(with("tsc constant_tsc nonstop_tsc"), None);
        assert!(with("tsc constant_tsc").unwrap().contains("deep idle"));
        assert!(with("tsc nonstop_tsc").unwrap().contains("frequency"));
    }
}
