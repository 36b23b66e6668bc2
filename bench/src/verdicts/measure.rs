//! Measures one situation: a report of cox, then the program without and with each change, in turns.
//!
//! The rounds go on until each interval is narrow enough: until it contains no limit with which the score compares it, or is at most 4 % wide. The order
//! within a round is rotated from round to round, so that a slow drift of the machine affects all alike.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use advise::NextStep;
use anyhow::{Context, Result, anyhow, bail};

use super::arrow::{self, Followed};
use super::change::{self, Change};
use super::corpus::Ready;
use super::load::{Hog, Quota};
use super::ratio::speedup;
use super::report;
use super::result::{Arrow, Finished, Outcome, Speedup, Told, Tried};
use super::score;
use super::setting::{Cpus, Setting};
use super::situation::Situation;
use crate::interrupt::Interrupt;
use crate::process::{ending, run_within};
use crate::tools::Tools;

/// A program that runs longer is ended.
const LIMIT: Duration = Duration::from_secs(60);
/// cox needs time for its start and report beyond the program's.
const REPORT: Duration = Duration::from_secs(30);
/// The fewest rounds.
const ROUNDS: usize = 5;
/// The fewest rounds of a situation that takes longer than [`LONGEST_S`].
const ROUNDS_IF_SLOW: usize = 3;
/// Width of an interval, relative to its ratio, that is narrow enough even if the interval contains a limit.
const NARROW: f64 = 0.04;
/// A change that makes the program so many times slower or faster needs no more than the fewest rounds.
const CLEAR: f64 = 3.0;
/// No round of a situation begins later than this, s, except for the fewest rounds: programs that take a minute would otherwise take hours.
const LONGEST_S: f64 = 150.0;

/// Prefixes of variables by which the caller's shell would influence the programs' runtimes.
const RUNTIME_VARIABLES: [&str; 12] = [
    "OMP_",
    "GOMP_",
    "KMP_",
    "OPENBLAS_",
    "GOMAXPROCS",
    "GOGC",
    "UV_",
    "JAVA_TOOL_OPTIONS",
    "OMPI_",
    "MPICH_",
    "XZ_",
    "ZSTD_",
];
/// Variables with such a prefix that tell OpenBLAS which processor it runs on: without them, old versions compute wrong results on some machines.
const PROCESSOR_VARIABLES: [&str; 2] = ["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"];

/// The environment of all measurements.
pub struct Field<'a> {
    /// The programs.
    pub tools: &'a Tools,
    /// The CPUs.
    pub cpus: Cpus,
    /// The most rounds.
    pub rounds: usize,
    /// Tells whether Ctrl-C was pressed.
    pub interrupt: &'a Interrupt,
    /// Folder for outputs.
    pub scratch: &'a Path,
}

/// How one run ended.
struct Run {
    wall_s: f64,
    cut_short: bool,
}

impl Field<'_> {
    /// Measures a situation. A program that fails gives a result that says so.
    ///
    /// # Errors
    /// After Ctrl-C.
    pub fn measure(&self, situation: &Situation, ready: &Ready) -> Result<Finished> {
        self.finished(situation, |setting, finished| self.fill(situation, setting, ready, finished))
    }

    /// Observes a situation with cox, and follows no step.
    ///
    /// # Errors
    /// After Ctrl-C.
    pub fn verdict(&self, situation: &Situation, ready: &Ready) -> Result<Finished> {
        self.finished(situation, |setting, finished| self.observed(situation, setting, ready, finished).map(drop))
    }

    /// Measures a situation with and without packing, and follows no step.
    ///
    /// # Errors
    /// After Ctrl-C.
    pub fn packed(&self, situation: &Situation, ready: &Ready) -> Result<Finished> {
        self.finished(situation, |setting, finished| {
            self.observed(situation, setting, ready, finished)?;
            let changes = Changes { base: setting.clone(), all: Vec::new() };
            self.try_known(change::packing(situation, &self.cpus), situation, ready, changes, finished)
        })
    }

    /// Returns the result of a situation that `fill` fills. If that fails, the result only says so.
    fn finished(
        &self,
        situation: &Situation,
        fill: impl FnOnce(&Setting, &mut Finished) -> Result<()>,
    ) -> Result<Finished> {
        let setting = Setting::of(situation, &self.cpus);
        let nothing_yet = Finished {
            key: situation.key(self.cpus.count()),
            program: situation.program.name.to_owned(),
            loaded: setting.hog,
            failed: None,
            verdict: None,
            arrows: Vec::new(),
            tried: Vec::new(),
        };
        let mut finished = nothing_yet.clone();
        if let Err(error) = fill(&setting, &mut finished) {
            self.interrupt.check()?;
            finished = Finished { failed: Some(format!("{error:#}")), ..nothing_yet };
        }
        Ok(finished)
    }

    /// Observes a situation twice with cox: alone, and beside another program that uses a CPU. Returns what the two reports say.
    ///
    /// # Errors
    /// When the program or cox fails, and after Ctrl-C.
    pub fn alone_and_under_load(&self, situation: &Situation, ready: &Ready) -> Result<[Told; 2]> {
        let alone = Setting::of(situation, &self.cpus);
        let under_load = Setting { hog: true, ..alone.clone() };
        // This run reads the program and its input from disk.
        self.run(situation, &alone, ready)?;
        let told = |setting| Ok::<_, anyhow::Error>(self.report(situation, setting, ready)?.0);
        Ok([told(&alone)?, told(&under_load)?])
    }

    /// Observes a situation with cox. Returns what the report says, and its steps.
    fn report(&self, situation: &Situation, setting: &Setting, ready: &Ready) -> Result<(Told, Vec<NextStep>)> {
        let json = self.scratch.join("report.json");
        let wall_s = self.observe(situation, setting, ready, &json)?;
        let read = report::read(&json, wall_s);
        let _ = std::fs::remove_file(&json);
        read
    }

    /// Observes the program. Returns the steps of the report.
    fn observed(
        &self,
        situation: &Situation,
        setting: &Setting,
        ready: &Ready,
        finished: &mut Finished,
    ) -> Result<Vec<NextStep>> {
        // This run is not measured. It reads the program and its input from disk.
        self.run(situation, setting, ready)?;
        let (told, steps) = self.report(situation, setting, ready)?;
        finished.verdict = Some(told);
        Ok(steps)
    }

    fn fill(&self, situation: &Situation, setting: &Setting, ready: &Ready, finished: &mut Finished) -> Result<()> {
        let steps = self.observed(situation, setting, ready, finished)?;
        let mut changes = Changes { base: setting.clone(), all: Vec::new() };
        finished.arrows = steps.iter().map(|step| self.arrow(step, situation, &mut changes)).collect();
        self.try_known(change::known(situation, setting, &self.cpus), situation, ready, changes, finished)
    }

    /// Measures the known changes beside those that the steps lead to.
    fn try_known(
        &self,
        known: impl IntoIterator<Item = Change>,
        situation: &Situation,
        ready: &Ready,
        mut changes: Changes,
        finished: &mut Finished,
    ) -> Result<()> {
        for change in known {
            if let Some(changed) = change.apply(&changes.base, situation, &self.cpus) {
                let index = changes.add(&change, changed);
                changes.all[index].known = true;
            }
        }
        finished.tried = self.rounds(situation, ready, &changes, finished)?;
        Ok(())
    }

    /// Finds out how a step is followed, and adds its change.
    fn arrow(&self, step: &NextStep, situation: &Situation, changes: &mut Changes) -> Arrow {
        let outcome = match arrow::read(&step.action, self.cpus.count()) {
            Followed::Unknown => Outcome::Unknown,
            Followed::ByHand(why) => Outcome::NotFollowed(why.to_owned()),
            Followed::Changes(list) => {
                let base = changes.base.clone();
                let applied =
                    list.iter().find_map(|change| Some((change, change.apply(&base, situation, &self.cpus)?)));
                match applied {
                    Some((change, changed)) => Outcome::Tried(changes.add(change, changed)),
                    None => Outcome::NotFollowed("this situation does not offer it".to_owned()),
                }
            }
        };
        Arrow { action: step.action.clone(), expected: step.range(), bound: step.bound, outcome }
    }

    /// Measures the base and all changes in turns. `promised` has the report's bound and its steps.
    fn rounds(
        &self,
        situation: &Situation,
        ready: &Ready,
        changes: &Changes,
        promised: &Finished,
    ) -> Result<Vec<Tried>> {
        let bound = promised.verdict.as_ref().and_then(|told| told.bound);
        let mut tried: Vec<Tried> = changes.all.iter().map(|one| one.tried(&changes.base)).collect();
        let (mut base_s, mut spent_s) = (Vec::new(), 0.0);
        // What is so already needs no run: its speed-up is 1.
        let mut open: Vec<usize> =
            (0..tried.len()).filter(|&index| changes.all[index].setting != changes.base).collect();
        for round in 0..self.rounds.max(ROUNDS) {
            if open.is_empty() || (round >= ROUNDS_IF_SLOW && spent_s > LONGEST_S) {
                break;
            }
            // `None` is the base.
            let mut order: Vec<Option<usize>> = std::iter::once(None).chain(open.iter().copied().map(Some)).collect();
            let turns = round % order.len();
            order.rotate_left(turns);
            for turn in order {
                self.interrupt.check()?;
                let Some(index) = turn else {
                    let run = self.run(situation, &changes.base, ready)?;
                    if run.cut_short {
                        bail!("the program takes longer than {} s", LIMIT.as_secs());
                    }
                    base_s.push(run.wall_s);
                    spent_s += run.wall_s;
                    continue;
                };
                match self.run(situation, &changes.all[index].setting, ready) {
                    Ok(run) => {
                        tried[index].change_s.push(run.wall_s);
                        tried[index].cut_short |= run.cut_short;
                        spent_s += run.wall_s;
                    }
                    Err(error) => {
                        self.interrupt.check()?;
                        (tried[index].failed, tried[index].speedup) = (Some(format!("{error:#}")), None);
                    }
                }
            }
            for tried in tried.iter_mut().filter(|tried| !tried.change_s.is_empty()) {
                tried.base_s = base_s[..tried.change_s.len().min(base_s.len())].to_vec();
                if tried.failed.is_none() {
                    tried.speedup = speedup(&tried.base_s, &tried.change_s);
                }
            }
            open.retain(|&index| {
                let limits = score::limits(&promised.arrows, bound, index, &tried[index]);
                needs_more(&tried[index], round + 1, &limits)
            });
        }
        Ok(tried)
    }

    /// Runs the program once without cox, or under a command of cox. Returns its wall time.
    fn run(&self, situation: &Situation, setting: &Setting, ready: &Ready) -> Result<Run> {
        let mut before = Vec::new();
        if !setting.under.is_empty() {
            before.push(self.cox()?.into_os_string());
            before.extend(setting.under.iter().map(Into::into));
            before.extend(["-q".into(), "--".into()]);
        }
        self.start(situation, setting, ready, before, LIMIT)
    }

    /// Runs the program once under `cox run`, which writes its report to `json`. Returns the wall time, s.
    fn observe(&self, situation: &Situation, setting: &Setting, ready: &Ready, json: &Path) -> Result<f64> {
        let words = ["run".into(), "-q".into(), "--json".into(), json.into(), "--".into()];
        let before = std::iter::once(self.cox()?.into_os_string()).chain(words).collect();
        let run = self.start(situation, setting, ready, before, LIMIT + REPORT).context("cox run")?;
        if run.cut_short {
            bail!("cox run takes longer than {} s", (LIMIT + REPORT).as_secs());
        }
        Ok(run.wall_s)
    }

    fn cox(&self) -> Result<PathBuf> {
        let cox = self.tools.cox.clone().map_err(|why| anyhow!(why))?;
        std::path::absolute(&cox).context("cannot find the path of cox")
    }

    fn start(
        &self,
        situation: &Situation,
        setting: &Setting,
        ready: &Ready,
        before: Vec<std::ffi::OsString>,
        limit: Duration,
    ) -> Result<Run> {
        let quota = setting.quota.map(Quota::new).transpose().context("no CPU quota can be set here")?;
        let _hog = setting.hog.then(|| Hog::start(self.tools)).transpose()?;
        let mut words = quota.as_ref().map(Quota::words).unwrap_or_default();
        words.extend(before);
        words.extend(setting.words(situation, &ready.executable));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&ready.folder).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let of_runtime = RUNTIME_VARIABLES.iter().any(|prefix| text.starts_with(prefix));
            if of_runtime && !PROCESSOR_VARIABLES.contains(&&*text) {
                command.env_remove(&name);
            }
        }
        command.envs(setting.environment(situation));
        let messages = self.scratch.join("messages");
        command.stdout(File::create(self.scratch.join("said")).context("cannot write into the temporary folder")?);
        command.stderr(File::create(&messages).context("cannot write into the temporary folder")?);
        let ended = run_within(&mut command, limit, || self.interrupt.is_set()).context("cannot start the program")?;
        self.interrupt.check()?;
        if !ended.status.success() && !ended.cut_short {
            let words = message(&messages).or_else(|| message(&self.scratch.join("said")));
            bail!("{}: {}", ending(ended.status), words.unwrap_or_else(|| "no message".to_owned()));
        }
        Ok(Run { wall_s: ended.cost.wall_ns as f64 / 1e9, cut_short: ended.cut_short })
    }
}

/// Returns a line that says why a program failed: the first one about an error, or else the last one with words.
fn message(output: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&std::fs::read(output).ok()?).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| line.contains(char::is_alphabetic));
    let error = lines.clone().find(|line| line.to_lowercase().contains("error") || line.starts_with("cox:"));
    error.or_else(|| lines.next_back()).map(str::to_owned)
}

/// Returns whether a change needs more rounds, with the limits to which its speed-up is compared.
fn needs_more(tried: &Tried, rounds: usize, limits: &[f64]) -> bool {
    let Some(speedup) = tried.speedup else { return false };
    let is_clear = !(1.0 / CLEAR..=CLEAR).contains(&speedup.ratio);
    let is_open = limits.iter().any(|limit| (speedup.low..=speedup.high).contains(limit));
    // A run that was ended took longer than it shows: more of them tell nothing.
    rounds < ROUNDS || (is_open && speedup.width() > NARROW && !is_clear && !tried.cut_short)
}

/// The settings that are measured, each once.
struct Changes {
    base: Setting,
    all: Vec<Changed>,
}

/// A setting that is measured.
struct Changed {
    change: Change,
    setting: Setting,
    known: bool,
}

impl Changes {
    /// Adds a setting, unless it is there already. Returns its index.
    fn add(&mut self, change: &Change, setting: Setting) -> usize {
        self.all.iter().position(|other| other.setting == setting).unwrap_or_else(|| {
            self.all.push(Changed { change: change.clone(), setting, known: false });
            self.all.len() - 1
        })
    }
}

impl Changed {
    fn tried(&self, base: &Setting) -> Tried {
        Tried {
            change: self.change.name(),
            known: self.known,
            scheduling: self.change.is_scheduling(base),
            base_s: Vec::new(),
            change_s: Vec::new(),
            cut_short: false,
            speedup: (self.setting == *base).then_some(Speedup { ratio: 1.0, low: 1.0, high: 1.0 }),
            failed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_quoted_by_its_error() {
        let folder = tempfile::tempdir().unwrap();
        let quoted = |text: &str| {
            std::fs::write(folder.path().join("x"), text).unwrap();
            message(&folder.path().join("x"))
        };
        assert_eq!(quoted("---\nhello\nERROR: no package\nlast\n---\n").as_deref(), Some("ERROR: no package"));
        assert_eq!(quoted("---\nfirst\nlast\n---\n").as_deref(), Some("last"));
        assert_eq!(quoted("---\n"), None);
    }

    fn tried(ratio: f64, width: f64) -> Tried {
        let half = 0.5 * width * ratio;
        Tried {
            change: "n=2".to_owned(),
            known: true,
            scheduling: true,
            base_s: Vec::new(),
            change_s: Vec::new(),
            cut_short: false,
            speedup: Some(Speedup { ratio, low: ratio - half, high: ratio + half }),
            failed: None,
        }
    }

    #[test]
    fn rounds_go_on_until_the_interval_is_narrow() {
        let more = |tried: &Tried, rounds| needs_more(tried, rounds, &[1.02, 2.9, 0.3]);
        assert!(more(&tried(1.0, 0.01), 4), "too few rounds");
        assert!(!more(&tried(1.0, 0.039), 5));
        assert!(more(&tried(1.0, 0.05), 5));
        assert!(!more(&tried(1.1, 0.14), 5) && more(&tried(1.1, 0.16), 5), "no limit is inside");
        assert!(!more(&tried(0.3, 0.5), 5), "more than three times slower");
        assert!(!more(&tried(3.1, 0.5), 5) && more(&tried(2.9, 0.5), 5), "more than three times faster");
        assert!(!more(&Tried { cut_short: true, ..tried(1.0, 0.5) }, 5));
        assert!(!more(&Tried { speedup: None, failed: Some("no".into()), ..tried(1.0, 0.5) }, 2));
    }
}
