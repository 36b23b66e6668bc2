//! How a standby sleeps at its doorbell, and how it looks for work from time to time in case no doorbell was rung for it (the safety scan).

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::umt::{BELLS, How};

use crate::bell::{Bell, Woken};
use crate::pages::Pages;
use crate::protocol::{self, Words};
use crate::records;
use crate::rest::rest;
use crate::shared::{how, kernel_page, program_page};
use crate::thread::{now_ns, sleep_ns};
use crate::wait_set::{self, Why};

/// Period at which one of the parked standbys checks whether an event was missed, milliseconds.
const SCAN_MS: i32 = 100;
/// As [`SCAN_MS`], but for sessions that learn of blocked threads from the kernel's records of switches. It is shorter, because in these sessions no
/// event reports that an untracked thread has left a CPU.
const SCAN_BY_RECORDS_MS: i32 = 10;

/// Time within which a standby that was rung begins to work, nanoseconds.
const UNDERWAY_NS: libc::c_long = 1_000_000;

/// True while one of the parked standbys scans for missed events at the short period ([`SCAN_MS`]); the others scan at a period ten times as long.
static SCANS: AtomicBool = AtomicBool::new(false);

/// Parks the calling standby: it sleeps at its doorbell `bell` until there is work for one more thread. Returns why the sleep ended. When the session
/// ends, the other end of the socket `session` is closed, which also ends the sleep.
#[must_use]
pub fn park(bell: &Bell, session: RawFd) -> Woken {
    let (Some(kernel_page), program_page) = (kernel_page(), program_page()) else { return Woken::Over };
    let pages = Pages { program_page, kernel_page };
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
    // If the doorbell was rung, the ringing side (BPF or a thread of the program) has already cleared the bit. After a wake-up without a
    // ring the bit is still set.
    pages.take(bell.number);
    woken
}

/// Sleeps on behalf of [`park`], in a session in which the kernel's logs of thread switches wake standbys. All standbys of such a session share one
/// place to sleep, the epoll instance of [`wait_set`].
fn sleep_together(pages: &Pages<'_>, number: u32) -> Woken {
    let rings = &pages.kernel_page.rings;
    let begins = |since_ns| {
        rings.fetch_add(1, Ordering::Relaxed);
        pages.kernel_page.rung_ns[number as usize % BELLS].store(since_ns, Ordering::Relaxed);
        Woken::Rung
    };
    let mut scan = Scan::every(SCAN_BY_RECORDS_MS);
    loop {
        match wait_set::sleep(scan.time_ms()) {
            Why::Called => return Woken::Rung,
            Why::Over => return Woken::Over,
            Why::Lost => return Woken::Lost,
            Why::Late if is_scan_rescue(pages, number) => return begins(now_ns()),
            Why::Late => {}
            Why::Left => match records::left().filter(|_| pages.take(number)) {
                Some(since_ns) => return begins(since_ns),
                None => {
                    rings.fetch_add(1, Ordering::Relaxed);
                    pages.program_page.counts.0.empty.fetch_add(1, Ordering::Relaxed);
                }
            },
        }
    }
}

/// The safety scan of a parked standby: its periodic search for a ready task and a free CPU for which no standby was rung. One standby scans more
/// often than the others. When that standby goes to work, another one takes its place.
struct Scan {
    mine: bool,
    often_ms: i32,
}

impl Scan {
    fn every(often_ms: i32) -> Scan {
        Scan { mine: false, often_ms }
    }

    /// Returns how long the standby may sleep until its next scan, milliseconds. With sentinels it returns -1 (no limit), since sentinels look for
    /// tasks themselves.
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

/// Scans for a ready task and a free CPU for which no standby was rung. If there are both, clears this standby's bit in `parked`, so that the standby
/// goes to work, and returns true.
fn is_scan_rescue(pages: &Pages<'_>, bell: u32) -> bool {
    // How often doorbells were rung. The sum may wrap around, because the program can write any number into its page.
    let rings = || {
        let own_rings = pages.program_page.counts.0.own_rings.load(Ordering::Relaxed);
        pages.kernel_page.rings.load(Ordering::Relaxed).wrapping_add(own_rings)
    };
    let is_left = || pages.has_ready() && pages.has_free_cpu();
    let before = rings();
    if !is_left() {
        return false;
    }
    // A standby that was rung may be about to take the task.
    sleep_ns(UNDERWAY_NS);
    let is = is_left() && rings() == before && pages.take(bell);
    if is {
        pages.program_page.counts.0.scan_rescues.fetch_add(1, Ordering::Relaxed);
    }
    is
}
