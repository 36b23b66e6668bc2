//! The noise part on the running kernel. Needs root.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant};

use watch::noise::{Interruptions, Settings};
use wire::noise::{edge, kind};

/// Ticks of a thread that computes are seen with their begin and end, and with the timer's function inside.
#[test]
fn ticks_are_seen() {
    if !testkit::skip::is_root("ticks_are_seen") {
        return;
    }
    let settings = Settings { children: true, ring_bytes: 1 << 22, without: Vec::new() };
    let mut noise = Interruptions::new(&settings, None, 1).unwrap();
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
