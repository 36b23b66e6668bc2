//! What quiet CPUs cost: the network of the program on them, whose packets the housekeeping CPUs handle then, and jobs on
//! the housekeeping CPUs (the source's slide 27).

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use machine::{CpuSet, Root};
use quiet::Level;
use serde_json::Value;

use super::place::{Place, Under};
use crate::noise::field::Field;
use crate::noise::findings::Findings;
use crate::rounds::in_turns;
use crate::stats::{median, median_estimate, shown};
use crate::tools::in_path;
use crate::verdict::Outcome;

const UNDER: [Under; 2] = [Under::Taskset, Under::Quiet(Level::Full)];
/// How long the network is used, s, and on which port.
const NETWORK_S: &str = "3";
const PORT: &str = "15201";
/// The job: barriers between threads that compute, a fixed number of loop iterations.
const JOB: [&str; 6] = ["--rounds", "1000", "--work-us", "1000", "--iterations-per-us", "500"];
/// Longer than a job takes.
const BESIDE_S: &str = "600";
const MS_PER_TICK: u64 = 10;

pub fn price(field: &Field<'_>, runs: u16) -> Result<Findings> {
    let mut found = Findings::default();
    let place = Place::chosen()?;
    if in_path("iperf3").is_none() {
        found.judge(Outcome::NotMeasured, "the network: iperf3 is not installed");
    } else {
        network(&mut found, field, &place, runs)?;
    }
    let housekeeping = place.housekeeping.iter().count();
    for threads in [housekeeping, housekeeping + 1] {
        let times = in_turns(UNDER.len(), runs.into(), |at| job(field, &place, UNDER[at], threads))?;
        let ratios: Vec<f64> = times[1].iter().zip(&times[0]).map(|(quiet, pinned)| quiet / pinned).collect();
        let ratio = median_estimate(&ratios);
        found.line(format!(
            "time of a job of {threads} thread(s), while a thread computes on CPU {}, under cox quiet / with taskset: {}",
            place.cpu,
            shown(&ratio, 2)
        ));
    }
    Ok(found)
}

/// A sender on the quiet CPU and a receiver on the housekeeping CPUs.
fn network(found: &mut Findings, field: &Field<'_>, place: &Place, runs: u16) -> Result<()> {
    let all = in_turns(UNDER.len(), runs.into(), |at| sent(field, place, UNDER[at]))?;
    let ratios: Vec<f64> = all[1].iter().zip(&all[0]).map(|(quiet, pinned)| quiet.0 / pinned.0).collect();
    let ratio = median_estimate(&ratios);
    found.line(format!(
        "rate at which a program on CPU {} sends to one on the others, by loopback, under cox quiet / with taskset: {}",
        place.cpu,
        shown(&ratio, 2)
    ));
    for (under, rounds) in UNDER.iter().zip(&all) {
        let of = |figure: fn(&(f64, f64, f64)) -> f64| median(&rounds.iter().map(figure).collect::<Vec<f64>>());
        found.line(format!(
            "  {:28} {:.1} Gbit/s; softirqs took {:.1} % of the housekeeping CPUs, {:.1} % of CPU {}",
            under.name(),
            of(|run| run.0) / 1e9,
            100.0 * of(|run| run.1),
            100.0 * of(|run| run.2),
            place.cpu
        ));
    }
    Ok(())
}

/// Sends for some seconds. Returns bit/s, and the share of the housekeeping CPUs and of the quiet one that softirqs took.
fn sent(field: &Field<'_>, place: &Place, under: Under) -> Result<(f64, f64, f64)> {
    let mut server = Command::new("taskset");
    server.args(["-c", &place.housekeeping.to_string(), "iperf3", "--server", "--one-off", "--port", PORT]);
    let server = field.spawn(&mut server)?;
    let quiet: CpuSet = [place.cpu].into_iter().collect();
    let mut client = under.command(field, place);
    client.args(["iperf3", "--client", "127.0.0.1", "--port", PORT, "--time", NETWORK_S, "--json"]);
    // The server needs a moment until it listens; the client does not wait for it.
    thread::sleep(Duration::from_millis(300));
    let (before, start) = ([softirq_ms(&place.housekeeping)?, softirq_ms(&quiet)?], Instant::now());
    let said: Value = serde_json::from_str(&field.done(&mut client)?).context("iperf3 wrote no JSON")?;
    let after = [softirq_ms(&place.housekeeping)?, softirq_ms(&quiet)?];
    let length_ms = 1e3 * start.elapsed().as_secs_f64();
    server.finish()?;
    let rate = said["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3 has measured no rate")?;
    let share = |at: usize, cpus: &CpuSet| (after[at] - before[at]) as f64 / length_ms / cpus.iter().count() as f64;
    Ok((rate, share(0, &place.housekeeping), share(1, &quiet)))
}

/// Returns the time that softirqs have taken on these CPUs since boot, ms.
fn softirq_ms(cpus: &CpuSet) -> Result<u64> {
    let text = Root::live().read_text("/proc/stat")?;
    Ok(softirq_ticks(&text, cpus) * MS_PER_TICK)
}

/// The seventh figure of the line of a CPU in /proc/stat, in USER_HZ (proc_stat(5)).
fn softirq_ticks(text: &str, cpus: &CpuSet) -> u64 {
    let of = |line: &str| -> Option<u64> {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu: u32 = words.next()?.parse().ok()?;
        words.nth(6)?.parse().ok().filter(|_| cpus.contains(cpu))
    };
    text.lines().filter_map(of).sum()
}

/// Returns the time of a job on all CPUs that it may use, while a thread computes on the quiet CPU, s.
fn job(field: &Field<'_>, place: &Place, under: Under, threads: usize) -> Result<f64> {
    let mut computing = under.command(field, place);
    let computing = field.spawn(computing.arg(field.workload("hog")).args(["--seconds", BESIDE_S]))?;
    thread::sleep(Duration::from_millis(500));
    let mut job = Command::new(field.workload("barriers"));
    job.args(JOB).args(["--threads", &threads.to_string(), "--truth"]).arg(field.file("truth"));
    let done = field.done(&mut job);
    computing.end()?;
    done?;
    Ok(field.truth()?["elapsed_ns"].as_f64().context("the job has not measured its time")? / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_are_the_seventh_figure_of_a_cpus_line() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 70 8 9 10\ncpu1 1 2 3 4 5 6 500 8 9 10\nintr 3\n";
        assert_eq!(softirq_ticks(text, &[0].into_iter().collect()), 70);
        assert_eq!(softirq_ticks(text, &[0, 1].into_iter().collect()), 570);
    }
}
