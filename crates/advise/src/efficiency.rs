//! How well a program used its threads or CPUs, according to the metrics of POP (Performance Optimisation and Productivity, a centre of excellence):
//! "POP Standard Metrics for Parallel Performance Analysis", <https://pop-coe.eu/node/69>.
//!
//! POP compares the *useful* time of processes that have a core each: the time in which they compute. Here useful time is work: run time without
//! spinning. If there is a CPU for each worker thread of the program, the worker threads are POP's processes:
//!
//! - load balance = mean work / largest work;
//! - serialisation = largest work / wall time. POP calls this communication efficiency, and divides it into serialisation and the transfer of
//!   messages. Threads of one machine transfer no messages, so only serialisation is left. If the program's processes exchange messages, waiting for
//!   them lowers this metric. So does waiting for a CPU;
//! - parallel efficiency = load balance × serialisation = work of the worker threads / (worker threads × wall time).
//!
//! If there are more worker threads than CPUs, not all can be useful at the same time. Then parallel efficiency is the work of all threads / (CPUs ×
//! wall time), and the other two metrics have no meaning. There are no metrics if the program has only one worker thread, if there are several
//! programs, or if the backend does not see spinning.

use crate::evidence::Evidence;

/// Parallel efficiency, and whether it is computed for worker threads or for CPUs. Each metric is from 0 to 1; 1 is best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// Parallel efficiency.
    pub parallel: f64,
    /// The resource for which parallel efficiency is computed.
    pub of: Base,
}

/// The resource for which parallel efficiency is computed: worker threads or CPUs. Parallel efficiency is the part of it that did useful work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Base {
    /// The program's worker threads, if there is a CPU for each of them.
    Threads {
        /// Number of worker threads.
        threads: usize,
        /// Load balance.
        balance: f64,
        /// Serialisation.
        serialisation: f64,
    },
    /// The CPUs that the program may use, if there are more worker threads than CPUs. The value is the number of CPUs.
    Cpus(usize),
}

impl Efficiency {
    /// Computes the metrics of an account's program; `None` if there are no metrics (see the module), for example for one worker thread.
    pub fn of(evidence: &Evidence<'_>) -> Option<Efficiency> {
        let is_one = evidence.account.programs.len() == 1;
        let (threads, cpus) = (evidence.workers.len(), evidence.cpus);
        if !is_one || !evidence.sees.spin || threads < 2 || evidence.concurrency.wall_ns == 0 {
            return None;
        }
        // If some threads ended while the ring buffer was full, only the sum of their times is known, and worker threads may be missing here.
        // Parallel efficiency is then computed for CPUs.
        if threads as f64 > cpus || evidence.account.lost.finals > 0 {
            let parallel = (evidence.sums.work_ns() as f64 / (cpus * evidence.wall_ns)).min(1.0);
            return Some(Efficiency { parallel, of: Base::Cpus(cpus as usize) });
        }
        let balance = evidence.inequality().recip();
        let serialisation = (evidence.largest_work_ns() / evidence.wall_ns).min(1.0);
        Some(Efficiency { parallel: balance * serialisation, of: Base::Threads { threads, balance, serialisation } })
    }

    /// Returns load balance and serialisation.
    pub fn parts(&self) -> Option<(f64, f64)> {
        match self.of {
            Base::Threads { balance, serialisation, .. } => Some((balance, serialisation)),
            Base::Cpus(_) => None,
        }
    }
}
