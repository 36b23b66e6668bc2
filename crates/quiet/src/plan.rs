//! Which settings have to be changed, and what cannot be.

use std::fmt;
use std::path::{Path, PathBuf};

use machine::CpuSet;

use crate::checklist::{ROWS, Row, Wants};
use crate::cpu_choice::{Chosen, is_bound};
use crate::facts::{Cpusets, Facts, Movable};
use crate::form::Form;
use crate::level::Level;

/// Folder of the quiet CPUs' cpuset, below the mount point.
pub const QUIET_FOLDER: &str = "cox-quiet";
/// Version 1: folder of the cpuset for everything else.
pub const SYSTEM_FOLDER: &str = "cox-system";

/// A setting and its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The level that the step belongs to.
    pub level: Level,
    /// What is changed.
    pub what: What,
    /// The present value, in normal form; "–" if there is none yet.
    pub now: String,
    /// The value that it gets, in normal form.
    pub wanted: String,
    /// What the change keeps away from the quiet CPUs; empty if `what` says it.
    pub why: &'static str,
    /// What it costs the rest of the machine; empty if nothing is known.
    pub price: &'static str,
}

/// What a step changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The CPUs of the program's threads.
    Program,
    /// A file of the kernel.
    File(PathBuf, Form),
    /// A new cpuset, by its folder.
    Cpuset(PathBuf),
    /// The cpuset of all threads that can be moved.
    Threads,
    /// The CPUs of all kernel threads that can be moved.
    KernelThreads,
    /// The CPUs of an interrupt: its number and its name.
    Interrupt(u32, String),
    /// A service, by its name and its process.
    Service(&'static str, u32),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Program => write!(f, "the program's threads"),
            What::File(path, _) => write!(f, "{}", path.display()),
            What::Cpuset(folder) => write!(f, "cpuset {}", folder.display()),
            What::Threads => write!(f, "all other threads"),
            What::KernelThreads => write!(f, "kernel threads"),
            What::Interrupt(number, name) => write!(f, "interrupt {number} ({name})"),
            What::Service(name, pid) => write!(f, "{name} (process {pid})"),
        }
    }
}

/// Something that cannot be changed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The level that it belongs to.
    pub level: Level,
    /// What cannot be changed and why.
    pub what: String,
    /// What helps instead.
    pub instead: String,
}

/// What makes CPUs quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The CPUs.
    pub chosen: Chosen,
    /// The level.
    pub level: Level,
    /// The changes, in the order in which they are made; they are undone in reverse.
    pub steps: Vec<Step>,
    /// What cannot be changed.
    pub obstacles: Vec<Obstacle>,
}

/// What stands for the value of a setting that does not exist yet.
pub const NOTHING: &str = "–";

/// Plans what makes these CPUs quiet.
#[must_use]
pub fn plan(facts: &Facts, chosen: &Chosen, level: Level) -> Plan {
    let mut plan = Plan { chosen: chosen.clone(), level, steps: Vec::new(), obstacles: Vec::new() };
    plan.push(Level::Pin, What::Program, NOTHING, chosen.cpus.to_string(), "");
    plan.cpusets(facts);
    plan.interrupts(facts);
    for row in ROWS {
        plan.row(facts, row);
    }
    plan.push(Level::Work, What::KernelThreads, NOTHING, chosen.housekeeping.to_string(), "");
    plan.tick(facts);
    plan.steps.retain(|step| step.level <= level);
    plan.steps.sort_by_key(|step| step.level);
    plan.obstacles.retain(|obstacle| obstacle.level <= level);
    plan
}

impl Plan {
    fn push(&mut self, level: Level, what: What, now: &str, wanted: String, why: &'static str) {
        self.steps.push(Step { level, what, now: now.to_owned(), wanted, why, price: "" });
    }

    fn obstacle(&mut self, level: Level, what: String, instead: String) {
        self.obstacles.push(Obstacle { level, what, instead });
    }

    fn cpusets(&mut self, facts: &Facts) {
        let (cpus, housekeeping) = (self.chosen.cpus.to_string(), self.chosen.housekeeping.to_string());
        match &facts.cpusets {
            Cpusets::None => self.obstacle(
                Level::Cgroup,
                "no cpuset can be made: no hierarchy of cgroups with the controller cpuset is mounted".to_owned(),
                "run cox on the host, or use --level pin".to_owned(),
            ),
            Cpusets::V1 { mount, prefix } => {
                self.shrink(facts, mount, &format!("{prefix}cpus"));
                self.push(Level::Cgroup, What::Cpuset(mount.join(SYSTEM_FOLDER)), NOTHING, housekeeping.clone(), "");
                self.push(Level::Cgroup, What::Cpuset(mount.join(QUIET_FOLDER)), NOTHING, cpus, "");
                self.push(Level::Cgroup, What::Threads, NOTHING, housekeeping, "");
                let root = mount.join(format!("{prefix}sched_load_balance"));
                self.file(facts, Level::NoBalance, &root, "0", "load balancing");
                let own = mount.join(QUIET_FOLDER).join(format!("{prefix}sched_load_balance"));
                self.push(
                    Level::NoBalance,
                    What::File(own, Form::Text),
                    "1",
                    "0".to_owned(),
                    "load balancing between the quiet CPUs",
                );
            }
            Cpusets::V2 { mount } => {
                let control = mount.join("cgroup.subtree_control");
                let now = facts.files.get(&control).map_or("", |text| text.trim());
                if !now.split_ascii_whitespace().any(|controller| controller == "cpuset") {
                    self.push(Level::Cgroup, What::File(control, Form::Text), now, "+cpuset".to_owned(), "");
                }
                self.shrink(facts, mount, "cpuset.cpus");
                self.push(Level::Cgroup, What::Cpuset(mount.join(QUIET_FOLDER)), NOTHING, cpus, "");
                let partition = mount.join(QUIET_FOLDER).join("cpuset.cpus.partition");
                self.push(
                    Level::NoBalance,
                    What::File(partition, Form::Text),
                    "member",
                    "isolated".to_owned(),
                    "load balancing, and threads of other cgroups",
                );
            }
        }
    }

    /// Takes the quiet CPUs from the cpusets that exist. Inner ones come first: in version 1, a cpuset must have all CPUs of those in it.
    fn shrink(&mut self, facts: &Facts, mount: &Path, name: &str) {
        let is_own = |path: &Path| [QUIET_FOLDER, SYSTEM_FOLDER].iter().any(|own| path.starts_with(mount.join(own)));
        let is_inner = |path: &&PathBuf| {
            path.starts_with(mount) && path.file_name().is_some_and(|file| file == name) && !is_own(path)
        };
        let mut paths: Vec<&PathBuf> = facts.files.keys().filter(is_inner).collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        let is_v1 = matches!(facts.cpusets, Cpusets::V1 { .. });
        for path in paths {
            let now = Form::List.cpus(&facts.files[path]).unwrap_or_default();
            let rest = now.difference(&self.chosen.cpus);
            let wanted = match (is_v1, now.is_empty(), rest.is_empty()) {
                // No thread is in a cpuset of version 1 without CPUs. One of version 2 has those of the one above it.
                (true, true, _) => continue,
                (false, true, _) => self.chosen.housekeeping.clone(),
                // It may have only CPUs of the one above it, which may have lost all of its own, too.
                (true, false, true) => {
                    let cgroup = path.parent().unwrap_or(path).display();
                    let what = format!("cpuset {cgroup} has no CPU but {now}, which its threads keep using");
                    self.obstacle(Level::Cgroup, what, "give it another CPU first".to_owned());
                    continue;
                }
                (false, false, true) => self.chosen.housekeeping.clone(),
                (_, false, false) => rest,
            };
            if wanted != now {
                let what = What::File(path.clone(), Form::List);
                self.push(Level::Cgroup, what, &now.to_string(), wanted.to_string(), "");
            }
        }
    }

    fn interrupts(&mut self, facts: &Facts) {
        if let Some(pid) = facts.irqbalance {
            self.push(
                Level::Irq,
                What::Service("irqbalance", pid),
                "active",
                "stopped".to_owned(),
                "it moves interrupts back",
            );
        }
        for interrupt in &facts.interrupts {
            let wanted = self.kept(&interrupt.affinity);
            if is_bound(interrupt, &self.chosen.cpus) {
                // It comes on every level.
                self.obstacle(
                    Level::Pin,
                    format!(
                        "interrupt {} ({}) cannot be moved: the kernel manages it",
                        interrupt.number, interrupt.name
                    ),
                    format!("use its device from CPUs {} only", self.chosen.housekeeping),
                );
            } else if wanted != interrupt.affinity && interrupt.movable != Movable::No {
                let what = What::Interrupt(interrupt.number, interrupt.name.clone());
                self.push(Level::Irq, what, &interrupt.affinity.to_string(), wanted.to_string(), "");
            }
        }
    }

    fn row(&mut self, facts: &Facts, row: &Row) {
        for pattern in row.paths(&self.chosen.cpus) {
            for path in facts.files.keys().filter(|path| is_of(&pattern, path)) {
                self.of_row(facts, row, path);
            }
        }
    }

    fn of_row(&mut self, facts: &Facts, row: &Row, path: &Path) {
        let Some(text) = facts.files.get(path) else { return };
        let now = row.form.normal(text);
        let wanted = match row.wants {
            Wants::Exactly(word) => word.to_owned(),
            Wants::AtLeast(number) => now.parse::<u64>().map_or(now.clone(), |now| now.max(number).to_string()),
            Wants::Housekeeping => match row.form.cpus(text) {
                Some(cpus) if !cpus.is_empty() => self.kept(&cpus).to_string(),
                _ => now.clone(),
            },
        };
        if wanted != now {
            let what = What::File(path.to_owned(), row.form);
            self.steps.push(Step { level: row.level, what, now, wanted, why: row.why, price: row.price });
        }
    }

    fn file(&mut self, facts: &Facts, level: Level, path: &Path, wanted: &str, why: &'static str) {
        let Some(now) = facts.files.get(path).map(|text| Form::Text.normal(text)) else { return };
        if now != wanted {
            self.push(level, What::File(path.to_owned(), Form::Text), &now, wanted.to_owned(), why);
        }
    }

    fn tick(&mut self, facts: &Facts) {
        let stopped = facts.nohz_full.clone().unwrap_or_default();
        let ticking = self.chosen.cpus.difference(&stopped);
        if !ticking.is_empty() {
            let why = if facts.nohz_full.is_none() {
                "this kernel cannot stop it"
            } else {
                "the kernel was booted without it"
            };
            let instead = if facts.nohz_full.is_none() {
                "a kernel with CONFIG_NO_HZ_FULL"
            } else {
                "a reboot with the line below"
            };
            self.obstacle(Level::Tickless, format!("the tick of CPU {ticking} stays: {why}"), instead.to_owned());
        }
    }

    /// Returns these CPUs without the quiet ones; if none is left, the housekeeping CPUs.
    fn kept(&self, cpus: &CpuSet) -> CpuSet {
        let kept = cpus.difference(&self.chosen.cpus);
        if kept.is_empty() { self.chosen.housekeeping.clone() } else { kept }
    }
}

/// Returns whether a path is one of a row's: `*` stands for one folder.
fn is_of(pattern: &str, path: &Path) -> bool {
    let (mut ours, mut its) = (Path::new(pattern).components(), path.components());
    loop {
        match (ours.next(), its.next()) {
            (None, None) => return true,
            (Some(one), Some(other)) if one.as_os_str() == "*" || one == other => {}
            _ => return false,
        }
    }
}
