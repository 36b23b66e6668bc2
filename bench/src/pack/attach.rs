//! Packing after the start: two threads run OpenMP regions of 200 us and are moved to one CPU while they run.
//!
//! libgomp counts the CPUs once, at its start. If the program is packed later, its threads continue to spin for milliseconds at the end of each
//! region. Therefore, cox tells the preload library inside the program on how many CPUs the program is packed, and the preload library stops the
//! spinning.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use machine::Root;
use machine::process::Task;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::field::{Confined, Field, without_runtime_variables};
use super::judge::{self, Series};
use super::output;
use super::part::{Part, progress};
use super::text;
use crate::process::{ending, first_line};
use crate::rounds::in_turns;
use crate::verdict::Verdict;

/// File name of the preload library, in the same folder as cox.
const PRELOAD: &str = "libcox_preload.so";
/// Target: largest permitted `time of a region if cox attaches to the running program ÷ time of a region if cox starts the program`.
const TARGET: f64 = 1.3;
const REGION_US: f64 = 200.0;
const THREADS: usize = 2;
/// Time for which the regions run before the program is packed.
const WARM: Duration = Duration::from_millis(300);
/// Time limit for steps that normally take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way to move the program to one CPU: at its start, or while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum How {
    /// Started under `cox pack`.
    FromStart,
    /// Started with the preload library, and packed later.
    LaterPreloaded,
    /// Started without the preload library, and packed later.
    Later,
    /// Moved later by `taskset -a -p`.
    TasksetLater,
}

impl How {
    fn word(self) -> &'static str {
        match self {
            How::FromStart => "cox pack from the start",
            How::LaterPreloaded => "cox pack --pid, with preload library",
            How::Later => "cox pack --pid",
            How::TasksetLater => "taskset -p",
        }
    }

    /// Returns the number of OpenMP regions in a run. The number is smaller for ways to move the program in which a region takes longer.
    fn regions(self, scale: f64) -> u64 {
        let usual = match self {
            How::FromStart | How::LaterPreloaded => 5_000.0,
            How::Later => 2_000.0,
            How::TasksetLater => 500.0,
        };
        ((usual * scale) as u64).max(10)
    }

    /// Returns the expected duration of a run that is moved to one CPU in this way, s.
    fn expected_s(self, scale: f64) -> f64 {
        let slowdown = match self {
            How::FromStart | How::LaterPreloaded => 1.3,
            How::Later => 2.0,
            How::TasksetLater => 18.0,
        };
        self.regions(scale) as f64 * ideal_us() / 1e6 * slowdown + 1.0
    }
}

/// Returns the time that one CPU needs for the work of both threads in a region, us.
fn ideal_us() -> f64 {
    REGION_US * THREADS as f64
}

#[derive(Debug, Serialize)]
struct Row {
    how: How,
    /// Time of an OpenMP region, us.
    region_us: Series,
    /// Time of an OpenMP region ÷ time of a region if `cox pack` starts the program, by round.
    to_from_start: Series,
}

/// A child process, ended by SIGTERM when the value is dropped.
struct Started {
    child: Child,
    messages: PathBuf,
}

impl Started {
    fn start(mut command: Command, messages: PathBuf) -> Result<Started> {
        command.stderr(File::create(&messages).context("cannot write into the temporary folder")?);
        Ok(Started { child: command.spawn().context("cannot start the command")?, messages })
    }

    /// Waits for the end of the process. Fails if the process does not end within `patience` or is not successful.
    fn wait(mut self, field: &Field<'_>, patience: Duration) -> Result<()> {
        let status =
            until(field, patience, || self.child.try_wait().ok().flatten()).context("waiting for the program's end")?;
        if !status.success() {
            bail!("{}: {}", ending(status), first_line(&self.messages).unwrap_or_else(|| "no message".into()));
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // SIGTERM lets cox end its program and restore the affinity masks.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Polls `ask` until it returns a value. Fails after `patience`.
fn until<T>(field: &Field<'_>, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        field.interrupt.check()?;
        if begun.elapsed() > patience {
            bail!("timed out after {} s", patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns whether the affinity mask of every thread of a process is exactly `cpus`.
fn all_on(pid: u32, cpus: &str) -> bool {
    let root = Root::live();
    let Ok(threads) = Task::process(&root, pid).threads() else { return false };
    let allowed = |tid| Task::thread(&root, pid, tid).status().map(|status| status.allowed_cpus.to_string());
    threads.into_iter().all(|tid| allowed(tid).is_ok_and(|allowed| allowed == cpus))
}

/// Runs the program once. Returns the time per region, us.
fn measure_once(field: &Field<'_>, how: How) -> Result<f64> {
    let scratch = field.scratch.path();
    let (said, report) = (scratch.join("said"), scratch.join("report"));
    let regions = how.regions(field.scale);
    let arguments = format!(
        "--on-signal --threads {THREADS} --region-us {REGION_US} --regions {regions} --iterations-per-us {}",
        field.iterations_per_us
    );
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let program = field.program("regions", &arguments)?;
    let mut command = match how {
        How::FromStart => {
            let mut command = field.command(1, &Confined::packed(""), &report)?;
            command.arg("--");
            command
        }
        _ => field.command(THREADS, &Confined::Taskset, &report)?,
    };
    command.args(program).stdout(File::create(&said).context("cannot write into the temporary folder")?);
    if how == How::LaterPreloaded {
        command.env("LD_PRELOAD", field.beside_cox(PRELOAD).context("no preload library in cox's folder")?);
    }
    let mut running = Started::start(command, scratch.join("messages"))?;
    let pid = until(field, PATIENCE, || {
        let is_over = !matches!(running.child.try_wait(), Ok(None));
        match output::waiting_process(&fs::read_to_string(&said).unwrap_or_default()) {
            Some(pid) => Some(Ok(pid)),
            None if is_over => Some(Err(first_line(&running.messages).unwrap_or_else(|| "no message".into()))),
            None => None,
        }
    })
    .context("waiting for the program's start")?;
    let pid = pid.map_err(|words| anyhow::anyhow!("the program did not start: {words}"))?;
    std::thread::sleep(WARM);
    let packer = match how {
        How::FromStart => None,
        How::Later | How::LaterPreloaded => {
            Some(Started::start(field.attach(1, pid, &report)?, scratch.join("cox-messages"))?)
        }
        How::TasksetLater => {
            let mut command = field.taskset_later(1, pid)?;
            without_runtime_variables(&mut command);
            command.stdout(Stdio::null());
            Started::start(command, scratch.join("taskset-messages"))?.wait(field, PATIENCE)?;
            None
        }
    };
    let cpu = field.cpus(1)?;
    until(field, PATIENCE, || all_on(pid, &cpu).then_some(())).context("waiting for all threads to be on one CPU")?;
    let process = Pid::from_raw(pid as i32).context("the program's process ID is 0")?;
    kill_process(process, Signal::USR1).context("cannot send SIGUSR1 to the program")?;
    let patience = Duration::from_secs_f64(10.0 + regions as f64 * ideal_us() / 1e6 * 40.0);
    running.wait(field, patience)?;
    if let Some(packer) = packer {
        packer.wait(field, PATIENCE)?;
    }
    output::region_us(&fs::read_to_string(&said).context("cannot read the program's output")?)
}

fn ways(preload: bool) -> Vec<How> {
    let all = [How::FromStart, How::LaterPreloaded, How::Later, How::TasksetLater];
    all.into_iter().filter(|how| preload || *how != How::LaterPreloaded).collect()
}

/// Returns the expected duration of the part `attach` of the experiment, s.
pub fn expected_s(rounds: usize, scale: f64) -> f64 {
    ways(true).iter().map(|how| how.expected_s(scale)).sum::<f64>() * rounds as f64
}

fn rows(ways: &[How], times: Vec<Vec<f64>>) -> Vec<Row> {
    let series: Vec<Series> = times.into_iter().map(Series::of).collect();
    let from_start = ways.iter().position(|how| *how == How::FromStart).map(|place| series[place].clone());
    let row = |(how, region_us): (&How, Series)| Row {
        how: *how,
        to_from_start: from_start.as_ref().map_or_else(|| Series::of(Vec::new()), |from| region_us.over(from)),
        region_us,
    };
    ways.iter().zip(series).map(row).collect()
}

fn verdict(rows: &[Row]) -> Verdict {
    let criterion = format!(
        "an OpenMP region takes at most {TARGET} times as long in a program that cox pack attached to as in one that it started"
    );
    match rows.iter().find(|row| row.how == How::LaterPreloaded) {
        Some(row) => {
            let estimate = &row.to_from_start.estimate;
            let text = format!("{criterion}: {} times", text::estimate(estimate));
            Verdict { outcome: judge::median_at_most(estimate, TARGET), text }
        }
        None => judge::not_measured(&criterion, &format!("no {PRELOAD} in cox's folder")),
    }
}

/// Measures and reports the part `attach` of the experiment.
pub fn part(field: &Field<'_>, rounds: usize) -> Result<Part> {
    let ways = ways(field.beside_cox(PRELOAD).is_some());
    progress(&format!("attach: {} ways, {rounds} rounds", ways.len()));
    let times = in_turns(ways.len(), rounds, |place| {
        measure_once(field, ways[place]).with_context(|| ways[place].word().to_owned())
    })?;
    let rows = self::rows(&ways, times);
    let cells = rows.iter().map(|row| {
        vec![
            row.how.word().to_owned(),
            text::estimate(&row.region_us.estimate),
            text::figure(row.region_us.estimate.median / ideal_us()),
            text::estimate(&row.to_from_start.estimate),
        ]
    });
    let table = text::table(&["two threads on one CPU", "us/region", "/ ideal", "/ from start"], 1, cells.collect());
    Part::new("attach", "OpenMP regions of 200 us by two threads, packed on one CPU from the start or later")
        .with_table(table)
        .with_notes(vec![format!(
            "timing begins when all threads are on that CPU; each run has {} regions, or fewer if they take longer",
            How::FromStart.regions(field.scale)
        )])
        .with_verdicts(vec![verdict(&rows)])
        .with_lines(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    #[test]
    fn later_is_judged_by_from_the_start() {
        let all = ways(true);
        let times = vec![vec![400.0; 7], vec![520.0; 7], vec![900.0; 7], vec![7200.0; 7]];
        let rows = rows(&all, times);
        assert_eq!(rows[3].to_from_start.estimate.median, 18.0);
        assert_eq!(verdict(&rows).outcome, Outcome::Pass);
        let slower = self::rows(&all, vec![vec![400.0; 7], vec![521.0; 7], vec![1.0; 7], vec![1.0; 7]]);
        assert_eq!(verdict(&slower).outcome, Outcome::Fail);
    }

    #[test]
    fn without_the_library_its_line_is_missing_and_said() {
        let some = ways(false);
        assert!(!some.contains(&How::LaterPreloaded));
        let verdict = verdict(&rows(&some, vec![vec![400.0]; 3]));
        assert_eq!(verdict.outcome, Outcome::NotMeasured);
        assert!(verdict.text.contains(PRELOAD), "{}", verdict.text);
    }

    #[test]
    fn masks_are_read() {
        let pid = std::process::id();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let own = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        assert!(all_on(pid, own));
        assert!(!all_on(pid, "4095"));
        assert!(!all_on(0, own));
    }
}
