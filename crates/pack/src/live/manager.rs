//! The manager: threads come and go, code is judged, windows end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arch::BlockedIn;
use machine::Root;
use machine::process::Task;
use symbols::Judge;
use watch::Stands;
use watch::stands::has_ended;
use wire::{Cause, Sample, Stand, Waiting};

use super::guest::{Guests, Places};
use super::held::{Held, Holder};
use super::own::OwnTime;
use super::realtime;
use super::shared::{Core, Eyes, Shared};
use super::spins::Spins;
use super::summary::Summary;
use super::ticker;
use crate::policy::Member;
use crate::policy::conductor::{Conductor, Settings};
use crate::policy::regime::Action;
use crate::trial::{Did, Look, Trial};

/// How often the manager looks while threads are steered, and while they are not.
const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(20));

/// A process's only thread is not steered before it has run so long: OpenMP counts the CPUs of its mask when
/// the process starts, or loads it, and would count one.
const ALONE_NS: u64 = 1_000_000_000;

/// Where the processes began. OpenMP runtimes count the CPUs they may use when they start, and wait by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// In the pack: they have not begun yet.
    Here,
    /// On the CPUs that they are allowed now.
    Outside,
    /// In another pack, of so many CPUs.
    Packed(usize),
}

/// What to pack, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The processes; what they start is included when `children`.
    pub pids: Vec<u32>,
    /// Where they began, and counted CPUs.
    pub began: Began,
    /// Their child processes too.
    pub children: bool,
    /// CPUs of the pack.
    pub cpus: Vec<u32>,
    /// Capacity of each, of 1024.
    pub capacities: Vec<u64>,
    /// How to pack.
    pub settings: Settings,
    /// Do not pack in earnest: try both ways in turn, to compare them.
    pub trial: bool,
    /// Keep a line for each order.
    pub log: bool,
    /// cox's command line, for the journal.
    pub command: String,
}

/// A packed program.
pub struct Packer {
    shared: Arc<Shared>,
    /// Until it was asked to finish.
    manager: Option<JoinHandle<Summary>>,
}

impl Packer {
    /// Takes hold of the program's threads. From here on they are packed, until [`Packer::finish`].
    ///
    /// # Errors
    /// Before anything was changed, or with everything put back.
    pub fn start(plan: Plan) -> Result<Packer, super::Error> {
        let (ready, is_ready) = sync_channel(1);
        let own = OwnTime::of_all_but_caller();
        let manager = thread::Builder::new().name("cox-pack".into());
        let manager = manager.spawn(move || manage(&plan, own, &ready)).map_err(super::Error::Thread)?;
        match is_ready.recv() {
            Ok(Ok(shared)) => Ok(Packer { shared, manager: Some(manager) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(super::Error::Thread(std::io::Error::other("the manager has ended"))),
        }
    }

    /// Lets go of the threads and puts their masks back.
    pub fn finish(mut self) -> Summary {
        self.stop()
    }

    /// Whether packing has ended by itself, because something failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.manager.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(&mut self) -> Summary {
        self.shared.over.store(true, Ordering::Release);
        let Some(manager) = self.manager.take() else { return Summary::default() };
        manager.thread().unpark();
        manager
            .join()
            .unwrap_or_else(|_| Summary { complaints: vec![super::Error::Poisoned.to_string()], ..Summary::default() })
    }
}

impl Drop for Packer {
    /// Whatever goes wrong elsewhere: masks go back before cox ends.
    fn drop(&mut self) {
        self.stop();
    }
}

type Ready = SyncSender<Result<Arc<Shared>, super::Error>>;

fn manage(plan: &Plan, mut own: OwnTime, ready: &Ready) -> Summary {
    let root = Root::live();
    let hands = changes::LiveHands::new(root.clone());
    let prepared = Holder::begin(&hands, plan).and_then(|holder| {
        let stands = Stands::new(plan.children)?;
        Ok((holder, stands))
    });
    let (holder, stands) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let _ = ready.send(Err(error));
            return Summary::default();
        }
    };
    let now_ns = arch::monotonic_ns();
    let conductor = Conductor::new(plan.settings, &plan.capacities, now_ns, own.charged_ns());
    let shared = Arc::new(Shared {
        core: Mutex::new(Core::new(conductor, plan.log)),
        eyes: Eyes {
            table: stands.table(),
            spins: Spins::default(),
            guests: Places::default(),
            cpus: plan.cpus.clone(),
        },
        tick_ns: AtomicU64::new(0),
        over: AtomicBool::new(false),
        without_ticker: AtomicU32::new(0),
    });
    let mut guests = Guests::new(root.clone(), plan.cpus.len());
    // While their masks are their own.
    match plan.began {
        Began::Here => {}
        Began::Outside => plan.pids.iter().for_each(|&pid| guests.attach(pid, guests.allowed(pid))),
        Began::Packed(cpus) => plan.pids.iter().for_each(|&pid| guests.attach(pid, cpus)),
    }
    let mut manager = Manager {
        guests,
        judge: Judge::new(root),
        own,
        trial: plan.trial.then(|| Trial::new(plan.settings.turns)),
        shared: Arc::clone(&shared),
        stands,
        holder,
        tickers: Vec::new(),
        known: 0,
        living: Vec::new(),
        newcomers: Vec::new(),
        summary: Summary::default(),
    };
    for pid in &plan.pids {
        if let Err(error) = manager.stands.enrol(*pid) {
            // Everything is put back before anybody hears of it.
            drop(manager);
            let _ = ready.send(Err(error.into()));
            return Summary::default();
        }
    }
    // All threads that are there now are taken before anybody is told that they are packed.
    if let Err(error) = manager.meet_all(&plan.pids) {
        drop(manager);
        let _ = ready.send(Err(error));
        return Summary::default();
    }
    for seat in 0..plan.cpus.len() {
        let ours = Arc::clone(&shared);
        let ticker = thread::Builder::new().name(format!("cox-seat-{seat}"));
        match ticker.spawn(move || ticker::run(&ours, seat)) {
            Ok(ticker) => manager.tickers.push(ticker),
            Err(error) => {
                let summary = manager.finish(now_ns, 0);
                let _ = ready.send(Err(super::Error::Thread(error)));
                return summary;
            }
        }
    }
    let _ = ready.send(Ok(Arc::clone(&shared)));
    // What loading has cost came before the program was let go.
    manager.run(arch::monotonic_ns())
}

/// What a trial wants to know of a sample.
fn look(sample: &Sample, waits: Option<Waiting>) -> Look {
    let call = sample.in_kernel.checked_sub(1).map(arch::blocked_in);
    let calls = call == Some(BlockedIn::Cause(Cause::Futex));
    let did = match waits {
        // Who calls sched_yield cannot be seen from where it is; OpenMP runtimes do when threads are many.
        Some(Waiting::OpenMp | Waiting::Yield) => Did::WaitedInRuntime,
        Some(_) => Did::Waited,
        None if calls => Did::Called,
        None => Did::Worked,
    };
    Look { tid: sample.tid, did }
}

struct Manager<'p> {
    guests: Guests,
    judge: Judge,
    own: OwnTime,
    trial: Option<Trial>,
    shared: Arc<Shared>,
    stands: Stands,
    holder: Holder<'p>,
    tickers: Vec<JoinHandle<()>>,
    /// Stands seen so far.
    known: usize,
    living: Vec<Living>,
    newcomers: Vec<Newcomer>,
    summary: Summary,
}

/// Held in the pack, but not steered yet.
struct Newcomer {
    stand: usize,
    tgid: u32,
    met_run_ns: u64,
    held: Held,
}

struct Living {
    /// `None`: the preload library's own, held so that its mask comes back, and nobody's member.
    member: Option<Member>,
    stand: usize,
    tgid: u32,
}

impl Manager<'_> {
    fn run(mut self, start_ns: u64) -> Summary {
        let own_before_ns = self.own.charged_ns();
        if let Ok(mut core) = self.shared.core.lock() {
            core.conductor.start(start_ns, own_before_ns);
        }
        // Before anything is measured: a libgomp that stops spinning is another program.
        self.guests.look(start_ns, &self.shared.eyes.guests);
        // It must not wait for the program's threads while it holds the lock that tickers want.
        let _ = realtime::become_realtime(realtime::MANAGER);
        while !self.shared.over.load(Ordering::Acquire) {
            let looked = self.look().and_then(|steering| {
                if steering {
                    self.settle();
                }
                thread::park_timeout(if steering { LOOK.0 } else { LOOK.1 });
                self.meet()?;
                self.guests.look(arch::monotonic_ns(), &self.shared.eyes.guests);
                Ok(())
            });
            if let Err(error) = looked {
                self.summary.complaints.push(error.to_string());
                break;
            }
        }
        self.finish(start_ns, own_before_ns)
    }

    /// Lets the policy decide what comes next. True while threads are steered or measured.
    fn look(&mut self) -> Result<bool, super::Error> {
        let samples = self.stands.take_samples()?;
        if !samples.is_empty() {
            // Asked for all before any is judged: the first look at code is not the last word on it.
            for sample in &samples {
                self.shared.eyes.spins.waited_in(sample);
            }
            self.settle();
        }
        let waits: Vec<Option<Waiting>> = samples.iter().map(|s| self.shared.eyes.spins.waited_in(s)).collect();
        let waiting = waits.iter().flatten().count();
        let own_ns = self.own.charged_ns();
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        let yields = |sample: &&Sample| sample.in_kernel.checked_sub(1) == Some(arch::SYS_SCHED_YIELD);
        let yielding = samples.iter().filter(yields).count();
        core.conductor.sampled(samples.len() as u64, waiting as u64, yielding as u64);
        if let Some(trial) = &mut self.trial {
            trial.sampled(samples.iter().zip(waits).map(|(sample, waits)| look(sample, waits)));
        }
        let trial = &mut self.trial;
        let changed = core.decide(&self.shared.eyes, |conductor, now_ns, sense, orders| match trial {
            Some(trial) => trial.look(conductor, now_ns, own_ns, sense, orders),
            None => conductor.look(now_ns, own_ns, sense, orders),
        });
        let (action, tick_ns) = (core.conductor.action(), core.conductor.tick_ns());
        drop(core);
        if changed {
            self.shared.tick_ns.store(tick_ns.unwrap_or(0), Ordering::Release);
            for ticker in &self.tickers {
                ticker.thread().unpark();
            }
            match (action, &self.trial) {
                (Action::Measure { look_ns }, _) => self.stands.sample_on(&self.shared.eyes.cpus, look_ns)?,
                (_, Some(trial)) => self.stands.sample_on(&self.shared.eyes.cpus, trial.look_ns())?,
                (Action::Rest | Action::Rotate { .. }, None) => self.stands.sample_on(&[], 0)?,
            }
        }
        Ok(action != Action::Rest)
    }

    /// Has code judged that is new.
    fn settle(&mut self) {
        self.own.while_judging(|| self.shared.eyes.spins.settle(&mut self.judge));
    }

    /// Threads that have come or gone since the last look.
    fn meet(&mut self) -> Result<(), super::Error> {
        let new = self.met();
        let held = self.holder.take(&new)?;
        self.keep(held)
    }

    /// The threads that are there when packing begins: all or none.
    fn meet_all(&mut self, pids: &[u32]) -> Result<(), super::Error> {
        let new = self.met();
        let is_seen = |pid: &&u32| new.iter().any(|(_, stand)| stand.tgid == **pid);
        if let Some(&pid) =
            pids.iter().filter(|pid| !is_seen(pid)).find(|&&pid| Task::process(&Root::live(), pid).exists())
        {
            return Err(super::Error::Unseen(pid));
        }
        let held = self.holder.take_all(&new)?;
        self.keep(held)
    }

    /// Threads that have come since this was asked last.
    fn met(&mut self) -> Vec<(usize, Stand)> {
        let table = self.stands.table();
        let given = self.stands.given();
        let (mut new, mut passed_ns) = (Vec::new(), 0);
        while self.known < given {
            // A stand that is just being written is met at the next look, in order.
            let Some(stand) = table.read(self.known) else { break };
            if has_ended(&stand) {
                self.holder.passed(&stand);
                passed_ns += stand.run_ns;
            } else {
                new.push((self.known, stand));
            }
            self.known += 1;
        }
        if let Ok(mut core) = self.shared.core.lock() {
            core.conductor.passed(passed_ns);
        }
        new
    }

    /// Threads that are held now join; those that have ended leave.
    fn keep(&mut self, held: Vec<(usize, Held)>) -> Result<(), super::Error> {
        let table = self.stands.table();
        for (stand_number, held) in held {
            let Some(stand) = table.read(stand_number) else { continue };
            self.living.push(Living { member: None, stand: stand_number, tgid: stand.tgid });
            self.guests.meet(stand.tgid);
            if !self.guests.is_helper(stand.tgid, stand.tid, stand.creator_tid) {
                self.newcomers.push(Newcomer { stand: stand_number, tgid: stand.tgid, met_run_ns: stand.run_ns, held });
                self.summary.threads += 1;
            }
        }
        self.join()?;
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        let mut smaller = BTreeSet::new();
        self.living.retain_mut(|living| {
            let Some(stand) = table.read(living.stand) else { return true };
            // A helper may become known as one after it has joined.
            let is_helper = living.member.is_some() && self.guests.is_helper(living.tgid, stand.tid, 0);
            let has_ended = has_ended(&stand);
            let strayed = living.member.map(|member| &mut core.members[member]).filter(|held| held.has_strayed());
            let is_its_own = strayed.is_some_and(|held| !self.holder.keeps(held));
            if let Some(member) = living.member.take_if(|_| is_helper || has_ended || is_its_own) {
                core.conductor.leave(member, stand.run_ns);
                self.summary.threads -= usize::from(is_helper);
            }
            if has_ended {
                self.holder.forget(stand.tid);
                smaller.insert(living.tgid);
            }
            !has_ended
        });
        drop(core);
        for tgid in smaller {
            if !self.living.iter().any(|living| living.tgid == tgid) {
                self.guests.forget(tgid, &self.shared.eyes.guests);
            }
        }
        Ok(())
    }

    /// Newcomers that may be steered from now on.
    fn join(&mut self) -> Result<(), super::Error> {
        let table = self.stands.table();
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        for newcomer in std::mem::take(&mut self.newcomers) {
            let Some(stand) = table.read(newcomer.stand) else { continue };
            let mut company = self.living.iter().filter(|living| living.tgid == stand.tgid);
            let ran_ns = stand.run_ns.saturating_sub(newcomer.met_run_ns);
            if has_ended(&stand) {
                core.conductor.passed(ran_ns);
            } else if stand.tid == stand.tgid && company.nth(1).is_none() && ran_ns < ALONE_NS {
                self.newcomers.push(newcomer);
            } else {
                core.conductor.passed(ran_ns);
                core.members.push(newcomer.held);
                let member = core.decide(&self.shared.eyes, |conductor, now_ns, _, orders| {
                    conductor.join(&self.shared.eyes.glance(&stand, now_ns), now_ns, orders)
                });
                let of_it = self.living.iter_mut().find(|living| living.stand == newcomer.stand);
                of_it.into_iter().for_each(|living| living.member = Some(member));
            }
        }
        Ok(())
    }

    /// What could not be done as it should.
    fn complain(&mut self) {
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                self.summary.complaints.push(format!("{count} {what}"));
            }
        };
        say(u64::from(self.stands.without_place()), "threads came too late to be steered: there are 65,536 places");
        let absent = self.shared.without_ticker.load(Ordering::Relaxed);
        say(
            u64::from(absent),
            "CPUs of the pack had no turns: cox could not stay there (offline, or not allowed), or had no timer (too many open files)",
        );
        let left = self.holder.left();
        if let Some(why) = &left.why {
            say(left.threads as u64, &format!("threads were left as they are; the first: {why}"));
        }
    }

    fn finish(mut self, start_ns: u64, own_before_ns: u64) -> Summary {
        self.summary.told = self.guests.end();
        self.shared.over.store(true, Ordering::Release);
        for ticker in self.tickers.drain(..) {
            ticker.thread().unpark();
            // A ticker that panicked has no more turns to end.
            let _ = ticker.join();
        }
        self.complain();
        let own_ns = self.own.charged_ns();
        self.summary.own_ns = self.own.ns().saturating_sub(own_before_ns);
        if let Ok(mut core) = self.shared.core.lock() {
            let trial = &mut self.trial;
            let (end_ns, seen) = core.decide(&self.shared.eyes, |conductor, now_ns, sense, orders| {
                let seen = trial.as_mut().map(|trial| trial.end(conductor, now_ns, own_ns, sense));
                conductor.end(now_ns, own_ns, sense, orders);
                (now_ns, seen)
            });
            self.summary.trial = seen;
            self.summary.wall_ns = end_ns - start_ns;
            self.summary.seats_ns = self.summary.wall_ns * self.shared.eyes.cpus.len() as u64;
            self.summary.totals = core.conductor.totals();
            (self.summary.without, self.summary.with) = core.conductor.efficiencies();
            self.summary.log = core.log.take().unwrap_or_default();
            if let Some(failure) = core.failure.take() {
                self.summary.complaints.push(format!("{} orders failed; the first: {failure}", core.failures));
            }
        }
        // Whoever was born since the last look is taken too, so that its mask comes back.
        if let Err(error) = self.meet() {
            self.summary.complaints.push(error.to_string());
        }
        for living in &self.living {
            *self.summary.living.entry(living.tgid).or_default() += usize::from(living.member.is_some());
        }
        for newcomer in &self.newcomers {
            *self.summary.living.entry(newcomer.tgid).or_default() += 1;
        }
        match self.holder.end() {
            Ok(undone) => {
                self.summary.restored = undone.restored + undone.gone;
                self.summary.complaints.extend(undone.left.iter().map(ToString::to_string));
            }
            Err(error) => self.summary.complaints.push(error.to_string()),
        }
        self.summary
    }
}
