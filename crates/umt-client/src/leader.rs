//! The layout of the paper (A. Roca et al., section III), for comparison: one *leader*, on whatever CPU, is woken whenever a thread leaves its CPU, and
//! rings a standby where a CPU is left and a task is ready. It looks every millisecond as well. (The paper's is also told when a thread unblocks;
//! here whoever wants to know reads that thread's log.)

use std::sync::atomic::Ordering;

use crate::pages::Pages;
use crate::protocol::take_any;
use crate::shared::{is_live, said, seen};
use crate::thread::now_ns;
use crate::together::{self, Why};
use crate::{bell, records};

/// The paper's period of its scan, milliseconds.
const SCAN_MS: i32 = 1;

/// What the leader does until the session is over.
pub fn lead() {
    while is_live() {
        let why = together::sleep(SCAN_MS);
        let since_ns = match why {
            Why::Over | Why::Lost => return,
            _ => records::left(),
        };
        let (Some(seen), said) = (seen(), said()) else { return };
        if why == Why::Left {
            seen.rings.fetch_add(1, Ordering::Relaxed);
        }
        let pages = Pages { said, seen };
        let Some(since_ns) = since_ns else {
            said.counts.0.empty.fetch_add(u64::from(why == Why::Left), Ordering::Relaxed);
            continue;
        };
        if let Some(at) = take_any(&pages) {
            // Only a scan finds what no event has told.
            said.counts.0.scan_rescues.fetch_add(u64::from(why == Why::Late), Ordering::Relaxed);
            seen.rung_ns[at as usize % seen.rung_ns.len()]
                .store(if why == Why::Late { now_ns() } else { since_ns }, Ordering::Relaxed);
            bell::ring(at);
        } else {
            seen.no_standby.fetch_add(1, Ordering::Relaxed);
        }
    }
}
