//! Co-run programs: what each took from the others, and to which program the idle time belongs.
//!
//! Computed by replaying the trace events. At any time, the *running* programs are those whose first process still has a living thread. The time in
//! which a thread ran on a CPU belongs to the thread's program. Idle time is attributed to the running programs that *could have used* the CPU: those
//! whose affinity mask contains the CPU.
//!
//! - If one running program could have used the CPU, the idle time belongs to this program, which had no thread to run there.
//! - If several could have used it, the idle time belongs to all of them together: cox does not guess which of them should have used it.
//! - If none could have used it, the idle time belongs to no program, for example after the end of the only program that was allowed on the CPU.
//!
//! A thread waits from its waking, creation or preemption until it is switched in. During this time it is in the run queue of a CPU, and the time is
//! charged to the thread that holds this CPU. For a new thread, a recording contains the CPU of its creator, not the CPU in whose run queue it waits.
//! Its first wait is attributed to the creator's CPU until the thread migrates or is switched in. The parts of a [`Phase`] sum to its length times
//! the number of CPUs; a program's waits sum to its threads' wake delay and preempt wait.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::latency::MAX_PROGRAMS;
use wire::{Left, TraceEvent, What};

/// Largest number of programs.
pub const MOST: usize = MAX_PROGRAMS as usize;

/// A set of programs, with a bit for each.
type Programs = u16;

/// How co-run programs shared the CPUs, and how long they waited for one another. Programs are identified by their position on the command line,
/// from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoRun {
    /// Time from the first program's start to the last one's end.
    pub any_ran_ns: u64,
    /// Time while all programs ran.
    pub all_ran_ns: u64,
    /// Times during which the same set of programs ran; the largest sets first.
    pub phases: Vec<Phase>,
    /// How long each program's threads waited for a CPU, by the thread that held it; in the order of the programs.
    pub waited: Vec<Waited>,
}

/// The time during which one set of programs ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// The programs that ran.
    pub running: Vec<usize>,
    /// Total length.
    pub length_ns: u64,
    /// CPU time of each program, in the order of the programs; includes processes that a program left behind when it ended.
    pub run_ns: Vec<u64>,
    /// CPU time of all other threads.
    pub others_ns: u64,
    /// Idle time of the CPUs.
    pub idle: Vec<Idle>,
    /// Time before the first event of each CPU, summed over the CPUs.
    pub unseen_ns: u64,
}

/// Idle time of CPUs that the same running programs could have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    /// The running programs that were allowed on these CPUs.
    pub usable_by: Vec<usize>,
    /// Idle CPU time.
    pub idle_ns: u64,
}

/// Waiting of a program's threads for CPUs, as thread time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// Affinity mask of the program as a list, when last read; empty if not known.
    pub cpus: String,
    /// Time waited behind threads of each program, its own included, in the order of the programs.
    pub behind_ns: Vec<u64>,
    /// Time waited behind all other threads.
    pub behind_others_ns: u64,
    /// Time waited on an idle CPU that was leaving its idle state.
    pub behind_idle_ns: u64,
    /// Time waited while the holder of the CPU was unknown.
    pub unseen_ns: u64,
}

/// A co-run program, as far as this module needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Process id of the program's first process.
    pub root_pid: u32,
    /// Numbers of the CPUs that the program may use; `None` for all.
    pub cpus: Option<Vec<u32>>,
    /// The CPUs that the program may use, as a text such as `0-3,8`.
    pub named: String,
}

/// The holder of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    Unseen,
    Idle,
    Others,
    Program(usize),
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    since_ns: u64,
    holder: Holder,
    /// Number of waiting threads in this CPU's run queue, for each program.
    waiting: Vec<u64>,
    allowed: Programs,
}

/// State of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Run,
    /// Running, and already woken again, so that it will not block at its next switch-out.
    RunWoken,
    Wait,
    Block,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    program: usize,
    /// True for a thread of the program's first process.
    is_first: bool,
    cpu: u16,
    does: Does,
}

/// Computes from trace events how co-run programs shared the CPUs; see the module's header.
#[derive(Debug)]
pub struct Player {
    programs: Vec<Program>,
    cpus: Vec<Cpu>,
    threads: HashMap<u32, Thread>,
    /// Index of the program of each process.
    processes: HashMap<u32, usize>,
    /// Number of living threads of each program's first process.
    alive: Vec<u64>,
    running: Programs,
    since_ns: u64,
    /// The phases; the key is the set of running programs. The phases' idle times are in `idle_ns`.
    phases: BTreeMap<Programs, Phase>,
    /// Idle CPU time. The first part of the key is the set of programs that were running (see the module's header). The second part contains those of
    /// them whose affinity mask contains the idle CPU.
    idle_ns: BTreeMap<(Programs, Programs), u64>,
    waited: Vec<Waited>,
}

impl Player {
    /// Prepares to replay the events of the first [`MOST`] of these programs, on a machine with CPUs 0 to `cpus` − 1, from `start_ns` on.
    #[must_use]
    pub fn new(mut programs: Vec<Program>, cpus: u32, start_ns: u64) -> Player {
        programs.truncate(MOST);
        let count = programs.len();
        let allowed = |cpu: u32| {
            let may = |program: &Program| program.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
            programs.iter().enumerate().filter(|(_, program)| may(program)).fold(0, |set, (at, _)| set | 1 << at)
        };
        let cpu = |number| Cpu {
            since_ns: start_ns,
            holder: Holder::Unseen,
            waiting: vec![0; count],
            allowed: allowed(number),
        };
        Player {
            cpus: (0..cpus).map(cpu).collect(),
            threads: HashMap::new(),
            processes: programs.iter().enumerate().rev().map(|(at, program)| (program.root_pid, at)).collect(),
            alive: vec![0; count],
            running: 0,
            since_ns: start_ns,
            phases: BTreeMap::new(),
            idle_ns: BTreeMap::new(),
            waited: programs
                .iter()
                .map(|program| Waited { cpus: program.named.clone(), behind_ns: vec![0; count], ..Waited::default() })
                .collect(),
            programs,
        }
    }

    /// Processes the next event; events must be in order of time.
    pub fn take(&mut self, trace_event: &TraceEvent) {
        let t_ns = trace_event.t_ns;
        let cpu = trace_event.cpu;
        match trace_event.what() {
            Some(What::Switch { out, left, into, .. }) => {
                self.book(cpu, t_ns);
                if let Some(thread) = self.threads.get_mut(&out) {
                    let woken = thread.does == Does::RunWoken;
                    thread.cpu = cpu;
                    match left {
                        Left::Dead => self.gone(out, t_ns),
                        Left::Preempted { .. } => self.does(out, Does::Wait, t_ns),
                        Left::Blocked(_) if woken => self.does(out, Does::Wait, t_ns),
                        Left::Blocked(_) => self.does(out, Does::Block, t_ns),
                    }
                }
                self.comes(into, cpu, t_ns);
            }
            Some(What::Arrived { tid }) => {
                self.book(cpu, t_ns);
                self.comes(tid, cpu, t_ns);
            }
            Some(What::Waking { tid, .. }) => match self.threads.get(&tid).map(|thread| thread.does) {
                Some(Does::Block) => self.does(tid, Does::Wait, t_ns),
                Some(Does::Run) => self.does(tid, Does::RunWoken, t_ns),
                _ => {}
            },
            Some(What::Migration { tid, .. }) => {
                let Some(thread) = self.threads.get(&tid).copied() else { return };
                let waits = thread.does == Does::Wait;
                if waits {
                    self.queue(thread, t_ns, -1);
                }
                self.threads.insert(tid, Thread { cpu, ..thread });
                if waits {
                    self.queue(Thread { cpu, ..thread }, t_ns, 1);
                }
            }
            Some(What::Born { tid, tgid, parent_tgid }) => self.born(tid, tgid, parent_tgid, cpu, t_ns),
            Some(What::Exec { tid, caller }) if tid != caller => {
                // The calling thread continues under the process id; the thread that had this id has ended.
                if let Some(thread) = self.threads.remove(&caller) {
                    self.gone(tid, t_ns);
                    self.threads.insert(tid, thread);
                }
            }
            _ => {}
        }
    }

    /// Returns the figures for the time up to `end_ns`.
    #[must_use]
    pub fn finish(mut self, end_ns: u64) -> CoRun {
        self.runs(self.running, end_ns);
        for ((running, usable), idle_ns) in self.idle_ns {
            if let Some(phase) = self.phases.get_mut(&running) {
                phase.idle.push(Idle { usable_by: members(usable), idle_ns });
            }
        }
        let any_ran = |phase: &Phase| !phase.running.is_empty() && phase.length_ns > 0;
        let mut phases: Vec<Phase> = self.phases.into_values().filter(any_ran).collect();
        phases.sort_by(|a, b| b.running.len().cmp(&a.running.len()).then_with(|| a.running.cmp(&b.running)));
        let all_ran = phases.iter().filter(|phase| phase.running.len() == self.programs.len());
        CoRun {
            any_ran_ns: phases.iter().map(|phase| phase.length_ns).sum(),
            all_ran_ns: all_ran.map(|phase| phase.length_ns).sum(),
            phases,
            waited: self.waited,
        }
    }

    fn born(&mut self, tid: u32, tgid: u32, parent_tgid: u32, cpu: u16, t_ns: u64) {
        // The parent process is checked first, because the new process's id may have belonged to another program earlier.
        let of_parent = self.processes.get(&parent_tgid);
        let Some(program) = of_parent.or_else(|| self.processes.get(&tgid)).copied() else { return };
        let is_first = tgid == self.programs[program].root_pid && (of_parent.is_none() || parent_tgid == tgid);
        self.processes.insert(tgid, program);
        // If a thread with this id is still known, its end was not seen, and the kernel has reused the id.
        self.gone(tid, t_ns);
        if is_first {
            self.alive[program] += 1;
            self.runs(self.running | 1 << program, t_ns);
        }
        let thread = Thread { program, is_first, cpu, does: Does::Block };
        self.threads.insert(tid, thread);
        self.does(tid, Does::Wait, t_ns);
    }

    fn gone(&mut self, tid: u32, t_ns: u64) {
        self.does(tid, Does::Block, t_ns);
        let Some(Thread { program, is_first, .. }) = self.threads.remove(&tid) else { return };
        if is_first {
            self.alive[program] -= 1;
            if self.alive[program] == 0 {
                self.runs(self.running & !(1 << program), t_ns);
            }
        }
    }

    fn comes(&mut self, tid: u32, cpu: u16, t_ns: u64) {
        self.does(tid, Does::Run, t_ns);
        let holder = match (tid, self.threads.get_mut(&tid)) {
            (0, _) => Holder::Idle,
            (_, None) => Holder::Others,
            (_, Some(thread)) => {
                thread.cpu = cpu;
                Holder::Program(thread.program)
            }
        };
        if let Some(cpu) = self.cpus.get_mut(usize::from(cpu)) {
            cpu.holder = holder;
        }
    }

    /// Changes the state of a tracked thread.
    fn does(&mut self, tid: u32, what: Does, t_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = std::mem::replace(&mut thread.does, what);
        let thread = *thread;
        if (before == Does::Wait) != (what == Does::Wait) {
            self.queue(thread, t_ns, if what == Does::Wait { 1 } else { -1 });
        }
    }

    /// Changes the number of waiting threads on the thread's CPU by `step`.
    fn queue(&mut self, thread: Thread, t_ns: u64, step: i64) {
        self.book(thread.cpu, t_ns);
        if let Some(cpu) = self.cpus.get_mut(usize::from(thread.cpu)) {
            let waiting = &mut cpu.waiting[thread.program];
            *waiting = waiting.saturating_add_signed(step);
        }
    }

    /// Begins a phase with another set of running programs. The time of all CPUs until now is attributed to the previous set.
    fn runs(&mut self, running: Programs, t_ns: u64) {
        (0..self.cpus.len()).for_each(|cpu| self.book(cpu as u16, t_ns));
        let length_ns = t_ns.saturating_sub(self.since_ns);
        self.phase().length_ns += length_ns;
        self.since_ns = self.since_ns.max(t_ns);
        self.running = running;
    }

    fn phase(&mut self) -> &mut Phase {
        let (running, count) = (self.running, self.programs.len());
        let new = || Phase { running: members(running), run_ns: vec![0; count], ..Phase::default() };
        self.phases.entry(running).or_insert_with(new)
    }

    /// Attributes the CPU's time since the previous call, up to `t_ns`: to the program that ran, to other threads, or to idle time; and to the
    /// threads that waited for the CPU.
    fn book(&mut self, number: u16, t_ns: u64) {
        let Some(cpu) = self.cpus.get_mut(usize::from(number)) else { return };
        let ns = t_ns.saturating_sub(cpu.since_ns);
        if ns == 0 {
            return;
        }
        cpu.since_ns = t_ns;
        let holder = cpu.holder;
        for (waited, waiting) in self.waited.iter_mut().zip(&cpu.waiting) {
            let sum = match holder {
                Holder::Unseen => &mut waited.unseen_ns,
                Holder::Idle => &mut waited.behind_idle_ns,
                Holder::Others => &mut waited.behind_others_ns,
                Holder::Program(program) => &mut waited.behind_ns[program],
            };
            *sum += ns * waiting;
        }
        let usable = cpu.allowed & self.running;
        match holder {
            Holder::Unseen => self.phase().unseen_ns += ns,
            Holder::Idle => *self.idle_ns.entry((self.running, usable)).or_default() += ns,
            Holder::Others => self.phase().others_ns += ns,
            Holder::Program(program) => self.phase().run_ns[program] += ns,
        }
    }
}

fn members(set: Programs) -> Vec<usize> {
    (0..MOST).filter(|at| set >> at & 1 != 0).collect()
}

#[cfg(test)]
mod tests;
