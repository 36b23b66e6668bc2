//! The threads that measure, one on each CPU.
//!
//! 1. Each thread goes to its CPU, makes its memory there, and tells its id.
//! 2. All threads compute (warm-up), while the caller lets the kernel follow them and reads the counters.
//! 3. The caller says from which tick to which they measure. All begin at the same tick.
//! 4. A thread that has finished computes on until the caller lets it end: if it ended or slept, the kernel would move other threads to its CPU, and
//!    wake the caller on one of the CPUs that are still being measured.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arch::measuring::Gap;
use rustix::thread::{CpuSet as KernelCpuSet, gettid, sched_setaffinity};

use crate::loops::bsp::{self, Meeting, Rings};
use crate::loops::fwq::Worker;
use crate::loops::{Histogram, NO_GAP, Ring, Series, Window, detour, ftq, fwq};
use crate::plan::{Loop, Plan, Work};

/// Stack of a measuring thread, bytes. It is locked in memory with everything else.
const STACK_BYTES: usize = 256 << 10;
/// How long threads may take to get ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ticks for which a thread computes between two looks at the phase.
const LOOK_TICKS: u64 = 1 << 20;

/// The longest work that is tried while its size is adapted: thirty tries take 0.3 s.
const LONGEST_TRY: Duration = Duration::from_millis(10);
/// Number of quanta beyond the expected ones for which there is room.
const SPARE_QUANTA: usize = 1000;

const WARMING_UP: u32 = 0;
const MEASURING: u32 = 1;
const ENDING: u32 = 2;

/// What the caller and the threads share.
#[derive(Debug)]
struct Shared {
    phase: AtomicU32,
    stop: AtomicBool,
    begin: AtomicU64,
    end: AtomicU64,
    threshold: AtomicU64,
    coarse: AtomicU64,
    finished: AtomicU32,
    ready: Mutex<Vec<Ready>>,
    meeting: Meeting,
}

/// A thread that is ready, or why it is not.
#[derive(Debug)]
struct Ready {
    place: usize,
    tid: std::result::Result<u32, String>,
}

/// The measuring threads. Dropping this value ends them.
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Option<Series>>>,
    tids: Vec<u32>,
    cpus: Vec<u32>,
}

impl Team {
    /// Starts the threads and waits until all of them compute. `ticks_per_ns`: the rate of the counter.
    ///
    /// # Errors
    /// If a thread cannot be started, or not on its CPU.
    pub fn start(plan: &Plan, ticks_per_ns: f64) -> Result<Team> {
        let cpus: Vec<u32> = plan.cpus.iter().collect();
        let shared = Arc::new(Shared {
            phase: AtomicU32::new(WARMING_UP),
            stop: AtomicBool::new(false),
            begin: AtomicU64::new(0),
            end: AtomicU64::new(0),
            threshold: AtomicU64::new(0),
            coarse: AtomicU64::new(0),
            finished: AtomicU32::new(0),
            ready: Mutex::default(),
            meeting: Meeting::new(cpus.len()),
        });
        let mut team = Team { shared, threads: Vec::new(), tids: Vec::new(), cpus };
        for place in 0..team.cpus.len() {
            let member = Member {
                place,
                mask: if plan.pinned { vec![team.cpus[place]] } else { team.cpus.clone() },
                measuring: plan.measuring,
                length: plan.length,
                ring: plan.ring,
                ticks_per_ns,
                shared: Arc::clone(&team.shared),
            };
            let builder = std::thread::Builder::new().name(format!("cox-noise-{}", team.cpus[place]));
            let thread = builder.stack_size(STACK_BYTES).spawn(move || member.run());
            team.threads.push(thread.context("cannot start a measuring thread")?);
        }
        team.tids = team.wait_until_ready()?;
        Ok(team)
    }

    fn wait_until_ready(&self) -> Result<Vec<u32>> {
        let begin = Instant::now();
        loop {
            {
                let ready = self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(Err(why)) = ready.iter().map(|ready| &ready.tid).find(|tid| tid.is_err()) {
                    bail!("{why}");
                }
                if ready.len() == self.cpus.len() {
                    let mut tids: Vec<(usize, u32)> =
                        ready.iter().filter_map(|ready| Some((ready.place, *ready.tid.as_ref().ok()?))).collect();
                    tids.sort_unstable();
                    return Ok(tids.into_iter().map(|(_, tid)| tid).collect());
                }
            }
            if begin.elapsed() > PATIENCE {
                bail!(
                    "the measuring threads do not get their CPUs: after {} s, not all of them run",
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the threads' ids, in the order of [`cpus`](Team::cpus).
    #[must_use]
    pub fn tids(&self) -> &[u32] {
        &self.tids
    }

    /// Returns the threads' CPUs, ascending.
    #[must_use]
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Begins the measurement.
    pub fn measure(&self, window: Window) {
        self.shared.begin.store(window.begin, Ordering::Relaxed);
        self.shared.end.store(window.end, Ordering::Relaxed);
        self.shared.threshold.store(window.threshold, Ordering::Relaxed);
        self.shared.coarse.store(window.coarse, Ordering::Relaxed);
        self.shared.phase.store(MEASURING, Ordering::Release);
    }

    /// Ends the measurement early.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether all threads have measured.
    #[must_use]
    pub fn has_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire) as usize == self.cpus.len()
    }

    /// Ends the threads, and returns what they saw, in the order of [`cpus`](Team::cpus). Waits until they have finished.
    ///
    /// # Errors
    /// If a thread has panicked, or has measured nothing.
    pub fn finish(mut self) -> Result<Vec<Series>> {
        while !self.has_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.phase.store(ENDING, Ordering::Release);
        let series = std::mem::take(&mut self.threads).into_iter().map(|thread| thread.join().ok().flatten());
        series.collect::<Option<Vec<Series>>>().context("a measuring thread has failed")
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.stop();
        self.shared.phase.store(ENDING, Ordering::Release);
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

/// One measuring thread.
struct Member {
    place: usize,
    mask: Vec<u32>,
    measuring: Loop,
    length: Duration,
    ring: usize,
    ticks_per_ns: f64,
    shared: Arc<Shared>,
}

/// The memory and the work of a loop.
enum Prepared {
    Detour(Ring<Gap>, Histogram),
    Fwq(Worker, Ring<Gap>),
    Ftq(u64, Ring<u64>),
    Bsp(Worker, Rings),
}

impl Member {
    fn run(self) -> Option<Series> {
        let tid = match self.go_to_cpu() {
            Ok(()) => Ok(gettid().as_raw_nonzero().get().unsigned_abs()),
            Err(error) => Err(format!("cannot run on CPU {:?}: {error}", self.mask)),
        };
        let failed = tid.is_err();
        let prepared = self.prepare();
        self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner).push(Ready { place: self.place, tid });
        if failed {
            return None;
        }
        self.warm_up();
        if self.phase() == ENDING {
            return None;
        }
        let series = self.measure(prepared);
        self.shared.finished.fetch_add(1, Ordering::Release);
        while self.phase() != ENDING {
            std::hint::spin_loop();
        }
        Some(series)
    }

    fn phase(&self) -> u32 {
        self.shared.phase.load(Ordering::Acquire)
    }

    fn go_to_cpu(&self) -> rustix::io::Result<()> {
        let mut mask = KernelCpuSet::new();
        self.mask.iter().for_each(|cpu| mask.set(*cpu as usize));
        sched_setaffinity(None, &mask)
    }

    fn ticks(&self, time: Duration) -> u64 {
        ((time.as_nanos() as f64 * self.ticks_per_ns) as u64).max(1)
    }

    /// Returns for how many quanta there must be room.
    fn quanta(&self, quantum: Duration) -> usize {
        // A quantum takes at least its nominal time, but for the precision with which the work is adapted.
        (self.length.as_nanos() / quantum.as_nanos().max(1)) as usize * 21 / 20 + SPARE_QUANTA
    }

    fn worker(&self, work: Work, quantum: Duration) -> Worker {
        Worker::new(work, self.ticks(quantum), self.ticks(LONGEST_TRY))
    }

    fn prepare(&self) -> Prepared {
        match self.measuring {
            Loop::Detour => Prepared::Detour(Ring::new(self.ring, NO_GAP), Histogram::new()),
            Loop::Fwq(work, quantum) => {
                Prepared::Fwq(self.worker(work, quantum), Ring::new(self.quanta(quantum), NO_GAP))
            }
            Loop::Ftq(quantum) => {
                let (length, quantum) = (self.ticks(self.length), self.ticks(quantum));
                Prepared::Ftq(quantum, Ring::new(ftq::room(length, quantum), u64::MAX))
            }
            Loop::Bsp(quantum) => Prepared::Bsp(self.worker(Work::Integer, quantum), Rings::new(self.quanta(quantum))),
        }
    }

    fn warm_up(&self) {
        detour::warm_up(LOOK_TICKS, || self.phase() != WARMING_UP);
    }

    fn measure(&self, prepared: Prepared) -> Series {
        let shared = &self.shared;
        let window = Window {
            begin: shared.begin.load(Ordering::Relaxed),
            end: shared.end.load(Ordering::Relaxed),
            threshold: shared.threshold.load(Ordering::Relaxed),
            coarse: shared.coarse.load(Ordering::Relaxed),
        };
        match prepared {
            Prepared::Detour(ring, lengths) => detour::measure(window, ring, lengths, &shared.stop),
            Prepared::Fwq(worker, ring) => fwq::measure(window, worker, ring, &shared.stop),
            Prepared::Ftq(quantum, ring) => ftq::measure(window, quantum, ring, &shared.stop),
            Prepared::Bsp(worker, rings) => {
                bsp::measure(window, worker, rings, &shared.meeting, self.place == 0, &shared.stop)
            }
        }
    }
}
