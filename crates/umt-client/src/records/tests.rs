//! Compares the logs with the kernel's own counts for the same thread.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::{Duration, Instant};

use testkit::skip::{Need, skip};

use super::*;
use crate::wait_set::Why;

const OUTS: u64 = 300;

/// Returns the numbers of voluntary and of involuntary switches of the calling thread.
fn switches() -> (u64, u64) {
    let usage = crate::thread::usage();
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

fn own_place() -> u32 {
    OWN.get().unwrap().0
}

/// Counts the switches out of the CPU among the last `records` records of the log at `place`: voluntary ones, and preemptions.
fn outs(place: u32, records: u64) -> (u64, u64) {
    let end = written(place);
    let kinds = (1..=records).filter_map(|back| {
        let at = place as usize * PLACE + PAGE + (end - back * RECORD) as usize % PAGE;
        // SAFETY: the record is within the arena.
        let misc = u32::from(unsafe { ARENA.load(Ordering::Acquire).add(at).cast::<Record>().read_volatile() }.misc);
        let is_out = misc & abi::PERF_RECORD_MISC_SWITCH_OUT != 0;
        is_out.then_some(misc & abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT == 0)
    });
    kinds.fold((0, 0), |(will, other), by_will| (will + u64::from(by_will), other + u64::from(!by_will)))
}

/// A single test, because a process has only one arena and one epoll instance for the watchers.
#[test]
fn logs_say_what_the_kernel_counts() {
    if let Err(why) = probe() {
        return skip("logs_say_what_the_kernel_counts", Need::Perf, why);
    }
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors, which stay open.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, ends.as_mut_ptr()) }, 0);
    begin().unwrap();
    wait_set::begin(ends[0]).unwrap();
    every_switch_is_in_the_log();
    who_watches_is_woken_at_outs_only();
    a_blocked_thread_is_not_runnable_and_a_busy_one_is();
    who_has_ended_is_nowhere();
}

fn every_switch_is_in_the_log() {
    let work = || {
        assert!(enlist());
        let (before, at) = (switches(), written(own_place()));
        for n in 0..20 {
            std::thread::sleep(Duration::from_micros(100 + n));
        }
        let (after, end) = (switches(), written(own_place()));
        let (will, other) = (after.0 - before.0, after.1 - before.1);
        assert!(will >= 20);
        // Each switch adds two records: one when the thread leaves the CPU, and one when it gets a CPU again.
        assert_eq!((end - at) / RECORD, 2 * (will + other));
        // The kernel overwrites old records of the ring, so the kinds of switches are compared only if all records are still there.
        if will + other < PAGE as u64 / RECORD / 2 {
            assert_eq!(outs(own_place(), (end - at) / RECORD), (will, other));
        }
        discharge();
    };
    spawn(work).join().unwrap();
}

fn who_watches_is_woken_at_outs_only() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let watcher = spawn(|| {
        let mut wakes = 0;
        while !DONE.load(Ordering::Acquire) {
            wakes += u64::from(wait_set::sleep(50) == Why::Left);
        }
        wakes
    });
    let slept = spawn(|| {
        assert!(enlist());
        for _ in 0..OUTS {
            std::thread::sleep(Duration::from_micros(300));
            // Long enough that a watcher, if a switch-in had woken it, has gone back to sleep.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(300) {
                std::hint::spin_loop();
            }
        }
        let records = written(own_place()) / RECORD;
        discharge();
        records
    });
    let records = slept.join().unwrap();
    DONE.store(true, Ordering::Release);
    let wakes = watcher.join().unwrap();
    assert!(records >= 2 * OUTS);
    // If switch-ins woke the watcher, too, there would be nearly one wake-up for each record. If the watcher is late, one wake-up covers several
    // records.
    assert!(wakes <= records / 2 + 2 && wakes > records / 8, "{wakes} wake-ups, {records} records");
}

fn a_blocked_thread_is_not_runnable_and_a_busy_one_is() {
    let (told, hears) = channel::<()>();
    let (says, place_of) = channel();
    let blocked = spawn(move || {
        assert!(enlist());
        crate::leave_once();
        says.send(own_place()).unwrap();
        hears.recv().unwrap();
        stay_here();
        // The rival inherits the affinity mask, so both threads take turns on this CPU.
        let rival = spawn(|| {
            while !ENOUGH.load(Ordering::Acquire) {
                std::hint::spin_loop()
            }
        });
        says.send(own_place()).unwrap();
        while !ENOUGH.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        rival.join().unwrap();
        says.send(own_place()).unwrap();
        hears.recv().unwrap();
        discharge();
    });
    let place = place_of.recv().unwrap();
    let until = |wanted: bool| {
        while state(place).unwrap().is_runnable != wanted {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    until(false);
    let since_ns = state(place).unwrap().since_ns;
    assert!(since_ns > 0 && since_ns < crate::now_ns());
    told.send(()).unwrap();
    place_of.recv().unwrap();
    until(true);
    for _ in 0..200 {
        std::thread::sleep(Duration::from_micros(700));
        assert_eq!(states().filter(|state| state.is_runnable).count(), 1, "also while it waits for a CPU");
    }
    ENOUGH.store(true, Ordering::Release);
    place_of.recv().unwrap();
    until(false);
    told.send(()).unwrap();
    blocked.join().unwrap();
}

/// Binds the calling thread to the CPU that it is on.
fn stay_here() {
    // SAFETY: `mask` is an initialised set of CPUs that contains one CPU. The kernel only reads it.
    unsafe {
        let mut mask: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut mask);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const mask), 0);
    }
}

static ENOUGH: AtomicBool = AtomicBool::new(false);

fn who_has_ended_is_nowhere() {
    assert_eq!(states().count(), 0);
    assert_eq!(TAKEN[0].load(Ordering::Relaxed), 0, "places are given back");
}
