//! Programs that only start others, and the ranks that they start.
//!
//! A launcher waits for the program that it has started. Its threads do not take part in the program's work, even if they poll while they wait.
//! Ranks are processes of one executable with the same launcher of parallel programs. They are recognised by their names and parents, because the
//! account does not contain the environment of each process.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Process, Thread};

/// Launchers of parallel programs: Open MPI's, MPICH's (hydra), PRRTE's. Slurm's `srun` is not among them, because ranks are not its descendants.
pub(crate) const PARALLEL: [&str; 9] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpiexec.mpich",
    "mpirun.mpich",
    "mpiexec.openmpi",
    "mpirun.openmpi",
    "orterun",
    "prterun",
];

/// The helpers with which these launchers, and Slurm's, start ranks. Users do not call them.
const HELPERS: [&str; 4] = ["hydra_pmi_proxy", "orted", "prted", "slurmstepd"];

/// Commands that start one program and wait for it. `env`, `numactl` and `taskset` are not among them, because they become the program (exec).
const SERIAL: [&str; 9] = ["timeout", "time", "sh", "bash", "dash", "zsh", "ksh", "sudo", "setsid"];

/// Maximum length of a process's name in the kernel (TASK_COMM_LEN without the final zero).
const COMM_LEN: usize = 15;

fn is_one_of(names: &[&str], process: &Process) -> bool {
    names.iter().any(|name| name.as_bytes().iter().take(COMM_LEN).eq(process.comm.as_bytes()))
}

fn is_parallel(process: &Process) -> bool {
    is_one_of(&PARALLEL, process) || is_one_of(&HELPERS, process)
}

/// A command that starts one program and waits for it does at most this part of all work. A shell that does more is the program itself.
const LAUNCHERS_WORK: f64 = 0.1;

/// Returns the process ids of launchers: launchers of parallel programs, and commands that have started another process of the account and do hardly
/// any work.
fn launchers(processes: &[Process]) -> BTreeSet<u32> {
    let work_ns = |process: &Process| process.threads.iter().map(Thread::work_ns).fold(0, u64::saturating_add);
    let all_ns = processes.iter().map(work_ns).fold(0, u64::saturating_add);
    let parents: BTreeSet<u32> = processes.iter().map(|process| process.parent_pid).collect();
    let only_waits =
        |process: &Process| parents.contains(&process.pid) && work_ns(process) as f64 <= LAUNCHERS_WORK * all_ns as f64;
    let is_launcher = |process: &&Process| is_parallel(process) || (is_one_of(&SERIAL, process) && only_waits(process));
    processes.iter().filter(is_launcher).map(|process| process.pid).collect()
}

/// Returns all processes but the launchers.
pub(crate) fn without_launchers(processes: &[Process]) -> impl Iterator<Item = &Process> {
    let launchers = launchers(processes);
    processes.iter().filter(move |process| !launchers.contains(&process.pid))
}

/// Ranks of a parallel program on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks {
    /// The command that the user called to start them, such as `mpirun`; `None` if it is not in the account.
    pub(crate) launcher: Option<String>,
    /// The process ids of the ranks; one if there is only one.
    pub(crate) pids: BTreeSet<u32>,
}

/// Returns the ranks of a program: the processes that a launcher of parallel programs has started, perhaps by a script or another command that waits
/// for them, and that have the same name. If there are several such groups, the largest counts.
pub(crate) fn ranks(processes: &[Process]) -> Option<Ranks> {
    let by_pid: BTreeMap<u32, &Process> = processes.iter().map(|process| (process.pid, process)).collect();
    let launchers = launchers(processes);
    let mut groups: BTreeMap<(u32, &str), BTreeSet<u32>> = BTreeMap::new();
    for process in processes.iter().filter(|process| !launchers.contains(&process.pid)) {
        // In a damaged report, processes may be one another's parents.
        let ancestors =
            std::iter::successors(by_pid.get(&process.parent_pid), |launcher| by_pid.get(&launcher.parent_pid));
        let mut ancestors = ancestors.take(processes.len()).take_while(|ancestor| launchers.contains(&ancestor.pid));
        if let Some(launcher) = ancestors.find(|ancestor| is_parallel(ancestor)) {
            groups.entry((launcher.pid, &process.comm)).or_default().insert(process.pid);
        }
    }
    let ((launcher, _), pids) = groups.into_iter().max_by_key(|(_, pids)| pids.len())?;
    Some(Ranks { launcher: called(&by_pid, launcher), pids })
}

/// Returns the command with which the user started the launcher `pid`: a launcher's helper is a child of that command.
fn called(by_pid: &BTreeMap<u32, &Process>, pid: u32) -> Option<String> {
    let ancestors = std::iter::successors(by_pid.get(&pid), |launcher| by_pid.get(&launcher.parent_pid));
    let parallel = ancestors.take(by_pid.len()).take_while(|ancestor| is_parallel(ancestor));
    let command = parallel.filter(|ancestor| is_one_of(&PARALLEL, ancestor)).last()?;
    Some(command.comm.clone())
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

    fn found(processes: &[Process]) -> Option<(Option<String>, Vec<u32>)> {
        ranks(processes).map(|ranks| (ranks.launcher, ranks.pids.into_iter().collect()))
    }

    #[test]
    fn ranks_are_what_a_launcher_has_started_under_one_name() {
        let hydra = [
            process(1, 0, "mpiexec.hydra"),
            process(2, 1, "hydra_pmi_proxy"),
            process(3, 2, "lmp"),
            process(4, 2, "lmp"),
            process(5, 3, "sh"),
        ];
        assert_eq!(found(&hydra), Some((Some("mpiexec.hydra".into()), vec![3, 4])));
        assert_eq!(found(&hydra[1..]), Some((None, vec![3, 4])), "nobody calls the proxy");
        let open_mpi = [process(1, 0, "mpirun"), process(3, 1, "lmp"), process(4, 1, "lmp"), process(5, 1, "orted")];
        assert_eq!(found(&open_mpi), Some((Some("mpirun".into()), vec![3, 4])));
        assert_eq!(found(&open_mpi[..2]), Some((Some("mpirun".into()), vec![3])));
        let make = [process(1, 0, "make"), process(2, 1, "cc"), process(3, 1, "cc")];
        assert_eq!(found(&make), None);
    }

    #[test]
    fn scripts_between_launcher_and_ranks_are_launchers() {
        let processes = [
            process(1, 0, "mpirun.openmpi"),
            process(2, 1, "bash"),
            process(3, 1, "bash"),
            process(4, 2, "lmp"),
            process(5, 3, "timeout"),
            process(6, 5, "lmp"),
        ];
        assert_eq!(found(&processes), Some((Some("mpirun.openmpi".into()), vec![4, 6])));
    }

    #[test]
    fn processes_may_be_their_own_parents() {
        let circle = [process(1, 1, "mpirun"), process(3, 1, "lmp"), process(4, 1, "lmp")];
        assert_eq!(found(&circle), Some((Some("mpirun".into()), vec![3, 4])));
        let longer = [process(1, 2, "mpirun"), process(2, 1, "mpiexec"), process(3, 1, "lmp"), process(4, 4, "lmp")];
        assert!(found(&longer).is_some());
    }
}
