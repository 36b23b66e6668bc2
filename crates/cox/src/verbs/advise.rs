//! `cox advise`: predicts which way of running a program on fewer CPUs than threads is fastest.
//!
//! [`advise::forecast`] makes the forecasts; [`crate::forecasts`] collects their input. If the user gives a
//! command, cox runs it once, in a trial of the packer, or, with `--runs`, several times in each way ([`super::tries`]). If the user gives a
//! report of `cox run`, cox simulates the program from that report.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use ledger::Provenance;
use outputs::diagnostics::{chain, say};
use outputs::{Output, refuse_same};
use pack::engine::OnTrial;
use report::Document;
use report::advice::Advice;
use session::{Limits, Outcome, provenance};

use super::tries::{Series, tries};
use crate::faces::print;
use crate::forecasts::{measured, modelled};
use crate::run_context::RunContext;
use crate::{cli, engines, exit, targets};

/// Exit code if no forecast is possible, and cox therefore cannot compare ways of running the program.
const NOTHING_TO_CHOOSE: u8 = 1;

/// Destinations of the advice.
struct Outputs {
    text: Option<Output>,
    json: Option<Output>,
}

/// Runs `cox advise` and returns the exit code.
pub fn advise(options: &cli::Advise) -> Result<u8> {
    let text = options.output.clone().filter(|_| !options.quiet);
    refuse_same([("--json", options.json.clone()), ("--output", text)])?;
    let json = Output::wanted(options.json.as_deref())?;
    let text = if options.quiet { None } else { Some(Output::open(options.output.as_deref())?) };
    let outputs = Outputs { text, json };
    match (&options.from, options.runs) {
        (Some(path), _) => match modelled::advice(&options.cpus, &read(path)?) {
            Ok(advice) => outputs.write(&advice).map(|()| 0),
            Err(refusal) => {
                say(&refusal.to_string());
                Ok(NOTHING_TO_CHOOSE)
            }
        },
        (None, Some(rounds)) => repeated(options, rounds, outputs),
        (None, None) => run(options, outputs),
    }
}

/// Runs the program several times in each way.
fn repeated(options: &cli::Advise, rounds: u32, outputs: Outputs) -> Result<u8> {
    let Series { advice, code } = tries(options, rounds)?;
    // The program has run. From here on, failures are reported, but do not change its exit code.
    if let Err(error) = advice.and_then(|advice| outputs.write(&advice)) {
        say(&chain(&error));
    }
    Ok(code)
}

/// Runs the program once. The kernel and the packer place its threads alternately.
fn run(options: &cli::Advise, outputs: Outputs) -> Result<u8> {
    let target = targets::of(&options.program, &[]);
    let engines = engines::of_advise(options)?;
    let run_context = RunContext::read(None);
    let provenance = provenance::here("cox", None);
    let mut outcome = session::run(&target, engines, Limits::default())?;
    // The program has run. From here on, failures are reported, but do not change its exit code.
    let provenance = Provenance { command: target.words(), ..provenance };
    if let Err(error) = report(&mut outcome, &run_context, provenance, outputs) {
        say(&chain(&error));
    }
    Ok(exit::after(&outcome.ended, false, &outcome.findings.unrestored()))
}

fn report(outcome: &mut Outcome, run_context: &RunContext, provenance: Provenance, outputs: Outputs) -> Result<()> {
    if let Some(error) = outcome.findings.failure::<OnTrial>() {
        return Err(error.context("no advice: the trial failed"));
    }
    let tested = outcome.findings.section::<OnTrial>().context("the trial has no result")?;
    tested.summary.diagnostics.iter().for_each(|diagnostic| say(diagnostic));
    let facts = run_context.facts(&[], None, None, None);
    let advice = measured::advice(&tested, &outcome.ended, provenance.command.clone(), &facts);
    let advice = advice.map_err(|refusal| anyhow!("{refusal}"))?;
    outputs.write(&Advice { provenance: Some(provenance), ..advice })
}

impl Outputs {
    /// Writes all outputs; a failure of one does not stop the others.
    fn write(self, advice: &Advice) -> Result<()> {
        let text = print(self.text, false, |style| advice.text(style));
        let json = self.json.map_or(Ok(()), |output| output.write(&serde_json::to_vec_pretty(advice)?));
        text.and(json)
    }
}

/// Reads a report of `cox run --json`.
fn read(path: &Path) -> Result<Document> {
    let name = path.display();
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).context("cannot read the report from stdin")?;
    } else {
        text = fs::read_to_string(path).with_context(|| format!("cannot read '{name}'"))?;
    }
    Document::read(&text).with_context(|| format!("cannot read '{name}'"))
}
