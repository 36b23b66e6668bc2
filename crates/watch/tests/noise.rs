//! The noise part on the running kernel. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use watch::noise::{Faults, Interruptions, NoiseEvents, Settings};
use wire::noise::{edge, kind};

/// Ticks of a thread that computes are seen with their begin and end, and with the timer's function inside.
#[test]
fn ticks_are_seen() {
    if !testkit::skip::is_root("ticks_are_seen") {
        return;
    }
    let settings = Settings { children: true, ring_bytes: 1 << 22, without: Vec::new() };
    let mut noise = Interruptions::new(&settings, None, Faults::OneIn(1)).unwrap();
    eprintln!("without: {:?}", noise.without());
    noise.follow(std::process::id()).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(400) {
        std::hint::spin_loop();
    }
    let events = noise.drain().unwrap();
    let mut kinds = std::collections::BTreeMap::new();
    for (event, _) in &events {
        *kinds.entry((event.kind, event.edge)).or_insert(0) += 1;
    }
    eprintln!("{kinds:?} lost {}", noise.lost());
    let of = |kind, edge| kinds.get(&(kind, edge)).copied().unwrap_or(0);
    assert!(of(kind::VECTOR, edge::BEGIN) > 10);
    assert!(of(kind::HRTIMER, edge::BEGIN) > 10);
    assert_eq!(noise.lost(), 0);
}

/// Touches new pages, one after another. Returns their number.
fn touch_pages() -> u64 {
    const PAGES: usize = 300;
    let mut memory: Vec<u8> = Vec::with_capacity(PAGES << 12);
    for page in 0..PAGES {
        // A page for which there was no room would show as a smaller number of faults.
        memory.spare_capacity_mut()[page << 12].write(1);
    }
    std::hint::black_box(&mut memory);
    PAGES as u64
}

/// Each fault of the threads that are named is measured, and none of another thread, whose faults are only counted.
#[test]
fn faults_of_named_threads_are_measured_one_by_one() {
    if !testkit::skip::is_root("faults_of_named_threads_are_measured_one_by_one") {
        return;
    }
    let settings = Settings { children: true, ring_bytes: 1 << 22, without: Vec::new() };
    let mut noise = Interruptions::new(&settings, None, Faults::OfNamedThreads).unwrap();
    let tid = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let (named, followed) = std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let other = scope.spawn(move || {
            tell.send(tid()).unwrap();
            gone.recv().unwrap();
            touch_pages();
        });
        let followed = told.recv().unwrap();
        noise.follow(std::process::id()).unwrap();
        noise.follow_threads(&[tid()]).unwrap();
        go.send(()).unwrap();
        other.join().unwrap();
        (tid(), followed)
    });
    let touched = touch_pages();
    // The last events do not wait for those of other CPUs any longer.
    noise.end();
    let events = noise.drain().unwrap();
    let faults =
        |tid: u32| events.iter().filter(|(event, _)| event.kind == kind::FAULT && event.tid == tid).count() as u64;
    assert!(faults(named) >= touched / 2, "{} of {touched}", faults(named));
    assert_eq!(faults(followed), 0);
}
