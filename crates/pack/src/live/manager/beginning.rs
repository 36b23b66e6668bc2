//! The beginning of packing: takes control of the program's threads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread;

use arch::laps::{self, Part};
use machine::Root;
use machine::process::Task;
use symbols::Judge;
use watch::{ThreadSnapshots, WatchError, snapshots};
use wire::Backend;

use super::Manager;
use crate::live::kept::Kept;
use crate::live::managed::Holder;
use crate::live::orphans::Orphans;
use crate::live::overhead::OwnTime;
use crate::live::plan::{Began, Plan};
use crate::live::polls::Polls;
use crate::live::preload_pages::{Places, PreloadPages};
use crate::live::profiles::Code;
use crate::live::shared::{Core, Sensors, Shared};
use crate::live::spins::Spins;
use crate::live::standby::Standby;
use crate::live::summary::Summary;
use crate::live::{Error, realtime, ticker};
use crate::policy::controller::Controller;
use crate::policy::mode::Mode;
use crate::trial::Trial;

/// How often the manager looks for processes that were created before their parent was enrolled.
const ROUNDS: usize = 8;

/// Receives whether cox has taken control of the program's threads.
type Ready = SyncSender<Result<(), Error>>;

/// Packs the program until the session is `over`. Reports on `ready` that cox has taken control of all threads, or why it
/// has not.
pub fn manage(plan: &Plan, own: OwnTime, over: &Arc<AtomicBool>, ready: &Ready) -> Summary {
    let knob_io = changes::LiveKnobIo::new(Root::live());
    let begun = Holder::begin(&knob_io, plan).and_then(|holder| {
        laps::done(Part::Guarding);
        let judge = Judge::new(Root::live());
        let orphans = (plan.how.children && plan.began == Began::Here).then(Orphans::reap);
        let kept = Kept { own, holder, orphans, judge, spins: Spins::default(), mode: None, works: true };
        if plan.may_pause() { at_times(plan, over, kept, ready) } else { throughout(plan, over, kept, ready) }
    });
    begun.unwrap_or_else(|error| {
        // Everything is restored before the failure is reported.
        let _ = ready.send(Err(error));
        Summary::default()
    })
}

/// The backend that observes the program's threads, and why a better one is not used, if it was tried.
type Watched = (Box<dyn ThreadSnapshots>, Option<WatchError>);

fn watch(plan: &Plan) -> Result<Watched, Error> {
    Ok(snapshots::start(plan.how.sight, plan.how.children, plan.helping, &plan.cpus)?)
}

/// Like [`watch`], without waiting for the CPUs that the program uses: it may be ten times slower until it is packed.
fn watch_soon(plan: &Plan) -> Result<Watched, Error> {
    realtime::punctually(realtime::MANAGER, || watch(plan))
}

/// Packs from the beginning of the session to its end.
fn throughout(plan: &Plan, over: &Arc<AtomicBool>, kept: Kept<'_>, ready: &Ready) -> Result<Summary, Error> {
    let mut manager = Manager::new(plan, over, kept, watch(plan)?);
    if let Err(error) = manager.take_hold(plan) {
        let (mut summary, kept) = manager.finish(arch::monotonic_ns(), 0);
        summary.restore(kept.holder);
        return Err(error);
    }
    let _ = ready.send(Ok(()));
    // Time is counted from here, so that the CPU time for loading BPF programs is not charged to the session.
    let (mut summary, kept) = manager.run(arch::monotonic_ns());
    summary.restore(kept.holder);
    Ok(summary)
}

/// Packs a program that cox starts, when that could help the program; see [`Standby`].
fn at_times(plan: &Plan, over: &Arc<AtomicBool>, mut kept: Kept<'_>, ready: &Ready) -> Result<Summary, Error> {
    let mut standby = match Standby::begin(plan, &mut kept.holder) {
        Ok(standby) => standby,
        // This kernel's /proc lacks something that BPF does not need.
        Err(Error::Watch(WatchError::Unavailable { .. })) => return throughout(plan, over, kept, ready),
        Err(error) => return Err(error),
    };
    let _ = ready.send(Ok(()));
    standby.start();
    let mut summary: Option<Summary> = None;
    let mut add = |part: Summary| {
        summary = Some(match summary.take() {
            Some(before) => before.continued(part),
            None => part,
        });
    };
    let mut own_before_ns = kept.own.ns();
    let failed = loop {
        let mut code = Code { spins: &kept.spins, judge: &mut kept.judge };
        let worth_it = standby.wait(kept.orphans.as_mut(), &mut kept.holder, &mut code, over);
        if matches!(worth_it, Ok(true)) {
            laps::done(Part::Running);
        }
        let watched = match worth_it.and_then(|worth_it| worth_it.then(|| watch_soon(plan)).transpose()) {
            Ok(Some(watched)) => watched,
            ended => {
                add(standby.end(kept.own.ns().saturating_sub(own_before_ns)));
                break ended.err();
            }
        };
        let mut manager = Manager::new(plan, over, kept, watched);
        let taken = manager.take_over(plan, &mut standby);
        add(standby.end(manager.own.ns().saturating_sub(own_before_ns)));
        let part;
        (part, kept) = match &taken {
            Ok(start_ns) => manager.run(*start_ns),
            Err(_) => {
                let own_ns = manager.own.ns();
                manager.finish(arch::monotonic_ns(), own_ns)
            }
        };
        own_before_ns = kept.own.ns();
        let living: Vec<u32> = part.living.keys().copied().collect();
        let wall_ns = part.wall_ns;
        add(part);
        let start_ns = match taken {
            Ok(start_ns) if kept.works && !over.load(Ordering::Acquire) => start_ns,
            ended => break ended.err(),
        };
        let rested_ns = kept.mode.as_ref().map_or(0, Mode::until_ns);
        standby = match Standby::resume(plan, &living, (start_ns + wall_ns, rested_ns), &mut kept.holder) {
            Ok(standby) => standby,
            Err(error) => break Some(error),
        };
    };
    let mut summary = summary.unwrap_or_default();
    summary.diagnostics.extend(failed.map(|error| error.to_string()));
    summary.restore(kept.holder);
    Ok(summary)
}

impl<'p> Manager<'p> {
    /// Makes a manager that has no threads yet.
    fn new(plan: &Plan, over: &Arc<AtomicBool>, kept: Kept<'p>, (snapshots, passed_over): Watched) -> Manager<'p> {
        let Kept { mut own, holder, orphans, judge, spins, mode, .. } = kept;
        let now_ns = arch::monotonic_ns();
        let mut controller = Controller::new(plan.how.settings, &plan.capacities, now_ns, own.charged_ns());
        if let Some(mode) = mode {
            controller.resume(mode, now_ns);
        }
        let shared = Arc::new(Shared {
            core: Mutex::new(Core::new(controller, plan.how.log)),
            sensors: Sensors {
                table: snapshots.table(),
                spins,
                preload_pages: Places::default(),
                cpus: plan.cpus.clone(),
            },
            tick_ns: AtomicU64::new(0),
            over: Arc::clone(over),
            no_more_ticks: AtomicBool::new(false),
            without_ticker: AtomicU32::new(0),
        });
        let mut preload_pages = PreloadPages::new(Root::live(), plan.cpus.len());
        // Processes that cox did not start still have their own masks, so `allowed` returns how many CPUs their libgomp
        // has counted.
        match plan.began {
            Began::Here => {}
            Began::Outside => plan.pids.iter().for_each(|&pid| preload_pages.attach(pid, preload_pages.allowed(pid))),
            Began::Packed(cpus) => plan.pids.iter().for_each(|&pid| preload_pages.attach(pid, cpus)),
        }
        let backend = snapshots.backend();
        let passed_over = passed_over.map(|why| why.to_string());
        Manager {
            preload_pages,
            judge,
            own,
            trial: plan.how.trial.then(|| Trial::new(plan.how.settings.periods)),
            shared,
            snapshots,
            holder,
            orphans,
            tickers: Vec::new(),
            known: 0,
            living: Vec::new(),
            newcomers: Vec::new(),
            may_pause: plan.may_pause(),
            works: true,
            polls: (backend == Backend::Proc).then(Polls::default),
            summary: Summary { backend: Some(backend), passed_over, ..Summary::default() },
        }
    }

    /// Starts the tickers, and takes control of all threads that exist now.
    fn take_hold(&mut self, plan: &Plan) -> Result<(), Error> {
        self.start_tickers(plan.cpus.len())?;
        for pid in &plan.pids {
            self.snapshots.enrol(*pid)?;
        }
        // Take control of all threads that exist now, before the session reports that they are packed: all of them or
        // none.
        let new = self.met();
        let is_seen = |pid: &&u32| new.iter().any(|(_, snapshot)| snapshot.tgid == **pid);
        let exists = |pid: &&u32| Task::process(&Root::live(), **pid).exists();
        if let Some(&pid) = plan.pids.iter().find(|pid| !is_seen(pid) && exists(pid)) {
            return Err(Error::Unseen(pid));
        }
        let managed = self.holder.take_all(&new)?;
        self.keep(managed)
    }

    /// Starts the tickers, and takes control of all threads that `standby` knows. Returns the time at which it has closed
    /// `standby`.
    fn take_over(&mut self, plan: &Plan, standby: &mut Standby) -> Result<u64, Error> {
        self.start_tickers(plan.cpus.len())?;
        let mut enrolled = BTreeSet::new();
        for _ in 0..ROUNDS {
            enrolled.extend(self.snapshots.table().processes());
            let others = standby.other_processes(&enrolled, self.orphans.as_mut(), &mut self.holder)?;
            if others.is_empty() {
                break;
            }
            for &pid in &others {
                // A process that has just ended, or has more rights than the user, cannot be observed. It stays within the
                // pack, and its mask is restored like all others.
                let _ = self.snapshots.enrol(pid);
            }
            enrolled.extend(others);
        }
        let closed_ns = standby.close();
        self.meet().map(|()| closed_ns)
    }

    fn start_tickers(&mut self, slots: usize) -> Result<(), Error> {
        // Start the tickers before this thread gets its real-time priority. (Each CPU of the pack has a ticker, a
        // thread that ends the CPU's scheduling periods.) They then inherit the shortest slice, but not the priority.
        // The slice matters if cox is killed: the guardian restores the program's affinity masks only when all threads
        // of cox have exited. Each of them needs a CPU to exit, and on busy CPUs a thread with a short slice gets one
        // sooner.
        for slot in 0..slots {
            let ours = Arc::clone(&self.shared);
            let ticker = thread::Builder::new().name(format!("cox-slot-{slot}"));
            self.tickers.push(ticker.spawn(move || ticker::run(&ours, slot)).map_err(Error::Thread)?);
        }
        Ok(())
    }
}
