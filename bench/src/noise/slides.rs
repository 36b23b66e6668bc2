//! The source's figures with this machine's numbers: interrupts (slide 9), what happens in a tick (slides 10 and 11), and fixed work quanta without and
//! with pinned threads (slide 15), each beside a load that wanders.

use anyhow::Result;
use report::noise::NoiseReport;

use super::field::Field;
use super::findings::Findings;

pub fn slides(field: &Field<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    let report = field.noise(&["--for", "10s"])?;
    found.line("slide 9: interrupts in 10 s, all measured CPUs");
    for (row, count) in census(&report) {
        found.line(format!("{count:10}  {row}"));
    }
    found.line("slides 10-11: what the timer's interrupt did (rate/s, median us, max us, us/s)");
    for cpu in &report.cpus {
        let is_shown = |at: u32| {
            report
                .causes
                .get(at as usize)
                .is_some_and(|c| ["tick", "timer", "softirq", "kworker"].contains(&c.class.as_str()))
        };
        for taken in cpu.by_cause.iter().filter(|taken| is_shown(taken.cause)).take(8) {
            found.line(format!(
                "CPU {} {:44} {:8.1} {:8.2} {:8.2} {:8.1}",
                cpu.cpu,
                report.causes[taken.cause as usize].name,
                taken.count as f64 / (cpu.length_ns as f64 / 1e9),
                taken.median_ns as f64 / 1e3,
                taken.longest_ns as f64 / 1e3,
                taken.inside_ns as f64 / 1e3 / cpu.seconds()
            ));
        }
    }
    found.line("slide 15: fixed work quanta of 1 ms, stolen % and longest quantum ms, beside a computing thread");
    for (name, options) in [("not pinned", &["--unpinned"][..]), ("pinned", &[])] {
        let load = field.beside(&field.inject, &["none", "--victim", "0", "--seconds", "8"])?;
        let report = field.noise(&[&["--loop", "fwq", "--for", "5s"], options].concat())?;
        drop(load);
        for cpu in &report.cpus {
            let longest = (cpu.fine.longest_ns + cpu.quiet_ns.unwrap_or(0)) as f64 / 1e6;
            found.line(format!("{name:12} thread {} {:8.3} % {longest:8.2}", cpu.cpu, cpu.stolen() * 100.0));
        }
    }
    Ok(found)
}

/// The kernel's counts by row, over all measured CPUs, the most frequent first.
fn census(report: &NoiseReport) -> Vec<(String, u64)> {
    let mut rows: Vec<(String, u64)> = Vec::new();
    for (name, count, _) in report.cpus.iter().flat_map(|cpu| &cpu.check.rows) {
        match rows.iter_mut().find(|(row, _)| row == name) {
            Some((_, sum)) => *sum += count,
            None => rows.push((name.clone(), *count)),
        }
    }
    rows.retain(|(_, count)| *count > 0);
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    rows
}
