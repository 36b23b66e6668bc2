//! How often the quiet CPUs were interrupted, by the kernel's own counters: the proof that does not need this program's
//! word.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use machine::interrupts::{Row, interrupts};
use machine::{CpuSet, Error, Root};
use report::quiet::Interrupts;

/// Counters of interrupts at one moment.
#[derive(Clone, Debug)]
pub struct Census {
    rows: Vec<Row>,
}

impl Census {
    /// Reads the counters.
    ///
    /// # Errors
    /// If /proc/interrupts cannot be read.
    pub fn take(root: &Root) -> Result<Census, Error> {
        Ok(Census { rows: interrupts(root)? })
    }

    /// Returns what came to `cpus` between two moments, the most frequent first. A row that has no counter then is left
    /// out.
    #[must_use]
    pub fn since(&self, before: &Census, cpus: &CpuSet) -> Vec<Interrupts> {
        let earlier: BTreeMap<&str, &Row> = before.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let count = |row: &Row| {
            let at = |row: &Row| cpus.iter().filter_map(|cpu| row.counts.get(&cpu)).sum::<u64>();
            at(row).saturating_sub(earlier.get(row.name.as_str()).map_or(0, |row| at(row)))
        };
        let mut found: Vec<Interrupts> = self
            .rows
            .iter()
            .map(|row| {
                let devices = row.devices();
                let what = if devices.is_empty() { row.rest.trim().to_owned() } else { devices.join(", ") };
                Interrupts { row: row.name.clone(), what, count: count(row) }
            })
            .filter(|found| found.count > 0)
            .collect();
        found.sort_by_key(|found| Reverse(found.count));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(text: &str) -> Census {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/interrupts"), text).unwrap();
        Census::take(&Root::at(root.path())).unwrap()
    }

    #[test]
    fn only_what_came_to_these_cpus_in_between_counts() {
        let before =
            census("     CPU0 CPU1 CPU2\n 9: 5 5 5 IO-APIC 9-fasteoi acpi\nLOC: 100 200 300 Local timer interrupts\n");
        let after = census(
            "     CPU0 CPU1 CPU2\n 9: 50 5 7 IO-APIC 9-fasteoi acpi\n12: 0 1 0 PCI-MSI 12-edge nvme0q1\nLOC: 900 201 302 Local timer interrupts\n",
        );
        let found = after.since(&before, &"1-2".parse().unwrap());
        let found: Vec<(&str, &str, u64)> =
            found.iter().map(|one| (one.row.as_str(), one.what.as_str(), one.count)).collect();
        assert_eq!(found, [("LOC", "Local timer interrupts", 3), ("9", "acpi", 2), ("12", "nvme0q1", 1)]);
    }
}
