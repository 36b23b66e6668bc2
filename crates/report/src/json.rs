//! The document of `cox run --json`: the account, the program's run context, the verdict and the self-checks. `schema_version` changes when a
//! field changes its name, unit or meaning, and when a backend is added. A new field, a new cause of blocks, or a new kind of
//! preemptor does not change it.

use std::collections::BTreeMap;

use advise::evidence::Evidence;
use advise::figures::Figure;
use advise::{Facts, Verdict};
use ledger::Account;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

pub use crate::checks::{Checks, Compared};
use crate::loops::LoopsReport;
use crate::noise::ProgramNoise;
use crate::overlap::OverlapReport;
use crate::pack::PackReport;
use crate::quiet::QuietReport;

/// Version of the JSON schema of [`Document`].
pub const SCHEMA_VERSION: u32 = 2;

/// The document of `cox run --json`, from which the text report is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Version of this document's schema.
    pub schema_version: u32,
    /// Version of cox.
    pub cox_version: String,
    /// Number of events and records lost, of all kinds; `lost` lists them by kind.
    pub lost_events: u64,
    /// The account: what was measured.
    #[serde(flatten)]
    pub account: Account,
    /// The run context of the program.
    pub facts: Facts,
    /// The figures on which the verdict's sentences rest, by name; see docs/figures.md.
    pub figures: BTreeMap<String, Number>,
    /// The verdict for the session: what the account means and what to try.
    pub verdict: Vec<Verdict>,
    /// The self-checks of the account.
    pub checks: Checks,
    /// The result of packing, if the program was packed as well (`--pack-cpus`).
    #[serde(default)]
    pub pack: Option<PackReport>,
    /// The result of overlapping, if it was requested (`--overlap`).
    #[serde(default)]
    pub overlap: Option<OverlapReport>,
    /// What the program's loops did, if another schedule was requested (`--schedule`).
    #[serde(default)]
    pub loops: Option<LoopsReport>,
    /// What took time from the program's threads, if it was requested (`--noise`).
    #[serde(default)]
    pub noise: Option<ProgramNoise>,
    /// The program's quiet CPUs, if it had any (`--quiet-cpus`).
    #[serde(default)]
    pub quiet: Option<QuietReport>,
}

impl Document {
    /// Builds the document: judges and checks an account.
    pub fn new(cox_version: &str, account: Account, facts: Facts) -> Document {
        let evidence = Evidence::new(&account, &facts);
        let verdict = vec![advise::judge(&evidence)];
        let figures = figures(&evidence);
        let checks = Checks::of(&account, facts.online_cpus.len());
        Document {
            schema_version: SCHEMA_VERSION,
            cox_version: cox_version.to_owned(),
            lost_events: account.lost.total(),
            account,
            facts,
            figures,
            verdict,
            checks,
            pack: None,
            overlap: None,
            loops: None,
            noise: None,
            quiet: None,
        }
    }

    /// Returns whether the account distinguishes spinning from work.
    pub fn sees_spin(&self) -> bool {
        self.account.sees().spin
    }

    /// Formats the document as indented JSON, with a newline at the end.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

fn figures(evidence: &Evidence<'_>) -> BTreeMap<String, Number> {
    let number = |value: f64| {
        let whole = value as u64;
        if whole as f64 == value { Some(whole.into()) } else { Number::from_f64(value) }
    };
    Figure::all().filter_map(|figure| Some((figure.name(), number(figure.known(evidence)?)?))).collect()
}
