//! What a reboot would add: words for the kernel's command line, merged with those that are there.
//!
//! A word is only named if it would help the quiet CPUs. The kernel takes one word of each kind: of two, it ignores or
//! refuses the second. So a word that is there is replaced by one that contains it, or stays as it is and a note says
//! what is missing.

use machine::CpuSet;

use crate::cpu_choice::{Chosen, is_bound};
use crate::facts::{Facts, Interrupt};

/// What a reboot would add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reboot {
    /// Words for the kernel's command line.
    pub words: Vec<BootWord>,
    /// What no word can add, one sentence each.
    pub notes: Vec<String>,
}

/// A word for the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootWord {
    /// The word.
    pub word: String,
    /// The word that it replaces.
    pub instead_of: Option<String>,
    /// What it adds.
    pub adds: &'static str,
}

/// Returns what a reboot would add for these CPUs. `command_line` is /proc/cmdline.
#[must_use]
pub fn reboot(facts: &Facts, chosen: &Chosen, command_line: &str) -> Reboot {
    let mut draft = Draft { facts, chosen, command_line, found: Reboot::default() };
    draft.nohz_full();
    draft.isolcpus();
    draft.irqaffinity();
    draft.found
}

struct Draft<'d> {
    facts: &'d Facts,
    chosen: &'d Chosen,
    command_line: &'d str,
    found: Reboot,
}

impl<'d> Draft<'d> {
    /// Returns the value of the last word of this kind.
    fn present(&self, key: &str) -> Option<&'d str> {
        let value = |word: &'d str| word.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value);
        self.command_line.split_ascii_whitespace().filter_map(value).next_back()
    }

    fn add(&mut self, key: &str, value: &str, adds: &'static str) {
        let instead_of = self.present(key).map(|present| format!("{key}={present}"));
        self.found.words.push(BootWord { word: format!("{key}={value}"), instead_of, adds });
    }

    fn nohz_full(&mut self) {
        // A kernel that cannot stop the tick ignores the word.
        let Some(stopped) = &self.facts.nohz_full else { return };
        // The kernel takes the CPU that it boots on from the list, because that CPU keeps the time; some versions crash
        // instead ("sched/isolation: Prevent boot crash when the boot CPU is nohz_full", Linux 6.10).
        let boot: CpuSet = self.facts.boot_cpu().into_iter().collect();
        let mut missing = self.chosen.cpus.difference(stopped);
        if !missing.intersection(&boot).is_empty() {
            let note =
                format!("CPU {boot} keeps its tick: the kernel boots on it, and it then keeps the time for all CPUs");
            self.found.notes.push(note);
            missing = missing.difference(&boot);
        }
        if missing.is_empty() {
            return;
        }
        // Both words may stop ticks. If their lists differ, the kernel refuses the second one.
        if let Some(other) = self.present("isolcpus").filter(|value| flags_of(value).contains(&"nohz")) {
            return self.note(&format!("isolcpus={other}"), &format!("the ticks of CPUs {missing} go on"), "its list");
        }
        let present = self.present("nohz_full");
        match present.map_or(Ok(CpuSet::new()), str::parse::<CpuSet>) {
            Ok(present) => {
                let all = present.union(&missing).difference(&boot);
                self.add("nohz_full", &all.to_string(), "no tick while one thread runs, and no RCU callbacks");
            }
            Err(_) => {
                let present = format!("nohz_full={}", present.unwrap_or_default());
                self.note(&present, &format!("the ticks of CPUs {missing} go on"), "the list");
            }
        }
    }

    /// Notes that a word stays as it is, what is missing because of it, and what the user has to extend.
    fn note(&mut self, word: &str, missing: &str, what: &str) {
        self.found.notes.push(format!("{word} stays as it is, so {missing}: extend {what} by hand"));
    }

    fn isolcpus(&mut self) {
        let (cpus, housekeeping) = (&self.chosen.cpus, &self.chosen.housekeeping);
        // The kernel only keeps a managed interrupt away from isolated CPUs if its queue belongs to another CPU, too.
        let is_movable_at_boot = |one: &&Interrupt| {
            one.is_message && is_bound(one, cpus) && !one.affinity.intersection(housekeeping).is_empty()
        };
        if self.facts.interrupts.iter().filter(is_movable_at_boot).count() == 0 {
            return;
        }
        let adds = "managed interrupts only if a thread there uses their device";
        let Some(present) = self.present("isolcpus") else {
            return self.add("isolcpus", &format!("managed_irq,{cpus}"), adds);
        };
        let (flags, list) = (flags_of(present), list_of(present));
        let is_covered = list.as_ref().is_some_and(|list| cpus.is_subset(list));
        if is_covered && flags.contains(&"managed_irq") {
            return;
        }
        if list.as_ref() == Some(cpus) {
            let flags = flags.join(",");
            return self.add("isolcpus", &format!("{flags},managed_irq,{cpus}"), adds);
        }
        let missing = format!(
            "managed interrupts may come to CPUs {cpus}: it has one list of CPUs for all its flags, and managed_irq \
             for these CPUs would need another list"
        );
        self.found.notes.push(format!("isolcpus={present} stays as it is, so {missing}"));
    }

    fn irqaffinity(&mut self) {
        let (cpus, housekeeping) = (&self.chosen.cpus, &self.chosen.housekeeping);
        let comes = |one: &Interrupt| !one.is_fixed && !one.effective.intersection(cpus).is_empty();
        if !self.facts.interrupts.iter().any(comes) {
            return;
        }
        let present = self.present("irqaffinity").and_then(|list| list.parse::<CpuSet>().ok());
        let kept = present.as_ref().map_or_else(|| housekeeping.clone(), |present| present.difference(cpus));
        if present.as_ref() == Some(&kept) {
            return;
        }
        let kept = if kept.is_empty() { housekeeping.clone() } else { kept };
        self.add("irqaffinity", &kept.to_string(), "device interrupts stay away from the first one on");
    }
}

/// Returns the flags of a value of `isolcpus=`; without one, the kernel isolates the scheduling domains.
fn flags_of(value: &str) -> Vec<&str> {
    let flags: Vec<&str> =
        value.split(',').take_while(|word| !word.starts_with(|c: char| c.is_ascii_digit())).collect();
    if flags.is_empty() { vec!["domain"] } else { flags }
}

/// Returns the CPUs of a value of `isolcpus=`; `None` if the list is not one of numbers.
fn list_of(value: &str) -> Option<CpuSet> {
    let words = value.split(',').skip_while(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(",").parse().ok()
}
