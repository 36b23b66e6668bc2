//! A bar for each thread: its life, divided into states.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use advise::numbers::duration;
use ledger::summary::Sums;

use super::{View, plot};
use crate::markup::Safe;
use crate::round::{apportion, percent, permille};
use crate::text::states::cause_label;

/// A bar as long as the longest life has so many steps.
const STEPS: u64 = 1000;

/// Causes with a colour of their own, as classes of `page.css`; all others share one.
const COLOURED: [(&str, &str); 6] = [
    ("disk", "s-disk"),
    ("network", "s-network"),
    ("pipe", "s-pipe"),
    ("poll", "s-poll"),
    ("sleep", "s-sleep"),
    ("child_wait", "s-child"),
];

/// More bars than these are thin.
const SPACIOUS: usize = 24;

/// A part of a bar.
struct Part {
    class: &'static str,
    label: String,
    ns: u64,
}

/// All states in the order of bars, also those of nothing; they sum to the larger of wall time and what was booked.
fn parts(sums: &Sums, spin_seen: bool) -> Vec<Part> {
    let part = |class, label: &str, ns| Part { class, label: label.to_owned(), ns };
    let mut parts = vec![
        part("s-work", if spin_seen { "work" } else { "ran (spinning not seen)" }, sums.work_ns),
        part("s-spin", "spinning", sums.spin_ns),
        part("s-yield", "after sched_yield", sums.yield_wait_ns),
        part("s-futex", "asleep on a futex", sums.cause_ns("futex")),
        part("s-preempted", "preempted", sums.preempted_ns()),
        part("s-wake", "wake delay", sums.wake_delay_ns),
    ];
    let causes: BTreeMap<&String, &u64> = sums.blocked_by.iter().filter(|(cause, _)| *cause != "futex").collect();
    for (cause, ns) in &causes {
        let class = COLOURED.iter().find(|(coloured, _)| coloured == cause).map_or("s-other", |(_, class)| class);
        parts.push(part(class, &cause_label(cause), **ns));
    }
    let booked = parts.iter().fold(sums.unknown_ns, |sum, part| sum.saturating_add(part.ns));
    parts.push(part("s-unknown", "not known", sums.unknown_ns.saturating_add(sums.wall_ns.saturating_sub(booked))));
    parts
}

/// A row of the picture: a thread, or others.
struct Bar {
    name: String,
    sums: Sums,
    threads: u64,
}

impl Bar {
    /// Of several threads their mean.
    fn wall_ns(&self) -> u64 {
        self.sums.wall_ns / self.threads.max(1)
    }
}

fn bars(view: &View) -> Vec<Bar> {
    let shown: Vec<u32> = view.timeline.rows.iter().filter_map(|row| row.tid).collect();
    let (mut own, mut others) = (vec![Vec::new(); shown.len()], Vec::new());
    let places: BTreeMap<u32, usize> = shown.iter().enumerate().map(|(at, tid)| (*tid, at)).collect();
    for thread in ledger::summary::threads(&view.document.account) {
        match places.get(&thread.tid) {
            Some(at) => own[*at].push(thread),
            None => others.push(thread),
        }
    }
    others.extend(ledger::summary::unlisted(&view.document.account));
    let own = shown.iter().zip(own).filter(|(_, lives)| !lives.is_empty());
    let mut bars: Vec<Bar> =
        own.map(|(tid, lives)| Bar { name: view.name(*tid), sums: Sums::over(lives), threads: 1 }).collect();
    if view.others > 0 {
        bars.push(Bar {
            name: format!("{} (mean)", view.others_name()),
            sums: Sums::over(others),
            threads: view.others,
        });
    }
    bars
}

pub(super) fn write(out: &mut String, view: &View) -> fmt::Result {
    let bars = bars(view);
    let longest = bars.iter().map(Bar::wall_ns).max().unwrap_or(0).max(1);
    let spin_seen = view.document.sees_spin();
    plot::caption(
        out,
        "Each thread’s life, by what it did",
        &format!("The longest bar is {}. Bars begin at each thread’s birth.", duration(longest)),
    )?;
    let dense = if bars.len() > SPACIOUS { " dense" } else { "" };
    writeln!(
        out,
        "<table class=\"bars{dense}\"><thead><tr><th scope=\"col\">thread</th><th scope=\"col\">life</th>\
         <th scope=\"col\" class=\"n\">wall</th><th scope=\"col\" class=\"n\">did work</th></tr></thead><tbody>"
    )?;
    let mut used: Vec<(&'static str, String)> = Vec::new();
    for bar in &bars {
        let parts = parts(&bar.sums, spin_seen);
        let lengths: Vec<u64> = parts.iter().map(|part| part.ns).collect();
        let steps = (u128::from(bar.wall_ns()) * u128::from(STEPS)).div_ceil(u128::from(longest)) as u64;
        let says: Vec<String> = parts
            .iter()
            .zip(permille(&lengths))
            .filter(|(part, _)| part.ns > 0)
            .map(|(part, share)| format!("{} {}", part.label, percent(share)))
            .collect();
        write!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"bar\"><svg viewBox=\"0 0 {STEPS} 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
            Safe(&bar.name),
            Safe(says.join(", "))
        )?;
        let mut x = 0;
        for (part, width) in parts.iter().zip(apportion(&lengths, steps)).filter(|(_, width)| *width > 0) {
            write!(
                out,
                "<rect class=\"{}\" x=\"{x}\" width=\"{width}\" height=\"10\"><title>{}: {}</title></rect>",
                part.class,
                Safe(&part.label),
                duration(part.ns / bar.threads.max(1))
            )?;
            x += width;
            match used.iter_mut().find(|(class, _)| *class == part.class) {
                None => used.push((part.class, part.label.clone())),
                // A colour that several causes share.
                Some((_, label)) if *label != part.label => *label = "blocked otherwise".to_owned(),
                Some(_) => {}
            }
        }
        let work = permille(&[bar.sums.work_ns, bar.sums.wall_ns.saturating_sub(bar.sums.work_ns)])[0];
        writeln!(
            out,
            "</svg></td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            duration(bar.wall_ns()),
            percent(work)
        )?;
    }
    out.push_str("</tbody></table>\n");
    used.sort_by_key(|(class, _)| ORDER.iter().position(|known| known == class));
    plot::legend(out, &used)?;
    out.push_str("</figure>\n");
    Ok(())
}

/// Classes in the order of legends.
const ORDER: [&str; 14] = [
    "s-work",
    "s-spin",
    "s-yield",
    "s-futex",
    "s-preempted",
    "s-wake",
    "s-disk",
    "s-network",
    "s-pipe",
    "s-poll",
    "s-sleep",
    "s-child",
    "s-other",
    "s-unknown",
];
