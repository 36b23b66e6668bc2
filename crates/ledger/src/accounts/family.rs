//! Groups clocks into processes, and processes into programs.
//!
//! A process consists of the threads with one process id, unless the id was reused: a main thread created after all earlier threads of that id had
//! ended belongs to another process. (Within a process, each further thread is created by a thread that lives, so there is never a time without a
//! living thread.)
//!
//! If there are several programs, cox follows the process's ancestors until it finds the first process of a program: the process belongs to that
//! program. If it finds none, the process belongs to the first program whose own first process is not known, or, if there is no such program, to
//! the first program of all. So no thread's time is dropped.

use std::collections::{BTreeMap, HashMap};

use super::life::Life;
use super::thread::shell_exit_code;
use crate::account::Program;

/// A program that a session observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Process id of the first process; `None` if it is not known, because cox observes a control group.
    pub root_pid: Option<u32>,
    /// Command line, or the target that was attached to.
    pub command: Vec<String>,
    /// Exit code as a shell shows it, if the program was waited for.
    pub exit_code: Option<i32>,
    /// Time of the start or of attaching, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Time of the end; `None` while the program runs.
    pub end_ns: Option<u64>,
}

impl ProgramInfo {
    /// Returns the program's account, without its processes.
    pub(super) fn account(&self, end_ns: u64) -> Program {
        Program {
            command: self.command.clone(),
            exit_code: self.exit_code,
            wall_ns: self.end_ns.unwrap_or(end_ns).saturating_sub(self.start_ns),
            ..Program::default()
        }
    }
}

/// The threads of a process.
pub(super) struct Members {
    pub(super) pid: u32,
    pub(super) parent_pid: u32,
    born_ns: u64,
    /// For each thread of the process, in order of creation, its index in the list of all threads (`lives`).
    pub(super) lives: Vec<usize>,
}

impl Members {
    /// Returns the main thread, whose id is the process id. After an exec by another thread, two threads of the process have this id; returns the
    /// later one.
    fn main<'a>(&self, lives: &'a [Life<'a>]) -> Option<&'a Life<'a>> {
        let mains = self.lives.iter().map(|i| &lives[*i]).filter(|life| life.clock.tid == self.pid);
        mains.max_by_key(|life| life.clock.since_ns)
    }

    /// Returns the most recent name of the main thread, or of the earliest known thread if the main thread is unknown.
    pub(super) fn name(&self, lives: &[Life<'_>]) -> String {
        let named = self.main(lives).or_else(|| self.lives.first().map(|i| &lives[*i]));
        named.map_or_else(String::new, |life| life.clock.comm())
    }

    /// Returns the exit code as a shell shows it, if all threads have ended and the end of the main thread was seen.
    pub(super) fn exit_code(&self, lives: &[Life<'_>]) -> Option<i32> {
        let ended = self.lives.iter().all(|i| !lives[*i].alive);
        self.main(lives).filter(|_| ended).map(|life| shell_exit_code(life.clock.exit_code))
    }
}

/// Returns the processes in order of creation.
pub(super) fn processes(lives: &[Life<'_>]) -> Vec<Members> {
    let mut by_pid: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (i, life) in lives.iter().enumerate() {
        by_pid.entry(life.clock.tgid).or_default().push(i);
    }
    let mut processes = Vec::new();
    for (pid, mut threads) in by_pid {
        threads.sort_by_key(|i| (lives[*i].clock.born_ns, lives[*i].clock.tid != pid));
        let mut from = 0;
        let mut all_ended_ns = 0;
        for (at, i) in threads.iter().enumerate() {
            let clock = &lives[*i].clock;
            if at > from && clock.tid == pid && clock.born_ns >= all_ended_ns {
                processes.push(members(pid, &threads[from..at], lives));
                from = at;
            }
            all_ended_ns = all_ended_ns.max(if lives[*i].alive { u64::MAX } else { clock.since_ns });
        }
        processes.push(members(pid, &threads[from..], lives));
    }
    processes.sort_by_key(|members| (members.born_ns, members.pid));
    processes
}

fn members(pid: u32, threads: &[usize], lives: &[Life<'_>]) -> Members {
    // `parent_tgid` is the process of the thread's creator: for the main thread the parent process, for the other threads normally their own process.
    let clocks = || threads.iter().map(|i| &lives[*i].clock);
    let told = clocks().filter(|clock| clock.parent_tgid != 0 && clock.parent_tgid != pid);
    Members {
        pid,
        parent_pid: told.min_by_key(|clock| clock.tid != pid).map_or(0, |clock| clock.parent_tgid),
        born_ns: clocks().map(|clock| clock.born_ns).min().unwrap_or(0),
        lives: threads.to_vec(),
    }
}

/// Returns for each process the index, in `programs`, of the program to which it belongs (see the module's header).
pub(super) fn programs(processes: &[Members], programs: &[ProgramInfo]) -> Vec<usize> {
    if programs.len() < 2 {
        return vec![0; processes.len()];
    }
    let roots: HashMap<u32, usize> =
        programs.iter().enumerate().rev().filter_map(|(i, info)| Some((info.root_pid?, i))).collect();
    let stray = programs.iter().position(|info| info.root_pid.is_none()).unwrap_or(0);
    let mut by_pid: HashMap<u32, Vec<&Members>> = HashMap::new();
    for process in processes {
        by_pid.entry(process.pid).or_default().push(process);
    }
    let parent_of = |child: &Members| {
        let candidates = by_pid.get(&child.parent_pid)?;
        let latest_before = candidates.iter().rev().find(|parent| parent.born_ns <= child.born_ns);
        latest_before.or(candidates.first()).copied()
    };
    let root_of = |process: &Members| {
        let mut at = process;
        for _ in 0..processes.len() {
            if let Some(program) = roots.get(&at.pid).or_else(|| roots.get(&at.parent_pid)) {
                return Some(*program);
            }
            at = parent_of(at)?;
        }
        None
    };
    processes.iter().map(|process| root_of(process).unwrap_or(stray)).collect()
}
