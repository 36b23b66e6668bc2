//! A thread's place at a doorbell.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::umt::{BELLS, How};

use crate::bell::{Bell, Woken};
use crate::pages::Pages;
use crate::protocol::{self, Words};
use crate::records;
use crate::rest::rest;
use crate::shared::{how, said, seen};
use crate::thread::{now_ns, sleep_ns};
use crate::together::{self, Why};

/// How often one of those that are parked looks whether the kernel has said all, milliseconds.
const SCAN_MS: i32 = 100;
/// The same where the kernel does not tell that a stranger has left a CPU.
const SCAN_BY_RECORDS_MS: i32 = 10;

/// Who was rung is at work within this time.
const UNDERWAY_NS: libc::c_long = 1_000_000;

/// Somebody who is parked scans.
static SCANS: AtomicBool = AtomicBool::new(false);

/// Parks at `bell` until there is work for one more thread. `session`: the socket, by which one learns that nobody rings any more.
#[must_use]
pub fn park(bell: &Bell, session: RawFd) -> Woken {
    let (Some(seen), said) = (seen(), said()) else { return Woken::Over };
    let pages = Pages { said, seen };
    if how() == How::Records {
        pages.park(bell.number);
        return rest(|| sleep_together(&pages, bell.number));
    }
    if !protocol::settle(&pages, bell.number) {
        return Woken::Rung;
    }
    let mut scan = Scan::every(SCAN_MS);
    let woken = loop {
        match bell.sleep(session, scan.time_ms()) {
            Some(woken) => break woken,
            None if is_scan_rescue(&pages, bell.number) => break Woken::Rung,
            None => {}
        }
    };
    // Rung from within by somebody who took its bit, or by BPF, which did. A wake-up without either leaves the bit behind.
    pages.take(bell.number);
    woken
}

/// The same where all standbys sleep at one place.
fn sleep_together(pages: &Pages<'_>, number: u32) -> Woken {
    let rings = &pages.seen.rings;
    let begins = |since_ns| {
        rings.fetch_add(1, Ordering::Relaxed);
        pages.seen.rung_ns[number as usize % BELLS].store(since_ns, Ordering::Relaxed);
        Woken::Rung
    };
    let mut scan = Scan::every(SCAN_BY_RECORDS_MS);
    loop {
        match together::sleep(scan.time_ms()) {
            Why::Called => return Woken::Rung,
            Why::Over => return Woken::Over,
            Why::Lost => return Woken::Lost,
            Why::Late if is_scan_rescue(pages, number) => return begins(now_ns()),
            Why::Late => {}
            Why::Left => match records::left().filter(|_| pages.take(number)) {
                Some(since_ns) => return begins(since_ns),
                None => {
                    rings.fetch_add(1, Ordering::Relaxed);
                    pages.said.counts.0.empty.fetch_add(1, Ordering::Relaxed);
                }
            },
        }
    }
}

/// Who is parked looks from time to time; one of them more often than the others, who take its place when it has gone to work.
struct Scan {
    mine: bool,
    often_ms: i32,
}

impl Scan {
    fn every(often_ms: i32) -> Scan {
        Scan { mine: false, often_ms }
    }

    /// How long to sleep, milliseconds; -1: as long as it takes, since sentinels are a scan by themselves.
    fn time_ms(&mut self) -> i32 {
        if how() == How::Sentinels {
            return -1;
        }
        self.mine = self.mine || !SCANS.swap(true, Ordering::AcqRel);
        if self.mine { self.often_ms } else { 10 * self.often_ms }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if self.mine {
            SCANS.store(false, Ordering::Release);
        }
    }
}

/// The safety scan: whether a task is ready and a CPU free, and nobody has rung this standby, which is taken for it.
fn is_scan_rescue(pages: &Pages<'_>, bell: u32) -> bool {
    // Wrapping: the program can write any number there.
    let rings = || {
        let own_rings = pages.said.counts.0.own_rings.load(Ordering::Relaxed);
        pages.seen.rings.load(Ordering::Relaxed).wrapping_add(own_rings)
    };
    let is_left = || pages.has_ready() && pages.has_free_cpu();
    let before = rings();
    if !is_left() {
        return false;
    }
    // Somebody may be on the way.
    sleep_ns(UNDERWAY_NS);
    let is = is_left() && rings() == before && pages.take(bell);
    if is {
        pages.said.counts.0.scan_rescues.fetch_add(1, Ordering::Relaxed);
    }
    is
}
