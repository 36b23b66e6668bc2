//! The manager, a thread of cox. It notices new and ended threads of the program, and checks whether their code spins.
//! At the end of each measuring window, it lets the policy decide whether to rotate the threads over the CPUs, to
//! measure, or to pause.

mod beginning;
mod ending;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arch::BlockedIn;
use machine::Root;
use machine::process::Task;
use symbols::Judge;
use watch::ThreadSnapshots;
use watch::snapshots::{STAY_OPEN, has_ended};
use wire::{Backend, Cause, Sample, ThreadSnapshot, Waiting};

pub use self::beginning::manage;
use super::alone::may_be_bound;
use super::kept::Kept;
use super::managed::{Holder, ManagedThread};
use super::orphans::Orphans;
use super::overhead::OwnTime;
use super::polls::{Polls, Sighting};
use super::preload_pages::PreloadPages;
use super::realtime;
use super::shared::Shared;
use super::summary::Summary;
use crate::policy::Member;
use crate::policy::mode::Action;
use crate::trial::{Look, Trial, look_ns};

/// Time between two passes of the manager over the threads: the first value while threads are rotated or measured, the
/// second one otherwise.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(20));

/// Converts a sample to the form that a trial uses. `waits` is the kind of loop in which the thread spun; `None`: it
/// did not spin.
fn look(sample: &Sample, waits: Option<Waiting>) -> Look {
    let call = sample.call().map(arch::blocked_in);
    let calls = call == Some(BlockedIn::Cause(Cause::Futex));
    Look { tid: sample.tid, waited: waits.is_some() || calls }
}

struct Manager<'p> {
    preload_pages: PreloadPages,
    judge: Judge,
    own: OwnTime,
    trial: Option<Trial>,
    shared: Arc<Shared>,
    snapshots: Box<dyn ThreadSnapshots>,
    holder: Holder<'p>,
    orphans: Option<Orphans>,
    tickers: Vec<JoinHandle<()>>,
    /// How many thread snapshots have been read so far.
    known: usize,
    living: Vec<Living>,
    newcomers: Vec<Newcomer>,
    /// True if the manager ends when the policy rests; [`beginning`] starts another one after the rest.
    may_pause: bool,
    /// False after a failure.
    works: bool,
    /// Estimates by polling how often threads spin; `None` if the backend takes samples itself.
    polls: Option<Polls>,
    summary: Summary,
}

/// A thread of which the session has taken control, but which the policy does not bind to single CPUs yet.
struct Newcomer {
    /// Number of the thread's snapshot in the table.
    place: usize,
    tgid: u32,
    met_run_ns: u64,
    /// CPU time of the thread when it was met, ns. BPF's snapshots count from the time when it is enrolled.
    before_ns: u64,
    managed: ManagedThread,
}

struct Living {
    /// The thread's number in the policy. `None`: the policy does not bind the thread to single CPUs, or not yet.
    /// Helpers (the preload library's own threads) never get a number: the session has taken control of them only in
    /// order to restore their masks.
    member: Option<Member>,
    /// Number of the thread's snapshot in the table.
    place: usize,
    tgid: u32,
}

impl<'p> Manager<'p> {
    /// Packs until the session is over or, if packing may pause, until the policy rests. From here on the manager changes
    /// affinity masks, and tickers need its lock. So it must not wait for a CPU that the program's threads use.
    fn run(self, start_ns: u64) -> (Summary, Kept<'p>) {
        realtime::punctually(realtime::MANAGER, || self.steer(start_ns))
    }

    fn steer(mut self, start_ns: u64) -> (Summary, Kept<'p>) {
        let own_before_ns = self.own.ns();
        if let Ok(mut core) = self.shared.core.lock() {
            core.controller.start(start_ns, self.own.charged_ns());
        }
        // Look at the preload libraries before any measurement: they may make libgomp stop spinning, which changes how
        // the program behaves.
        self.preload_pages.look(start_ns, &self.shared.sensors.preload_pages);
        while !self.shared.over.load(Ordering::Acquire) {
            let looked = self.look().and_then(|steering| {
                if steering {
                    self.settle();
                } else if self.may_pause {
                    return Ok(false);
                }
                thread::park_timeout(self.pause(steering));
                self.meet()?;
                self.preload_pages.look(arch::monotonic_ns(), &self.shared.sensors.preload_pages);
                Ok(true)
            });
            match looked {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.summary.diagnostics.push(error.to_string());
                    self.works = false;
                    break;
                }
            }
        }
        self.finish(start_ns, own_before_ns)
    }

    /// Returns the time until the manager's next pass over the threads. `steering`: threads are rotated or measured
    /// now.
    fn pause(&self, steering: bool) -> Duration {
        match self.polls.as_ref().and_then(|polls| polls.pause(LOOK.1)) {
            Some(pause) => pause,
            None if steering => LOOK.0,
            None => LOOK.1,
        }
    }

    /// Gives the policy the samples since the last call, and lets it decide what comes next. Returns true while threads
    /// are rotated or measured.
    fn look(&mut self) -> Result<bool, super::Error> {
        let samples = self.snapshots.take_samples()?;
        if !samples.is_empty() {
            // `settle` judges the code that is queued here, and the look-up below gets the result.
            samples.iter().for_each(|sample| self.shared.sensors.spins.count(sample));
            self.settle();
        }
        let waits: Vec<Option<Waiting>> = samples.iter().map(|s| self.shared.sensors.spins.waited_in(s)).collect();
        let waiting = waits.iter().flatten().count();
        let (seen, seen_waiting) = self.looked();
        let own_ns = self.own.charged_ns();
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        let yields = |sample: &&Sample| sample.call() == Some(arch::SYS_SCHED_YIELD);
        let yielding = samples.iter().filter(yields).count();
        core.controller.sampled(samples.len() as u64 + seen, waiting as u64 + seen_waiting, yielding as u64);
        if let Some(trial) = &mut self.trial {
            trial.sampled(samples.iter().zip(waits).map(|(sample, waits)| look(sample, waits)));
        }
        let trial = &mut self.trial;
        let changed = core.decide(&self.shared.sensors, |controller, now_ns, sense, orders| match trial {
            Some(trial) => trial.look(controller, now_ns, own_ns, sense, orders),
            None => controller.look(now_ns, own_ns, sense, orders),
        });
        let (action, tick_ns) = (core.controller.action(), core.controller.tick_ns());
        drop(core);
        let look_ns = look_ns(action, self.trial.is_some());
        if let Some(polls) = &mut self.polls {
            polls.want(look_ns.map(Duration::from_nanos));
        }
        if changed {
            self.shared.tick_ns.store(tick_ns.unwrap_or(0), Ordering::Release);
            for ticker in &self.tickers {
                ticker.thread().unpark();
            }
            match look_ns {
                Some(look_ns) => self.snapshots.sample_on(&self.shared.sensors.cpus, look_ns)?,
                None => self.snapshots.sample_on(&[], 0)?,
            }
        }
        Ok(action != Action::Rest)
    }

    /// Polls the threads. Returns how many samples their run time since the last poll amounts to, and in how many of
    /// these the thread spins. Both are 0 if the backend takes samples itself, or no samples are wanted.
    fn looked(&mut self) -> (u64, u64) {
        let Some(polls) = self.polls.as_mut().filter(|polls| polls.is_wanted()) else { return (0, 0) };
        let (sensors, now_ns, before_ns) = (&self.shared.sensors, arch::monotonic_ns(), arch::clock::thread_cpu_ns());
        let members = self.living.iter().filter(|living| living.member.is_some());
        let sighting = |living: &Living| {
            let snapshot = sensors.table.read(living.place)?;
            let phases = sensors.preload_pages.barrier_state(&snapshot).map(|said| said.phases);
            Some(Sighting {
                place: living.place,
                tgid: snapshot.tgid,
                observation: sensors.observation(&snapshot, now_ns),
                phases,
            })
        };
        // Reads at most `STAY_OPEN` threads, as a sample of all threads. The files of these threads in /proc are kept
        // open; reading a further thread takes several times as long.
        let threads: Vec<Sighting> = members.filter_map(sighting).take(STAY_OPEN).collect();
        polls.look(&threads, Duration::from_nanos(arch::clock::thread_cpu_ns() - before_ns))
    }

    /// Determines which newly found code waits for other threads.
    fn settle(&mut self) {
        self.own.while_judging(|| self.shared.sensors.spins.settle(&mut self.judge));
    }

    /// Handles threads that were created or have ended since the last look.
    fn meet(&mut self) -> Result<(), super::Error> {
        // BPF follows the children of all threads, so that it knows the orphans already.
        let orphans = self.orphans.as_mut().map(Orphans::new_ones).unwrap_or_default();
        for pid in orphans.into_iter().filter(|_| self.summary.backend == Some(Backend::Proc)) {
            // A process that has just ended, or is hidden from this user, cannot be observed.
            let _ = self.snapshots.enrol(pid);
        }
        self.snapshots.poll()?;
        let new = self.met();
        let managed = self.holder.take(&new)?;
        self.keep(managed)
    }

    /// Returns the threads that were created since the last call.
    fn met(&mut self) -> Vec<(usize, ThreadSnapshot)> {
        let table = self.snapshots.table();
        let given = table.given();
        let (mut new, mut passed_ns) = (Vec::new(), 0);
        while self.known < given {
            // If a snapshot is just being written, stop here. The next pass reads it and all later ones, in the order
            // of their creation.
            let Some(snapshot) = table.read(self.known) else { break };
            if has_ended(&snapshot) {
                self.holder.passed(&snapshot);
                passed_ns += snapshot.run_ns;
            } else {
                new.push((self.known, snapshot));
            }
            self.known += 1;
        }
        if let Ok(mut core) = self.shared.core.lock() {
            core.controller.passed(passed_ns);
        }
        new
    }

    /// Adds newly managed threads to those that the policy places (its members). Removes members that have ended, that
    /// are helpers of the preload library, or whose affinity mask was changed by the program or another process (not
    /// cox).
    fn keep(&mut self, managed: Vec<(usize, ManagedThread)>) -> Result<(), super::Error> {
        let table = self.snapshots.table();
        for (number, managed) in managed {
            let Some(snapshot) = table.read(number) else { continue };
            self.living.push(Living { member: None, place: number, tgid: snapshot.tgid });
            self.preload_pages.meet(snapshot.tgid);
            if !self.preload_pages.is_helper(snapshot.tgid, snapshot.tid, snapshot.creator_tid) {
                self.newcomers.push(Newcomer {
                    place: number,
                    tgid: snapshot.tgid,
                    met_run_ns: snapshot.run_ns,
                    before_ns: self.used_ns(&snapshot),
                    managed,
                });
                self.summary.threads += 1;
            }
        }
        self.join()?;
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        let mut smaller = BTreeSet::new();
        self.living.retain_mut(|living| {
            let Some(snapshot) = table.known(living.place) else { return true };
            // The preload library may name a thread as its helper only after the thread was given to the policy.
            let is_helper = living.member.is_some() && self.preload_pages.is_helper(living.tgid, snapshot.tid, 0);
            let has_ended = has_ended(&snapshot);
            let strayed = living.member.map(|member| &mut core.members[member]).filter(|managed| managed.has_strayed());
            let is_its_own = strayed.is_some_and(|managed| !self.holder.keeps(managed));
            if let Some(member) = living.member.take_if(|_| is_helper || has_ended || is_its_own) {
                core.controller.leave(member, snapshot.run_ns);
                self.summary.threads -= usize::from(is_helper);
            }
            if has_ended {
                self.holder.forget(snapshot.tid);
                smaller.insert(living.tgid);
            }
            !has_ended
        });
        drop(core);
        for tgid in smaller {
            if !self.living.iter().any(|living| living.tgid == tgid) {
                self.preload_pages.forget(tgid, &self.shared.sensors.preload_pages);
            }
        }
        Ok(())
    }

    /// Returns the CPU time of a thread that has just been met, ns. Only threads that cox did not see starting have any.
    fn used_ns(&self, snapshot: &ThreadSnapshot) -> u64 {
        let is_old = snapshot.creator_tid == 0;
        let task = is_old.then(|| Task::thread(&Root::live(), snapshot.tgid, snapshot.tid));
        task.and_then(|task| task.schedstat().ok()).map_or(0, |sums| sums.run_ns)
    }

    /// Gives new threads to the policy, which may then bind them to single CPUs. The only thread of a process is held
    /// back for some time; see [`may_be_bound`].
    fn join(&mut self) -> Result<(), super::Error> {
        let table = self.snapshots.table();
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        for newcomer in std::mem::take(&mut self.newcomers) {
            let Some(snapshot) = table.read(newcomer.place) else { continue };
            let mut co_runners = self.living.iter().filter(|living| living.tgid == snapshot.tgid);
            let alone = snapshot.tid == snapshot.tgid && co_runners.nth(1).is_none();
            let ran_ns = snapshot.run_ns.saturating_sub(newcomer.met_run_ns);
            if has_ended(&snapshot) {
                core.controller.passed(ran_ns);
            } else if !may_be_bound(alone, newcomer.before_ns + ran_ns) {
                self.newcomers.push(newcomer);
            } else {
                core.controller.passed(ran_ns);
                core.members.push(newcomer.managed);
                let member = core.decide(&self.shared.sensors, |controller, now_ns, _, orders| {
                    controller.join(&self.shared.sensors.observation(&snapshot, now_ns), now_ns, orders)
                });
                let of_it = self.living.iter_mut().find(|living| living.place == newcomer.place);
                of_it.into_iter().for_each(|living| living.member = Some(member));
            }
        }
        Ok(())
    }
}
