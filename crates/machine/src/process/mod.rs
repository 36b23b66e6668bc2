//! Facts about one process or one of its threads, from /proc.
//!
//! [`Task`] is a folder of /proc: `/proc/PID` or `/proc/PID/task/TID`. Each method opens its file anew, so an answer
//! describes the moment of the call. [`TaskFiles`] keeps two of the files open. If the task has ended, a method returns
//! an error for which [`Error::is_gone`] holds.
//!
//! In the folder of a *process* the figures of `stat` are sums over its threads, while `status`
//! (switches), `schedstat`, `wchan` and `syscall` are those of the main thread only.

mod clock;
mod files;
mod maps;
mod membership;
mod stat;
mod status;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

pub use clock::{BootClocks, ticks_per_s};
pub use files::TaskFiles;
pub use maps::{Backing, Mapping};
pub use membership::Membership;
pub use stat::{Doing, Stat};
pub use status::{Capabilities, Status, Switches};

use crate::error::Error;
use crate::root::{Root, present};

/// A process or thread, by its folder in /proc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    root: Root,
    folder: String,
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

/// Position of a task in the kernel (`syscall`). Reading it needs the right to trace the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCall {
    /// The task is on a CPU or runnable, and the kernel gives no details.
    Running,
    /// Blocked outside a system call, for example in a page fault.
    None {
        /// User stack pointer.
        stack_pointer: u64,
        /// User instruction pointer.
        instruction_pointer: u64,
    },
    /// Blocked in a system call.
    In {
        /// System call number, for the architecture that the kernel runs on.
        number: i64,
        /// The six argument registers of the call.
        arguments: [u64; 6],
        /// User stack pointer.
        stack_pointer: u64,
        /// User instruction pointer.
        instruction_pointer: u64,
    },
}

/// The program file of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Executable {
    /// Path in the mount namespace of the process, without the kernel's mark for deleted files.
    pub path: PathBuf,
    /// Whether the file has been deleted or replaced since the program started.
    pub deleted: bool,
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
        let path = self.file("status");
        let text = self.root.read_text(&path)?;
        status::parse(&text).map_err(|reason| self.root.format_error(path, reason))
    }

    /// Reads only the context switches from `status`.
    ///
    /// # Errors
    /// When the file cannot be read or has no switch counts.
    pub fn switches(&self) -> Result<Switches, Error> {
        let path = self.file("status");
        let text = self.root.read_text(&path)?;
        status::switches(&text)
            .ok_or_else(|| self.root.format_error(path, "the lines with the context switches are missing".to_owned()))
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

    /// Returns the command name, at most 15 bytes. Each thread may have its own name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn comm(&self) -> Result<String, Error> {
        self.root.read_text(self.file("comm"))
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

    /// Returns a variable of the environment that the program was started with. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// When the file cannot be read (needs the right to trace the process).
    pub fn variable(&self, name: &str) -> Result<Option<String>, Error> {
        let bytes = self.root.read(self.file("environ"))?;
        let mut values = bytes.split(|byte| *byte == 0).filter_map(|pair| pair.strip_prefix(name.as_bytes()));
        let value = values.find_map(|value| value.strip_prefix(b"="));
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    /// Returns the current working directory.
    ///
    /// # Errors
    /// When the link cannot be read (needs the right to trace the process).
    pub fn cwd(&self) -> Result<PathBuf, Error> {
        self.root.read_link(self.file("cwd"))
    }

    /// Returns the program file.
    ///
    /// # Errors
    /// When the link cannot be read: a kernel thread has none, and for processes of other users the kernel refuses
    /// access.
    pub fn exe(&self) -> Result<Executable, Error> {
        let link = self.root.read_link(self.file("exe"))?;
        // A file may really be called "x (deleted)". In that case a file of that name exists.
        let original = link.as_os_str().as_bytes().strip_suffix(maps::DELETED.as_bytes());
        Ok(match original {
            Some(path) if !self.root.exists(&link) => {
                Executable { path: OsString::from_vec(path.to_vec()).into(), deleted: true }
            }
            _ => Executable { path: link, deleted: false },
        })
    }

    /// Reads the memory mappings, in ascending order of address.
    ///
    /// # Errors
    /// When the file cannot be read (needs the right to trace the process) or a line does not have the form of
    /// proc_pid_maps(5).
    pub fn maps(&self) -> Result<Vec<Mapping>, Error> {
        let path = self.file("maps");
        let text = self.root.read_text(&path)?;
        text.lines()
            .map(|line| {
                maps::parse_line(line).ok_or_else(|| {
                    self.root.format_error(&path, format!("this line is not a memory mapping: {line:?}"))
                })
            })
            .collect()
    }

    /// Returns the task's cgroup in each hierarchy, in the order of cgroups(7).
    ///
    /// # Errors
    /// When the file cannot be read or a line is malformed.
    pub fn cgroups(&self) -> Result<Vec<Membership>, Error> {
        let path = self.file("cgroup");
        let text = self.root.read_text(&path)?;
        membership::parse(&text)
            .map_err(|line| self.root.format_error(path, format!("this line does not name a cgroup: {line:?}")))
    }

    /// Returns the kernel function that a blocked task sleeps in; `None` if the task runs or the kernel does not show
    /// the function.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn wchan(&self) -> Result<Option<String>, Error> {
        let name = self.root.read_text(self.file("wchan"))?;
        Ok(Some(name).filter(|name| !name.is_empty() && name != "0"))
    }

    /// Returns the system call that a blocked task is in.
    ///
    /// # Errors
    /// When the file cannot be read (needs the right to trace the task) or is malformed.
    pub fn system_call(&self) -> Result<SystemCall, Error> {
        let path = self.file("syscall");
        let text = self.root.read_text(&path)?;
        parse_system_call(&text).ok_or_else(|| self.root.format_error(path, format!("not a system call: {text:?}")))
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

    /// Returns the process ids of the children of all threads of a process, ascending. Skips threads that end
    /// meanwhile.
    ///
    /// # Errors
    /// When the process cannot be read.
    pub fn children(&self) -> Result<Vec<u32>, Error> {
        let mut children = Vec::new();
        let mut any_file = false;
        for tid in self.threads()? {
            let path = self.file(&format!("task/{tid}/children"));
            if let Some(text) = self.root.read_text_if_present(path)? {
                any_file = true;
                children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        if !any_file {
            // Without CONFIG_PROC_CHILDREN: look at the parent of every process.
            let own = self.status()?.tgid;
            for pid in pids(&self.root)? {
                let stat = present(Self::process(&self.root, pid).stat())?;
                if stat.is_some_and(|stat| stat.ppid == own) {
                    children.push(pid);
                }
            }
        }
        children.sort_unstable();
        children.dedup();
        Ok(children)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

/// Returns the ids of all visible processes, ascending.
///
/// # Errors
/// When /proc cannot be listed.
pub fn pids(root: &Root) -> Result<Vec<u32>, Error> {
    root.list_numbers("/proc")
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

fn parse_system_call(text: &str) -> Option<SystemCall> {
    if text == "running" {
        return Some(SystemCall::Running);
    }
    let mut fields = text.split_ascii_whitespace();
    let number: i64 = fields.next()?.parse().ok()?;
    let mut register = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    if number < 0 {
        return Some(SystemCall::None { stack_pointer: register()?, instruction_pointer: register()? });
    }
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = register()?;
    }
    Some(SystemCall::In { number, arguments, stack_pointer: register()?, instruction_pointer: register()? })
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
        let process = Task::process(&Root::at(folder.path()), 5);
        let variable = |name: &str| process.variable(name).expect("readable");
        assert_eq!((variable("A"), variable("B")), (Some("x=y".into()), Some(String::new())));
        assert_eq!((variable("C"), variable("")), (None, None));
        assert!(Task::process(&Root::at(folder.path()), 6).variable("A").is_err());
    }

    #[test]
    fn the_three_forms_of_syscall() {
        assert_eq!(parse_system_call("running"), Some(SystemCall::Running));
        assert_eq!(
            parse_system_call("-1 0x7ffe 0x40"),
            Some(SystemCall::None { stack_pointer: 0x7ffe, instruction_pointer: 0x40 })
        );
        assert_eq!(
            parse_system_call("202 0x1 0x2 0x3 0x4 0x5 0x6 0x7f 0x80"),
            Some(SystemCall::In {
                number: 202,
                arguments: [1, 2, 3, 4, 5, 6],
                stack_pointer: 0x7f,
                instruction_pointer: 0x80
            })
        );
        assert_eq!(parse_system_call("202 0x1"), None);
        assert_eq!(parse_system_call(""), None);
    }
}
