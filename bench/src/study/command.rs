//! The command of a run: the programs with their schedules, and what observes them.
//!
//! Each program has its schedule from `libcox_loops.so`, also for `static`, `dynamic` and `guided`, which libgomp has as well: so cells differ only in
//! the schedule. The variables are set by `env` for each program, because the two programs of a co-run may have different schedules, and because `cox`
//! and `perf` must not load the library.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use loops::{Kind, Schedule};
use serde::{Deserialize, Serialize};

use super::cell::{App, Cell, Observer};
use crate::tools::Tools;

/// How threads wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The default of libgomp
    Default,
    /// OMP_WAIT_POLICY=passive
    Passive,
    /// OMP_WAIT_POLICY=active
    Active,
}

/// The amount of work of each program. It does not depend on schedule and threads, so that times can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Time of a run on two CPUs, approximately.
    pub seconds: f64,
    /// The smallest size, to show that everything works.
    pub quick: bool,
    /// Smallest chunk of triad. Its iterations take about a nanosecond, less than a request.
    pub triad_chunk: u64,
    /// How threads wait.
    pub policy: Policy,
}

impl Work {
    /// Returns the options of a program that determine its amount of work.
    pub fn options(&self, app: App) -> Vec<String> {
        let amount = |per_second: f64| ((self.seconds * per_second).ceil().max(1.0) as u64).to_string();
        // On two CPUs of a virtual machine, a step of mandelbrot takes 0.17 s, one of sedov 0.06 s, and a triad 7 ms.
        let words = match (app, self.quick) {
            (App::Mandelbrot, true) => ["--size", "64", "--steps", "2"].map(str::to_owned),
            (App::Mandelbrot, false) => ["--size".to_owned(), "512".to_owned(), "--steps".to_owned(), amount(6.0)],
            (App::Triad, true) => ["--bytes", "256K", "--repeats", "5"].map(str::to_owned),
            (App::Triad, false) => ["--bytes".to_owned(), "64M".to_owned(), "--repeats".to_owned(), amount(140.0)],
            (App::Sedov, true) => ["--size", "8", "--steps", "2"].map(str::to_owned),
            (App::Sedov, false) => ["--size".to_owned(), "20".to_owned(), "--steps".to_owned(), amount(17.0)],
        };
        let verify = (app == App::Mandelbrot).then(|| "--no-verify".to_owned());
        words.into_iter().chain(verify).collect()
    }

    /// Returns the value of `COX_SCHEDULE` that gives `schedule` to a program.
    ///
    /// # Errors
    /// When there is no such schedule.
    pub fn schedule(&self, app: App, schedule: &str) -> Result<String> {
        let parsed: Schedule = schedule.parse().map_err(|invalid| anyhow!("{invalid}"))?;
        // A chunk would make static another schedule: chunks round robin instead of blocks.
        let is_fine = app == App::Triad && parsed.kind != Kind::Static;
        Ok(if is_fine { parsed.at_least(self.triad_chunk) } else { parsed }.to_string())
    }
}

/// The programs, and how much they do.
#[derive(Debug)]
pub struct Setup {
    pub tools: Tools,
    /// `libcox_loops.so`.
    pub library: PathBuf,
    pub work: Work,
}

/// Files that a run writes.
#[derive(Debug)]
pub struct Files {
    /// What each program says about itself, in the order of the programs.
    pub truths: Vec<PathBuf>,
    /// The account of cox, or the recording of perf.
    pub observed: PathBuf,
}

impl Setup {
    /// Finds the library beside cox.
    ///
    /// # Errors
    /// When cox or the library is missing.
    pub fn new(tools: Tools, work: Work) -> Result<Setup> {
        let cox = tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?;
        let library = cox.with_file_name("libcox_loops.so");
        if !library.is_file() {
            anyhow::bail!("no file {}; build it: cargo build --release -p preload-loops", library.display());
        }
        let library = std::path::absolute(&library).context("cannot make the path of libcox_loops.so absolute")?;
        Ok(Setup { tools, library, work })
    }

    /// Returns the command of a run.
    ///
    /// # Errors
    /// When a program is missing.
    pub fn command(&self, cell: &Cell, files: &Files) -> Result<Command> {
        let apps = cell.programs.apps().iter().zip(&cell.schedules).zip(&files.truths);
        let programs: Vec<Vec<String>> =
            apps.map(|((app, schedule), truth)| self.program(*app, schedule, cell, truth)).collect::<Result<_>>()?;
        let mut command = self.observed(cell.observer, &programs, &files.observed)?;
        // What the caller's environment says about OpenMP must not change the cells.
        let names = ["NUM_THREADS", "SCHEDULE", "PLACES", "DYNAMIC", "THREAD_LIMIT", "PROC_BIND", "WAIT_POLICY"];
        for name in names {
            command.env_remove(format!("OMP_{name}"));
        }
        for name in ["GOMP_SPINCOUNT", "GOMP_CPU_AFFINITY", "COX_SCHEDULE", "COX_SCHEDULE_INPUTS", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        match self.work.policy {
            Policy::Default => {}
            Policy::Passive => drop(command.env("OMP_WAIT_POLICY", "passive")),
            Policy::Active => drop(command.env("OMP_WAIT_POLICY", "active")),
        }
        if cell.bound {
            command.env("OMP_PROC_BIND", "true");
        }
        Ok(command)
    }

    /// Returns the words of a program with its schedule.
    fn program(&self, app: App, schedule: &str, cell: &Cell, truth: &Path) -> Result<Vec<String>> {
        let words = [
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("COX_SCHEDULE={}", self.work.schedule(app, schedule)?),
            self.tools.workload(app.name())?.display().to_string(),
            "--threads".to_owned(),
            cell.threads.to_string(),
            "--truth".to_owned(),
            truth.display().to_string(),
        ];
        Ok(words.into_iter().chain(self.work.options(app)).collect())
    }

    /// Returns the command of an observer for these programs; the first one is the observed one.
    fn observed(&self, observer: Observer, programs: &[Vec<String>], output: &Path) -> Result<Command> {
        let (first, others) = programs.split_first().context("a cell without programs")?;
        match observer {
            Observer::Cox => {
                let mut command = Command::new(self.tools.cox.as_ref().map_err(|why| anyhow!("{why}"))?);
                command.args(["run", "--quiet", "--json"]).arg(output);
                for other in others {
                    command.args(["--co-run", &shell_words(other)]);
                }
                command.arg("--").args(first);
                Ok(command)
            }
            Observer::Perf => {
                let mut command = Command::new(self.tools.perf.as_ref().map_err(|why| anyhow!("{why}"))?);
                command.args(["sched", "record", "-o"]).arg(output).arg("--").args(together(programs));
                Ok(command)
            }
            Observer::None => {
                let words = together(programs);
                let (name, arguments) = words.split_first().context("a program without a name")?;
                let mut command = Command::new(name);
                command.args(arguments);
                Ok(command)
            }
        }
    }
}

/// Returns the words that run all programs at the same time, and fail if one of them fails.
fn together(programs: &[Vec<String>]) -> Vec<String> {
    match programs {
        [one] => one.clone(),
        programs => {
            let started = programs.iter().map(|words| format!("{} & all=\"$all $!\"; ", shell_words(words)));
            // `wait` without a process would succeed in any case.
            let script = format!("all=; {}for one in $all; do wait $one || exit; done", started.collect::<String>());
            vec!["sh".to_owned(), "-c".to_owned(), script]
        }
    }
}

/// Quotes words so that a shell splits them into the same words again.
fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::cell::Programs;

    const WORK: Work = Work { seconds: 1.0, quick: false, triad_chunk: 512, policy: Policy::Passive };

    #[test]
    fn a_chunk_keeps_triads_requests_few_and_static_as_it_is() {
        let of = |app, schedule| WORK.schedule(app, schedule).unwrap();
        assert_eq!(of(App::Triad, "ss"), "ss,512");
        assert_eq!(of(App::Triad, "ss,1024"), "ss,1024");
        assert_eq!((of(App::Triad, "static"), of(App::Mandelbrot, "ss")), ("static".into(), "ss".into()));
        assert!(WORK.schedule(App::Triad, "no such").is_err());
    }

    #[test]
    fn the_amount_of_work_follows_the_seconds_only() {
        let steps = |work: Work| work.options(App::Mandelbrot)[3].clone();
        assert_eq!((steps(WORK), steps(Work { seconds: 0.5, ..WORK })), ("6".to_owned(), "3".to_owned()));
        assert_eq!(steps(Work { seconds: 1e-9, ..WORK }), "1");
        assert_eq!(steps(Work { quick: true, ..WORK }), "2");
    }

    fn setup() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        for name in ["mandelbrot", "triad"] {
            std::os::unix::fs::symlink("/bin/true", folder.path().join(name)).unwrap();
        }
        let tools = Tools::find(Some(Path::new("/bin/true")), Some(&folder.keep())).unwrap();
        Setup { tools, library: "/a/lib'.so".into(), work: WORK }
    }

    fn words(observer: Observer) -> (Vec<String>, Command) {
        let cell = Cell {
            programs: Programs::Both,
            schedules: vec!["fac2".into(), "ss".into()],
            threads: 3,
            bound: true,
            observer,
        };
        let files = Files { truths: vec!["/t/0".into(), "/t/1".into()], observed: "/t/o".into() };
        let command = setup().command(&cell, &files).unwrap();
        let words = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        (words, command)
    }

    #[test]
    fn each_program_has_its_own_schedule() {
        let (words, command) = words(Observer::Cox);
        assert_eq!(words[..4], ["run", "--quiet", "--json", "/t/o"]);
        assert_eq!(words[4], "--co-run");
        assert!(words[5].starts_with(r"'env' 'LD_PRELOAD=/a/lib'\''.so' 'COX_SCHEDULE=ss,512'"), "{}", words[5]);
        assert!(words[5].contains("'--truth' '/t/1' '--bytes'"), "{}", words[5]);
        assert_eq!(words[6..9], ["--", "env", "LD_PRELOAD=/a/lib'.so"]);
        assert_eq!(
            (&words[9][..], &words[11..15]),
            ("COX_SCHEDULE=fac2", &["--threads", "3", "--truth", "/t/0"].map(str::to_owned)[..])
        );
        let set: Vec<(String, Option<String>)> = command
            .get_envs()
            .map(|(name, value)| {
                (name.to_string_lossy().into_owned(), value.map(|value| value.to_string_lossy().into_owned()))
            })
            .collect();
        let has = |name: &str, value: Option<&str>| set.contains(&(name.to_owned(), value.map(str::to_owned)));
        assert!(has("OMP_PROC_BIND", Some("true")) && has("OMP_WAIT_POLICY", Some("passive")), "{set:?}");
        assert!(has("OMP_SCHEDULE", None) && has("LD_PRELOAD", None), "{set:?}");
    }

    #[test]
    fn without_cox_a_shell_runs_both_and_fails_if_one_fails() {
        let program = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        let code = |programs: &[Vec<String>]| {
            let words = together(programs);
            Command::new(&words[0]).args(&words[1..]).status().unwrap().code().unwrap()
        };
        assert_eq!(code(&[program("exit 0"), program("sleep 0.1")]), 0);
        assert_eq!(code(&[program("sleep 0.1; exit 3"), program("exit 0")]), 3);
        assert_eq!(code(&[program("exit 0"), program("exit 4")]), 4);
        assert_eq!(code(&[program("exit 5")]), 5);
        let (words, _) = words(Observer::Perf);
        assert_eq!(words[..5], ["sched", "record", "-o", "/t/o", "--"]);
        assert_eq!(words[5..7], ["sh", "-c"]);
    }
}
