//! What the scheduler costs two programs: mandelbrot (computes, with load imbalance) and triad (moves memory). Each of them runs alone, and both run
//! at the same time, for each number of threads, OMP_WAIT_POLICY and pinning. This repeats the experiment of Kuhn's study (2022) and adds two things:
//! more threads than CPUs, and the interference of two programs.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use ledger::summary::{self, Sums, share, threads_of};
use report::Document;
use serde::Serialize;
use tempfile::TempDir;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::json;
use crate::process::{ending, run};
use crate::rounds::in_turns;
use crate::stats::median;
use crate::tools::Tools;

/// Options of `cox-bench kuhn`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  cox-bench kuhn --runs 5 --json kuhn.json\n  cox-bench kuhn --programs both --threads 1"
)]
pub struct Options {
    /// Rounds; each runs every setting once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Programs to run
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST", default_value = "mandelbrot,triad,both")]
    programs: Vec<Programs>,
    /// Threads of each program per CPU
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_value = "0.5,1,2")]
    threads: Vec<f64>,
    /// Approximate duration of a run, seconds
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    #[command(flatten)]
    common: Common,
}

/// The programs that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Programs {
    /// Computes; its loops have load imbalance.
    Mandelbrot,
    /// Moves memory.
    Triad,
    /// Mandelbrot, with triad as its co-runner.
    Both,
}

/// How threads wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Policy {
    /// libgomp's default.
    Default,
    Passive,
    Active,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, Serialize)]
struct Setting {
    programs: Programs,
    threads: usize,
    policy: Policy,
    pinned: bool,
}

/// Results of a run: of the first program, except where a field says otherwise.
#[derive(Clone, Copy, Debug, Serialize)]
struct Run {
    wall_s: f64,
    /// Time in which threads worked (ran and did not spin), as a share of thread time. `waited_for_threads` and `waited_for_cpu` are shares of
    /// thread time, too.
    work: f64,
    waited_for_threads: f64,
    waited_for_cpu: f64,
    /// Context switches per second of the run.
    switches_per_s: f64,
    migrations_per_s: f64,
    /// Idle share of all CPUs during the run.
    idle: f64,
    /// Time spent waiting while the other program had the CPU, as a share of thread time; absent if there is only one program.
    behind_the_other: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Row {
    setting: Setting,
    runs: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: json::Header,
    rows: Vec<Row>,
}

/// Measures all settings and prints the table.
///
/// # Errors
/// When a run fails, or the results cannot be written.
pub fn kuhn(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let scratch = tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")?;
    let bench = Bench { tools, scratch, seconds: options.seconds };
    let settings = settings(options)?;
    let all = in_turns(settings.len(), options.runs.into(), |at| {
        interrupt.check()?;
        bench.run(&settings[at])
    })?;
    let rows = settings.into_iter().zip(all).map(|(setting, runs)| Row { setting, runs }).collect();
    let report = Report { header: json::Header::new("kuhn")?, rows };
    options.common.print(&table(&report.rows))?;
    options.common.write(&report)?;
    Ok(0)
}

/// Returns all settings, ordered by program.
fn settings(options: &Options) -> Result<Vec<Setting>> {
    let cpus = rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPUs")?.count();
    let mut settings = Vec::new();
    for programs in &options.programs {
        for per_cpu in &options.threads {
            let threads = (per_cpu * f64::from(cpus)).round() as usize;
            if threads == 0 {
                bail!("--threads {per_cpu}: gives 0 threads on {cpus} CPUs");
            }
            for policy in [Policy::Default, Policy::Passive, Policy::Active] {
                // Pinning needs a CPU for each thread.
                let may_be_pinned = threads <= cpus as usize;
                let pinned = [false, true].into_iter().filter(|pinned| !pinned || may_be_pinned);
                settings.extend(pinned.map(|pinned| Setting { programs: *programs, threads, policy, pinned }));
            }
        }
    }
    Ok(settings)
}

struct Bench {
    tools: Tools,
    scratch: TempDir,
    seconds: f64,
}

impl Bench {
    fn run(&self, setting: &Setting) -> Result<Run> {
        let account = self.scratch.path().join("account.json");
        let cox = self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
        let mut command = Command::new(cox);
        command.args(["run", "--quiet", "--json"]).arg(&account);
        let mandelbrot = self.line("mandelbrot", setting)?;
        let triad = self.line("triad", setting)?;
        match setting.programs {
            Programs::Mandelbrot => command.arg("--").args(&mandelbrot),
            Programs::Triad => command.arg("--").args(&triad),
            Programs::Both => command.args(["--co-run", &shell_words(&triad)]).arg("--").args(&mandelbrot),
        };
        command.env_remove("OMP_WAIT_POLICY").env_remove("OMP_PROC_BIND").env_remove("GOMP_SPINCOUNT");
        match setting.policy {
            Policy::Default => {}
            Policy::Passive => drop(command.env("OMP_WAIT_POLICY", "passive")),
            Policy::Active => drop(command.env("OMP_WAIT_POLICY", "active")),
        }
        if setting.pinned {
            command.env("OMP_PROC_BIND", "true");
        }
        let (status, _) = run(command.stdin(Stdio::null()).stdout(Stdio::null())).context("cannot start cox")?;
        if !status.success() {
            bail!("{}", ending(status));
        }
        let text = std::fs::read(&account).context("cannot read cox's JSON account")?;
        Run::of(&serde_json::from_slice(&text).context("cannot parse cox's JSON account")?)
    }

    /// Returns a program and its arguments. The amount of work does not depend on the number of threads, so times can be compared.
    fn line(&self, name: &str, setting: &Setting) -> Result<Vec<String>> {
        let program = self.tools.workload(name)?.display().to_string();
        let amount = |per_second: f64| ((self.seconds * per_second).ceil().max(1.0) as u64).to_string();
        let threads = setting.threads.to_string();
        let amount = match name {
            // On two CPUs of a virtual machine, one step of mandelbrot takes 0.17 s, and one triad with 64 MB per array takes 7 ms.
            "mandelbrot" => vec!["--no-verify".to_owned(), "--steps".to_owned(), amount(6.0)],
            _ => vec!["--bytes".to_owned(), "64M".to_owned(), "--repeats".to_owned(), amount(140.0)],
        };
        Ok([program, "--threads".to_owned(), threads].into_iter().chain(amount).collect())
    }
}

/// Quotes words so that `--co-run` splits them into the same words again.
fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

impl Run {
    fn of(document: &Document) -> Result<Run> {
        let account = &document.account;
        let program = account.programs.first().context("cox's account contains no program")?;
        let sums = Sums::over(threads_of(program));
        let cpus = summary::cpus(account);
        let wall_s = program.wall_ns as f64 / 1e9;
        let behind = account.co_run.as_ref().and_then(|co_run| co_run.waited.first()?.behind_ns.get(1).copied());
        Ok(Run {
            wall_s,
            work: sums.share(sums.work_ns()),
            waited_for_threads: sums.share(sums.waiting_for_threads_ns()),
            waited_for_cpu: sums.share(sums.waiting_for_cpu_ns()),
            switches_per_s: (sums.switches_voluntary + sums.switches_involuntary) as f64 / wall_s,
            migrations_per_s: sums.migrations.total() as f64 / wall_s,
            idle: share(cpus.idle_ns, cpus.known_ns()),
            behind_the_other: behind.map(|ns| sums.share(ns)),
        })
    }
}

/// Returns the table: one line of medians per setting.
fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "medians; percentages are shares of the first program's thread time; idle is a share of all CPUs' time\n{:12}{:>8}  {:8}{:>7}{:>9}{:>8}{:>9}{:>10}{:>12}{:>9}{:>7}{:>9}\n",
        "",
        "threads",
        "policy",
        "pinned",
        "wall s",
        "work",
        "thr.wait",
        "CPU wait",
        "behind oth.",
        "switch/s",
        "migr/s",
        "idle"
    );
    for Row { setting, runs } in rows {
        let of = |figure: &dyn Fn(&Run) -> f64| median(&runs.iter().map(figure).collect::<Vec<f64>>());
        let percent = |figure: &dyn Fn(&Run) -> f64| format!("{:.1} %", of(figure) * 100.0);
        let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
        let behind = match runs.first().and_then(|run| run.behind_the_other) {
            Some(_) => percent(&|run| run.behind_the_other.unwrap_or(0.0)),
            None => "-".to_owned(),
        };
        text.push_str(&format!(
            "{:12}{:>8}  {:8}{:>7}{:>9.2}{:>8}{:>9}{:>10}{:>12}{:>9.0}{:>7.0}{:>9}\n",
            name(&setting.programs),
            setting.threads,
            name(&setting.policy),
            if setting.pinned { "yes" } else { "no" },
            of(&|run| run.wall_s),
            percent(&|run| run.work),
            percent(&|run| run.waited_for_threads),
            percent(&|run| run.waited_for_cpu),
            behind,
            of(&|run| run.switches_per_s),
            of(&|run| run.migrations_per_s),
            percent(&|run| run.idle),
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn settings_are_all_combinations_but_pinned_threads_without_a_cpu() {
        let line = Line::parse_from(["kuhn", "--programs", "triad,both", "--threads", "1,2"]);
        let all = settings(&line.options).unwrap();
        // Three policies: pinned and not at one thread per CPU, only not at two.
        assert_eq!(all.len(), 2 * (3 * 2 + 3));
        let least = all.iter().map(|setting| setting.threads).min();
        assert!(all.iter().all(|setting| !setting.pinned || Some(setting.threads) == least));
        let line = Line::parse_from(["kuhn", "--threads", "0.001"]);
        assert!(settings(&line.options).unwrap_err().to_string().contains("gives 0 threads"));
    }

    #[test]
    fn words_survive_being_taken_apart() {
        assert_eq!(shell_words(&["a b".to_owned(), "--c".to_owned()]), "'a b' '--c'");
    }
}
