//! Whether the advice of `cox run` holds: a corpus of programs in many situations. Every step of every report is followed literally and measured,
//! and so is every change that is known to matter.
//!
//!  1. `corpus` has the programs, `situation` their numbers of threads and their circumstances, `truth` the right headlines.
//!  2. `measure` gets a report of a situation. `arrow` reads its steps; `change` applies them. The program then runs without and with each change.
//!  3. `kept` stores the result, so that a later session continues.
//!  4. `score` compares promises with measurements, and `limits` the totals with their limits.
//!
//! With `--under-load`, `under_load` compares the verdicts on runs with and without another program instead. With `--headlines` or `--packed`,
//! only one limit is measured (`single`), so that the whole corpus takes no longer than a sample of it otherwise.

mod arrow;
mod change;
mod corpus;
mod kept;
mod limits;
mod load;
mod measure;
mod prepared;
mod quick;
mod ratio;
mod report;
mod result;
mod score;
mod setting;
mod single;
mod situation;
mod text;
mod truth;
mod under_load;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use advise::Kind;
use anyhow::{Context, Result, anyhow, bail};
use machine::Root;
use machine::limits::{Who, allowed_cpus};
use serde::Serialize;
use tempfile::TempDir;

use crate::common::Common;
use crate::interrupt::Interrupt;
use crate::tools::Tools;
use crate::verdict::{FAILED, Verdict};
use corpus::program::Program;
use kept::{Kept, Origin};
use measure::Field;
use prepared::Prepared;
use result::Finished;
use score::Score;
use setting::Cpus;
use single::Single;
use situation::{Circumstance, Situation};
use under_load::Pair;

/// Options of `cox-bench verdicts`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only these programs or families (openmp-gcc, openmp-clang, mpich, openmpi, pool, single, other)
    #[arg(long, value_name = "WORD", num_args = 1.., value_parser = word)]
    only: Vec<String>,
    /// A fixed part of the corpus that takes about ten minutes: one situation of each kind
    #[arg(long)]
    quick: bool,
    /// Only every N-th situation: an even sample of all programs and circumstances
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "quick")]
    every: u16,
    /// Folder of benchmarks that were built by `cargo xtask benchmarks`
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Folder that keeps inputs and results; finished situations are not measured again with the same cox on the same machine
    #[arg(long, value_name = "FOLDER", default_value = "target/verdicts")]
    results: PathBuf,
    /// The most rounds for a situation; at least five are made, three if these take minutes
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(5..=1000))]
    rounds: u16,
    /// Compare the verdicts on a run alone and on one beside another program that uses a CPU; no step is followed
    #[arg(long, conflicts_with_all = ["list", "rescore", "rounds"])]
    under_load: bool,
    /// Observe each situation of the truth table once, and score only the headlines; no step is followed, and nothing is kept
    #[arg(long, conflicts_with_all = ["list", "rescore", "rounds", "under_load"])]
    headlines: bool,
    /// Run each situation with more threads than CPUs with and without cox pack, and score only packing; no step is followed, and nothing is kept
    #[arg(long, conflicts_with_all = ["list", "rescore", "under_load", "headlines"])]
    packed: bool,
    /// Print the corpus, and measure nothing
    #[arg(long, conflicts_with = "rescore")]
    list: bool,
    /// Measure nothing: print the tables of the kept results
    #[arg(long)]
    rescore: bool,
    #[command(flatten)]
    common: Common,
}

/// Checks a word of `--only`.
fn word(word: &str) -> Result<String, String> {
    if corpus::all().iter().any(|program| corpus::is_meant(program, word)) {
        return Ok(word.to_owned());
    }
    Err("no program and no family has this name; see cox-bench verdicts --list".to_owned())
}

/// The measurements as JSON.
#[derive(Serialize)]
struct Measurements<'a> {
    #[serde(flatten)]
    header: crate::json::Header,
    origin: Option<&'a Origin>,
    situations: &'a [Finished],
    score: &'a Score,
    verdicts: &'a [Verdict],
}

/// The comparisons of `--under-load` as JSON.
#[derive(Serialize)]
struct Comparisons<'a> {
    #[serde(flatten)]
    header: crate::json::Header,
    pairs: &'a [Pair],
    verdicts: &'a [Verdict],
}

fn scratch() -> Result<TempDir> {
    tempfile::Builder::new().prefix("cox-bench-").tempdir().context("cannot make a temporary folder")
}

/// Returns the situations by their keys.
fn by_key<'a>(situations: &'a [Situation], cpus: &Cpus) -> BTreeMap<String, &'a Situation> {
    situations.iter().map(|situation| (situation.key(cpus.count()), situation)).collect()
}

/// Returns how the right headlines of a situation are found by its key.
fn right(by_key: &BTreeMap<String, &Situation>) -> impl Fn(&str) -> Option<&'static [Kind]> {
    |key| Some(truth::of(by_key.get(key)?)?.right)
}

/// Measures the corpus and prints the score. Returns the exit code: 1 if a limit is missed.
///
/// # Errors
/// When cox is missing, or the results cannot be written.
pub fn verdicts(options: &Options, interrupt: &Interrupt) -> Result<u8> {
    let tools = options.common.tools()?;
    let cpus = Cpus(allowed_cpus(&Root::live(), Who::Own)?.iter().collect());
    let situations = options.situations(&cpus);
    if options.list {
        options.common.print(&options.corpus(&tools, &cpus))?;
        return Ok(0);
    }
    let cox = tools.cox.clone().map_err(|why| anyhow!(why))?;
    if options.under_load {
        return options.compare_under_load(&situations, &tools, &cpus, interrupt);
    }
    if let Some(single) = options.single() {
        return options.measure_single(single, &situations, &tools, &cpus, interrupt);
    }
    let mut kept = Kept::open(&options.results, Origin::of(&cox, cpus.count())?)?;
    for note in &kept.notes {
        options.common.print(note)?;
    }
    let mut interrupted = false;
    if !options.rescore {
        let measured = options.measure(&situations, &tools, &cpus, interrupt, &mut kept);
        interrupted = interrupt.is_set();
        // After Ctrl-C, what has been measured is still scored.
        if !interrupted {
            measured?;
        }
    }
    let code = options.tell(&situations, &cpus, &kept)?;
    Ok(if interrupted { FAILED } else { code })
}

impl Options {
    /// Returns the situations to measure.
    fn situations(&self, cpus: &Cpus) -> Vec<Situation> {
        let meant =
            |program: &&Program| self.only.is_empty() || self.only.iter().any(|word| corpus::is_meant(program, word));
        let programs = corpus::all().into_iter().filter(meant);
        let all = programs.flat_map(|program| situation::of(program, cpus.count()));
        let all = all.filter(|situation| !self.quick || quick::contains(situation));
        let all = all.filter(|situation| !self.under_load || situation.circumstance == Circumstance::Plain);
        let all = all.filter(|situation| self.single().is_none_or(|single| single.includes(situation, cpus)));
        all.step_by(self.every.into()).collect()
    }

    /// Returns the corpus as text: each program, whether it was found, and its number of situations.
    fn corpus(&self, tools: &Tools, cpus: &Cpus) -> String {
        let mut counts: Vec<(&'static Program, usize)> = Vec::new();
        for situation in self.situations(cpus) {
            match counts.last_mut().filter(|(program, _)| program.name == situation.program.name) {
                Some((_, count)) => *count += 1,
                None => counts.push((situation.program, 1)),
            }
        }
        let lines = counts.iter().map(|(program, count)| {
            let found = match corpus::find(program, tools, self.programs.as_deref()) {
                Ok(Some(path)) => path.display().to_string(),
                Ok(None) => "made from source".to_owned(),
                Err(missing) => format!("missing: {missing}"),
            };
            format!("{:15} {:13} {count:3}  {found}", program.name, program.family.name())
        });
        let lines: Vec<String> = lines.collect();
        let all: usize = counts.iter().map(|(_, count)| count).sum();
        format!("{}\n{} programs, {all} situations", lines.join("\n"), counts.len())
    }

    /// Measures all situations that have no result yet.
    fn measure(
        &self,
        situations: &[Situation],
        tools: &Tools,
        cpus: &Cpus,
        interrupt: &Interrupt,
        kept: &mut Kept,
    ) -> Result<()> {
        let scratch = scratch()?;
        let field = self.field(tools, cpus, interrupt, scratch.path());
        let done = kept.keys().into_iter().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let left: Vec<&Situation> =
            situations.iter().filter(|situation| !done.contains(&situation.key(cpus.count()))).collect();
        let mut prepared = self.prepared(tools)?;
        for (number, situation) in left.iter().enumerate() {
            interrupt.check()?;
            let Some(ready) = prepared.get(situation.program)? else { continue };
            let finished = field.measure(situation, ready)?;
            self.common.print(&format!("[{}/{}] {}", number + 1, left.len(), text::line(&finished)))?;
            kept.add(finished)?;
        }
        Ok(())
    }

    fn prepared<'a>(&'a self, tools: &'a Tools) -> Result<Prepared<'a>> {
        Prepared::new(&self.common, tools, self.programs.as_deref(), &self.results)
    }

    fn field<'a>(&self, tools: &'a Tools, cpus: &Cpus, interrupt: &'a Interrupt, scratch: &'a Path) -> Field<'a> {
        let rounds = if self.quick { 5 } else { usize::from(self.rounds) };
        Field { tools, cpus: cpus.clone(), rounds, interrupt, scratch }
    }

    /// Compares the verdicts on situations alone and beside another program. Returns the exit code.
    fn compare_under_load(
        &self,
        situations: &[Situation],
        tools: &Tools,
        cpus: &Cpus,
        interrupt: &Interrupt,
    ) -> Result<u8> {
        let scratch = scratch()?;
        let field = self.field(tools, cpus, interrupt, scratch.path());
        let mut prepared = self.prepared(tools)?;
        let mut pairs = Vec::new();
        for situation in situations {
            interrupt.check()?;
            let Some(ready) = prepared.get(situation.program)? else { continue };
            let key = situation.key(cpus.count());
            match field.alone_and_under_load(situation, ready) {
                Ok([alone, under_load]) => {
                    let pair = Pair { key, alone, under_load };
                    self.common.print(&pair.line())?;
                    pairs.push(pair);
                }
                Err(error) => {
                    interrupt.check()?;
                    self.common.print(&format!("{key}: not measured: {error:#}"))?;
                }
            }
        }
        let verdicts = under_load::verdicts(&pairs);
        for verdict in &verdicts {
            self.common.print(&text::compared(verdict))?;
        }
        let header = crate::json::Header::new("verdicts")?;
        self.common.write(&Comparisons { header, pairs: &pairs, verdicts: &verdicts })?;
        Ok(if pairs.is_empty() { FAILED } else { limits::code(&verdicts) })
    }

    /// Returns the limit that is measured alone; `None`: all are measured.
    fn single(&self) -> Option<Single> {
        match (self.headlines, self.packed) {
            (true, _) => Some(Single::Headlines),
            (_, true) => Some(Single::Packing),
            _ => None,
        }
    }

    /// Measures one limit in these situations. Returns the exit code.
    fn measure_single(
        &self,
        single: Single,
        situations: &[Situation],
        tools: &Tools,
        cpus: &Cpus,
        interrupt: &Interrupt,
    ) -> Result<u8> {
        let scratch = scratch()?;
        let field = self.field(tools, cpus, interrupt, scratch.path());
        let mut prepared = self.prepared(tools)?;
        let mut all = Vec::new();
        for (number, situation) in situations.iter().enumerate() {
            let Some(ready) = prepared.get(situation.program)? else { continue };
            let finished = single.measure(&field, situation, ready);
            // After Ctrl-C, what has been measured before is still scored.
            if interrupt.is_set() {
                break;
            }
            let finished = finished?;
            self.common.print(&format!("[{}/{}] {}", number + 1, situations.len(), single.line(&finished)))?;
            all.push(finished);
        }
        let score = score::score(&all, right(&by_key(situations, cpus)));
        let verdicts = [single.verdict(&score.totals)];
        self.common.print(&text::tables(&score, &verdicts))?;
        let header = crate::json::Header::new("verdicts")?;
        self.common.write(&Measurements {
            header,
            origin: None,
            situations: &all,
            score: &score,
            verdicts: &verdicts,
        })?;
        Ok(if all.is_empty() || interrupt.is_set() { FAILED } else { limits::code(&verdicts) })
    }

    /// Scores the kept results of these situations and prints the tables. Returns the exit code.
    fn tell(&self, situations: &[Situation], cpus: &Cpus, kept: &Kept) -> Result<u8> {
        let by_key = by_key(situations, cpus);
        let finished: Vec<Finished> =
            kept.finished.iter().filter(|finished| by_key.contains_key(&finished.key)).cloned().collect();
        if finished.is_empty() {
            bail!(
                "no situation was measured, and no result of this cox and this machine is kept in {}",
                self.results.display()
            );
        }
        let score = score::score(&finished, right(&by_key));
        let whole = !self.quick && self.only.is_empty() && self.every == 1;
        let verdicts = limits::verdicts(&score.totals, whole);
        self.common.print(&text::tables(&score, &verdicts))?;
        let header = crate::json::Header::new("verdicts")?;
        let origin = Some(kept.origin());
        self.common.write(&Measurements {
            header,
            origin,
            situations: &finished,
            score: &score,
            verdicts: &verdicts,
        })?;
        Ok(limits::code(&verdicts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_checked() {
        assert_eq!(word("pigz"), Ok("pigz".to_owned()));
        assert!(word("openmp-gcc").is_ok() && word("lammps").is_ok());
        assert!(word("nonsense").unwrap_err().contains("--list"));
    }
}
