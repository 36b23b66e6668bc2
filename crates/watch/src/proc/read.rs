//! The files of /proc both fallback backends read; proc(5).

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where /proc is.
#[derive(Debug, Clone)]
pub(crate) struct Procfs {
    root: PathBuf,
}

/// What `stat` says of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Name, NUL-padded.
    pub(crate) comm: [u8; 16],
    /// State letter.
    pub(crate) state: u8,
    /// Start on CLOCK_BOOTTIME, in clock ticks, cut down.
    pub(crate) start_ticks: u64,
    /// CPU it last ran on.
    pub(crate) cpu: u16,
    /// Wait status; 0 without the right to trace the thread.
    pub(crate) exit_code: i32,
}

/// What a thread's state letter comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// On a CPU or waiting for one: /proc does not say which.
    Ready,
    /// Off CPU and not runnable.
    Off,
    /// Dead, a zombie perhaps.
    Ended,
}

impl Stat {
    /// What the thread is doing.
    pub(crate) fn doing(&self) -> Doing {
        match self.state {
            b'R' => Doing::Ready,
            b'Z' | b'X' => Doing::Ended,
            _ => Doing::Off,
        }
    }
}

/// The scheduler's own sums since the thread's birth (`schedstat`). Of a thread that is on a CPU,
/// `run_ns` is as of the last timer tick; of one that waits, the present wait is not in yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Schedstat {
    /// On a CPU, without the time the hypervisor took.
    pub(crate) run_ns: u64,
    /// Runnable without a CPU.
    pub(crate) delay_ns: u64,
    /// Times it was given a CPU.
    pub(crate) slices: u64,
}

/// Context switches since the thread's birth (`status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Switches {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// Whether an error means that the task is not there (any more).
pub(crate) fn is_gone(error: &io::Error) -> bool {
    // ENOENT when opening, ESRCH when reading what was opened in time.
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

impl Procfs {
    /// The running machine's.
    pub(crate) fn live() -> Procfs {
        Procfs { root: PathBuf::from("/proc") }
    }

    /// A folder that looks like /proc.
    #[cfg(test)]
    pub(crate) fn at(root: impl Into<PathBuf>) -> Procfs {
        Procfs { root: root.into() }
    }

    /// The threads of process `pid`, ascending.
    pub(crate) fn tasks(&self, pid: u32) -> io::Result<Vec<u32>> {
        let mut tids = Vec::new();
        for entry in fs::read_dir(self.root.join(format!("{pid}/task")))? {
            tids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        tids.sort_unstable();
        Ok(tids)
    }

    /// The processes that thread `tid` of `pid` is the parent of.
    pub(crate) fn children(&self, pid: u32, tid: u32) -> io::Result<Vec<u32>> {
        let text = self.task_file(pid, tid, "children")?;
        Ok(String::from_utf8_lossy(&text).split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Name, state, start, CPU, exit code.
    pub(crate) fn stat(&self, pid: u32, tid: u32) -> io::Result<Stat> {
        parse_stat(&self.task_file(pid, tid, "stat")?).ok_or_else(|| malformed("stat"))
    }

    /// Run time, run delay, time slices.
    pub(crate) fn schedstat(&self, pid: u32, tid: u32) -> io::Result<Schedstat> {
        parse_schedstat(&self.task_file(pid, tid, "schedstat")?).ok_or_else(|| malformed("schedstat"))
    }

    /// Context switches.
    pub(crate) fn switches(&self, pid: u32, tid: u32) -> io::Result<Switches> {
        parse_switches(&self.task_file(pid, tid, "status")?).ok_or_else(|| malformed("status"))
    }

    /// A sysctl that holds one number, e.g. `kernel/perf_event_paranoid`; `None` when it cannot be read.
    pub(crate) fn sysctl(&self, name: &str) -> Option<i64> {
        let text = slurp(&self.root.join("sys").join(name)).ok()?;
        std::str::from_utf8(&text).ok()?.trim().parse().ok()
    }

    fn task_file(&self, pid: u32, tid: u32, name: &str) -> io::Result<Vec<u8>> {
        slurp(&self.task_path(pid, tid, name))
    }

    fn task_path(&self, pid: u32, tid: u32, name: &str) -> PathBuf {
        self.root.join(format!("{pid}/task/{tid}/{name}"))
    }
}

/// What /proc says of one thread, for who asks thousands of times a second.
#[derive(Debug)]
pub(crate) struct TaskFiles {
    fs: Procfs,
    pid: u32,
    tid: u32,
    /// Files stay open. Reading takes 1 to 3 us then, opening and closing five more.
    stay_open: bool,
    schedstat: Option<File>,
    stat: Option<File>,
}

impl TaskFiles {
    /// Opens nothing yet. Files that stay open are two.
    pub(crate) fn new(fs: Procfs, pid: u32, tid: u32, stay_open: bool) -> TaskFiles {
        TaskFiles { fs, pid, tid, stay_open, schedstat: None, stat: None }
    }

    /// As [`Procfs::schedstat`].
    pub(crate) fn schedstat(&mut self) -> io::Result<Schedstat> {
        let path = || self.fs.task_path(self.pid, self.tid, "schedstat");
        read_again(&mut self.schedstat, self.stay_open, path, parse_schedstat)?.ok_or_else(|| malformed("schedstat"))
    }

    /// As [`Procfs::stat`].
    pub(crate) fn stat(&mut self) -> io::Result<Stat> {
        let path = || self.fs.task_path(self.pid, self.tid, "stat");
        read_again(&mut self.stat, self.stay_open, path, parse_stat)?.ok_or_else(|| malformed("stat"))
    }

    /// As [`Procfs::switches`].
    pub(crate) fn switches(&self) -> io::Result<Switches> {
        self.fs.switches(self.pid, self.tid)
    }

    /// Closes what is open; the thread is gone.
    pub(crate) fn close(&mut self) {
        (self.schedstat, self.stat) = (None, None);
    }
}

/// Reads a file from its beginning that has a line of some hundred bytes at most.
fn read_again<T>(
    kept: &mut Option<File>,
    stay_open: bool,
    path: impl FnOnce() -> PathBuf,
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let opened;
    let file = match &*kept {
        Some(file) => file,
        None => {
            let file = File::open(path())?;
            if stay_open {
                kept.insert(file)
            } else {
                opened = file;
                &opened
            }
        }
    };
    let mut text = [0; 2048];
    let length = file.read_at(&mut text, 0)?;
    Ok(parse(text.get(..length).unwrap_or_default()))
}

/// A whole file whose size is not known before: mostly one read and one that finds the end.
fn slurp(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(2048);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn malformed(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{file} is not as proc(5) describes"))
}

fn parse_stat(line: &[u8]) -> Option<Stat> {
    // The name may itself hold parentheses, blanks and line ends; no later field does.
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let name = line.get(open + 1..close)?;
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    // Numbered as in the manual page: the state, first behind the name, is field 3.
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let start_ticks = fields.nth(22 - 3 - 1)?.parse().ok()?;
    let cpu = fields.nth(39 - 22 - 1)?.parse().ok()?;
    let exit_code = fields.nth(52 - 39 - 1).and_then(|field| field.parse().ok()).unwrap_or(0);
    let mut comm = [0; 16];
    // The last byte stays NUL; kernel workers have longer names here than a comm.
    for (to, from) in comm[..15].iter_mut().zip(name) {
        *to = *from;
    }
    Some(Stat { comm, state, start_ticks, cpu, exit_code })
}

fn parse_schedstat(line: &[u8]) -> Option<Schedstat> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace().map(|field| field.parse().ok());
    Some(Schedstat { run_ns: fields.next()??, delay_ns: fields.next()??, slices: fields.next()?? })
}

fn parse_switches(status: &[u8]) -> Option<Switches> {
    let status = String::from_utf8_lossy(status);
    // From the end: a name with a line end in it stands in the first line.
    let value = |name: &str| {
        status.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<u64>().ok())
    };
    Some(Switches { voluntary: value("voluntary_ctxt_switches")?, involuntary: value("nonvoluntary_ctxt_switches")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_stat_are_taken_by_their_manual_page_number() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("4711 (a) R (b\n) S {}\n", numbers.join(" "));
        let stat = parse_stat(line.as_bytes()).expect("well formed");
        assert_eq!(wire::layout::comm_text(&stat.comm), "a) R (b\n");
        assert_eq!((stat.state, stat.start_ticks, stat.cpu, stat.exit_code), (b'S', 22, 39, 52));
    }

    #[test]
    fn cut_files_are_refused() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("4711 (a) S {}", numbers.join(" "));
        // Field 39 is the last that must be there: older kernels have no exit code.
        let enough = line.find(" 40 ").expect("there is a field 40");
        for end in 0..enough - 2 {
            assert_eq!(parse_stat(&line.as_bytes()[..end]), None, "{end} bytes");
        }
        for line in ["", "1 2", "1 x 3", "-1 2 3"] {
            assert_eq!(parse_schedstat(line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(parse_switches(b"voluntary_ctxt_switches:\t5\n"), None);
    }

    #[test]
    fn long_names_are_cut_to_a_comm() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("9 (kworker/u16:3-events_unbound) I {}", numbers.join(" "));
        let stat = parse_stat(line.as_bytes()).expect("well formed");
        assert_eq!(wire::layout::comm_text(&stat.comm), "kworker/u16:3-e");
    }

    #[test]
    fn switch_counts_are_not_taken_from_a_name() {
        let status =
            b"Name:\tx\nvoluntary_ctxt_switches:\t99\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_switches(status), Some(Switches { voluntary: 5, involuntary: 7 }));
    }

    #[test]
    fn the_live_tree_is_understood() {
        let fs = Procfs::live();
        let pid = std::process::id();
        assert!(fs.tasks(pid).expect("own threads").contains(&pid));
        assert!(fs.schedstat(pid, pid).expect("own schedstat").slices > 0);
        assert!(fs.switches(pid, pid).is_ok());
        assert!(fs.stat(pid, pid).expect("own stat").start_ticks > 0);
        let gone = fs.stat(pid, u32::MAX).expect_err("no such thread");
        assert!(is_gone(&gone), "{gone}");
    }
}
