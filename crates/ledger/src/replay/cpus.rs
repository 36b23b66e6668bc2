//! Which thread runs on which CPU, according to the events.
//!
//! A CPU runs one thread at a time. If events contradict that, some were lost or damaged, and the time in question is unknown:
//!
//! | event                                                  | conclusion                                                           |
//! |--------------------------------------------------------|----------------------------------------------------------------------|
//! | B is switched in on a CPU that A has                   | A has left it at an unknown time: unknown since A's switch-in        |
//! | another thread than A, or none, is switched out on a CPU that A has | the same                                                |
//! | A is switched out on a CPU, but was switched in on another one | A left the other CPU and came to this one: unknown since A's switch-in |
//! | A is switched in before another thread's stint on that CPU ends | late or damaged event: unknown until the end of that stint  |
//!
//! Therefore no two stints on one CPU overlap, whatever a recording claims, and the run time of all threads together is at most CPUs × window.

/// State of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The thread that was switched in and has not left, if known.
    holder: Option<u32>,
    /// The CPU's time up to this point is already attributed to threads. No later event may attribute it to another thread.
    given_until_ns: u64,
}

/// All CPUs, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpus(Vec<Cpu>);

impl Cpus {
    fn at(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if self.0.len() <= at {
            self.0.resize(at + 1, Cpu::default());
        }
        &mut self.0[at]
    }

    /// Returns the thread that runs on this CPU according to the events so far, unless it is `tid`.
    pub(super) fn held_by_other(&mut self, cpu: u16, tid: u32) -> Option<u32> {
        self.at(cpu).holder.filter(|holder| *holder != tid)
    }

    /// Records that a thread was switched in on a CPU.
    pub(super) fn come(&mut self, cpu: u16, tid: u32) {
        self.at(cpu).holder = Some(tid);
    }

    /// Records that a thread no longer runs on the CPU. Does not attribute any time to the thread.
    pub(super) fn gone(&mut self, cpu: u16, tid: u32) {
        let cpu = self.at(cpu);
        cpu.holder = cpu.holder.filter(|holder| *holder != tid);
    }

    /// Returns the time up to which the CPU's time is already attributed to threads.
    pub(super) fn given_until_ns(&mut self, cpu: u16) -> u64 {
        self.at(cpu).given_until_ns
    }

    /// Records that the CPU's time up to `until_ns` is now attributed to threads.
    pub(super) fn give(&mut self, cpu: u16, until_ns: u64) {
        let cpu = self.at(cpu);
        cpu.given_until_ns = cpu.given_until_ns.max(until_ns);
    }
}
