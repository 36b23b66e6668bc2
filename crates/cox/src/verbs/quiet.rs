//! `cox quiet`: CPUs that the system leaves alone.

use anyhow::{Context, Result};
use machine::Root;
use outputs::Output;
use outputs::diagnostics::say;
use quiet::{Facts, check, choose, plan, reboot};
use serde_json::json;
use session::provenance;

use crate::cli::{self, QuietPlan};
use crate::exit;
use crate::faces::print;
use crate::faces::quiet::{as_json, text};

/// Carries out a subcommand.
pub fn quiet(what: &cli::Quiet) -> Result<u8> {
    match what {
        cli::Quiet::Plan(options) => show(options),
    }
}

fn show(options: &QuietPlan) -> Result<u8> {
    let json_output = Output::wanted(options.json.as_deref())?;
    let root = Root::live();
    let facts = Facts::read(&root).context("cannot examine this machine")?;
    let chosen = match (&options.cpus, options.ncpus) {
        (Some(cpus), _) => check(&facts, cpus),
        (None, count) => choose(&facts, count.unwrap_or_default()),
    };
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(refusal) => {
            say(&refusal.to_string());
            return Ok(exit::WRONG_OPTIONS);
        }
    };
    let plan = plan(&facts, &chosen, options.level);
    let boot = reboot(&facts, &chosen, &root.read_text("/proc/cmdline").unwrap_or_default());
    let text_output = (!matches!(json_output, Some(Output::Stdout))).then_some(Output::Stdout);
    print(text_output, false, |style| text(&plan, &boot, style))?;
    if let Some(output) = json_output {
        let document =
            json!({ "schema_version": 1, "provenance": provenance::here("cox", None), "plan": as_json(&plan, &boot) });
        output.write(format!("{document:#}\n").as_bytes())?;
    }
    Ok(0)
}
