//! State that the tickers and the manager share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

use watch::snapshots::{self, Table};
use wire::{State, ThreadSnapshot};

use super::managed::{Failures, ManagedThread};
use super::preload_pages::Places;
use super::spins::Spins;
use super::summary::Placed;
use crate::policy::controller::Controller;
use crate::policy::{Doing, Member, Observation, Order, Sense};

/// State that the tickers and the manager share: the policy and the members under a lock, all other fields without one.
pub struct Shared {
    /// The policy, and the threads that it places (members).
    pub core: Mutex<Core>,
    /// The sources from which the program's threads are observed.
    pub sensors: Sensors,
    /// Time between two ticks (ends of a scheduling period) of the same CPU, ns; 0: no ticks are wanted.
    pub tick_ns: AtomicU64,
    /// True once the session is over.
    pub over: Arc<AtomicBool>,
    /// True once the tickers shall end.
    pub no_more_ticks: AtomicBool,
    /// Number of CPUs of the pack whose ticker has failed. On these CPUs no scheduling periods end, so no threads are
    /// rotated.
    pub without_ticker: AtomicU32,
}

/// The policy, and the threads that it places (members).
pub struct Core {
    /// The controller, which contains the policy.
    pub controller: Controller,
    /// The threads that the policy places, by their number in the policy.
    pub members: Vec<ManagedThread>,
    /// Orders of the policy that could not be carried out. Orders for threads that had ended are not counted.
    pub failures: Failures,
    /// The log of orders, if one is wanted.
    pub log: Option<Vec<Placed>>,
    /// Buffer for orders. It is kept so that the end of a period allocates no memory.
    orders: Vec<Order>,
}

/// The sources from which the program's threads (members) are observed: snapshots, the table of spinning code, and
/// preload pages.
pub struct Sensors {
    /// The table of thread snapshots.
    pub table: Arc<dyn Table>,
    /// The table of code that spins.
    pub spins: Spins,
    /// What the program's preload libraries report.
    pub preload_pages: Places,
    /// The CPUs of the pack; the index of a CPU here is its slot number.
    pub cpus: Vec<u32>,
}

impl Core {
    /// Makes a core without threads.
    pub fn new(controller: Controller, log: bool) -> Core {
        let (failures, log) = (Failures::default(), log.then(Vec::new));
        Core { controller, members: Vec::new(), failures, log, orders: Vec::new() }
    }

    /// Calls `decide` with the controller, the present time, the observations of all threads and an empty list. Carries
    /// out the orders that `decide` adds to this list. Returns the result of `decide`.
    pub fn decide<T>(
        &mut self,
        sensors: &Sensors,
        decide: impl FnOnce(&mut Controller, u64, &Seeing<'_>, &mut Vec<Order>) -> T,
    ) -> T {
        let now_ns = arch::monotonic_ns();
        let seeing = Seeing { sensors, members: &self.members, now_ns };
        let decided = decide(&mut self.controller, now_ns, &seeing, &mut self.orders);
        self.carry_out(now_ns, &sensors.cpus);
        decided
    }

    fn carry_out(&mut self, now_ns: u64, cpus: &[u32]) {
        for order in self.orders.drain(..) {
            let member = &mut self.members[order.member];
            match member.obey(&order) {
                // Ignore an order for a thread that has ended: the manager will remove the thread.
                Ok(()) | Err(changes::Error::Gone(_)) => {}
                Err(error) => self.failures.add(1, &error),
            }
            if let Some(log) = &mut self.log {
                let to = order.to.map(|(slot, why)| (cpus[slot], why));
                log.push(Placed { at_ns: now_ns, tid: member.tid, to });
            }
        }
    }
}

/// Observations of the program's threads (members), all for the same point in time.
pub struct Seeing<'a> {
    sensors: &'a Sensors,
    members: &'a [ManagedThread],
    now_ns: u64,
}

impl Sensors {
    /// Derives a thread's observation at `now_ns` from its snapshot.
    pub fn observation(&self, snapshot: &ThreadSnapshot, now_ns: u64) -> Observation {
        let doing = match State::from_wire(snapshot.state) {
            State::Run => Doing::Runs,
            State::Blocked => Doing::Blocked,
            State::Dead => Doing::Ended,
            State::Unseen | State::Born | State::Preempt => Doing::Queued,
        };
        let state = self.preload_pages.barrier_state(snapshot);
        // A thread outside barriers may still spin in a loop of the program itself.
        let in_barrier = state.and_then(|state| state.in_barrier) == Some(true);
        let waits = || in_barrier || self.spins.is_waiting(snapshot);
        Observation {
            run_ns: snapshots::run_ns(snapshot, now_ns),
            blocks: snapshot.blocks,
            meets: state.map_or(0, |state| state.phases),
            doing,
            spins: waits(),
            yields: Spins::is_yielding(snapshot),
            at: self.cpus.iter().position(|&cpu| cpu == u32::from(snapshot.cpu)),
            out_ns: snapshot.out_ns,
        }
    }
}

impl Sense for Seeing<'_> {
    fn observation(&self, member: Member) -> Observation {
        let managed = &self.members[member];
        // A thread whose snapshot cannot be read counts as queued, without run time.
        let snapshot = self.sensors.table.read(managed.place);
        snapshot.map(|snapshot| self.sensors.observation(&snapshot, self.now_ns)).unwrap_or_default()
    }
}
