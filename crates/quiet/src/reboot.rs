//! What a reboot would add.

use crate::cpu_choice::Chosen;
use crate::facts::Facts;

/// What the kernel's command line would have to contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reboot {
    /// The words that are missing, separated by blanks; empty if none is.
    pub line: String,
    /// What each of them adds.
    pub adds: Vec<&'static str>,
}

/// Returns what a reboot would add for these CPUs. `command_line` is /proc/cmdline.
#[must_use]
pub fn reboot(facts: &Facts, chosen: &Chosen, command_line: &str) -> Reboot {
    let (cpus, housekeeping) = (&chosen.cpus, &chosen.housekeeping);
    let mut words = Vec::new();
    let mut adds = Vec::new();
    let mut add = |word: String, what| {
        if !command_line.split_ascii_whitespace().any(|present| present == word) {
            words.push(word);
            adds.push(what);
        }
    };
    if facts.nohz_full.as_ref().is_some_and(|stopped| !cpus.is_subset(stopped)) {
        add(format!("nohz_full={cpus}"), "no tick while one thread runs, and no RCU callbacks");
    }
    if facts.interrupts.iter().any(|interrupt| interrupt.movable == crate::Movable::Managed) {
        add(format!("isolcpus=managed_irq,{cpus}"), "managed interrupts only if a thread there uses their device");
    }
    add(format!("irqaffinity={housekeeping}"), "interrupts stay away from the first second on");
    Reboot { line: words.join(" "), adds }
}
