//! What it costs the measured CPU that cox asks the kernel for events: time stolen with events, minus without.
//!
//! A thread looks for gaps on the measured CPU all the time. Meanwhile the programs are attached and detached in turns, several times a second. What
//! else takes time from this CPU, above all the host of a virtual machine, changes from one run of a program to the next by more than the limit. It
//! changes less from one quarter of a second to the next.

mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use arch::measuring::{Gap, Watched, ticks, until_gap};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use watch::noise::{Faults, Interruptions, NoiseEvents, Settings};

use self::windows::{LENGTHS, Scale, Window, figures};
use super::field::Field;
use super::findings::Findings;
use crate::overhead::cpus::Elsewhere;
use crate::stats::{Bracket, Estimate, median_estimate};
use crate::verdict::at_most;

/// The limit: share of the CPU.
const LIMIT: f64 = 0.001;
/// Smallest number of runs that can show the limit on a virtual machine.
pub const LEAST: u16 = 20;
/// With and without events in turns, this often for each run.
const TURNS_PER_RUN: usize = 10;
/// One window with events, or without.
const WINDOW: Duration = Duration::from_millis(250);
/// After attaching and detaching: the kernel changes its code and frees memory, and interrupts all CPUs for it. With 40 ms, the windows with events
/// still had 0.05 % of the CPU more.
const SETTLE: Duration = Duration::from_millis(200);
/// Size of the ring for events, bytes: more than a window needs.
const RING_BYTES: u32 = 1 << 22;
/// Gaps from this length on are recorded, ns.
const SHORTEST_NS: f64 = 1_000.0;
/// Number of gaps for which there is room: at 5,000 a second, three minutes.
const ROOM: usize = 1 << 20;

/// Measures both in turns.
pub fn observer(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let _elsewhere = Elsewhere::than(field.cpu)?;
    let scale = scale(field.tick_ns());
    let watcher = Watcher::start(field.cpu, scale)?;
    let mut windows = vec![window()];
    for _ in 0..usize::from(runs) * TURNS_PER_RUN {
        field.check()?;
        let settings = Settings { children: false, ring_bytes: RING_BYTES, without: Vec::new() };
        let mut events = Interruptions::new(&settings, None, Faults::OfNamedThreads)?;
        events.follow_threads(&[watcher.tid])?;
        windows.push(window());
        drop(events);
        windows.push(window());
    }
    let gaps = watcher.finish()?;
    let measured: Vec<_> = windows.iter().map(|window| figures(&gaps, *window, scale)).collect();
    let mut found = Findings::default();
    let added = |figure: &dyn Fn(&windows::Figures) -> f64| {
        let turns = measured.windows(3).step_by(2);
        let turns = turns.map(|at| Bracket { before: figure(&at[0]), treated: figure(&at[1]), after: figure(&at[2]) });
        median_estimate(&turns.map(|turn| turn.added()).collect::<Vec<f64>>())
    };
    let stolen = added(&|figures| figures.stolen);
    found.judge(
        at_most(&stolen, LIMIT),
        format!("all stolen time: {}, limit {} %", share_of_cpu(&stolen), LIMIT * 100.0),
    );
    let by_ticks = added(&|figures| figures.by_ticks);
    found.judge(
        at_most(&by_ticks, LIMIT),
        format!("the kernel's ticks: {}, limit {} %", share_of_cpu(&by_ticks), LIMIT * 100.0),
    );
    for (at, name) in LENGTHS.iter().enumerate() {
        found.line(format!("gaps {name}: {}", share_of_cpu(&added(&|figures| figures.by_length[at]))));
    }
    Ok(found)
}

fn share_of_cpu(added: &Estimate) -> String {
    let spread = added
        .interval
        .map_or_else(String::new, |(low, high)| format!(" ({:+.4} to {:+.4})", low * 100.0, high * 100.0));
    format!("{:+.4} %{spread} of the CPU with events", added.median * 100.0)
}

/// Waits for what the last change has caused, and then for the length of a window.
fn window() -> Window {
    thread::sleep(SETTLE);
    let begin = ticks();
    thread::sleep(WINDOW);
    Window { begin, end: ticks() }
}

/// Measures the rate of the counter.
fn scale(tick_ns: u64) -> Scale {
    let (begin_ns, begin) = (arch::monotonic_ns(), ticks());
    thread::sleep(Duration::from_millis(100));
    let rate = (ticks() - begin) as f64 / (arch::monotonic_ns() - begin_ns) as f64;
    Scale { ticks_per_ns: rate, period_ns: tick_ns as f64 }
}

/// The thread that looks for gaps.
struct Watcher {
    tid: u32,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Gap>>,
}

impl Watcher {
    fn start(cpu: usize, scale: Scale) -> Result<Watcher> {
        let (say, said) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, threshold) = (Arc::clone(&is_over), (scale.ticks_per_ns * SHORTEST_NS) as u64);
        let thread = thread::spawn(move || {
            let mut mask = CpuSet::new();
            mask.set(cpu);
            let pinned = sched_setaffinity(None, &mask).map(|()| gettid().as_raw_nonzero().get() as u32);
            // Its memory exists before the measurement, so that no page fault falls into it.
            let mut gaps = vec![Gap { before: 1, after: 1 }; ROOM];
            gaps.clear();
            if say.send(pinned).is_ok() && pinned.is_ok() {
                look(&mut gaps, threshold, &over);
            }
            gaps
        });
        let tid = said.recv().map_err(|_| anyhow!("the thread that looks for gaps has ended"))?;
        Ok(Watcher { tid: tid.context("cannot go to the measured CPU")?, is_over, thread })
    }

    fn finish(self) -> Result<Vec<Gap>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread that looks for gaps has failed"))
    }
}

/// Records gaps until `is_over`, or until there is no more room.
fn look(gaps: &mut Vec<Gap>, threshold: u64, is_over: &AtomicBool) {
    let mut watched = Watched::default();
    let mut last = ticks();
    while !is_over.load(Ordering::Relaxed) && gaps.len() < gaps.capacity() {
        let gap = until_gap(last, threshold, last + (1 << 24), &mut watched);
        last = gap.after;
        if gap.before != gap.after {
            gaps.push(gap);
            last = ticks();
        }
    }
}
