//! A bar for each thread, with a part for the time in each state. The bar is not a time line.

use advise::numbers::duration;
use ledger::causes::wording;
use ledger::summary::Sums;
use ledger::timeline::Row;
use wire::Cause;

use super::view::View;
use super::{asleep, colours, plot};
use crate::markup::{Markup, Safe};
use crate::round::{apportion, percent, permille};
use crate::state::State;

/// Length, in steps, of the bar of the thread that lived longest.
const STEPS: u64 = 1000;

/// If there are more bars than this, they are thin.
const SPACIOUS: usize = 24;

/// A part of a bar.
struct Part {
    class: &'static str,
    label: &'static str,
    ns: u64,
}

/// Returns all states in the order of bars, including those of 0 ns. If the times of all states add up to less than the wall time, the difference is
/// added to the unknown time.
fn parts(sums: &Sums, spin_seen: bool) -> Vec<Part> {
    let part = |state, label, ns| Part { class: colours::class(state), label, ns };
    let blocked = |cause| part(State::Blocked(cause), wording(cause).label, sums.blocked_by[cause]);
    let (work, worked) = if spin_seen { (State::Work, "work") } else { (State::Run, "ran (spinning not seen)") };
    let mut parts = vec![
        part(work, worked, sums.work_ns()),
        part(State::Spin, "spinning", sums.spin_ns),
        part(State::KernelSync, "in futex system calls", sums.kernel_sync_ns),
        part(State::Yield, "after sched_yield", sums.yield_wait_ns),
        blocked(Cause::Futex),
        part(State::Preempted, "preempted", sums.preempted_ns()),
        part(State::Wake, "wake delay", sums.wake_delay_ns),
    ];
    parts.extend(Cause::ALL.into_iter().filter(|cause| *cause != Cause::Futex).map(blocked));
    let booked = parts.iter().fold(sums.unknown_ns, |sum, part| sum.saturating_add(part.ns));
    let unknown_ns = sums.unknown_ns.saturating_add(sums.wall_ns.saturating_sub(booked));
    parts.push(part(State::Unknown, "not known", unknown_ns));
    parts
}

/// A row of the picture: a thread, or all threads without a row of their own.
struct Bar {
    name: String,
    sums: Sums,
    threads: u64,
}

impl Bar {
    /// Returns the bar of a row; `None` if the thread is not in the account.
    fn of(view: &View, row: &Row) -> Option<Bar> {
        let lives = view.lives.get(&row.tid);
        let sums = Sums::over(lives.into_iter().flatten().copied());
        let bar = Bar { name: view.row_name(row), sums, threads: view.row_threads(row) };
        (row.tid.is_none() || lives.is_some()).then_some(bar)
    }

    /// Returns the wall time; the mean if the row stands for several threads.
    fn wall_ns(&self) -> u64 {
        self.sums.wall_ns / self.threads
    }
}

/// The bars, and the colours that they use.
struct Drawing<'o> {
    out: &'o mut Markup,
    spin_seen: bool,
    longest: u64,
    used: Vec<&'static str>,
}

pub(super) fn write(out: &mut Markup, view: &View) {
    let (rows, folded) = view.rows();
    let [bars, folded] =
        [rows, folded].map(|rows| rows.iter().filter_map(|row| Bar::of(view, row)).collect::<Vec<_>>());
    let longest = bars.iter().chain(&folded).map(Bar::wall_ns).max().unwrap_or(0).max(1);
    plot::caption(
        out,
        "Each thread’s time by state (a sum, not a time line)",
        &format!(
            "A bar is as long as the thread lived: the longest is {}. The parts of a bar are sums over the thread’s life, in the order of the legend; \
             the pictures over time below show when the thread was in each state.",
            duration(longest)
        ),
    );
    let mut drawing = Drawing { out, spin_seen: view.document.sees_spin(), longest, used: Vec::new() };
    drawing.table(&bars);
    if !folded.is_empty() {
        let threads = folded.iter().fold(0, |sum, bar| sum + bar.threads);
        writeln!(
            drawing.out,
            "<details class=\"asleep\"><summary>{} (blocked for at least {} of their life): {}</summary>",
            asleep::headline(threads),
            percent(asleep::ALL_THE_TIME),
            Safe(asleep::causes(folded.iter().map(|bar| &bar.sums)))
        );
        drawing.table(&folded);
        drawing.out.push_str("</details>\n");
    }
    plot::legend(drawing.out, &colours::entries(&drawing.used));
    out.push_str("</figure>\n");
}

impl Drawing<'_> {
    fn table(&mut self, bars: &[Bar]) {
        let dense = if bars.len() > SPACIOUS { " dense" } else { "" };
        writeln!(
            self.out,
            "<table class=\"bars{dense}\"><thead><tr><th scope=\"col\" class=\"who\">thread</th><th scope=\"col\">time by state</th>\
             <th scope=\"col\" class=\"n\">life</th><th scope=\"col\" class=\"n\">did work</th></tr></thead><tbody>"
        );
        bars.iter().for_each(|bar| self.bar(bar));
        self.out.push_str("</tbody></table>\n");
    }

    fn bar(&mut self, bar: &Bar) {
        let parts = parts(&bar.sums, self.spin_seen);
        let lengths: Vec<u64> = parts.iter().map(|part| part.ns).collect();
        let steps = (u128::from(bar.wall_ns()) * u128::from(STEPS)).div_ceil(u128::from(self.longest)) as u64;
        let says: Vec<String> = parts
            .iter()
            .zip(permille(&lengths))
            .filter(|(part, _)| part.ns > 0)
            .map(|(part, share)| format!("{} {}", part.label, percent(share)))
            .collect();
        write!(
            self.out,
            "<tr><th scope=\"row\" title=\"{0}\">{0}</th><td class=\"bar\"><svg viewBox=\"0 0 {STEPS} 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{1}\">",
            Safe(&bar.name),
            Safe(says.join(", "))
        );
        let mut x = 0;
        for (part, width) in parts.iter().zip(apportion(&lengths, steps)).filter(|(_, width)| *width > 0) {
            write!(
                self.out,
                "<rect class=\"{}\" x=\"{x}\" width=\"{width}\" height=\"10\"><title>{}: {}</title></rect>",
                part.class,
                Safe(part.label),
                duration(part.ns / bar.threads)
            );
            x += width;
            if !self.used.contains(&part.class) {
                self.used.push(part.class);
            }
        }
        let work = permille(&[bar.sums.work_ns(), bar.sums.wall_ns.saturating_sub(bar.sums.work_ns())])[0];
        writeln!(
            self.out,
            "</svg></td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            duration(bar.wall_ns()),
            percent(work)
        );
    }
}
