//! Lengths of wake delays and time slices: histograms by powers of two, and a table of quantiles.

use advise::numbers::{counted, duration};
use ledger::timeline::Histogram;

use super::view::View;
use super::{colours, plot, table};
use crate::markup::{Markup, Safe};
use crate::style::Style;
use crate::text::latency;

const WIDTH: u64 = 500;
const HEIGHT: u64 = 200;
const LEFT: u64 = 58;

pub(super) fn write(out: &mut Markup, view: &View) {
    out.push_str("<div class=\"pair\">");
    histogram(out, view, "Wake delays", "wake delay", "s-wake", &view.timeline.wake_delays);
    histogram(out, view, "Time slices", "time slice", colours::ON_A_CPU, &view.timeline.runs);
    out.push_str("</div>\n");
    let (document, style) = (view.document, Style::default());
    for program in &document.account.programs {
        if let Some(latencies) = latency::table(document, &style, program) {
            table::write(out, &latencies, "");
            writeln!(out, "<p>{}</p>", Safe(latency::notes(document, program)));
        }
    }
}

fn histogram(out: &mut Markup, view: &View, title: &str, noun: &str, class: &str, lengths: &Histogram) {
    if lengths.count() == 0 {
        plot::caption(out, title, "");
        out.push_str("<p class=\"none\">No complete interval was seen.</p></figure>\n");
        return;
    }
    let known = |percent| lengths.shorter_than_ns(percent).map_or(String::new(), duration);
    let intervals = counted(lengths.count(), noun);
    let note = format!("{intervals}: half are shorter than {}, 99 of 100 than {}.", known(50), known(99));
    plot::caption(out, title, &note);
    plot::warnings(out, view.holes());
    // Room for at least six bars is shown, because one or two bars alone would not look like a histogram.
    let used = lengths.used();
    let buckets = used.start.saturating_sub(1)..(used.end + 1).max(used.start + 6).min(64);
    let most = lengths.counts.iter().copied().max().unwrap_or(1);
    let (plot, bottom) = (WIDTH - LEFT - 8, HEIGHT - 44);
    let step = plot as f64 / buckets.len() as f64;
    writeln!(
        out,
        "<svg class=\"spread\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"histogram whose bars double in width: {title}\"><g class=\"axis\">"
    );
    let top = 8.0;
    let height = |value: f64| value / most as f64 * (bottom as f64 - top);
    plot::grid(out, (LEFT, plot), (most as f64, 4.0), |value| bottom as f64 - height(value));
    let every = (44.0 / step).ceil().max(1.0) as usize;
    for (at, bucket) in buckets.clone().enumerate().step_by(every) {
        let x = LEFT as f64 + at as f64 * step;
        write!(
            out,
            "<path d=\"M{x:.1} {bottom}v5\"/><text x=\"{x:.1}\" y=\"{}\">{}</text>",
            bottom + 17,
            duration(Histogram::from_ns(bucket))
        );
    }
    writeln!(
        out,
        "<text x=\"{}\" y=\"{}\">length (each bar: from its left edge to twice that length)</text></g>",
        LEFT + plot / 2,
        HEIGHT - 6
    );
    for (at, bucket) in buckets.enumerate().filter(|(_, bucket)| lengths.counts[*bucket] > 0) {
        let x = LEFT as f64 + at as f64 * step;
        let bar = height(lengths.counts[bucket] as f64).max(1.0);
        writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{bar:.1}\"><title>{} to {}: {}, together {}</title></rect>",
            bottom as f64 - bar,
            step - 1.0,
            duration(Histogram::from_ns(bucket)),
            duration(Histogram::from_ns(bucket).saturating_mul(2)),
            counted(lengths.counts[bucket], noun),
            duration(lengths.ns[bucket])
        );
    }
    out.push_str("</svg></figure>\n");
}
