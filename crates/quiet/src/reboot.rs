//! What a reboot would add.

use crate::cpu_choice::{Chosen, is_bound};
use crate::facts::Facts;

/// A word for the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reboot {
    /// The word.
    pub word: String,
    /// The word that it replaces.
    pub instead_of: Option<String>,
    /// What it adds.
    pub adds: &'static str,
}

/// Returns what a reboot would add for these CPUs. `command_line` is /proc/cmdline.
#[must_use]
pub fn reboot(facts: &Facts, chosen: &Chosen, command_line: &str) -> Vec<Reboot> {
    let (cpus, housekeeping) = (&chosen.cpus, &chosen.housekeeping);
    let mut words = Vec::new();
    let mut add = |key: &str, value: String, adds| {
        let word = format!("{key}={value}");
        // The kernel ignores the second of two, or refuses both.
        let is_same = |present: &&str| present.split_once('=').is_some_and(|(name, _)| name == key);
        let present = command_line.split_ascii_whitespace().rfind(is_same).map(str::to_owned);
        if present.as_ref() != Some(&word) {
            words.push(Reboot { word, instead_of: present, adds });
        }
    };
    if facts.nohz_full.as_ref().is_some_and(|stopped| !cpus.is_subset(stopped)) {
        add("nohz_full", cpus.to_string(), "no tick while one thread runs, and no RCU callbacks");
    }
    if facts.interrupts.iter().any(|interrupt| is_bound(interrupt, cpus)) {
        add("isolcpus", format!("managed_irq,{cpus}"), "managed interrupts only if a thread there uses their device");
    }
    add("irqaffinity", housekeeping.to_string(), "interrupts stay away from the first second on");
    words
}
