//! Programs side by side on one machine: what each took from the others, and whose the idle time was.
//!
//! Played from the moments of a trace. At each time the *running* programs are those whose first process has a thread. A CPU's time is divided by
//! who ran on it; if nobody did, by which of the running programs *could have used it*: those that may run there. So idle time
//!
//! - that one running program could have used is that program's: it had no thread for it,
//! - that several could have used is theirs together: which of them should have is not guessed,
//! - that none could have used is nobody's, as behind the end of the only program that was allowed there.
//!
//! A thread waits from when it is woken, born or preempted until it is switched in, and who holds the CPU where it is queued meanwhile takes that time from
//! it. Of a newborn a recording tells where its creator ran, and not where it was queued: its first wait is taken to be there, until it is moved or comes
//! to a CPU. Parts of a [`Phase`] sum to its length times CPUs; what a program waited for sums to its threads' wake delay and preempt wait.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Left, Moment, What};

/// Programs that can be told apart.
pub const MOST: usize = 16;

/// A set of programs, a bit for each.
type Programs = u16;

/// What programs that ran side by side took from one another. Programs by their place on the command line, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoRun {
    /// From the first program's start to the last one's end.
    pub any_ran_ns: u64,
    /// While all of them ran.
    pub all_ran_ns: u64,
    /// Times during which the same programs ran; in order of their first programs.
    pub phases: Vec<Phase>,
    /// What each program waited for, in order.
    pub waited: Vec<Waited>,
}

/// While these programs ran, and no others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// Which.
    pub running: Vec<usize>,
    /// How long, in all.
    pub length_ns: u64,
    /// CPU time of each program, by its place; also of what one has left behind that has ended.
    pub run_ns: Vec<u64>,
    /// CPU time of everybody else.
    pub others_ns: u64,
    /// CPUs without a thread.
    pub idle: Vec<Idle>,
    /// CPUs of which nothing was seen yet.
    pub unseen_ns: u64,
}

/// Idle time of CPUs that the same running programs could have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    /// Which of those that ran were allowed there.
    pub usable_by: Vec<usize>,
    /// CPU time.
    pub idle_ns: u64,
}

/// What a program's threads waited for, as thread-time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// CPUs that it was allowed on when last looked at; empty: not known.
    pub cpus: String,
    /// Behind threads of each program, by its place; of its own too.
    pub behind_ns: Vec<u64>,
    /// Behind everybody else.
    pub behind_others_ns: u64,
    /// On a CPU that was idle: it was waking up.
    pub behind_idle_ns: u64,
    /// Where it is not known who held the CPU.
    pub unseen_ns: u64,
}

/// A program, as far as this is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its first process.
    pub root_pid: u32,
    /// CPUs that it may use, by number; `None`: all.
    pub cpus: Option<Vec<u32>>,
    /// The same as a list.
    pub named: String,
}

/// Who has a CPU.
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
    /// Threads of each program that wait here.
    waiting: Vec<u64>,
    allowed: Programs,
}

/// What a thread does, where it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Run,
    /// Runs, and was woken before it has left: it will not be blocked.
    RunWoken,
    Wait,
    Block,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    program: usize,
    /// Of the program's first process.
    is_first: bool,
    cpu: u16,
    does: Does,
}

/// Sums of one phase.
#[derive(Clone, Debug, Default)]
struct Sums {
    length_ns: u64,
    run_ns: Vec<u64>,
    others_ns: u64,
    idle_ns: BTreeMap<Programs, u64>,
    unseen_ns: u64,
}

/// Plays moments. See the module's text.
#[derive(Debug)]
pub struct Player {
    programs: Vec<Program>,
    cpus: Vec<Cpu>,
    threads: HashMap<u32, Thread>,
    /// Of which program each process is.
    processes: HashMap<u32, usize>,
    /// Living threads of programs' first processes.
    alive: Vec<u64>,
    running: Programs,
    since_ns: u64,
    phases: BTreeMap<Programs, Sums>,
    waited: Vec<Waited>,
}

impl Player {
    /// For the first [`MOST`] of these programs, on a machine with CPUs up to `cpus` (excluded), from `start_ns` on.
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
            waited: programs
                .iter()
                .map(|program| Waited { cpus: program.named.clone(), behind_ns: vec![0; count], ..Waited::default() })
                .collect(),
            programs,
        }
    }

    /// Takes the next moment, in order of time.
    pub fn take(&mut self, moment: &Moment) {
        let t_ns = moment.t_ns;
        let cpu = moment.cpu;
        match moment.what() {
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
                // The thread that asked goes on under the process's id, whose own thread has ended.
                if let Some(thread) = self.threads.remove(&caller) {
                    self.gone(tid, t_ns);
                    self.threads.insert(tid, thread);
                }
            }
            _ => {}
        }
    }

    /// What it was, until `end_ns`.
    #[must_use]
    pub fn finish(mut self, end_ns: u64) -> CoRun {
        self.runs(self.running, end_ns);
        let all = (1u32 << self.programs.len()).wrapping_sub(1) as Programs;
        let told = |(running, sums): &(Programs, Sums)| *running != 0 && sums.length_ns > 0;
        let phases: Vec<(Programs, Sums)> = self.phases.into_iter().filter(told).collect();
        let length = |of: &dyn Fn(Programs) -> bool| -> u64 {
            phases.iter().filter(|(running, _)| of(*running)).map(|(_, sums)| sums.length_ns).sum()
        };
        let mut told: Vec<Phase> = phases.iter().map(|(running, sums)| phase(*running, sums)).collect();
        told.sort_by(|a, b| b.running.len().cmp(&a.running.len()).then_with(|| a.running.cmp(&b.running)));
        CoRun {
            any_ran_ns: length(&|_| true),
            all_ran_ns: length(&|running| running == all),
            phases: told,
            waited: self.waited,
        }
    }

    fn born(&mut self, tid: u32, tgid: u32, parent_tgid: u32, cpu: u16, t_ns: u64) {
        // First whose child it is: an id may have been another program's once.
        let of_parent = self.processes.get(&parent_tgid);
        let Some(program) = of_parent.or_else(|| self.processes.get(&tgid)).copied() else { return };
        let is_first = tgid == self.programs[program].root_pid && (of_parent.is_none() || parent_tgid == tgid);
        self.processes.insert(tgid, program);
        // An id that is used again, and whose end was not told.
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

    /// A thread of ours does something else from here on.
    fn does(&mut self, tid: u32, what: Does, t_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let before = std::mem::replace(&mut thread.does, what);
        let thread = *thread;
        if (before == Does::Wait) != (what == Does::Wait) {
            self.queue(thread, t_ns, if what == Does::Wait { 1 } else { -1 });
        }
    }

    /// One more, or one fewer, waits where the thread is queued.
    fn queue(&mut self, thread: Thread, t_ns: u64, step: i64) {
        self.book(thread.cpu, t_ns);
        if let Some(cpu) = self.cpus.get_mut(usize::from(thread.cpu)) {
            let waiting = &mut cpu.waiting[thread.program];
            *waiting = waiting.saturating_add_signed(step);
        }
    }

    /// Other programs run from here on: what all CPUs did until now belongs to those that ran.
    fn runs(&mut self, running: Programs, t_ns: u64) {
        (0..self.cpus.len()).for_each(|cpu| self.book(cpu as u16, t_ns));
        let length_ns = t_ns.saturating_sub(self.since_ns);
        self.sums().length_ns += length_ns;
        self.since_ns = self.since_ns.max(t_ns);
        self.running = running;
    }

    fn sums(&mut self) -> &mut Sums {
        let count = self.programs.len();
        self.phases.entry(self.running).or_insert_with(|| Sums { run_ns: vec![0; count], ..Sums::default() })
    }

    /// What a CPU did until `t_ns`.
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
        let sums = self.sums();
        match holder {
            Holder::Unseen => sums.unseen_ns += ns,
            Holder::Idle => *sums.idle_ns.entry(usable).or_default() += ns,
            Holder::Others => sums.others_ns += ns,
            Holder::Program(program) => sums.run_ns[program] += ns,
        }
    }
}

fn members(set: Programs) -> Vec<usize> {
    (0..MOST).filter(|at| set >> at & 1 != 0).collect()
}

fn phase(running: Programs, sums: &Sums) -> Phase {
    Phase {
        running: members(running),
        length_ns: sums.length_ns,
        run_ns: sums.run_ns.clone(),
        others_ns: sums.others_ns,
        idle: sums.idle_ns.iter().map(|(set, ns)| Idle { usable_by: members(*set), idle_ns: *ns }).collect(),
        unseen_ns: sums.unseen_ns,
    }
}

#[cfg(test)]
mod tests;
