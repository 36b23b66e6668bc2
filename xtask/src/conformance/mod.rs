//! Checks that programs behave under `cox run --overlap` as they do without it: runs other projects' OpenMP tests *plain*, which is without cox, and
//! with each backend.
//!
//! - [`options`]: the command line.
//! - [`suite`]: the tests of a folder; [`headers`] and [`tcl`]: the directives at the head of their sources.
//! - [`session`]: builds one test and runs it plain and under cox; [`rounds`]: the innermost process, which runs it many times.
//! - [`judge`]: compares two runs; [`finished`]: the results so far, including those of earlier runs; [`summary`]: the overall result.

pub mod finished;
pub mod headers;
pub mod judge;
pub mod options;
pub mod rounds;
pub mod session;
pub mod suite;
pub mod summary;
pub mod tcl;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::finished::{Counts, Finished, Log};
use self::judge::{Reference, Verdict};
use self::options::Options;
use self::rounds::Seen;
use self::session::{Bench, Built};
use self::suite::Test;
use self::summary::{Summary, name};
use crate::workspace;

/// Number of runs without cox with which the runs under cox are compared.
const PLAIN: u32 = 2;
/// Number of further runs without cox after a difference was found: they show whether the test sometimes differs by itself.
const PLAIN_AGAIN: u32 = 20;
/// Number of further runs under cox after a difference: they show how often it occurs.
const AGAIN: u32 = 5;

/// How a conformance run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All tests behaved the same.
    Same,
    /// There were differences or hangs.
    Differences,
    /// The time limit was reached before all tests had run.
    Unfinished,
}

/// Runs a suite and prints the results.
///
/// # Errors
/// When the suite cannot be read, a named backend does not work here, or nothing could be compared.
pub fn run(options: &Options) -> Result<Ended> {
    let root = workspace::root();
    let absolute = |path: PathBuf| std::path::absolute(&path).with_context(|| path.display().to_string());
    let folder = options.suite.file_name().context("the suite's path has no last component")?;
    let work = options.work.clone().unwrap_or_else(|| root.join("target/conformance/built").join(folder));
    let cox = options.cox.clone().unwrap_or_else(|| root.join("target/release/cox"));
    let xtask = std::env::current_exe().context("cannot find the path of xtask")?;
    let bench = Bench { xtask, cox: absolute(cox)?, work: absolute(work)?, limit_s: options.limit };
    fs::create_dir_all(&bench.work).with_context(|| bench.work.display().to_string())?;
    let choice = options.choice()?;
    let suite = suite::read(&options.suite)?;
    choice.check(suite.tests.iter().map(|test| &test.name).chain(suite.set_aside.iter().map(|aside| &aside.0)))?;
    let tests: Vec<&Test> = suite.tests.iter().filter(|test| choice.takes(&test.name)).collect();
    let backends = backends(options, &bench)?;
    println!("conformance: {} tests, {} threads, {}", tests.len(), words(&options.threads), backends.join(", "));
    let log = match &options.resume {
        Some(file) => Log::open(file, &absolute(options.suite.clone())?, &bench.cox, options.limit)?,
        None => Log::unwritten(),
    };
    let until = options.time.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
    let all = All { options, bench, backends, log: Mutex::new(log), until };
    let unfinished = all.tests(&tests)?;
    let mut summary = Summary::default();
    summary.set_aside.extend(suite.set_aside.iter().filter(|aside| choice.takes(&aside.0)).cloned());
    let log = all.log();
    let is_asked = |one: &&Finished| {
        choice.takes(&one.test) && one.backend.as_ref().is_none_or(|backend| all.backends.contains(backend))
    };
    for finished in log.all().filter(is_asked) {
        let mut finished = finished.clone();
        finished.counts.retain(|threads, _| options.threads.contains(threads));
        finished.aside.retain(|threads, _| *threads == 0 || options.threads.contains(threads));
        finished.findings.retain(|(threads, _)| *threads == 0 || options.threads.contains(threads));
        summary.add(&finished);
    }
    print!("{}", summary.text());
    if unfinished > 0 {
        println!(
            "conformance: {unfinished} of {} tests are not finished: run the same command again to continue",
            tests.len()
        );
        return Ok(Ended::Unfinished);
    }
    let is_good = summary.is_good().context("nothing could be compared")?;
    Ok(if is_good { Ended::Same } else { Ended::Differences })
}

fn words(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the backends that work here. A backend that was named on the command line must work.
fn backends(options: &Options, bench: &Bench) -> Result<Vec<String>> {
    let mut able = Vec::new();
    for backend in options.backends() {
        match bench.probe(&backend) {
            Ok(()) => able.push(backend),
            Err(why) if options.backends.is_empty() => eprintln!("skipped: conformance with {backend}: {why}"),
            Err(why) => bail!("{backend}: {why}"),
        }
    }
    Ok(able)
}

struct All<'a> {
    options: &'a Options,
    bench: Bench,
    backends: Vec<String>,
    log: Mutex<Log>,
    until: Option<Instant>,
}

impl All<'_> {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_time_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Runs the unfinished tests, several at the same time. Returns the number of tests that are still unfinished.
    fn tests(&self, tests: &[&Test]) -> Result<usize> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || -> Result<()> {
            while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.left(test).is_empty() {
                    done.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                if self.test(test)? {
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    let Counts { same, other_output, differ, hang } = self.log().of(&test.name);
                    println!(
                        "[{done}/{}] {}: {same} same, {other_output} other output, {differ} differ, {hang} hang",
                        tests.len(),
                        test.name
                    );
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.options.jobs()).map(|_| scope.spawn(work)).collect();
            let mut results = workers.into_iter().map(|worker| worker.join());
            results.try_for_each(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        Ok(tests.len() - done.into_inner())
    }

    /// Returns how often a test is run with each combination of backend and number of threads.
    fn times(&self, test: &Test) -> u32 {
        if test.makes_tasks { self.options.repeat } else { 1 }
    }

    /// Returns the combinations that still need runs of a test: for each backend, the numbers of threads.
    fn left(&self, test: &Test) -> Vec<(&str, Vec<u32>)> {
        let log = self.log();
        let left = |backend: &str| log.left(&test.name, backend, &self.options.threads, self.times(test));
        let all = self.backends.iter().map(|backend| (backend.as_str(), left(backend)));
        all.filter(|(_, threads)| !threads.is_empty()).collect()
    }

    /// Runs a test in all combinations of backend and number of threads that still need runs. Returns whether the test is finished now.
    fn test(&self, test: &Test) -> Result<bool> {
        if self.is_time_over() {
            return Ok(false);
        }
        let nothing = Finished { test: test.name.clone(), times: self.times(test), ..Finished::default() };
        let aside = |aside| self.enter(Finished { aside, ..nothing.clone() });
        let built = match self.bench.build(test) {
            Ok(built) => built,
            Err(why) => return aside([(0, format!("it does not build: {why}"))].into()).map(|()| true),
        };
        let left = self.left(test);
        let is_left = |number: &u32| left.iter().any(|(_, threads)| threads.contains(number));
        let threads: Vec<u32> = self.options.threads.iter().copied().filter(is_left).collect();
        let plain = match built.plain(&threads, PLAIN) {
            Ok(plain) => plain,
            Err(why) => return aside([(0, format!("it cannot be run: {why:#}"))].into()).map(|()| true),
        };
        let mut references = Vec::new();
        for threads in threads {
            let outcomes: Vec<_> =
                plain.iter().filter(|seen| seen.threads == threads).map(|seen| &seen.outcome).collect();
            match judge::reference(&outcomes, &test.plan) {
                Ok(reference) => references.push((threads, reference)),
                Err(why) => aside([(threads, why)].into())?,
            }
        }
        for (backend, threads) in left {
            let wanted: Vec<_> = references.iter().filter(|(number, _)| threads.contains(number)).collect();
            if wanted.is_empty() {
                continue;
            }
            if self.is_time_over() {
                return Ok(false);
            }
            self.enter(self.under(test, &built, backend, &wanted))?;
        }
        Ok(true)
    }

    fn enter(&self, finished: Finished) -> Result<()> {
        finished.findings.iter().for_each(|(_, finding)| println!("{finding}"));
        self.log().enter(finished)
    }

    fn under(&self, test: &Test, built: &Built<'_>, backend: &str, references: &[&(u32, Reference)]) -> Finished {
        let threads: Vec<u32> = references.iter().map(|(threads, _)| *threads).collect();
        let times = self.times(test);
        let backend_name = Some(backend.to_owned());
        let mut finished = Finished { test: test.name.clone(), backend: backend_name, times, ..Finished::default() };
        let seen = match built.under(backend, &threads, times) {
            Ok((seen, overlap)) => {
                finished.overlap = overlap;
                seen
            }
            Err(why) => {
                finished.counts.extend(threads.iter().map(|threads| (*threads, Counts::default())));
                finished
                    .findings
                    .push((0, format!("DIFFERS {} {backend}: the runs with cox failed: {why:#}", test.name)));
                return finished;
            }
        };
        for (threads, reference) in references {
            let runs: Vec<&Seen> = seen.iter().filter(|seen| seen.threads == *threads).collect();
            let judged = runs.iter().map(|seen| (*seen, reference.judge(&seen.outcome)));
            let (good, bad): (Vec<_>, Vec<_>) = judged.partition(|(_, verdict)| is_same(*verdict));
            let counts = finished.counts.entry(*threads).or_default();
            good.iter().for_each(|(seen, verdict)| counts.count(*verdict, seen.times));
            if bad.is_empty() {
                continue;
            }
            let name = name(&test.name, *threads);
            match differs_by_itself(built, *threads, reference) {
                Ok(false) => {}
                Ok(true) => {
                    let why = format!("some of {PLAIN_AGAIN} further runs without cox differ, too");
                    finished.aside.insert(*threads, why);
                    continue;
                }
                Err(why) => {
                    let finding = format!("DIFFERS {name} {backend}: it cannot be run again without cox: {why:#}");
                    finished.findings.push((*threads, finding));
                    continue;
                }
            }
            let again = how_often(built, backend, *threads, reference);
            for (seen, verdict) in bad {
                counts.count(verdict, seen.times);
                let what = if verdict == Verdict::Hangs { "HANGS" } else { "DIFFERS" };
                let of = runs.iter().map(|seen| seen.times).sum::<u32>();
                let finding = format!(
                    "{what} {name} {backend}: {} of {of} runs: {difference}; repeated runs: {again}\n  {command}",
                    seen.times,
                    difference = reference.difference(&seen.outcome),
                    command = built.reproduce(backend, *threads)
                );
                finished.findings.push((*threads, finding));
            }
        }
        finished
    }
}

fn is_same(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Same | Verdict::OtherOutput)
}

/// Runs the test again without cox. Returns whether some of these runs, too, differ from the reference (the first runs without cox).
fn differs_by_itself(built: &Built<'_>, threads: u32, reference: &Reference) -> Result<bool> {
    let again = built.plain(&[threads], PLAIN_AGAIN)?;
    Ok(again.iter().any(|seen| !is_same(reference.judge(&seen.outcome))))
}

/// Describes how many further runs under cox differ.
fn how_often(built: &Built<'_>, backend: &str, threads: u32, reference: &Reference) -> String {
    match built.under(backend, &[threads], AGAIN) {
        Ok((again, _)) => {
            let differing = again.iter().filter(|seen| !is_same(reference.judge(&seen.outcome)));
            let of = again.iter().map(|seen| seen.times).sum::<u32>();
            format!("{} of {of}", differing.map(|seen| seen.times).sum::<u32>())
        }
        Err(why) => format!("{why:#}"),
    }
}
