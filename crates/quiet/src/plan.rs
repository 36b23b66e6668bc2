//! Which settings have to be changed, and what cannot be.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use changes::knob::{RUNNING, STOPPED};
use changes::{Claim, Knob, Value, value_of};
use machine::CpuSet;

use crate::checklist::{FAIR_SERVER, Needs, ROWS, Row};
use crate::cpu_choice::{Chosen, is_bound};
use crate::cpusets::{Loss, OwnCpusets, is_own, losses};
use crate::facts::{Cpusets, Facts};
use crate::level::Level;

/// How much is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The level.
    pub level: Level,
    /// Whether the scheduler does not balance load between the quiet CPUs either. A thread then stays on the CPU on which it
    /// was created, unless it asks for others. A single quiet CPU is always isolated.
    pub isolated: bool,
}

/// A setting and its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The level that the step belongs to.
    pub level: Level,
    /// Name of what is changed.
    pub name: String,
    /// What is changed.
    pub what: What,
    /// The present value, in normal form; "–" if there is none yet.
    pub now: String,
    /// The value that it gets, in normal form.
    pub wanted: String,
    /// What the change keeps away from the quiet CPUs; empty if the name says it.
    pub why: &'static str,
    /// What it costs the rest of the machine; empty if nothing is known.
    pub price: &'static str,
}

impl Step {
    /// Returns whether the setting has another value now.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.now != self.wanted
    }
}

/// What a step changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The CPUs of the program's threads.
    Program,
    /// Knobs, in the order in which they are set.
    Settings(Vec<(Knob, Claim)>),
    /// The CPUs of all other threads that no cgroup below the root keeps away: in version 1 their cpuset.
    Threads,
    /// The CPUs of all kernel threads that can be moved.
    KernelThreads,
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

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.what, self.instead)
    }
}

/// What makes CPUs quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The CPUs.
    pub chosen: Chosen,
    /// How much is changed.
    pub extent: Extent,
    /// The cpusets that are made; `None` below [`Level::Cgroup`], and where none can be made.
    pub cpusets: Option<OwnCpusets>,
    /// The settings, in the order in which they are made; they are undone in reverse. Those that have the value already are
    /// among them, because the session must keep others from changing them back.
    pub steps: Vec<Step>,
    /// What cannot be changed.
    pub obstacles: Vec<Obstacle>,
}

/// What stands for the value of a setting that does not exist yet.
pub const NOTHING: &str = "–";

/// Plans what makes these CPUs quiet.
#[must_use]
pub fn plan(facts: &Facts, chosen: &Chosen, extent: Extent) -> Plan {
    let extent = Extent { isolated: extent.isolated || chosen.cpus.len() == 1, ..extent };
    let cpusets = OwnCpusets::of(&facts.cpusets, &chosen.cpus).filter(|_| extent.level >= Level::Cgroup);
    let mut draft = Draft { facts, chosen, extent, steps: Vec::new(), obstacles: Vec::new() };
    draft.push(Level::Pin, "the program's threads", What::Program, NOTHING, chosen.cpus.to_string());
    draft.cpusets();
    draft.interrupts();
    for row in ROWS {
        draft.row(row);
    }
    draft.push(Level::Work, "kernel threads", What::KernelThreads, NOTHING, chosen.housekeeping.to_string());
    draft.tick();
    let Draft { mut steps, mut obstacles, .. } = draft;
    steps.retain(|step| step.level <= extent.level);
    steps.sort_by_key(|step| step.level);
    obstacles.retain(|obstacle| obstacle.level <= extent.level);
    Plan { chosen: chosen.clone(), extent, cpusets, steps, obstacles }
}

/// A plan while it is made.
struct Draft<'f> {
    facts: &'f Facts,
    chosen: &'f Chosen,
    extent: Extent,
    steps: Vec<Step>,
    obstacles: Vec<Obstacle>,
}

impl Draft<'_> {
    fn push(&mut self, level: Level, name: &str, what: What, now: &str, wanted: String) {
        let (name, now) = (name.to_owned(), now.to_owned());
        self.steps.push(Step { level, name, what, now, wanted, why: "", price: "" });
    }

    /// Adds one setting with its text in the kernel's file.
    fn setting(
        &mut self,
        level: Level,
        knob: Knob,
        text: &str,
        wanted: Wanted,
        why: &'static str,
        price: &'static str,
    ) {
        let now = value_of(&knob, text);
        let (claim, wanted) = match wanted {
            Wanted::Text(text) => {
                let value = value_of(&knob, &text);
                (Claim::Exactly(value.clone()), shown(&value))
            }
            Wanted::Without(claim) => {
                let kept = if let Value::Cpus(cpus) = &now { claim.kept(&knob, cpus) } else { None };
                (claim, kept.unwrap_or_default().to_string())
            }
        };
        let (name, now) = (knob.to_string(), shown(&now));
        self.steps.push(Step { level, name, what: What::Settings(vec![(knob, claim)]), now, wanted, why, price });
    }

    fn obstacle(&mut self, level: Level, what: String, instead: String) {
        self.obstacles.push(Obstacle { level, what, instead });
    }

    fn cpusets(&mut self) {
        let Some(own) = OwnCpusets::of(&self.facts.cpusets, &self.chosen.cpus) else {
            let (what, instead) = match &self.facts.cpusets {
                Cpusets::V2Harmful { release } => (
                    format!(
                        "no partition can be made: Linux {release} would also move its threads of single CPUs (mended in 6.1)"
                    ),
                    "boot with systemd.unified_cgroup_hierarchy=0, or use a newer kernel, or --level pin",
                ),
                Cpusets::Foreign { why } => (
                    format!("cox runs in a container, and cannot keep the rest of the machine away: {why}"),
                    "run cox on the host, or use --level pin",
                ),
                _ => (
                    "no cpuset can be made: no hierarchy of cgroups with the controller cpuset is mounted".to_owned(),
                    "run cox on the host, or use --level pin",
                ),
            };
            return self.obstacle(Level::Cgroup, what, instead.to_owned());
        };
        let housekeeping = self.chosen.housekeeping.to_string();
        match &self.facts.cpusets {
            Cpusets::V2Harmful { .. } | Cpusets::Foreign { .. } | Cpusets::None => {}
            Cpusets::V1 { mount, prefix } => {
                self.masks();
                self.shrink_nested(mount, &format!("{prefix}cpus"));
                if let Some(system) = &own.system {
                    self.new_cpuset(system, prefix, self.chosen.claim(), housekeeping.clone());
                }
                let exactly = Claim::Exactly(Value::Cpus(self.chosen.cpus.clone()));
                self.new_cpuset(&own.quiet, prefix, exactly, self.chosen.cpus.to_string());
                self.push(Level::Cgroup, "all other threads", What::Threads, NOTHING, housekeeping);
                let balance = mount.join(format!("{prefix}sched_load_balance"));
                if let Some(text) = self.facts.files.get(&balance) {
                    let off = Wanted::Text("0".to_owned());
                    self.setting(Level::NoBalance, Knob::File(balance), text, off, "load balancing", "");
                }
                if self.extent.isolated {
                    let own = Knob::File(own.quiet.join(format!("{prefix}sched_load_balance")));
                    let off = Wanted::Text("0".to_owned());
                    self.setting(Level::NoBalance, own, "1", off, "load balancing between the quiet CPUs", "");
                }
            }
            Cpusets::V2 { mount, frees_workers } => {
                if *frees_workers && self.facts.nohz_full.as_ref().is_some_and(|cpus| !cpus.is_empty()) {
                    let what = "when the session ends, this kernel gives its unbound workers all CPUs, not only those without nohz_full";
                    self.obstacle(
                        Level::Cgroup,
                        what.to_owned(),
                        "boot again afterwards, or use Linux 6.3 or later".to_owned(),
                    );
                }
                let controller = Knob::Controller { cgroup: mount.clone(), name: "cpuset".to_owned() };
                let control = self.facts.files.get(&mount.join("cgroup.subtree_control"));
                let is_on = control.is_some_and(|on| on.split_ascii_whitespace().any(|name| name == "cpuset"));
                let now = if is_on { "on" } else { "off" };
                let what = What::Settings(vec![(controller.clone(), Claim::Exactly(Value::Present(true)))]);
                self.push(Level::Cgroup, &controller.to_string(), what, now, "on".to_owned());
                self.masks();
                self.shrink(mount, "cpuset.cpus");
                let exactly = Claim::Exactly(Value::Cpus(self.chosen.cpus.clone()));
                let what = vec![
                    (Knob::Directory(own.quiet.clone()), Claim::Exactly(Value::Present(true))),
                    (Knob::CpuList(own.quiet.join("cpuset.cpus")), exactly),
                ];
                let name = format!("cpuset {}", own.quiet.display());
                self.push(Level::Cgroup, &name, What::Settings(what), NOTHING, self.chosen.cpus.to_string());
                // A cpuset of another cgroup that has no CPUs of its own loses these by the partition alone. It is not given others: a
                // cpuset with threads cannot become empty again.
                let partition = Knob::File(own.quiet.join("cpuset.cpus.partition"));
                let kind = if self.extent.isolated { "isolated" } else { "root" };
                let why = "threads of other cgroups, and load balancing";
                self.setting(Level::Cgroup, partition, "member", Wanted::Text(kind.to_owned()), why, "");
                self.push(Level::Cgroup, "threads of the root cgroup", What::Threads, NOTHING, housekeeping);
            }
        }
    }

    /// Says that programs lose their masks meanwhile.
    fn masks(&mut self) {
        if self.facts.forgets_masks {
            let what = "until the session ends, threads that bind themselves to CPUs may use all CPUs of a cpuset that changes: this kernel forgets their masks then";
            self.obstacle(Level::Cgroup, what.to_owned(), "use Linux 6.2 or later".to_owned());
        }
    }

    /// Adds a new cpuset of version 1. It cannot have a thread before it has CPUs and memory nodes.
    fn new_cpuset(&mut self, folder: &Path, prefix: &str, cpus: Claim, wanted: String) {
        let nodes = self.facts.files.get(&folder.with_file_name(format!("{prefix}mems"))).cloned();
        let mut what = vec![(Knob::Directory(folder.to_owned()), Claim::Exactly(Value::Present(true)))];
        what.extend(
            nodes.map(|nodes| (Knob::File(folder.join(format!("{prefix}mems"))), Claim::Exactly(Value::Text(nodes)))),
        );
        what.push((Knob::CpuList(folder.join(format!("{prefix}cpus"))), cpus));
        self.push(Level::Cgroup, &format!("cpuset {}", folder.display()), What::Settings(what), NOTHING, wanted);
    }

    /// Takes the quiet CPUs from the cpusets of version 2 that exist. One without CPUs of its own has those of the one above it,
    /// without those of partitions.
    fn shrink(&mut self, mount: &Path, name: &str) {
        for (folder, cpus) in self.existing(mount, name) {
            if !cpus.is_empty() {
                self.without(folder.join(name), self.chosen.claim());
            }
        }
    }

    /// Takes the quiet CPUs from the cpusets of version 1 that exist, as far as the kernel allows that.
    fn shrink_nested(&mut self, mount: &Path, name: &str) {
        let existing = self.existing(mount, name);
        for Loss { folder, cpus } in losses(&existing, &self.chosen.cpus) {
            let now = &existing[&folder];
            if now.is_subset(&self.chosen.cpus) {
                let cgroup = folder.display();
                let what = format!(
                    "cpuset {cgroup} has no CPU but {now}, which its threads and those of the cpusets around it keep using"
                );
                self.obstacle(Level::Cgroup, what, "give it another CPU first".to_owned());
            } else if !cpus.is_empty() {
                self.without(folder.join(name), self.chosen.claim_on(&cpus));
            }
        }
    }

    /// Returns the cpusets that no session has made, with their CPUs, by their folders.
    fn existing(&self, mount: &Path, name: &str) -> BTreeMap<PathBuf, CpuSet> {
        let files = self.facts.files.iter();
        let is_existing = |path: &Path| {
            path.starts_with(mount) && path.file_name().is_some_and(|file| file == name) && !is_own(path, mount)
        };
        let existing = files.filter(|(path, _)| is_existing(path));
        existing
            .filter_map(|(path, text)| Some((path.parent()?.to_owned(), text.parse().unwrap_or_default())))
            .collect()
    }

    /// Takes CPUs from a cpuset, by its file.
    fn without(&mut self, file: PathBuf, claim: Claim) {
        let facts = self.facts;
        if let Some(text) = facts.files.get(&file) {
            self.setting(Level::Cgroup, Knob::CpuList(file), text, Wanted::Without(claim), "", "");
        }
    }

    fn interrupts(&mut self) {
        let facts = self.facts;
        for process in &facts.irqbalance {
            let what = What::Settings(vec![(Knob::Running(*process), Claim::Exactly(Value::Text(STOPPED.to_owned())))]);
            let name = format!("irqbalance (process {})", process.tid);
            let (now, wanted, why) = (RUNNING.to_owned(), STOPPED.to_owned(), "interrupts that it moves back");
            self.steps.push(Step { level: Level::Irq, name, what, now, wanted, why, price: "" });
        }
        for (at, interrupt) in facts.interrupts.iter().enumerate() {
            if is_bound(interrupt, &self.chosen.cpus) {
                let (why, instead) = if interrupt.is_message {
                    ("its driver manages it", format!("use its device from CPUs {} only", self.chosen.housekeeping))
                } else {
                    ("the kernel has bound it to its CPU", "choose another CPU".to_owned())
                };
                let what = format!("interrupt {} ({}) cannot be moved: {why}", interrupt.number, interrupt.name);
                // It comes on every level.
                self.obstacle(Level::Pin, what, instead);
            } else if !interrupt.is_fixed {
                let knob = facts.knob(at);
                let wanted = self.kept(&knob, &interrupt.affinity).to_string();
                let what = What::Settings(vec![(knob, self.chosen.claim())]);
                let name = format!("interrupt {} ({})", interrupt.number, interrupt.name);
                self.push(Level::Irq, &name, what, &interrupt.affinity.to_string(), wanted);
            }
        }
    }

    fn row(&mut self, row: &Row) {
        let facts = self.facts;
        let is_of_server = row.path == FAIR_SERVER;
        if is_of_server && !facts.fair_server_stays {
            return;
        }
        let cpus = if is_of_server { self.tickless() } else { self.chosen.cpus.clone() };
        for pattern in row.paths(&cpus) {
            for (path, text) in facts.files.iter().filter(|(path, _)| is_of(&pattern, path)) {
                let knob = (row.knob)(path.clone());
                let wanted = match row.needs {
                    Needs::Unless { except, forgets, .. } if text == except => {
                        let what = format!("{} stays {except}: the kernel would forget {forgets}", path.display());
                        self.obstacle(row.level, what, format!("choose another value than {except} first"));
                        continue;
                    }
                    Needs::Exactly(word) | Needs::Unless { word, .. } => Wanted::Text(word.to_owned()),
                    Needs::AtLeast(least) => {
                        Wanted::Text(text.parse::<u64>().map_or(text.clone(), |now| now.max(least).to_string()))
                    }
                    Needs::Housekeeping => Wanted::Without(self.chosen.claim()),
                };
                self.setting(row.level, knob, text, wanted, row.why, row.price);
            }
        }
    }

    /// Returns the chosen CPUs whose tick can stop.
    fn tickless(&self) -> CpuSet {
        self.facts.nohz_full.as_ref().map(|stopped| self.chosen.cpus.intersection(stopped)).unwrap_or_default()
    }

    fn tick(&mut self) {
        let tickless = self.tickless();
        let is_hidden =
            |cpu: &u32| !self.facts.files.contains_key(Path::new(&FAIR_SERVER.replace("{cpu}", &cpu.to_string())));
        if self.facts.fair_server_stays && tickless.iter().any(|cpu| is_hidden(&cpu)) {
            self.obstacle(
                Level::Tickless,
                format!("the fair server of CPU {tickless} may keep the tick: its settings cannot be read"),
                "mount debugfs on /sys/kernel/debug, and run cox as root".to_owned(),
            );
        }
        let ticking = self.chosen.cpus.difference(&tickless);
        if !ticking.is_empty() {
            let (why, instead) = match self.facts.nohz_full {
                None => ("this kernel cannot stop it", "a kernel with CONFIG_NO_HZ_FULL"),
                Some(_) => ("the kernel was booted without it", "a reboot with the line below"),
            };
            self.obstacle(Level::Tickless, format!("the tick of CPU {ticking} stays: {why}"), instead.to_owned());
        }
    }

    /// Returns the value that [`Claim::Without`] gives a knob with these CPUs.
    fn kept(&self, knob: &Knob, cpus: &CpuSet) -> CpuSet {
        self.chosen.claim().kept(knob, cpus).unwrap_or_default()
    }
}

/// The value that a setting gets.
enum Wanted {
    /// This text.
    Text(String),
    /// Its CPUs without those of this claim.
    Without(Claim),
}

/// Returns a value as it is compared and shown.
fn shown(value: &Value) -> String {
    match value {
        Value::Cpus(cpus) => cpus.to_string(),
        Value::Text(text) => text.clone(),
        other => other.to_string(),
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
