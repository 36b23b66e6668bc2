//! The cgroups of a made-up machine, as files. They follow the kernel's rules for cpusets: which files there are, which
//! CPUs the threads of a cgroup have, and which changes are refused (kernel/cgroup/cpuset.c).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use machine::cgroup::{Hierarchies, Version};
use machine::{CpuSet, Error, Root};

const CPUS: &str = "cpuset.cpus";
const PARTITION: &str = "cpuset.cpus.partition";
const EXCLUSIVE: &str = "cpuset.cpu_exclusive";
const CONTROL: &str = "cgroup.subtree_control";

/// Files of a new cgroup in version 1, with their first values.
const OF_V1: [(&str, &str); 5] =
    [("tasks", ""), (CPUS, "\n"), ("cpuset.mems", "\n"), ("cpuset.sched_load_balance", "1\n"), (EXCLUSIVE, "0\n")];
/// Files of a new cgroup in version 2.
const OF_V2: [(&str, &str); 3] = [("cgroup.procs", ""), ("cgroup.threads", ""), (CONTROL, "\n")];
/// Files that cgroups of version 2 also have if the controller cpuset is on for the cgroup above.
const OF_CPUSET: [(&str, &str); 2] = [(CPUS, "\n"), (PARTITION, "member\n")];

/// What the kernel shows instead of a partition whose CPUs a cgroup beside it has, too.
const NOT_EXCLUSIVE: &str = "invalid (Cpu list in cpuset.cpus not exclusive)";

/// The cgroups below a folder.
#[derive(Debug)]
pub(super) struct Cgroups {
    root: Root,
    mounted: Hierarchies,
}

impl Cgroups {
    pub(super) fn read(root: &Root) -> Result<Cgroups, Error> {
        Ok(Cgroups { root: root.clone(), mounted: Hierarchies::read(root)? })
    }

    /// Returns whether a folder or file belongs to a cgroup.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.mounted.of_folder(path).is_some()
    }

    pub(super) fn is_v2(&self, path: &Path) -> bool {
        self.mounted.of_folder(path).is_some_and(|hierarchy| hierarchy.version == Version::V2)
    }

    fn text(&self, folder: &Path, file: &str) -> Option<String> {
        fs::read_to_string(self.root.path(folder.join(file))).ok()
    }

    /// Returns the CPUs that a cgroup's file has; none if the file is empty or missing.
    fn chosen(&self, folder: &Path) -> CpuSet {
        self.text(folder, CPUS).and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    fn is_partition(&self, folder: &Path) -> bool {
        matches!(self.text(folder, PARTITION).as_deref().map(str::trim), Some("root" | "isolated"))
    }

    /// Returns the folders directly below one.
    fn below(&self, folder: &Path) -> Vec<PathBuf> {
        let names = self.root.list(folder).unwrap_or_default();
        names.into_iter().map(|name| folder.join(name)).filter(|path| self.root.path(path).is_dir()).collect()
    }

    /// Returns the CPUs that the threads of a cgroup may use: its own ones, as far as the cgroup above has them. If it
    /// has none of its own, all of the one above. A partition takes its CPUs from the cgroup above.
    pub(super) fn cpus(&self, folder: &Path) -> CpuSet {
        let own = self.chosen(folder);
        let all = match folder.parent().filter(|above| self.contains(above)) {
            Some(_) if self.is_partition(folder) => own,
            Some(above) => Some(self.cpus(above)).map(|above| first_of(own.intersection(&above), above)).unwrap_or(own),
            None => {
                let online = self.root.read_cpus_if_present("/sys/devices/system/cpu/online").ok().flatten();
                first_of(own, online.unwrap_or_default())
            }
        };
        let partitions = self.below(folder).into_iter().filter(|below| self.is_partition(below));
        partitions.fold(all, |rest, partition| rest.difference(&self.chosen(&partition)))
    }

    /// Writes or removes a thread in the lists of a cgroup.
    pub(super) fn list(&self, folder: &Path, tid: u32, present: bool) {
        let files: &[&str] = if self.is_v2(folder) { &["cgroup.procs", "cgroup.threads"] } else { &["tasks"] };
        for file in files {
            let text = self.text(folder, file).unwrap_or_default();
            let mut lines: Vec<String> =
                text.lines().filter(|line| *line != tid.to_string()).map(str::to_owned).collect();
            lines.extend(present.then(|| tid.to_string()));
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            // A cgroup that was removed has no list.
            let _ = fs::write(self.root.path(folder.join(file)), text);
        }
    }

    /// Makes a cgroup, or removes one that has neither members nor cgroups below it.
    pub(super) fn make(&self, folder: &Path, present: bool) -> io::Result<()> {
        let path = self.root.path(folder);
        if !present {
            let members = self.text(folder, if self.is_v2(folder) { "cgroup.threads" } else { "tasks" });
            if !self.below(folder).is_empty() || members.is_some_and(|members| !members.is_empty()) {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            return fs::remove_dir_all(path);
        }
        fs::create_dir(&path)?;
        let above = folder.parent().unwrap_or(folder);
        let files = match () {
            () if !self.is_v2(folder) => OF_V1.to_vec(),
            () if self.is_on(above, "cpuset") => [OF_V2.as_slice(), &OF_CPUSET].concat(),
            () => OF_V2.to_vec(),
        };
        files.into_iter().try_for_each(|(file, text)| fs::write(path.join(file), text))
    }

    fn is_on(&self, folder: &Path, controller: &str) -> bool {
        self.text(folder, CONTROL).is_some_and(|text| text.split_ascii_whitespace().any(|word| word == controller))
    }

    /// Turns a controller on or off for the cgroups below one: their files come and go. It cannot be on if it is off above,
    /// and stays on while a cgroup below has it on for its own.
    pub(super) fn turn(&self, cgroup: &Path, name: &str, on: bool) -> io::Result<()> {
        let below = self.below(cgroup);
        if !on && below.iter().any(|below| self.is_on(below, name)) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let above = cgroup.parent().filter(|above| self.contains(above));
        if on && above.is_some_and(|above| !self.is_on(above, name)) {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let text = fs::read_to_string(self.root.path(cgroup.join(CONTROL)))?;
        let mut words: Vec<&str> = text.split_ascii_whitespace().filter(|word| *word != name).collect();
        words.extend(on.then_some(name));
        fs::write(self.root.path(cgroup.join(CONTROL)), words.join(" ") + "\n")?;
        for (file, text) in below.iter().flat_map(|folder| OF_CPUSET.map(|(file, text)| (folder.join(file), text))) {
            let path = self.root.path(file);
            if !on {
                fs::remove_file(path)?;
            } else if !path.exists() {
                fs::write(path, text)?;
            }
        }
        Ok(())
    }

    /// Refuses CPUs that a cpuset of version 1 cannot have: ones that the cpuset above does not have, ones of a cpuset beside
    /// it if one of the two is exclusive, and too few for the cpusets or threads in it (`validate_change`).
    pub(super) fn check(&self, file: &Path, cpus: &CpuSet) -> io::Result<()> {
        let (Some(folder), false) = (file.parent().filter(|_| file.ends_with(CPUS)), self.is_v2(file)) else {
            return Ok(());
        };
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let above = folder.parent().filter(|above| self.contains(above));
        match () {
            () if above.is_none_or(|above| !cpus.is_subset(&self.chosen(above))) => refused(libc::EACCES),
            () if self.below(folder).iter().any(|below| !self.chosen(below).is_subset(cpus)) => refused(libc::EBUSY),
            () if cpus.is_empty() && self.text(folder, "tasks").is_some_and(|tasks| !tasks.is_empty()) => {
                refused(libc::ENOSPC)
            }
            () if self.beside(folder).iter().any(|other| self.excludes(folder, other, cpus)) => refused(libc::EINVAL),
            () => Ok(()),
        }
    }

    /// Returns the other cgroups directly below the one above a cgroup.
    fn beside(&self, folder: &Path) -> Vec<PathBuf> {
        let all = folder.parent().map(|above| self.below(above)).unwrap_or_default();
        all.into_iter().filter(|other| other != folder).collect()
    }

    /// Returns whether `folder` cannot have these CPUs because `other` has some of them, and one of the two is exclusive.
    fn excludes(&self, folder: &Path, other: &Path, cpus: &CpuSet) -> bool {
        let is_exclusive = |folder| self.text(folder, EXCLUSIVE).is_some_and(|text| text.trim() == "1");
        (is_exclusive(folder) || is_exclusive(other)) && !self.chosen(other).intersection(cpus).is_empty()
    }

    /// Marks a new partition as invalid if a cgroup beside it has some of its CPUs.
    pub(super) fn judge(&self, file: &Path) -> io::Result<()> {
        let Some(folder) = file.parent().filter(|folder| file.ends_with(PARTITION) && self.is_partition(folder)) else {
            return Ok(());
        };
        let own = self.chosen(folder);
        let has_some = |other: &PathBuf| !self.chosen(other).intersection(&own).is_empty();
        if !self.beside(folder).iter().any(has_some) {
            return Ok(());
        }
        let kind = self.text(folder, PARTITION).unwrap_or_default();
        fs::write(self.root.path(file), format!("{} {NOT_EXCLUSIVE}\n", kind.trim()))
    }

    /// Returns why a thread cannot come to a cgroup: it does not exist, or, in version 1, has no CPUs or memory.
    pub(super) fn refusal(&self, folder: &Path) -> Option<io::Error> {
        if !self.root.path(folder).is_dir() {
            return Some(io::Error::other(format!("there is no {}", folder.display())));
        }
        let has_nodes = self.text(folder, "cpuset.mems").is_none_or(|nodes| !nodes.trim().is_empty());
        let is_usable = self.is_v2(folder) || (has_nodes && !self.chosen(folder).is_empty());
        (!is_usable).then(|| io::Error::from_raw_os_error(libc::ENOSPC))
    }
}

/// Returns the first set that is not empty.
fn first_of(one: CpuSet, other: CpuSet) -> CpuSet {
    if one.is_empty() { other } else { one }
}
