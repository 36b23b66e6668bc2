//! The design of the paper (A. Roca et al., section III), for comparison: one *leader* thread, on any CPU, is woken whenever a thread leaves its CPU.
//! If that leaves a CPU free and a task is ready, the leader rings a standby. It also scans every millisecond. (The paper's leader is also told when
//! a thread unblocks; here, a thread that needs to know this reads the other threads' logs.)

use std::sync::atomic::Ordering;

use crate::pages::Pages;
use crate::protocol::take_any;
use crate::shared::{is_live, kernel_page, program_page};
use crate::thread::now_ns;
use crate::wait_set::{self, Why};
use crate::{bell, records};

/// Period at which the leader scans for a free CPU and a ready task, milliseconds: the same as in the paper (A. Roca et al.).
const SCAN_MS: i32 = 1;

/// Makes the calling thread the leader, which wakes standbys when other threads leave their CPUs. Returns when the session is over.
pub fn lead() {
    while is_live() {
        let why = wait_set::sleep(SCAN_MS);
        let since_ns = match why {
            Why::Over | Why::Lost => return,
            _ => records::left(),
        };
        let (Some(kernel_page), program_page) = (kernel_page(), program_page()) else { return };
        if why == Why::Left {
            kernel_page.rings.fetch_add(1, Ordering::Relaxed);
        }
        let pages = Pages { program_page, kernel_page };
        let Some(since_ns) = since_ns else {
            program_page.counts.0.empty.fetch_add(u64::from(why == Why::Left), Ordering::Relaxed);
            continue;
        };
        if let Some(at) = take_any(&pages) {
            // If the sleep timed out (`Late`), no event had announced the ready task: the scan found it.
            program_page.counts.0.scan_rescues.fetch_add(u64::from(why == Why::Late), Ordering::Relaxed);
            kernel_page.rung_ns[at as usize % kernel_page.rung_ns.len()]
                .store(if why == Why::Late { now_ns() } else { since_ns }, Ordering::Relaxed);
            bell::ring(at);
        } else {
            kernel_page.no_standby.fetch_add(1, Ordering::Relaxed);
        }
    }
}
