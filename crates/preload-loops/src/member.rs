//! A thread as a member of a team: where it stands in the team's chain of instances, and what it needs for its next request.
//!
//! What a request reads is copied here when the thread joins an instance, so that the request touches no shared memory except the counter (and the
//! table's entry). The memory of a member belongs to one thread and needs no synchronisation.

mod requests;

use std::ops::Range;
use std::sync::atomic::AtomicU64;

use loops::blocks::Blocks;
use loops::fixed::Fixed;
use loops::hybrid::Hybrid;
use loops::steal::Steal;
use loops::table::Table;
use loops::{Adaptive, Kind, Plan};

use crate::bounds::Bounds;
use crate::chain::Slot;
use crate::clause::Clause;
use crate::instance::Instance;
use crate::measure::Measure;
use crate::plans::Prepared;
use crate::team::Team;
use crate::{clock, delays};
use loops::options::{Options, Wanted};

/// Where the chunks of the current loop come from.
#[derive(Clone, Copy)]
enum Source {
    /// From the runtime, or there is no loop.
    Runtime,
    Fixed(Fixed),
    Table(*const Table),
    Hybrid(*const Hybrid),
    Steal(Steal),
    Adaptive(*const Adaptive),
    /// `static`: the plan tells the thread's chunks.
    Static(*const Plan),
    /// The thread has no more chunks.
    Ended,
    /// Requests are timed: `Member::timed` is the source.
    Timed,
}

/// A thread in a team.
#[repr(C)]
pub struct Member {
    /// Return address of the last call that began a loop; written by assembly.
    caller: usize,
    /// The counter if the chunks of the current loop have one size, else null: what the most frequent request needs, in one word.
    fixed: *const AtomicU64,
    source: Source,
    counter: *const AtomicU64,
    bounds: Bounds,
    /// Chunks of this instance that depend on the thread only and that it has had. With stealing: 1 after the end of the loop.
    taken: u64,
    /// With numbered chunks: how many of the first ones are found in the short way. They are all but the last one, or those with entries in the table.
    full: u64,
    /// With chunks of one size: how far the counter goes in each.
    stride: u64,
    /// With a table: its entries.
    cuts: *const u64,
    at: *const Slot<Instance>,
    team: *const Team,
    options: &'static Options,
    thread: u32,
    threads: u32,
    /// Chunks of this instance, if the instance's counter does not tell them.
    chunks: u64,
    /// The source, if each request is timed: then `source` is `Timed`.
    timed: Source,
    /// Time of the requests, ticks, and their number.
    request: (u64, u64),
    /// How long the thread has waited for a CPU since the instance began, before it came to it; `None` if that is not measured.
    waited_ns: Option<u64>,
    /// Whether times are measured.
    is_timed: bool,
    /// Weighted blocks of the last `static` loop, and its number of iterations.
    blocks: Option<(u64, Blocks)>,
    /// Last, because it is the largest, and most schedules need the others only.
    measure: Measure,
}

/// Offset of the word where assembly stores the caller.
pub const CALLER_AT: usize = std::mem::offset_of!(Member, caller);

impl Member {
    /// Returns a member at the team's root. `thread` is its number in the team, and below `threads`.
    ///
    /// # Safety
    /// The team outlives the member.
    #[inline]
    pub unsafe fn new(team: *const Team, options: &'static Options, thread: u32, threads: u32) -> Member {
        Member {
            caller: 0,
            fixed: std::ptr::null(),
            source: Source::Runtime,
            counter: std::ptr::null(),
            bounds: Bounds::default(),
            taken: 0,
            full: 0,
            stride: 0,
            cuts: std::ptr::null(),
            // SAFETY: guaranteed by the caller.
            at: unsafe { &*team }.chain.root(),
            team,
            options,
            thread,
            threads,
            measure: Measure::default(),
            chunks: 0,
            timed: Source::Runtime,
            request: (0, 0),
            waited_ns: None,
            is_timed: false,
            blocks: None,
        }
    }

    /// Returns the options of the process.
    #[inline]
    pub fn options(&self) -> &'static Options {
        self.options
    }

    /// Returns the return address of the last call that began a loop.
    #[inline]
    pub fn caller(&self) -> usize {
        self.caller
    }

    /// Returns whether the current loop is one of ours.
    #[inline]
    pub fn has_loop(&self) -> bool {
        !matches!(self.source, Source::Runtime)
    }

    /// Ends the current loop, or notes that the runtime schedules it.
    #[inline]
    pub fn leave_loop(&mut self) {
        self.fixed = std::ptr::null();
        self.source = Source::Runtime;
    }

    /// Joins the next instance of the team; opens it if this is the first thread there.
    ///
    /// # Safety
    /// Each thread of the team calls this for the same loops in the same order, or has left the team for good.
    pub unsafe fn begin_loop(&mut self, bounds: Bounds, clause: Clause) {
        // SAFETY: the team outlives its members.
        let team = unsafe { &*self.team };
        // SAFETY: the thread stands at `at`; `open` is called while no other thread has the slot.
        let instance = unsafe {
            self.at = team.chain.advance(self.at, self.threads, |instance| {
                instance.open(&team.opener, self.options, &bounds, self.threads, &clause);
                team.opener.count();
            });
            &(*self.at).content
        };
        // SAFETY: the thread stands at the slot. `open` has stored a plan.
        let prepared: &Prepared = unsafe { &*instance.plan() };
        self.counter = instance.counter();
        self.fixed = std::ptr::null();
        self.bounds = bounds;
        (self.taken, self.chunks, self.request) = (0, 0, (0, 0));
        self.source = match &prepared.plan {
            Plan::Fixed(fixed) => {
                let chunks = if fixed.size() == 1 { bounds.trips } else { fixed.len() };
                self.full = chunks.saturating_sub(1);
                self.stride = bounds.value(fixed.size()).wrapping_sub(bounds.value(0));
                self.fixed = self.counter;
                Source::Fixed(*fixed)
            }
            Plan::Table(table) => self.table(table),
            Plan::Hybrid(hybrid) => Source::Hybrid(hybrid),
            Plan::Steal(steal) => Source::Steal(*steal),
            Plan::Adaptive(adaptive) => {
                self.measure.begin(prepared, adaptive, self.thread, self.threads, instance);
                Source::Adaptive(adaptive)
            }
            Plan::Blocks(_) | Plan::Cyclic(_) => Source::Static(&raw const prepared.plan),
        };
        // SAFETY: as above.
        let (measured, began) = unsafe { instance.measured() };
        self.is_timed = measured.times;
        if measured.requests {
            self.fixed = std::ptr::null();
            self.timed = std::mem::replace(&mut self.source, Source::Timed);
        }
        self.waited_ns = if measured.delays { waited_before(began) } else { None };
    }

    /// Prepares requests for the chunks of a table.
    #[inline]
    fn table(&mut self, table: &Table) -> Source {
        self.full = table.cuts().len() as u64 - 1;
        self.cuts = table.cuts().as_ptr();
        Source::Table(table)
    }

    /// Returns the thread's block of a loop with `schedule(static)`; `None` if the loop does not change. Only blocks by weights change it: the same
    /// ones for each loop of as many iterations, because a program may rely on that.
    pub fn block(&mut self, trips: u64) -> Option<Range<u64>> {
        let Options { all, wanted: Wanted::Schedule(schedule), inputs } = self.options else { return None };
        let weights = inputs.weights.as_ref().filter(|weights| weights.len() == self.threads as usize)?;
        if !all || schedule.kind != Kind::Static || schedule.chunk.is_some() {
            return None;
        }
        if self.blocks.as_ref().is_none_or(|(of, _)| *of != trips) {
            self.blocks = Some((trips, Blocks::weighted(trips, weights)));
        }
        self.blocks.as_ref().map(|(_, blocks)| blocks.of(self.thread as usize))
    }
}

/// Returns how long the thread has waited for a CPU since the instance began. It may have waited before that as well, so it is no longer than the thread
/// is late.
#[cold]
fn waited_before(began: u64) -> Option<u64> {
    let late_ns = (clock::now().wrapping_sub(began) as i64).max(0) as f64 * clock::ns_per_tick();
    delays::since_last().map(|ns| ns.min(late_ns as u64))
}
