//! The workloads that are measured by whole runs. Their amount of work is fixed, so only the time differs.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::thread::sched_getaffinity;

use super::case::Bench;
use super::whole::Program;

/// Returns the number of CPUs that this process may use.
pub fn allowed_cpus() -> usize {
    sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// Returns the workload `barriers`: one thread per CPU, with a futex barrier every 100 us. At each barrier, each thread blocks and is woken about
/// once.
pub fn barriers<'a>(bench: &'a Bench<'_>) -> Program<'a> {
    let threads = allowed_cpus().max(2);
    // Calibrate only once: each run would find a slightly different speed.
    let speed = std::cell::OnceCell::new();
    Program {
        name: "barriers",
        about: Box::new(move |rounds| format!("{threads} threads, {rounds} futex barriers after 100 us of work each")),
        least_work: 1_000,
        command: Box::new(move |rounds| {
            let program = bench.tools.workload("barriers")?;
            let speed = match speed.get() {
                Some(speed) => speed,
                None => {
                    let found = iterations_per_us(bench)?;
                    speed.get_or_init(|| found)
                }
            };
            Ok(line(
                program.into(),
                &["--threads", &threads.to_string(), "--rounds", &rounds.to_string(), "--iterations-per-us", speed],
            ))
        }),
    }
}

/// Returns the workload `triad`, over arrays of four times the size of the last-level cache.
pub fn triad<'a>(bench: &'a Bench<'_>) -> Program<'a> {
    let threads = allowed_cpus();
    Program {
        name: "triad",
        about: Box::new(move |repeats| {
            format!("{threads} threads, {repeats} triads on 3 arrays of 4 times the last-level cache")
        }),
        least_work: 10,
        command: Box::new(move |repeats| {
            Ok(line(
                bench.tools.workload("triad")?.into(),
                &["--threads", &threads.to_string(), "--repeats", &repeats.to_string()],
            ))
        }),
    }
}

/// Returns the workload `mandelbrot`: three loops with different load imbalance per step, static schedule,
/// libgomp's default wait policy.
pub fn mandelbrot<'a>(bench: &'a Bench<'_>) -> Program<'a> {
    let threads = allowed_cpus();
    Program {
        name: "mandelbrot",
        about: Box::new(move |steps| format!("{threads} threads, {steps} steps of 3 loops over 256 x 256 pixels")),
        least_work: 2,
        command: Box::new(move |steps| {
            Ok(line(
                bench.tools.workload("mandelbrot")?.into(),
                &["--threads", &threads.to_string(), "--size", "256", "--steps", &steps.to_string(), "--no-verify"],
            ))
        }),
    }
}

/// Returns a command line made of a program and its arguments.
pub fn line(program: OsString, arguments: &[&str]) -> Vec<OsString> {
    std::iter::once(program).chain(arguments.iter().map(OsString::from)).collect()
}

/// Runs `barriers` once and returns the speed that its calibration prints for this machine, in iterations per us.
fn iterations_per_us(bench: &Bench<'_>) -> Result<String> {
    let output = Command::new(bench.tools.workload("barriers")?)
        .args(["--rounds", "10", "--truth", "-"])
        .output()
        .context("cannot run the program `barriers`")?;
    if !output.status.success() {
        bail!("barriers: {}", crate::process::ending(output.status));
    }
    speed_in(&String::from_utf8_lossy(&output.stdout))
}

fn speed_in(stdout: &str) -> Result<String> {
    let truth =
        stdout.lines().find(|line| line.starts_with('{')).context("the program `barriers` printed no line of JSON")?;
    let truth: serde_json::Value =
        serde_json::from_str(truth).context("cannot parse the JSON that the program `barriers` printed")?;
    let speed = truth["iterations_per_us"].as_f64().filter(|speed| *speed > 0.0);
    Ok(format!("{:.3}", speed.context("the JSON that the program `barriers` printed has no iterations_per_us")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_read_from_the_truth() {
        let stdout = "barriers: 2 threads\n{\"program\":\"barriers\",\"iterations_per_us\":911.6934}\n";
        assert_eq!(speed_in(stdout).unwrap(), "911.693");
        assert!(speed_in("barriers: 2 threads\n").is_err());
        assert!(speed_in("{\"iterations_per_us\":0}").is_err());
        assert!(speed_in("{").is_err());
    }
}
