//! The manager: threads come and go, code is judged, windows end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use machine::Root;
use watch::Stands;
use watch::stands::has_ended;

use super::held::Holder;
use super::realtime;
use super::shared::{Core, Eyes, Shared};
use super::spins::Spins;
use super::ticker;
use crate::policy::regime::{Action, Regime, Turns, Window};
use crate::policy::seating::{FULL_CAPACITY, Rules, Seating};
use crate::policy::{Member, Order};

/// How often the manager looks while threads are steered, and while they are not.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(20));

/// A thread that ran for less than this part of a window did not want to run.
const IDLE_PART: u64 = 50;

/// What to pack, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The processes; what they start is included when `children`.
    pub pids: Vec<u32>,
    /// Their child processes too.
    pub children: bool,
    /// CPUs of the pack.
    pub cpus: Vec<u32>,
    /// Capacity of each, of 1024.
    pub capacities: Vec<u64>,
    /// Length of turns.
    pub turns: Turns,
    /// Rotate, whatever it gives.
    pub always: bool,
    /// The seating's rules.
    pub rules: Rules,
    /// Keep a line for each order.
    pub log: bool,
    /// cox's command line, for the journal.
    pub command: String,
}

/// What packing did.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Length of the session, ns.
    pub wall_ns: u64,
    /// … of which seats were taken in turns.
    pub rotating_ns: u64,
    /// Threads that were packed.
    pub threads: usize,
    /// Threads that got a seat, and those that changed CPU for it.
    pub exchanges: u64,
    /// See `exchanges`.
    pub moves: u64,
    /// CPU time of useful work and of waiting in loops that the seats saw, ns.
    pub useful_ns: u64,
    /// See `useful_ns`.
    pub spun_ns: u64,
    /// Efficiency of the pack without rotation, and with it.
    pub without: Option<f64>,
    /// See `without`.
    pub with: Option<f64>,
    /// The last length of a turn, ns.
    pub turn_ns: u64,
    /// CPU time of the controller.
    pub own_ns: u64,
    /// Threads with their original mask again.
    pub restored: usize,
    /// Complaints: what could not be done.
    pub complaints: Vec<String>,
    /// When, and what, if a log was wanted.
    pub log: Vec<(u64, Order)>,
}

/// A packed program.
pub struct Packer {
    shared: Arc<Shared>,
    manager: JoinHandle<Summary>,
}

impl Packer {
    /// Takes hold of the program's threads. From here on they are packed, until [`Packer::finish`].
    ///
    /// # Errors
    /// Before anything was changed, or with everything put back.
    pub fn start(plan: Plan) -> Result<Packer, super::Error> {
        let (ready, is_ready) = sync_channel(1);
        let manager = thread::Builder::new().name("cox-pack".into());
        let manager = manager.spawn(move || manage(&plan, &ready)).map_err(super::Error::Thread)?;
        match is_ready.recv() {
            Ok(Ok(shared)) => Ok(Packer { shared, manager }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(super::Error::Thread(std::io::Error::other("the manager has ended"))),
        }
    }

    /// Lets go of the threads and puts their masks back.
    pub fn finish(self) -> Summary {
        self.shared.over.store(true, Ordering::Release);
        self.manager.thread().unpark();
        self.manager.join().unwrap_or_default()
    }
}

type Ready = SyncSender<Result<Arc<Shared>, super::Error>>;

fn manage(plan: &Plan, ready: &Ready) -> Summary {
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
    let shared = Arc::new(Shared {
        core: Mutex::new(Core::new(Seating::new(plan.rules, plan.capacities.clone()), plan.log)),
        eyes: Eyes { table: stands.table(), spins: Spins::default(), cpus: plan.cpus.clone() },
        tick_ns: AtomicU64::new(0),
        rotating: AtomicBool::new(false),
        over: AtomicBool::new(false),
    });
    let now_ns = arch::monotonic_ns();
    let mut manager = Manager {
        plan,
        root,
        shared: Arc::clone(&shared),
        stands,
        holder,
        tickers: Vec::new(),
        regime: Regime::new(now_ns, plan.turns, plan.always),
        known: 0,
        living: Vec::new(),
        window: WindowStart::default(),
        summary: Summary::default(),
    };
    for pid in &plan.pids {
        if let Err(error) = manager.stands.enrol(*pid) {
            let _ = ready.send(Err(error.into()));
            return Summary::default();
        }
    }
    // All threads that are there now are taken before anybody is told that they are packed.
    if let Err(error) = manager.meet() {
        let _ = ready.send(Err(error));
        return Summary::default();
    }
    for seat in 0..plan.cpus.len() {
        let ours = Arc::clone(&shared);
        let ticker = thread::Builder::new().name(format!("cox-seat-{seat}"));
        match ticker.spawn(move || ticker::run(&ours, seat)) {
            Ok(ticker) => manager.tickers.push(ticker),
            Err(error) => {
                shared.over.store(true, Ordering::Release);
                let _ = ready.send(Err(super::Error::Thread(error)));
                return manager.finish(now_ns);
            }
        }
    }
    let _ = ready.send(Ok(Arc::clone(&shared)));
    manager.run(now_ns)
}

struct Manager<'p> {
    plan: &'p Plan,
    root: Root,
    shared: Arc<Shared>,
    stands: Stands,
    holder: Holder<'p>,
    tickers: Vec<JoinHandle<()>>,
    regime: Regime,
    /// Stands seen so far.
    known: usize,
    living: Vec<Living>,
    window: WindowStart,
    summary: Summary,
}

struct Living {
    member: Member,
    stand: usize,
    /// At the window's start.
    run_ns: u64,
}

#[derive(Default)]
struct WindowStart {
    at_ns: u64,
    own_ns: u64,
}

impl Manager<'_> {
    fn run(mut self, start_ns: u64) -> Summary {
        // It must not wait for the program's threads while it holds the lock that tickers want.
        let _ = realtime::become_realtime(realtime::MANAGER);
        self.window = WindowStart { at_ns: start_ns, own_ns: arch::clock::process_cpu_ns() };
        self.act();
        while !self.shared.over.load(Ordering::Acquire) {
            let steering = self.regime.action() != Action::Rest;
            thread::park_timeout(if steering { LOOK.0 } else { LOOK.1 });
            if let Err(error) = self.meet() {
                self.summary.complaints.push(error.to_string());
                break;
            }
            if steering {
                self.shared.eyes.spins.judge(&self.root);
            }
            let now_ns = arch::monotonic_ns();
            if now_ns >= self.regime.until_ns() {
                self.end_window(now_ns);
            }
        }
        self.finish(start_ns)
    }

    /// Threads that have come or gone since the last look.
    fn meet(&mut self) -> Result<(), super::Error> {
        let table = self.stands.table();
        let given = self.stands.given();
        let mut new = Vec::new();
        while self.known < given {
            // A stand that is just being written is met at the next look, in order.
            let Some(stand) = table.read(self.known) else { break };
            if !has_ended(&stand) {
                new.push((self.known, stand));
            }
            self.known += 1;
        }
        let held = self.holder.take(&new)?;
        let Ok(mut core) = self.shared.core.lock() else { return Err(super::Error::Poisoned) };
        let rotating = self.shared.rotating.load(Ordering::Relaxed);
        let now_ns = arch::monotonic_ns();
        for (stand_number, held) in held {
            let Some(stand) = table.read(stand_number) else { continue };
            let member = core.seating.join(&self.shared.eyes.glance(&stand, now_ns));
            core.members.push(held);
            self.living.push(Living { member, stand: stand_number, run_ns: watch::stands::run_ns(&stand, now_ns) });
            self.summary.threads += 1;
            if rotating {
                core.decide(&self.shared.eyes, |seating, _, orders| seating.admit(member, now_ns, orders));
            }
        }
        self.living.retain(|living| {
            let ended = table.read(living.stand).is_none_or(|stand| has_ended(&stand));
            if ended {
                core.seating.leave(living.member);
            }
            !ended
        });
        Ok(())
    }

    fn end_window(&mut self, now_ns: u64) {
        let length_ns = now_ns - self.window.at_ns;
        let own_now_ns = arch::clock::process_cpu_ns();
        let mut active = 0;
        for living in &mut self.living {
            let Some(stand) = self.shared.eyes.table.read(living.stand) else { continue };
            let run_ns = watch::stands::run_ns(&stand, now_ns);
            active += usize::from(run_ns - living.run_ns.min(run_ns) > length_ns / IDLE_PART);
            living.run_ns = run_ns;
        }
        let Ok(mut core) = self.shared.core.lock() else { return };
        let given = core.seating.take_yield();
        drop(core);
        let capacity: u64 = self.plan.capacities.iter().sum();
        let window = Window {
            given,
            seats_ns: length_ns * capacity / FULL_CAPACITY,
            own_ns: own_now_ns - self.window.own_ns,
            active,
        };
        if std::env::var_os("COX_PACK_DEBUG").is_some() {
            eprintln!("{:?} {:?} len {} eff {:?}", self.regime.action(), window, length_ns / 1000, self.regime.efficiencies());
        }
        self.summary.exchanges += given.exchanges;
        self.summary.moves += given.moves;
        self.summary.useful_ns += given.useful_ns;
        self.summary.spun_ns += given.spun_ns;
        if matches!(self.regime.action(), Action::Rotate { .. }) {
            self.summary.rotating_ns += length_ns;
        }
        self.regime.decide(now_ns, self.plan.cpus.len(), &window);
        self.window = WindowStart { at_ns: now_ns, own_ns: own_now_ns };
        self.act();
    }

    /// Make the regime's action so.
    fn act(&mut self) {
        let (tick_ns, rotating) = match self.regime.action() {
            Action::Rest => (0, false),
            Action::Measure { look_ns } => (look_ns, false),
            Action::Rotate { turn_ns } => (turn_ns, true),
        };
        let was_rotating = self.shared.rotating.swap(rotating, Ordering::AcqRel);
        if let Ok(mut core) = self.shared.core.lock() {
            if rotating {
                core.seating.rules.turn_ns = tick_ns;
            }
            let now_ns = arch::monotonic_ns();
            if tick_ns > 0 && self.shared.tick_ns.load(Ordering::Relaxed) == 0 {
                core.decide(&self.shared.eyes, |seating, sense, _| seating.start_looking(sense));
            }
            if rotating && !was_rotating {
                core.decide(&self.shared.eyes, |seating, sense, orders| seating.begin(now_ns, sense, orders));
            } else if was_rotating && !rotating {
                core.decide(&self.shared.eyes, |seating, _, orders| seating.end(orders));
            }
        }
        self.shared.tick_ns.store(tick_ns, Ordering::Release);
        for ticker in &self.tickers {
            ticker.thread().unpark();
        }
    }

    fn finish(mut self, start_ns: u64) -> Summary {
        self.shared.over.store(true, Ordering::Release);
        for ticker in self.tickers.drain(..) {
            ticker.thread().unpark();
            // A ticker that panicked has no more turns to end.
            let _ = ticker.join();
        }
        let now_ns = arch::monotonic_ns();
        (self.summary.without, self.summary.with) = self.regime.efficiencies();
        self.summary.wall_ns = now_ns - start_ns;
        self.summary.turn_ns = self.shared.tick_ns.load(Ordering::Relaxed);
        self.summary.own_ns = arch::clock::process_cpu_ns();
        if let Ok(mut core) = self.shared.core.lock() {
            let given = core.seating.take_yield();
            self.summary.exchanges += given.exchanges;
            self.summary.moves += given.moves;
            self.summary.useful_ns += given.useful_ns;
            self.summary.spun_ns += given.spun_ns;
            self.summary.log = core.log.take().unwrap_or_default();
            if let Some(failure) = core.failure.take() {
                self.summary.complaints.push(format!("{} orders failed; the first: {failure}", core.failures));
            }
            core.members.clear();
        }
        match self.holder.end() {
            Ok(restored) => self.summary.restored = restored,
            Err(error) => self.summary.complaints.push(error.to_string()),
        }
        self.summary
    }
}
