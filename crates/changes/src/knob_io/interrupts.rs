//! The affinity of an interrupt that is known by its name. Numbers change when a driver is loaded again or a device
//! changes its queues, so each access looks the number up.

use std::io;
use std::path::PathBuf;

use machine::Root;
use machine::interrupts::interrupts;

/// Returns the file with the affinity of the interrupt that has this name in /proc/interrupts. Of several interrupts
/// with one name, `ordinal` counts from 0 in the order of their numbers.
///
/// # Errors
/// Fails with ENOENT if there is no such interrupt.
pub(super) fn affinity_file(root: &Root, name: &str, ordinal: u32) -> io::Result<PathBuf> {
    let rows = interrupts(root).map_err(machine::Error::into_io)?;
    let mut numbers: Vec<u32> =
        rows.iter().filter(|row| row.devices().join(", ") == name).filter_map(|row| row.name.parse().ok()).collect();
    numbers.sort_unstable();
    let number = numbers.get(ordinal as usize).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
    Ok(PathBuf::from(format!("/proc/irq/{number}/smp_affinity_list")))
}
