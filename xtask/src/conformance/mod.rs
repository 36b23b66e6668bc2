//! Whether programs behave under `cox run --overlap` as they do without: other people's OpenMP tests, plain and under each backend.
//!
//! - [`options`]: what is wanted.
//! - [`suite`]: the tests of a folder; [`headers`] and [`tcl`]: what their heads ask for.
//! - [`session`]: one test, built, run plain and under cox; [`rounds`]: the innermost process, which runs it many times.
//! - [`judge`]: whether two runs are the same; [`summary`]: what all came to.

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
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use self::judge::{Reference, Verdict};
use self::options::Options;
use self::rounds::Seen;
use self::session::{Bench, Built};
use self::suite::Test;
use self::summary::Summary;
use crate::workspace;

/// Plain runs that come first.
const PLAIN: u32 = 2;
/// Plain runs after a difference: whether the test does so by itself, if rarely.
const PLAIN_AGAIN: u32 = 20;
/// Further runs under cox after a difference: how often.
const AGAIN: u32 = 5;
/// Tests between two lines of progress.
const PROGRESS: usize = 100;

/// Runs a suite and prints what came of it; whether all was the same.
///
/// # Errors
/// When the suite cannot be read, a named backend cannot work here, or nothing could be compared.
pub fn run(options: &Options) -> Result<bool> {
    let root = workspace::root();
    let absolute = |path: PathBuf| std::path::absolute(&path).with_context(|| path.display().to_string());
    let name = options.suite.file_name().context("the suite has no name")?;
    let work = options.work.clone().unwrap_or_else(|| root.join("target/conformance/built").join(name));
    let cox = options.cox.clone().unwrap_or_else(|| root.join("target/release/cox"));
    let xtask = std::env::current_exe().context("this program")?;
    let bench = Bench { xtask, cox: absolute(cox)?, work: absolute(work)?, limit_s: options.limit };
    fs::create_dir_all(&bench.work).with_context(|| bench.work.display().to_string())?;
    let choice = options.choice()?;
    let suite = suite::read(&options.suite)?;
    choice.check(suite.tests.iter().map(|test| &test.name).chain(suite.set_aside.iter().map(|aside| &aside.0)))?;
    let tests: Vec<&Test> = suite.tests.iter().filter(|test| choice.takes(&test.name)).collect();
    let mut summary = Summary::default();
    summary.set_aside.extend(suite.set_aside.iter().filter(|aside| choice.takes(&aside.0)).cloned());
    let backends = backends(options, &bench)?;
    println!("conformance: {} tests, {} threads, {}", tests.len(), words(&options.threads), backends.join(", "));
    let all = All { options, bench, backends, summary: Mutex::new(summary), done: AtomicUsize::new(0) };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs() {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    all.test(test);
                    let done = all.done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(PROGRESS) {
                        println!("conformance: {done} of {} tests", tests.len());
                    }
                }
            });
        }
    });
    let summary = all.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("{}", summary.text());
    summary.is_good().context("nothing could be compared")
}

fn words(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Those that work here. One that is named has to.
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
    summary: Mutex<Summary>,
    done: AtomicUsize,
}

impl All<'_> {
    fn with_summary(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.summary.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn set_aside(&self, name: String, why: String) {
        self.with_summary(|summary| summary.set_aside.push((name, why)));
    }

    fn find(&self, text: String) {
        println!("{text}");
        self.with_summary(|summary| summary.findings.push(text));
    }

    fn test(&self, test: &Test) {
        let built = match self.bench.build(test) {
            Ok(built) => built,
            Err(why) => return self.set_aside(test.name.clone(), format!("it does not build: {why}")),
        };
        let plain = match built.plain(&self.options.threads, PLAIN) {
            Ok(plain) => plain,
            Err(why) => return self.set_aside(test.name.clone(), format!("it cannot be run: {why:#}")),
        };
        let mut references = Vec::new();
        for threads in &self.options.threads {
            let outcomes: Vec<_> =
                plain.iter().filter(|seen| seen.threads == *threads).map(|seen| &seen.outcome).collect();
            match judge::reference(&outcomes, &test.plan) {
                Ok(reference) => references.push((*threads, reference)),
                Err(why) => self.set_aside(format!("{} ({threads} threads)", test.name), why),
            }
        }
        for backend in &self.backends {
            if !references.is_empty() {
                self.under(test, &built, backend, &references);
            }
        }
    }

    fn under(&self, test: &Test, built: &Built<'_>, backend: &str, references: &[(u32, Reference)]) {
        let threads: Vec<u32> = references.iter().map(|(threads, _)| *threads).collect();
        let times = if test.makes_tasks { self.options.repeat } else { 1 };
        let (seen, overlap) = match built.under(backend, &threads, times) {
            Ok(result) => result,
            Err(why) => return self.find(format!("DIFFERS {} {backend}: cox: {why:#}", test.name)),
        };
        self.with_summary(|summary| summary.took_over(backend, overlap));
        for (threads, reference) in references {
            let runs: Vec<&Seen> = seen.iter().filter(|seen| seen.threads == *threads).collect();
            let judged = runs.iter().map(|seen| (*seen, reference.judge(&seen.outcome)));
            let (good, bad): (Vec<_>, Vec<_>) = judged.partition(|(_, verdict)| is_same(*verdict));
            for (seen, verdict) in good {
                self.with_summary(|summary| summary.count(backend, *threads, verdict, seen.times));
            }
            if bad.is_empty() {
                continue;
            }
            let name = format!("{} ({threads} threads)", test.name);
            match differs_by_itself(built, *threads, reference) {
                Ok(false) => {}
                Ok(true) => {
                    self.set_aside(name, format!("plain, it differs in some of {PLAIN_AGAIN} further runs"));
                    continue;
                }
                Err(why) => {
                    self.find(format!("DIFFERS {name} {backend}: plain, it cannot be run again: {why:#}"));
                    continue;
                }
            }
            let again = how_often(built, backend, *threads, reference);
            for (seen, verdict) in bad {
                self.with_summary(|summary| summary.count(backend, *threads, verdict, seen.times));
                let what = if verdict == Verdict::Hangs { "HANGS" } else { "DIFFERS" };
                let of = runs.iter().map(|seen| seen.times).sum::<u32>();
                self.find(format!(
                    "{what} {name} {backend}: {} of {of}: {}; again: {again}\n  {}",
                    seen.times,
                    reference.difference(&seen.outcome),
                    built.reproduce(backend, *threads)
                ));
            }
        }
    }
}

fn is_same(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Same | Verdict::OtherOutput)
}

/// Whether plain runs, too, are not always as the reference has it.
fn differs_by_itself(built: &Built<'_>, threads: u32, reference: &Reference) -> Result<bool> {
    let again = built.plain(&[threads], PLAIN_AGAIN)?;
    Ok(again.iter().any(|seen| !is_same(reference.judge(&seen.outcome))))
}

/// How many further runs differ, in words.
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
