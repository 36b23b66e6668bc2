//! Programs that only start others, and the ranks that they start.
//!
//! A launcher waits for the program that it has started. Its threads do not take part in the program's work, even if they poll while they wait.
//! Ranks are processes of one executable with the same launcher of parallel programs. They are recognised by their names and parents, because the
//! account does not contain the environment of each process.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Process, Thread};

/// Launchers of parallel programs, and the helpers with which they start ranks: Open MPI's, MPICH's (hydra), PRRTE's, Slurm's.
const PARALLEL: [&str; 11] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpiexec.mpich",
    "mpirun.mpich",
    "hydra_pmi_proxy",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "srun",
];

/// Commands that start one program and wait for it. `env`, `numactl` and `taskset` are not among them, because they become the program (exec).
const SERIAL: [&str; 9] = ["timeout", "time", "sh", "bash", "dash", "zsh", "ksh", "sudo", "setsid"];

/// Maximum length of a process's name in the kernel (TASK_COMM_LEN without the final zero).
const COMM_LEN: usize = 15;

fn is_one_of(names: &[&str], process: &Process) -> bool {
    names.iter().any(|name| name.as_bytes().iter().take(COMM_LEN).eq(process.comm.as_bytes()))
}

/// A command that starts one program and waits for it does at most this part of all work. A shell that does more is the program itself.
const LAUNCHERS_WORK: f64 = 0.1;

/// Returns the process ids of launchers: launchers of parallel programs, and commands that have started another process of the account and do hardly
/// any work.
pub(crate) fn launchers(processes: &[Process]) -> BTreeSet<u32> {
    let work_ns = |process: &Process| process.threads.iter().map(Thread::work_ns).fold(0, u64::saturating_add);
    let all_ns = processes.iter().map(work_ns).fold(0, u64::saturating_add);
    let parents: BTreeSet<u32> = processes.iter().map(|process| process.parent_pid).collect();
    let only_waits =
        |process: &Process| parents.contains(&process.pid) && work_ns(process) as f64 <= LAUNCHERS_WORK * all_ns as f64;
    let is_launcher =
        |process: &&Process| is_one_of(&PARALLEL, process) || (is_one_of(&SERIAL, process) && only_waits(process));
    processes.iter().filter(is_launcher).map(|process| process.pid).collect()
}

/// Ranks of a parallel program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks {
    /// The command that the user called to start them, such as `mpirun`.
    pub(crate) launcher: String,
    /// The process ids of the ranks.
    pub(crate) pids: BTreeSet<u32>,
}

/// Returns the ranks of a program: the processes that a launcher of parallel programs has started, if there are several and they have the same name.
/// If several launchers have done so, the one with the most ranks counts.
pub(crate) fn ranks(processes: &[Process]) -> Option<Ranks> {
    let by_pid: BTreeMap<u32, &Process> = processes.iter().map(|process| (process.pid, process)).collect();
    let mut groups: BTreeMap<(u32, &str), BTreeSet<u32>> = BTreeMap::new();
    for process in processes.iter().filter(|process| !is_one_of(&PARALLEL, process)) {
        if by_pid.get(&process.parent_pid).is_some_and(|parent| is_one_of(&PARALLEL, parent)) {
            groups.entry((process.parent_pid, &process.comm)).or_default().insert(process.pid);
        }
    }
    let ((parent, _), pids) =
        groups.into_iter().max_by_key(|(_, pids)| pids.len()).filter(|(_, pids)| pids.len() > 1)?;
    Some(Ranks { launcher: called(&by_pid, parent)?, pids })
}

/// Returns the command with which the user started the launcher `pid`: a launcher's helper is a child of that command.
fn called(by_pid: &BTreeMap<u32, &Process>, pid: u32) -> Option<String> {
    let mut launcher = by_pid.get(&pid)?;
    // In a damaged report, processes may be one another's parents.
    for _ in 0..by_pid.len() {
        let Some(caller) = by_pid.get(&launcher.parent_pid).filter(|caller| is_one_of(&PARALLEL, caller)) else {
            break;
        };
        launcher = caller;
    }
    Some(launcher.comm.clone())
}

/// Returns the command that started the program's ranks, even if there is only one; `None` if no launcher of parallel programs did.
pub(crate) fn parallel_launcher(processes: &[Process]) -> Option<String> {
    let by_pid: BTreeMap<u32, &Process> = processes.iter().map(|process| (process.pid, process)).collect();
    let started = processes.iter().filter(|process| !is_one_of(&PARALLEL, process));
    let mut parents = started.filter_map(|process| by_pid.get(&process.parent_pid));
    called(&by_pid, parents.find(|parent| is_one_of(&PARALLEL, parent))?.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent_pid: u32, comm: &str) -> Process {
        Process { pid, parent_pid, comm: comm.to_owned(), ..Process::default() }
    }

    #[test]
    fn a_launcher_has_started_somebody() {
        let processes = [
            process(1, 0, "timeout"),
            process(2, 1, "bash"),
            process(3, 2, "app"),
            process(4, 3, "sh"),
            process(5, 0, "mpirun"),
        ];
        assert_eq!(launchers(&processes), BTreeSet::from([1, 2, 5]));
        let mut script = [process(1, 0, "bash"), process(2, 1, "cat")];
        script[0].threads = vec![Thread { run_ns: 100, ..Thread::default() }];
        assert_eq!(launchers(&script), BTreeSet::new());
        script[1].threads = vec![Thread { run_ns: 900, ..Thread::default() }];
        assert_eq!(launchers(&script), BTreeSet::from([1]));
    }

    #[test]
    fn ranks_are_the_launchers_children_of_one_name() {
        let hydra = [
            process(1, 0, "mpiexec.hydra"),
            process(2, 1, "hydra_pmi_proxy"),
            process(3, 2, "lmp"),
            process(4, 2, "lmp"),
            process(5, 3, "sh"),
        ];
        let pids = BTreeSet::from([3, 4]);
        assert_eq!(ranks(&hydra), Some(Ranks { launcher: "mpiexec.hydra".into(), pids: pids.clone() }));
        let open_mpi = [process(1, 0, "mpirun"), process(3, 1, "lmp"), process(4, 1, "lmp"), process(5, 1, "orted")];
        assert_eq!(ranks(&open_mpi), Some(Ranks { launcher: "mpirun".into(), pids }));
        assert_eq!(ranks(&open_mpi[..2]), None);
        assert_eq!(parallel_launcher(&open_mpi[..2]), Some("mpirun".into()));
        assert_eq!(parallel_launcher(&hydra), Some("mpiexec.hydra".into()));
        let make = [process(1, 0, "make"), process(2, 1, "cc"), process(3, 1, "cc")];
        assert_eq!((ranks(&make), parallel_launcher(&make)), (None, None));
        // A damaged report: processes that are their own parents.
        let circle = [process(1, 1, "mpirun"), process(3, 1, "lmp"), process(4, 1, "lmp")];
        assert_eq!(ranks(&circle).map(|ranks| ranks.launcher), Some("mpirun".into()));
        let longer = [process(1, 2, "mpirun"), process(2, 1, "mpiexec"), process(3, 1, "lmp"), process(4, 1, "lmp")];
        assert!(ranks(&longer).is_some());
    }
}
