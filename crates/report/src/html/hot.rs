//! The part of run time that was spent spinning, and the functions in which threads ran.

use advise::numbers::{count, duration, percent as of_one};
use ledger::Unsampled;
use ledger::summary::Sums;

use super::view::View;
use super::{colours, plot};
use crate::markup::{Markup, Safe};
use crate::round::{percent, permille};

/// Maximum number of functions listed.
const FUNCTIONS: usize = 25;

pub(super) fn write(out: &mut Markup, view: &View) {
    let document = view.document;
    let sums = Sums::of(&document.account);
    let spin = if document.sees_spin() {
        format!(
            "{spin} of {run} on CPUs were spent spinning ({} of thread time, ±{:.1}).",
            of_one(sums.share(sums.spin_ns)),
            sums.share(sums.spin_error_ns) * 100.0,
            spin = duration(sums.spin_ns),
            run = duration(sums.run_ns)
        )
    } else {
        "Spinning was not measured: all time on CPUs counts as work.".to_owned()
    };
    let basis = match document.account.sees().unsampled {
        Some(Unsampled::Noise) => {
            "No samples were taken, because they would be a part of the noise (--noise).".to_owned()
        }
        None => format!("Times are estimated from {} samples.", count(sums.samples)),
    };
    plot::caption(out, "Functions by time on a CPU", &format!("{spin} {basis}"));
    let hot: Vec<_> = document.account.hot_functions.iter().filter(|hot| hot.run_ns > 0).collect();
    if hot.is_empty() {
        out.push_str("<p class=\"none\">No function was sampled.</p></figure>\n");
        return;
    }
    let (listed, others) = hot.split_at(hot.len().min(FUNCTIONS));
    let others_ns = others.iter().fold(0u64, |sum, hot| sum.saturating_add(hot.run_ns));
    let times: Vec<u64> = listed.iter().map(|hot| hot.run_ns).chain([others_ns]).collect();
    let shares = permille(&times);
    let most = times.iter().copied().max().unwrap_or(0).max(1);
    out.push_str("<table class=\"bars hot\"><thead><tr><th scope=\"col\">function</th><th scope=\"col\"></th><th scope=\"col\" class=\"n\">time</th><th scope=\"col\" class=\"n\">of all</th></tr></thead><tbody>\n");
    let row = |out: &mut Markup,
               name: &str,
               module: &str,
               (class, waiting): (&str, Option<&str>),
               ns: u64,
               share: u64| {
        let why = waiting.map_or(String::new(), |why| format!(", waiting: {why}"));
        writeln!(
            out,
            "<tr><th scope=\"row\"><span class=\"function\">{}</span> <small>{}{}</small></th><td class=\"bar\"><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"{}\" height=\"10\"/></svg></td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            Safe(name),
            Safe(module),
            Safe(why),
            (u128::from(ns) * 1000).div_ceil(u128::from(most)),
            duration(ns),
            percent(share)
        );
    };
    for (hot, share) in listed.iter().zip(&shares) {
        let function = hot.function.as_deref().unwrap_or("?");
        let class = match hot.waiting {
            None => "s-work",
            Some(_) if hot.is_spinning() => "s-spin",
            Some(_) => "s-sync",
        };
        row(out, function, &hot.module, (class, hot.waiting.as_deref()), hot.run_ns, *share);
    }
    if others_ns > 0 {
        row(
            out,
            &format!("{} more", count(others.len() as u64)),
            "",
            ("s-work", None),
            others_ns,
            shares[listed.len()],
        );
    }
    out.push_str("</tbody></table>\n");
    plot::legend(out, &colours::entries(&["s-work", "s-spin", "s-sync"]));
    out.push_str("</figure>\n");
}
