//! Events against the kernel's own counters, each over ten seconds: idle, under load, and with a tracepoint left out.

use anyhow::Result;
use report::noise::Cpu;

use super::field::Field;
use super::findings::Findings;
use crate::tools::in_path;

/// The load of the acceptance criterion.
const LOAD: [&str; 8] = ["--cpu", "2", "--vm", "1", "--hdd", "1", "--timeout", "13s"];

pub fn audit(field: &Field<'_>) -> Result<Findings> {
    let mut found = Findings::default();
    case(field, &mut found, "idle", false)?;
    if in_path("stress-ng").is_some() {
        case(field, &mut found, "stress-ng --cpu 2 --vm 1 --hdd 1", true)?;
    } else {
        found.judge(crate::verdict::Outcome::NotMeasured, "under load: stress-ng is not installed");
    }
    left_out(field, &mut found)?;
    Ok(found)
}

fn case(field: &Field<'_>, found: &mut Findings, name: &str, loaded: bool) -> Result<()> {
    let load = loaded.then(|| field.beside("stress-ng", &LOAD)).transpose()?;
    let report = field.noise(&["--for", "10s"])?;
    drop(load);
    for cpu in &report.cpus {
        let busy = cpu.check.rows.iter().filter(|(_, kernel, _)| *kernel > 0);
        let rows: Vec<String> = busy
            .map(|(row, kernel, seen)| {
                format!("{row} {kernel}/{}", seen.map_or("-".to_owned(), |seen| seen.to_string()))
            })
            .collect();
        found.line(format!("{name}, CPU {}, kernel/events: {}", cpu.cpu, rows.join(", ")));
        found.require(
            cpu.check.is_complete() && report.events.lost == 0,
            format!(
                "{name}, CPU {}: {} of {} rows agree within 3 or 0.5 %{}; {} events lost",
                cpu.cpu,
                cpu.check.agreeing,
                cpu.check.rows.len(),
                if cpu.check.is_complete() {
                    String::new()
                } else {
                    format!(", not {}", cpu.check.not_seen.join(", "))
                },
                report.events.lost
            ),
        );
    }
    Ok(())
}

fn left_out(field: &Field<'_>, found: &mut Findings) -> Result<()> {
    for names in [&["local_timer_entry"][..], &["local_timer_exit"], &["local_timer_entry", "local_timer_exit"]] {
        let options: Vec<&str> = names.iter().flat_map(|name| ["--without", name]).chain(["--for", "3s"]).collect();
        let report = field.noise(&options)?;
        let is_said = |cpu: &Cpu| cpu.check.not_seen.iter().any(|row| row.ends_with("× LOC"));
        let is_said = !report.cpus.is_empty() && report.cpus.iter().all(is_said);
        let outside: u64 = report.cpus.iter().filter_map(|cpu| cpu.outside_ns).sum();
        found.require(
            is_said && outside == 0,
            format!("without {}, the report says so, and {outside} ns are called outside", names.join(" and ")),
        );
    }
    Ok(())
}
