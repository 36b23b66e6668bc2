//! The page of `cox noise`: for each CPU what was stolen and by what, detours over time (`over_time`) and by length (`lengths`), quanta and steps
//! (`quanta`), periodic disturbances (`spectrum`), and what ticks did (`ticks`). `classes` has the colours, `axis` the logarithmic axes.
//!
//! Figures and sentences are those of the text. The page needs no script.

mod axis;
mod classes;
mod lengths;
pub(super) mod over_time;
mod quanta;
mod spectrum;
mod ticks;

use ledger::Provenance;

use super::frame::{self, Script};
use super::{plot, table};
use crate::markup::{Markup, Safe, unbroken};
use crate::noise::{Cpu, NoiseReport, answer, caused_by, check, conclusion, header, knobs};
use crate::style::Style;

/// Returns the page of a measurement.
#[must_use]
pub fn noise(report: &NoiseReport) -> String {
    let mut out = Markup::default();
    let title = header(report);
    frame::open(&mut out, &title, Script::None);
    out.push_str(plot::HATCH);
    writeln!(out, "<header><h1>{}</h1></header>", Safe(unbroken(&title)));
    if let Some(conclusion) = conclusion(report) {
        writeln!(out, "<p class=\"headline\">{}</p>", Safe(unbroken(&conclusion)));
    }
    if let Some(why) = &report.events.blind {
        plot::warnings(&mut out, [format!("causes not known: {why}")]);
    }
    let named = |cpu: &Cpu| match report.measurement.pinned {
        true => (format!("cpu-{}", cpu.cpu), format!("CPU {}", cpu.cpu)),
        false => (format!("thread-{}", cpu.tid), format!("Thread {}", cpu.tid)),
    };
    let sections: Vec<(String, String)> = report.cpus.iter().map(named).collect();
    let links = sections.iter().map(|(id, name)| (id.as_str(), name.as_str()));
    frame::links(&mut out, links.chain([("measurement", "measurement")]));
    for (cpu, (id, name)) in report.cpus.iter().zip(&sections) {
        frame::section(&mut out, id, name, |out| of_cpu(out, report, cpu));
    }
    frame::section(&mut out, "measurement", "Measurement", |out| facts(out, report));
    frame::close(&mut out, &report.cox_version, "how to read each picture: cox explain page.", Script::None);
    out.0
}

fn of_cpu(out: &mut Markup, report: &NoiseReport, cpu: &Cpu) {
    let style = Style::default();
    writeln!(out, "<p>{}</p>", Safe(unbroken(&answer(report, cpu))));
    if cpu.by_cause.iter().any(|taken| taken.stolen_ns > 0) {
        let (causes, more) = caused_by(report, cpu, &style);
        table::write(out, &causes, "");
        if let Some(more) = more {
            writeln!(out, "<p>{}</p>", Safe(more));
        }
        for knob in knobs(report, cpu) {
            writeln!(out, "<p>what silences it: {}</p>", Safe(knob));
        }
    }
    writeln!(out, "<p class=\"detail\">check: {}</p>", Safe(unbroken(&check(report, cpu))));
    over_time::write(out, report, cpu);
    lengths::write(out, report, cpu);
    quanta::write(out, cpu);
    spectrum::write(out, cpu);
    ticks::write(out, cpu);
}

fn facts(out: &mut Markup, report: &NoiseReport) {
    let of = &report.measurement;
    let events = &report.events;
    let mut rows = vec![
        ("smallest gap", format!("{} ns between two readings of the clock", of.smallest_gap_ns)),
        ("events", format!("{}, {} lost", advise::numbers::count(events.count), advise::numbers::count(events.lost))),
    ];
    if !events.without.is_empty() {
        rows.push(("without", events.without.join(", ")));
    }
    rows.extend(Provenance::known(&report.provenance));
    out.push_str("<table class=\"facts\"><tbody>\n");
    for (what, value) in rows {
        writeln!(out, "<tr><th scope=\"row\">{what}</th><td>{}</td></tr>", Safe(value));
    }
    out.push_str("</tbody></table>\n");
}
