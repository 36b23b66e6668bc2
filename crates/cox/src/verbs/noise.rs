//! `cox noise`: measures the noise on the machine's CPUs.

use std::time::Duration;

use anyhow::Result;
use machine::limits::{Who, allowed_cpus};
use machine::{CpuSet, Root};
use noise::{Loop, Noise, Plan, Work};
use outputs::diagnostics::{chain, say};
use pack::engine::Wanted;
use pack::engine::cpu_choice::CpuChoice;
use session::{Engines, Limits, Target};

use crate::cli::{self, LoopChoice, WorkChoice};
use crate::faces::noise_outputs::Outputs;
use crate::{exit, faces};

/// Measures, prints the text, and writes the JSON and the page.
pub fn noise(options: &cli::Noise) -> Result<u8> {
    let plan = Outputs::check(options).and_then(|()| plan(options)).and_then(|plan| plan.check().map(|()| plan));
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            say(&chain(&error));
            return Ok(exit::WRONG_OPTIONS);
        }
    };
    let outputs = Outputs::open(options, &plan.cpus)?;
    let length = Noise::session_length(&plan);
    let limits = Limits { length: Some(length), ..Limits::default() };
    let mut outcome = session::run(&Target::Machine, Engines::new().with(Noise::new(plan)), limits)?;
    if let Some(error) = outcome.findings.failure::<Noise>() {
        return Err(error);
    }
    let Some(measured) = outcome.findings.section::<Noise>() else { anyhow::bail!("nothing was measured") };
    outputs.write(&faces::noise::document(&measured))?;
    Ok(0)
}

fn plan(options: &cli::Noise) -> Result<Plan> {
    let work = match options.work {
        WorkChoice::Integer => Work::Integer,
        WorkChoice::Fma => Work::Fma,
        WorkChoice::Streaming => Work::Streaming,
    };
    Ok(Plan {
        measuring: match options.measuring {
            LoopChoice::Detour => Loop::Detour,
            LoopChoice::Fwq => Loop::Fwq(work, options.quantum),
            LoopChoice::Ftq => Loop::Ftq(options.quantum),
            LoopChoice::Bsp => Loop::Bsp(options.quantum),
        },
        cpus: cpus(options)?,
        pinned: !options.unpinned,
        length: options.length,
        warm_up: options.warm_up.max(Duration::from_millis(100)),
        threshold: options.threshold,
        ring: options.ring,
        causes: !options.no_causes,
        without: options.without.clone(),
    })
}

fn cpus(options: &cli::Noise) -> Result<CpuSet> {
    match (&options.cpus, options.ncpus) {
        (Some(cpus), _) => Ok(cpus.clone()),
        (None, Some(count)) => CpuChoice::of(Who::Own)?.choose(&Wanted::of(None, Some(count))?),
        (None, None) => Ok(allowed_cpus(&Root::live(), Who::Own)?),
    }
}
