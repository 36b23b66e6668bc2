//! Facts about one process or one of its threads, from /proc.
//!
//! [`Task`] is a folder of /proc: `/proc/PID` or `/proc/PID/task/TID`. Each method opens its file anew, so an answer
//! describes the moment of the call. [`TaskFiles`] keeps two of the files open. If the task has ended, a method returns
//! an error for which [`Error::is_gone`] holds.
//!
//! In the folder of a *process* the figures of `stat` are sums over its threads, while `status`
//! (switches) and `schedstat` are those of the main thread only.

mod clock;
mod files;
mod maps;
mod membership;
mod stat;
mod status;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub(crate) use clock::ticks_to_ns;
pub use clock::{BootClocks, ticks_per_s};
pub use files::TaskFiles;
pub use maps::{Backing, Mapping};
pub use membership::Membership;
pub use stat::{Doing, Stat};
pub use status::{Capabilities, Status, Switches};

use crate::error::Error;
use crate::root::Root;

/// A process or thread, by its folder in /proc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    root: Root,
    folder: String,
}

/// A copy of a program's environment. It was read at one time, so all values are of the same program, even if the process calls exec later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(Vec<u8>);

impl Environment {
    /// Returns the value of a variable. Bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        let mut values = self.0.split(|byte| *byte == 0).filter_map(|pair| pair.strip_prefix(name.as_bytes()));
        let value = values.find_map(|value| value.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

/// Cumulative scheduler clocks of one thread (`schedstat`). If the thread is on a CPU, `run_ns` ends at the last timer
/// tick. If the thread is waiting for a CPU, `run_delay_ns` does not yet include that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedStat {
    /// Time on a CPU, without hypervisor steal, nanoseconds.
    pub run_ns: u64,
    /// Run-queue latency, nanoseconds: the time from enqueue to arrival on a CPU (wake delay after the enqueue, plus
    /// preempt wait).
    pub run_delay_ns: u64,
    /// Number of times that the thread was given a CPU.
    pub timeslices: u64,
}

impl Task {
    /// Returns the process `pid`.
    #[must_use]
    pub fn process(root: &Root, pid: u32) -> Self {
        Self { root: root.clone(), folder: format!("/proc/{pid}") }
    }

    /// Returns the thread `tid` of the process `pid`.
    #[must_use]
    pub fn thread(root: &Root, pid: u32, tid: u32) -> Self {
        Self { root: root.clone(), folder: format!("/proc/{pid}/task/{tid}") }
    }

    /// Returns the calling process.
    #[must_use]
    pub fn own(root: &Root) -> Self {
        Self { root: root.clone(), folder: "/proc/self".to_owned() }
    }

    /// Returns whether the task exists; a zombie exists too.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.root.exists(&self.folder)
    }

    /// Reads the task's name, parent, state, start and CPU times.
    ///
    /// # Errors
    /// When the file cannot be read or does not have the form of proc_pid_stat(5).
    pub fn stat(&self) -> Result<Stat, Error> {
        self.stat_of(&self.root.read(self.file("stat"))?)
    }

    fn stat_of(&self, bytes: &[u8]) -> Result<Stat, Error> {
        stat::parse(bytes, ticks_per_s()).map_err(|reason| self.root.format_error(self.file("stat"), reason))
    }

    /// Reads switch counts, allowed CPUs and capabilities.
    ///
    /// # Errors
    /// When the file cannot be read or does not have the form of proc_pid_status(5).
    pub fn status(&self) -> Result<Status, Error> {
        self.parsed("status", status::parse)
    }

    /// Reads only the context switches from `status`.
    ///
    /// # Errors
    /// When the file cannot be read or has no switch counts.
    pub fn switches(&self) -> Result<Switches, Error> {
        let missing = || "the lines with the context switches are missing".to_owned();
        self.parsed("status", |text| status::switches(text).ok_or_else(missing))
    }

    /// Returns the user id that owns the task's files in /proc: root's if the task may not be traced.
    ///
    /// # Errors
    /// When there is no such task.
    pub fn owner(&self) -> Result<u32, Error> {
        self.root.owner(self.file("stat"))
    }

    /// Reads the scheduler clocks. All are zero on kernels that do not keep them.
    ///
    /// # Errors
    /// When the file cannot be read or is not three numbers.
    pub fn schedstat(&self) -> Result<SchedStat, Error> {
        self.schedstat_of(&self.root.read(self.file("schedstat"))?)
    }

    fn schedstat_of(&self, bytes: &[u8]) -> Result<SchedStat, Error> {
        let text = String::from_utf8_lossy(bytes);
        parse_schedstat(&text)
            .ok_or_else(|| self.root.format_error(self.file("schedstat"), format!("{text:?} is not three numbers")))
    }

    /// Returns the program name and its arguments, as they are in the memory of the process; empty for kernel threads
    /// and zombies.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn cmdline(&self) -> Result<Vec<OsString>, Error> {
        let bytes = self.root.read(self.file("cmdline"))?;
        Ok(parse_cmdline(&bytes))
    }

    /// Reads the environment that the program was started with.
    ///
    /// # Errors
    /// When the file cannot be read (needs the right to trace the process).
    pub fn environment(&self) -> Result<Environment, Error> {
        Ok(Environment(self.root.read(self.file("environ"))?))
    }

    /// Returns the current working directory.
    ///
    /// # Errors
    /// When the link cannot be read (needs the right to trace the process).
    pub fn cwd(&self) -> Result<PathBuf, Error> {
        self.root.read_link(self.file("cwd"))
    }

    /// Reads the memory mappings, in ascending order of address.
    ///
    /// # Errors
    /// When the file cannot be read (needs the right to trace the process) or a line does not have the form of
    /// proc_pid_maps(5).
    pub fn maps(&self) -> Result<Vec<Mapping>, Error> {
        let mapping =
            |line: &str| maps::parse_line(line).ok_or_else(|| format!("this line is not a memory mapping: {line:?}"));
        self.parsed("maps", |text| text.lines().map(mapping).collect())
    }

    /// Returns the task's cgroup in each hierarchy, in the order of cgroups(7).
    ///
    /// # Errors
    /// When the file cannot be read or a line is malformed.
    pub fn cgroups(&self) -> Result<Vec<Membership>, Error> {
        let wrong = |line| format!("this line does not name a cgroup: {line:?}");
        self.parsed("cgroup", |text| membership::parse(text).map_err(wrong))
    }

    /// Returns the thread ids of a process, ascending.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn threads(&self) -> Result<Vec<u32>, Error> {
        self.root.list_numbers(self.file("task"))
    }

    /// Returns the child processes of this thread, on kernels that list them (CONFIG_PROC_CHILDREN).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn children_of_thread(&self) -> Result<Vec<u32>, Error> {
        let text = self.root.read_text(self.file("children"))?;
        Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    }

    /// Returns the child processes of all threads of a process, on kernels that list them. Threads that end meanwhile, or are hidden from this
    /// user, are left out.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let tids = self.threads().unwrap_or_default();
        let of = |tid| Task { root: self.root.clone(), folder: self.file(&format!("task/{tid}")) };
        tids.into_iter().flat_map(|tid| of(tid).children_of_thread().unwrap_or_default()).collect()
    }

    /// Reads a file and parses its text. The error of `parse` tells what is wrong with the text.
    fn parsed<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Error> {
        let path = self.file(name);
        let text = self.root.read_text(&path)?;
        parse(&text).map_err(|reason| self.root.format_error(path, reason))
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some(SchedStat { run_ns: numbers.next()??, run_delay_ns: numbers.next()??, timeslices: numbers.next()?? })
}

fn parse_cmdline(bytes: &[u8]) -> Vec<OsString> {
    if bytes.is_empty() {
        return Vec::new();
    }
    // Each argument ends with a NUL, unless the program has overwritten its title.
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    bytes.split(|&byte| byte == 0).map(|argument| OsString::from_vec(argument.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_three_numbers() {
        assert_eq!(
            parse_schedstat("1141601 82362 2"),
            Some(SchedStat { run_ns: 1_141_601, run_delay_ns: 82_362, timeslices: 2 })
        );
        assert_eq!(parse_schedstat("1 2"), None);
        assert_eq!(parse_schedstat("1 2 x"), None);
    }

    #[test]
    fn arguments_are_split_at_nul_and_may_be_empty() {
        assert_eq!(parse_cmdline(b"a\0b c\0\0"), ["a", "b c", ""]);
        assert_eq!(parse_cmdline(b"postgres: writer"), ["postgres: writer"]);
        assert!(parse_cmdline(b"").is_empty());
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("proc/5")).expect("a folder");
        std::fs::write(folder.path().join("proc/5/environ"), "AB=1\0A=x=y\0B=\0").expect("a file");
        let environment = Task::process(&Root::at(folder.path()), 5).environment().expect("readable");
        let variable = |name: &str| environment.variable(name);
        assert_eq!((variable("A"), variable("B")), (Some("x=y".into()), Some(String::new())));
        assert_eq!((variable("C"), variable("")), (None, None));
        assert!(Task::process(&Root::at(folder.path()), 6).environment().is_err());
    }
}
