//! A simulator that drives the schedules of this crate as a program would: threads, CPUs with different speeds, and
//! co-runners that take CPUs away. The same plans, statistics and weights decide, so a change of a policy shows here.
//!
//!  1. [`cpus`]: when the co-runners have each CPU.
//!  2. [`load`]: the loop: iterations, their times, instances.
//!  3. `team`: the threads of one instance ask in the order of simulated time, and execute their chunks.
//!  4. [`simulate`]: all instances, each begins when the one before has ended.
//!
//! Each thread is bound to its own CPU. A thread without CPU cannot ask. A request takes a constant time and does not
//! make other requests wait.

pub mod cpus;
pub mod load;
mod team;

use self::cpus::Machine;
use self::load::Load;
use self::team::{Instance, Member};
use crate::blocks::Blocks;
use crate::history::{self, History};
use crate::invalid::Invalid;
use crate::kind::Kind;
use crate::plan::Plan;
use crate::schedule::Schedule;
use crate::statistics::Timing;

/// What is simulated beside the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// The time that adaptive schedules use.
    pub timing: Timing,
    /// The length of a slice, nanoseconds, if threads stop at the end of a loop ([`crate::last_slice`]).
    pub slice_ns: Option<f64>,
}

/// How long the loops took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Sum over all instances, nanoseconds.
    pub time_ns: f64,
    /// The work divided by the sum of all speeds, nanoseconds: without requests, imbalance and co-runners.
    pub ideal_ns: f64,
}

impl Outcome {
    /// Returns the time as a multiple of the ideal time.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.time_ns / self.ideal_ns
    }
}

/// Simulates all instances of a loop with one thread on each CPU.
pub fn simulate(schedule: &Schedule, load: &Load, machine: &Machine, options: Options) -> Result<Outcome, Invalid> {
    let threads = machine.cpus.len();
    let mut plan = schedule.plan(load.trips, threads, &load.inputs())?;
    let mut members: Vec<Member> = (0..threads).map(|_| Member::new(&plan, options.timing)).collect();
    let mut histories = vec![History::new(options.timing); threads];
    let mut works = load.works();
    let (mut now_ns, mut work_ns) = (0.0, 0.0);
    for _ in 0..load.instances {
        let works = works.next_instance();
        work_ns += works.total_ns();
        let instance = Instance { plan: &plan, works, machine, load, slice_ns: options.slice_ns };
        let end_ns = instance.run(&mut members, &mut histories, now_ns);
        now_ns = end_ns;
        histories.iter_mut().for_each(History::end_instance);
        match &mut plan {
            Plan::Adaptive(adaptive) if schedule.kind == Kind::Awf => {
                adaptive.set_weights(&history::weights(&histories))?;
            }
            Plan::Blocks(blocks) if schedule.kind == Kind::StaticWeighted => {
                let speeds: Vec<_> = histories.iter().map(History::speed).collect();
                *blocks = Blocks::by_speeds(load.trips, schedule.chunk.map_or(1, u64::from), &speeds);
            }
            _ => {}
        }
    }
    let speeds: f64 = machine.cpus.iter().map(|cpu| cpu.speed).sum();
    Ok(Outcome { time_ns: now_ns, ideal_ns: work_ns / speeds })
}
