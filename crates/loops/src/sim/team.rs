//! One instance: threads ask in the order of simulated time.

use std::ops::Range;

use super::cpus::Machine;
use super::load::{Load, Works};
use crate::adaptive::team::Team;
use crate::history::History;
use crate::last_slice;
use crate::plan::Plan;
use crate::statistics::{Finished, Pace, Statistics, Timing};
use crate::steal::Lane;

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Member {
    statistics: Option<Statistics>,
    pace: Pace,
    /// Chunks or blocks that this thread has had.
    chunks: u64,
    lane: Lane,
    /// Its running chunk, and when it began, nanoseconds.
    running: Option<(Finished, f64)>,
    /// When it asks next; `None` if it has reached the end.
    asks_ns: Option<f64>,
}

impl Member {
    pub(super) fn new(plan: &Plan, timing: Timing) -> Member {
        let statistics = match plan {
            Plan::Adaptive(adaptive) => Some(adaptive.statistics(timing)),
            _ => None,
        };
        let pace = Pace::default();
        Member { statistics, pace, chunks: 0, lane: Lane::default(), running: None, asks_ns: None }
    }
}

impl Member {
    /// Ends the running chunk: the thread publishes its pace.
    fn finish(&mut self) {
        if let (Some((chunk, _)), Some(statistics)) = (self.running.take(), &mut self.statistics) {
            self.pace = statistics.finish(&chunk);
        }
    }
}

/// An instance of the loop.
pub(super) struct Instance<'a> {
    pub(super) plan: &'a Plan,
    pub(super) works: Works,
    pub(super) machine: &'a Machine,
    pub(super) load: &'a Load,
    pub(super) slice_ns: Option<f64>,
}

/// What the threads share.
#[derive(Default)]
struct Shared {
    /// The counter of chunks, or of iterations given out.
    counter: u64,
    /// Iterations that have been given out, in any plan.
    given_out: u64,
}

struct Published<'a> {
    members: &'a [Member],
    now_ns: f64,
}

impl Team for Published<'_> {
    fn pace(&self, thread: usize) -> Pace {
        self.members[thread].pace
    }

    fn running(&self, thread: usize) -> (u64, f64) {
        let running = self.members[thread].running;
        running.map_or((0, 0.0), |(chunk, since_ns)| (chunk.iterations, self.now_ns - since_ns))
    }
}

impl Instance<'_> {
    /// Executes the instance from `start_ns` on, and returns when its last thread has finished.
    pub(super) fn run(&self, members: &mut [Member], histories: &mut [History], start_ns: f64) -> f64 {
        for (thread, member) in members.iter_mut().enumerate() {
            if let Some(statistics) = &mut member.statistics {
                statistics.begin();
            }
            let lane = if let Plan::Steal(steal) = self.plan { steal.lane(thread) } else { Lane::default() };
            let asks_ns = Some(self.machine.cpus[thread].free_at(start_ns));
            *member = Member {
                statistics: member.statistics.take(),
                pace: Pace::default(),
                chunks: 0,
                lane,
                running: None,
                asks_ns,
            };
        }
        let mut shared = Shared::default();
        let mut end_ns = start_ns;
        while let Some((thread, now_ns)) = next(members) {
            members[thread].finish();
            let range = if self.stops(thread, now_ns, members, &shared) {
                None
            } else {
                self.request(thread, now_ns, members, &mut shared)
            };
            let member = &mut members[thread];
            let Some(range) = range else {
                member.asks_ns = None;
                end_ns = end_ns.max(now_ns);
                continue;
            };
            let cpu = &self.machine.cpus[thread];
            let begin_ns = now_ns + self.load.request_ns;
            let (finished_ns, cpu_ns) = cpu.run(begin_ns, self.works.of(&range));
            let iterations = range.end - range.start;
            shared.given_out += iterations;
            let wall_ns = finished_ns - begin_ns;
            let chunk = Finished { iterations, wall_ns, cpu_ns, dispatch_ns: self.load.request_ns };
            histories[thread].add(&chunk);
            member.running = Some((chunk, begin_ns));
            member.chunks += 1;
            member.asks_ns = Some(cpu.free_at(finished_ns));
        }
        end_ns
    }

    fn stops(&self, thread: usize, now_ns: f64, members: &[Member], shared: &Shared) -> bool {
        let Some(slice_ns) = self.slice_ns else { return false };
        let others = members.iter().filter(|member| member.asks_ns.is_some()).count() - 1;
        let remaining = self.load.trips - shared.given_out;
        let is_wanted = self.machine.cpus[thread].is_wanted(now_ns);
        last_slice::stops(remaining, self.load.mean_ns, others, is_wanted, slice_ns)
    }

    fn request(&self, thread: usize, now_ns: f64, members: &mut [Member], shared: &mut Shared) -> Option<Range<u64>> {
        let first = members[thread].chunks == 0;
        match self.plan {
            Plan::Blocks(blocks) => Some(blocks.of(thread)).filter(|block| first && !block.is_empty()),
            Plan::Cyclic(cyclic) => cyclic.chunk(thread, members[thread].chunks),
            Plan::Fixed(fixed) => fixed.chunk(shared.count()),
            Plan::Table(table) => table.chunk(shared.count()),
            Plan::Hybrid(hybrid) if first && !hybrid.block(thread).is_empty() => Some(hybrid.block(thread)),
            Plan::Hybrid(hybrid) => hybrid.chunk(shared.count()),
            Plan::Steal(steal) => {
                if members[thread].lane.is_empty() {
                    let robbed = steal.victims(thread).find_map(|victim| Some((victim, members[victim].lane.steal()?)));
                    let (victim, (rest, stolen)) = robbed?;
                    members[victim].lane = rest;
                    members[thread].lane = stolen;
                }
                let (chunk, rest) = members[thread].lane.take()?;
                members[thread].lane = rest;
                steal.iterations(chunk)
            }
            Plan::Adaptive(adaptive) => {
                let request = adaptive.request(thread, &Published { members, now_ns });
                let size = adaptive.size(&request, shared.counter);
                shared.counter += size;
                (size > 0).then(|| shared.counter - size..shared.counter)
            }
        }
    }
}

impl Shared {
    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter - 1
    }
}

/// Returns the thread that asks next, and when.
fn next(members: &[Member]) -> Option<(usize, f64)> {
    let asking = members.iter().enumerate().filter_map(|(thread, member)| Some((thread, member.asks_ns?)));
    asking.min_by(|one, other| one.1.total_cmp(&other.1))
}
