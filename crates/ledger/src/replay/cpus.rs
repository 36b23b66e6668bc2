//! Which thread has which CPU, as far as events tell.
//!
//! A CPU runs one thread at a time. Where events say otherwise, some were lost or damaged, and the time in question is unknown:
//!
//! | what is told                                           | what it proves                                                       |
//! |--------------------------------------------------------|----------------------------------------------------------------------|
//! | B comes to a CPU that A has                            | A has left it, nobody knows when: unknown since A came               |
//! | B (or nobody, or a thread of others) leaves a CPU that A has | the same                                                       |
//! | A leaves a CPU, and has come to another one            | it has left that one, and come to this one: unknown since A came     |
//! | A comes to a CPU before another one's stint there ends | late or damaged: unknown until that end                              |
//!
//! So no two stints on one CPU overlap, whatever a recording claims: run time of all threads together is at most CPUs × window.

/// One CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// The thread that has come to it and not left, where one is known.
    holder: Option<u32>,
    /// Until then its time has been given to threads.
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

    /// The thread that has this CPU, unless it is `tid`.
    pub(super) fn held_by_other(&mut self, cpu: u16, tid: u32) -> Option<u32> {
        self.at(cpu).holder.filter(|holder| *holder != tid)
    }

    /// A thread has come to a CPU.
    pub(super) fn come(&mut self, cpu: u16, tid: u32) {
        self.at(cpu).holder = Some(tid);
    }

    /// It has it no longer; nothing is said of the time.
    pub(super) fn gone(&mut self, cpu: u16, tid: u32) {
        let cpu = self.at(cpu);
        cpu.holder = cpu.holder.filter(|holder| *holder != tid);
    }

    /// Until when time of a CPU has been given to threads.
    pub(super) fn given_until_ns(&mut self, cpu: u16) -> u64 {
        self.at(cpu).given_until_ns
    }

    /// A thread has run there until then.
    pub(super) fn give(&mut self, cpu: u16, until_ns: u64) {
        let cpu = self.at(cpu);
        cpu.given_until_ns = cpu.given_until_ns.max(until_ns);
    }
}
