//! The CPU time of the calling thread, for adaptive schedules that are not content with wall time.
//!
//! While a thread keeps its CPU, its CPU time goes on like the processor's clock. So the kernel is asked once, and again only after it has taken the CPU
//! from the thread ([`switches`]) or after a tenth of a second, because the two clocks drift. Without that notice, the kernel is asked each time.
//!
//! Cost of a reading on the development machine, a guest with two CPUs (medians of 9; `cargo test -p preload-loops --release -- --ignored --nocapture
//! what_readings_cost`): the processor's clock 12 ns, this module 12 ns, clock_gettime(CLOCK_THREAD_CPUTIME_ID) 1390 ns. The kernel is
//! asked after each switch, which itself takes some microseconds.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use loops::cpu_share::Share;
use loops::{Finished, Timing};
use wire::loop_records::CpuTime;

use crate::{clock, switches};

/// What the kernel has said last.
#[derive(Clone, Copy)]
struct Base {
    ticks: u64,
    cpu_ns: f64,
}

thread_local! {
    static BASE: Cell<Base> = const { Cell::new(Base { ticks: 0, cpu_ns: 0.0 }) };
    /// The thread's share of its CPU, from all its loops.
    static SHARE: Cell<Option<Share>> = const { Cell::new(None) };
}

/// Longest time after which the kernel is asked again, nanoseconds.
const LONGEST_NS: f64 = 100e6;

/// Whether a schedule may need CPU time.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Prepares for readings. Called before the program runs.
pub fn at_load() {
    WANTED.store(true, Ordering::Relaxed);
    switches::at_load();
}

/// Returns how threads know their CPU time.
pub fn source() -> CpuTime {
    match (WANTED.load(Ordering::Relaxed), switches::is_available()) {
        (false, _) => CpuTime::Unused,
        (true, true) => CpuTime::Noticed,
        (true, false) => CpuTime::Called,
    }
}

/// Returns the calling thread's CPU time at the time `now`, which is the present, nanoseconds.
#[inline]
fn at(now: u64) -> f64 {
    let Ok(base) = BASE.try_with(Cell::get) else { return 0.0 };
    let since_ns = now.wrapping_sub(base.ticks) as f64 * clock::ns_per_tick();
    // The time was read before the question: if the thread has been watched up to now, it was so at that time.
    if switches::is_watched() && since_ns < LONGEST_NS { base.cpu_ns + since_ns } else { ask() }
}

/// Asks the kernel.
#[cold]
fn ask() -> f64 {
    switches::watch();
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let before = clock::now();
    // SAFETY: the pointer is valid. Each thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let after = clock::now();
    let cpu_ns = time.tv_sec as f64 * 1e9 + time.tv_nsec as f64;
    // The kernel has read its clock somewhere between.
    let base = Base { ticks: before.wrapping_add(after.wrapping_sub(before) / 2), cpu_ns };
    let _ = BASE.try_with(|place| place.set(base));
    cpu_ns
}

/// The times of one chunk after the other.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    /// Latest reading: when, ticks, and the thread's CPU time, nanoseconds.
    ticks: u64,
    cpu_ns: f64,
}

impl Stopwatch {
    /// Returns a stopwatch that reads the thread's CPU time, at the time `now`; `None` if wall time is all that counts.
    #[inline]
    pub fn start(timing: Timing, now: u64) -> Option<Stopwatch> {
        if timing == Timing::Wall { None } else { Some(Stopwatch { ticks: now, cpu_ns: at(now) }) }
    }

    /// Returns the times of what began at the time `began`, after the latest reading, and ends now.
    #[inline]
    pub fn lap(&mut self, iterations: u64, began: u64, now: u64) -> Finished {
        let ns_per_tick = clock::ns_per_tick();
        let ns = |from: u64, to: u64| to.wrapping_sub(from) as i64 as f64 * ns_per_tick;
        let cpu_ns = at(now);
        let wall_ns = ns(began, now).max(1.0);
        let used_ns = cpu_ns - self.cpu_ns - ns(self.ticks, began);
        (self.ticks, self.cpu_ns) = (now, cpu_ns);
        // The clocks differ a little, and a forked child's begins anew.
        Finished { iterations, wall_ns, cpu_ns: used_ns.clamp(1.0, wall_ns), dispatch_ns: 0.0 }
    }
}

/// Returns the calling thread's share of its CPU.
pub fn share() -> Share {
    SHARE.try_with(Cell::get).ok().flatten().unwrap_or_default()
}

/// Stores the calling thread's share of its CPU.
#[inline]
pub fn set_share(share: Share) {
    let _ = SHARE.try_with(|place| place.set(Some(share)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    fn thread_ns() -> f64 {
        ask()
    }

    fn compute(ms: u64) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(ms) {}
    }

    /// With the kernel's notice and without it: CPU time is what the kernel says, whether the thread sleeps or waits for its CPU.
    #[test]
    fn laps_have_the_cpu_time_that_the_kernel_says() {
        for watched in [false, true] {
            if watched {
                at_load();
                assert_eq!(source(), CpuTime::Noticed);
            }
            // Threads compete for the CPUs.
            let compete = || {
                let begin = clock::now();
                let (mut stopwatch, first_ns) = (Stopwatch::start(Timing::Cpu, begin).unwrap(), thread_ns());
                let (mut sum, mut began) = (Finished::default(), begin);
                for lap in 0..40 {
                    if lap % 4 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    compute(2);
                    let now = clock::now();
                    let lap = stopwatch.lap(1, began, now);
                    assert!(lap.cpu_ns <= lap.wall_ns, "{lap:?}");
                    sum = Finished { wall_ns: sum.wall_ns + lap.wall_ns, cpu_ns: sum.cpu_ns + lap.cpu_ns, ..sum };
                    began = now;
                }
                let used_ns = thread_ns() - first_ns;
                // Ten sleeps of 2 ms, in which the thread uses no CPU.
                assert!(sum.cpu_ns < sum.wall_ns - 19e6, "{sum:?}");
                assert!((sum.cpu_ns / used_ns - 1.0).abs() < 0.05, "{sum:?}, the kernel: {used_ns}");
            };
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(compete))));
        }
    }

    #[test]
    fn wall_time_needs_no_stopwatch() {
        assert!(Stopwatch::start(Timing::Wall, clock::now()).is_none());
    }

    #[test]
    #[ignore = "measures, and checks nothing"]
    fn what_readings_cost() {
        let each = |name: &str, read: &dyn Fn() -> f64| {
            let mut ns: Vec<f64> = (0..9)
                .map(|_| {
                    let begin = Instant::now();
                    (0..100_000).for_each(|_| {
                        black_box(read());
                    });
                    begin.elapsed().as_nanos() as f64 / 1e5
                })
                .collect();
            ns.sort_by(f64::total_cmp);
            println!("{name}: {:.1} ns ({:.1} to {:.1})", ns[4], ns[0], ns[8]);
        };
        each("processor's clock", &|| clock::now() as f64);
        switches::at_load();
        each("with notice", &|| at(clock::now()));
        each("system call", &ask);
    }
}
