//! Which thread waits for which, and where run time went.

use advise::numbers::{about_percent, duration};
use ledger::summary::share;
use ledger::{HotFunction, Thread};

use super::page::Page;
use super::threads::listed;

/// Maximum number of lines about wakers.
const WAKERS: usize = 3;
/// Maximum number of hot functions named.
const HOT: usize = 5;
/// A waker is named only if it ended at least this part of the thread's blocked time.
const MOST: f64 = 0.5;
/// A thread's waker is named only if the thread was blocked for at least this part of its life.
const BLOCKED: f64 = 0.05;

pub(super) fn write(page: &mut Page) {
    page.gap();
    wakers(page);
    hot(page);
}

fn wakers(page: &mut Page) {
    let programs = &page.document.account.programs;
    let threads = programs.iter().flat_map(|program| listed(page.style, program).0);
    let mut waits: Vec<(u64, String)> = threads.filter_map(waits_for).collect();
    waits.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    waits.iter().take(WAKERS).for_each(|(_, line)| page.paragraph(line));
}

/// Formats the main waker of a thread: `4711 heat waits mostly for 4712 heat`. Also returns how long the thread was blocked.
fn waits_for(thread: &Thread) -> Option<(u64, String)> {
    let all = thread.woken_by.iter().fold(0u64, |sum, by| sum.saturating_add(by.blocked_ns));
    let most = thread.woken_by.iter().max_by_key(|by| by.blocked_ns)?;
    let part = share(most.blocked_ns, all);
    let named = most.tid != 0 && most.comm.is_some();
    if !named || part < MOST || share(thread.blocked_ns, thread.wall_ns) < BLOCKED {
        return None;
    }
    let line = format!(
        "{tid} {comm} waits mostly for {waker_tid} {waker}, whose wake-ups ended {} of {blocked_time} of blocked time",
        about_percent(part),
        tid = thread.tid,
        comm = thread.comm,
        waker_tid = most.tid,
        waker = most.comm.as_deref().unwrap_or_default(),
        blocked_time = duration(all)
    );
    Some((most.blocked_ns, line))
}

fn hot(page: &mut Page) {
    let name = |hot: &HotFunction| {
        let waiting = if hot.waiting.is_some() { ", waiting" } else { "" };
        let function = hot.function.as_deref().unwrap_or("?");
        format!("{function} ({}{waiting}) {}", hot.module, duration(hot.run_ns))
    };
    let hot = page.document.account.hot_functions.iter().filter(|hot| hot.run_ns > 0);
    let named: Vec<String> = hot.take(HOT).map(name).collect();
    if !named.is_empty() {
        page.paragraph(&format!("hot functions: {}", named.join(", ")));
    }
}
