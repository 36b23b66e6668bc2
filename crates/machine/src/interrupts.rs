//! The kernel's own counters of interrupts and softirqs on each CPU.
//!
//! Definitions: proc_interrupts(5) and proc_softirqs(5); arch/x86/kernel/irq.c (`arch_show_interrupts`).

use std::collections::BTreeMap;

use crate::error::Error;
use crate::root::Root;

const INTERRUPTS: &str = "/proc/interrupts";
const SOFTIRQS: &str = "/proc/softirqs";

/// A row of /proc/interrupts or /proc/softirqs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The row's name: the number of a device interrupt, or letters (`LOC`, `RES`, `NET_RX`).
    pub name: String,
    /// Counts since boot, by CPU number.
    pub counts: BTreeMap<u32, u64>,
    /// The rest of the row: of a device interrupt the controller and the devices' names; otherwise a description.
    pub rest: String,
}

impl Row {
    /// Returns the names of the devices that share a device interrupt; empty for other rows. The names follow the columns of the controller, the
    /// number and the trigger, and are separated by commas.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        let is_device = self.name.bytes().all(|byte| byte.is_ascii_digit());
        // The number and the trigger are one word with a hyphen (`36-edge`) or, without a trigger, one number.
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let Some(number) = self.rest.split_ascii_whitespace().find(is_number).filter(|_| is_device) else {
            return Vec::new();
        };
        let begin = self.rest.find(number).map_or(0, |at| at + number.len());
        self.rest[begin..].split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
    }
}

/// Returns the rows of /proc/interrupts.
///
/// # Errors
/// When the file cannot be read, or has no line with CPU numbers.
pub fn interrupts(root: &Root) -> Result<Vec<Row>, Error> {
    read(root, INTERRUPTS)
}

/// Returns the rows of /proc/softirqs, in the order of the softirqs' numbers.
///
/// # Errors
/// When the file cannot be read, or has no line with CPU numbers.
pub fn softirqs(root: &Root) -> Result<Vec<Row>, Error> {
    read(root, SOFTIRQS)
}

fn read(root: &Root, path: &str) -> Result<Vec<Row>, Error> {
    let text = root.read_text(path)?;
    parse(&text).ok_or_else(|| root.format_error(path, "no first line with CPU numbers".to_owned()))
}

/// Offline CPUs have no column in /proc/interrupts, so the first line says which CPU a column belongs to.
fn parse(text: &str) -> Option<Vec<Row>> {
    let mut lines = text.lines();
    let cpus = lines.next()?.split_ascii_whitespace().map(|word| word.strip_prefix("CPU")?.parse().ok());
    let cpus: Vec<u32> = cpus.collect::<Option<_>>().filter(|cpus: &Vec<u32>| !cpus.is_empty())?;
    Some(lines.filter_map(|line| row(line, &cpus)).collect())
}

/// Rows that count for the whole machine (`ERR`, `MIS`) have one number, which is nobody's: they get no counts.
fn row(line: &str, cpus: &[u32]) -> Option<Row> {
    let (name, mut rest) = line.split_once(':')?;
    let mut counts = Vec::new();
    while counts.len() < cpus.len() {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let Ok(count) = trimmed[..end].parse() else { break };
        counts.push(count);
        rest = &trimmed[end..];
    }
    if counts.len() < cpus.len() {
        counts.clear();
    }
    let counts = cpus.iter().copied().zip(counts).collect();
    Some(Row { name: name.trim().to_owned(), counts, rest: rest.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU 1 is offline.
    const TEXT: &str = "           CPU0       CPU2
 24:          1         20  IO-APIC   5-edge      ACPI:Ged
 36:          0    2890102  PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0, other dev
 40:          3          4  GICv3  30 Level     arch_timer
LOC:   23044469   22851756   Local timer interrupts
ERR:          7
";

    #[test]
    fn a_column_belongs_to_the_cpu_that_the_first_line_names() {
        let rows = parse(TEXT).unwrap();
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[3].name, "LOC");
        assert_eq!(rows[3].counts, BTreeMap::from([(0, 23_044_469), (2, 22_851_756)]));
        assert_eq!(rows[3].rest, "Local timer interrupts");
        assert!(rows[3].devices().is_empty());
        assert!(rows[4].counts.is_empty(), "no CPU's number");
        assert_eq!(parse("nothing\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn devices_that_share_an_interrupt_are_named() {
        let rows = parse(TEXT).unwrap();
        assert_eq!(rows[0].devices(), ["ACPI:Ged"]);
        assert_eq!(rows[1].devices(), ["virtio1-req.0", "other dev"]);
    }

    #[test]
    fn this_machine_has_counters_for_each_online_cpu() {
        let rows = interrupts(&Root::live()).unwrap();
        assert!(!rows.is_empty());
        let softirqs = softirqs(&Root::live()).unwrap();
        let names: Vec<&str> = softirqs.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names[..3], ["HI", "TIMER", "NET_TX"]);
    }
}
