//! Threads of this process that compute on the measured program's CPUs, as those of the simulator do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use loops::sim::cpus::{BURST_NS, BURSTS_PER_S, CoRunner};
use random::Random;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Longest time for which a thread sleeps before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(5);

/// Running co-runners. They end when this is dropped.
pub struct Running {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Starts a co-runner on these CPUs, whose behaviour follows from the seed.
    pub fn start(co_runner: CoRunner, cpus: &[usize], seed: u64) -> Result<Running> {
        let end = Arc::new(AtomicBool::new(false));
        let mut running = Running { end: Arc::clone(&end), threads: Vec::new() };
        let mut spawn = |number: u64, run: Box<dyn FnOnce(&AtomicBool, Random) + Send>| -> Result<()> {
            let (end, random) = (Arc::clone(&end), Random::new(seed << 8 | number));
            let thread = std::thread::Builder::new().name("co-runner".to_owned());
            running.threads.push(thread.spawn(move || run(&end, random)).context("cannot start a co-runner")?);
            Ok(())
        };
        let all = cpus.to_vec();
        match co_runner {
            CoRunner::None => {}
            CoRunner::Stays => {
                let cpu = all[seed as usize % all.len()];
                spawn(0, Box::new(move |end, _| stays(end, cpu)))?;
            }
            CoRunner::Wanders(stay_ms) => {
                let stay = Duration::from_millis(stay_ms.into());
                spawn(0, Box::new(move |end, random| wanders(end, &all, stay, random)))?;
            }
            CoRunner::Bursts => {
                for (number, cpu) in (0..).zip(all) {
                    spawn(number, Box::new(move |end, random| bursts(end, cpu, random)))?;
                }
            }
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A co-runner does not panic, and it ends in any case.
            let _ = thread.join();
        }
    }
}

fn bind(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // The CPU is one of those that this process may use.
    let _ = sched_setaffinity(None, &set);
}

fn computes(end: &AtomicBool, until: Instant) {
    while !end.load(Ordering::Relaxed) && Instant::now() < until {
        std::hint::spin_loop();
    }
}

fn stays(end: &AtomicBool, cpu: usize) {
    bind(cpu);
    while !end.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn wanders(end: &AtomicBool, cpus: &[usize], stay: Duration, mut random: Random) {
    while !end.load(Ordering::Relaxed) {
        bind(cpus[random.below(cpus.len())]);
        computes(end, Instant::now() + stay);
    }
}

fn bursts(end: &AtomicBool, cpu: usize, mut random: Random) {
    bind(cpu);
    while !end.load(Ordering::Relaxed) {
        let until = Instant::now() + Duration::from_secs_f64(-(1.0 - random.unit()).ln() / BURSTS_PER_S);
        while !end.load(Ordering::Relaxed) && Instant::now() < until {
            std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        computes(end, Instant::now() + Duration::from_nanos(BURST_NS as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn co_runners_end_when_they_are_dropped() {
        for co_runner in [CoRunner::None, CoRunner::Bursts, CoRunner::Stays, CoRunner::Wanders(2)] {
            let running = Running::start(co_runner, &[0], 3).unwrap();
            let threads = running.threads.len();
            assert_eq!(threads, usize::from(co_runner != CoRunner::None));
            std::thread::sleep(Duration::from_millis(5));
            let end = Arc::clone(&running.end);
            drop(running);
            // Only this test still knows the flag: all threads have ended.
            assert_eq!(Arc::strong_count(&end), 1);
        }
    }
}
