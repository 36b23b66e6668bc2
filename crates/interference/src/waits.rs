//! Charges the time in which preempted threads wait for a CPU to what runs there.
//!
//! From the switch-out on, the thread waits for the CPU that it left; if the kernel moves it, for the other one from then on. Each switch on that CPU
//! ends the time of one thread that runs instead. If it is not known what runs there (the kernel reports switches only from the moment on when a
//! followed thread waits), the time up to the next switch is charged to the thread that leaves at it.

use std::collections::HashMap;

use crate::cause::{Cause, NOT_SEEN};

/// A part of a wait: the waiting thread, from when to when, and what ran.
pub(crate) type Charged = (u32, u64, u64, Cause);

#[derive(Debug, Default)]
pub(crate) struct Waits {
    cpus: HashMap<u16, Running>,
    waiting: HashMap<u32, Waiting>,
    /// Names of threads, from the events that told them.
    names: HashMap<u32, String>,
}

/// What runs on a CPU.
#[derive(Debug)]
struct Running {
    tid: u32,
    /// The work item that a kernel thread executes, since it was told.
    work: Option<u64>,
}

#[derive(Debug)]
struct Waiting {
    cpu: u16,
    /// Up to here the wait is charged.
    since_ns: u64,
}

impl Waits {
    /// Thread `tid` has this name from now on. Returns whether it had none before.
    pub(crate) fn name(&mut self, tid: u32, comm: String) -> bool {
        self.names.insert(tid, comm).is_none()
    }

    /// A switch on `cpu` from thread `out` (`None`: not known) to thread `into`. Returns what the waiting threads are charged with.
    pub(crate) fn switch(&mut self, cpu: u16, t_ns: u64, out: Option<u32>, into: u32, out_waits: bool) -> Vec<Charged> {
        // A switch without an event may have come in between; then another thread leaves than the one that came.
        if let Some(out) = out
            && self.cpus.get(&cpu).is_none_or(|running| running.tid != out)
        {
            self.cpus.insert(cpu, Running { tid: out, work: None });
        }
        // A thread that leaves a CPU has run, even if no event told that it came.
        if let Some(out) = out {
            self.waiting.remove(&out);
        }
        let mut charged = self.charge(cpu, t_ns);
        // The thread that comes may have waited for another CPU, if the kernel moved it without an event.
        if let Some(waiting) = self.waiting.remove(&into)
            && waiting.cpu != cpu
        {
            charged.push((into, waiting.since_ns, t_ns, self.cause(cpu)));
        }
        if let Some(out) = out.filter(|_| out_waits) {
            self.waiting.insert(out, Waiting { cpu, since_ns: t_ns });
        }
        self.cpus.insert(cpu, Running { tid: into, work: None });
        charged
    }

    /// A kernel thread begins a work item on `cpu`.
    pub(crate) fn work(&mut self, cpu: u16, t_ns: u64, function: u64) -> Vec<Charged> {
        let Some(running) = self.cpus.get_mut(&cpu) else { return Vec::new() };
        // The time from the switch to the first work item belongs to that item: the kernel thread came because of it.
        let is_first = running.work.is_none();
        let charged = if is_first { Vec::new() } else { self.charge(cpu, t_ns) };
        if let Some(running) = self.cpus.get_mut(&cpu) {
            running.work = Some(function);
        }
        charged
    }

    /// The kernel moves the waiting thread `tid` to the queue of `cpu`.
    pub(crate) fn moved(&mut self, tid: u32, cpu: u16, t_ns: u64) -> Vec<Charged> {
        let Some(waiting) = self.waiting.get_mut(&tid) else { return Vec::new() };
        let (from, since_ns) = (waiting.cpu, waiting.since_ns);
        *waiting = Waiting { cpu, since_ns: t_ns };
        vec![(tid, since_ns, t_ns, self.cause(from))]
    }

    /// Events on `cpu` were lost: forgets what ran there, and who waited for it.
    pub(crate) fn forget(&mut self, cpu: u16) {
        self.cpus.remove(&cpu);
        self.waiting.retain(|_, waiting| waiting.cpu != cpu);
    }

    /// Charges all threads that wait for `cpu`, up to now.
    fn charge(&mut self, cpu: u16, t_ns: u64) -> Vec<Charged> {
        let cause = self.cause(cpu);
        let of_cpu = self.waiting.iter_mut().filter(|(_, waiting)| waiting.cpu == cpu);
        let charged = of_cpu.map(|(tid, waiting)| {
            let since_ns = waiting.since_ns;
            waiting.since_ns = t_ns.max(since_ns);
            (*tid, since_ns, t_ns, cause.clone())
        });
        let mut charged: Vec<Charged> = charged.filter(|(_, since_ns, until_ns, _)| until_ns > since_ns).collect();
        charged.sort_by_key(|(tid, ..)| *tid);
        charged
    }

    fn cause(&self, cpu: u16) -> Cause {
        match self.cpus.get(&cpu) {
            Some(Running { work: Some(function), .. }) => Cause::Work { function: *function },
            Some(Running { tid, .. }) => {
                let idle = || if *tid == 0 { "idle".to_owned() } else { String::new() };
                Cause::Thread { tid: *tid, comm: self.names.get(tid).cloned().unwrap_or_else(idle) }
            }
            None => Cause::Thread { tid: NOT_SEEN, comm: String::new() },
        }
    }
}
