//! The programs of the corpus with their inputs, each prepared when it is needed first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::corpus::program::Program;
use super::corpus::{self, Ready};
use crate::common::Common;
use crate::tools::Tools;

/// Programs with their inputs, each prepared once.
pub struct Prepared<'a> {
    common: &'a Common,
    tools: &'a Tools,
    programs: Option<PathBuf>,
    inputs: PathBuf,
    ready: BTreeMap<&'static str, Option<Ready>>,
}

impl<'a> Prepared<'a> {
    /// Prepares nothing yet. `programs`: folder of built benchmarks. Inputs are made in the folder `results`.
    ///
    /// # Errors
    /// When the present folder is not known.
    pub fn new(common: &'a Common, tools: &'a Tools, programs: Option<&Path>, results: &Path) -> Result<Prepared<'a>> {
        let results = std::path::absolute(results).context("cannot find the folder of results")?;
        let programs = programs.map(std::path::absolute).transpose()?;
        Ok(Prepared { common, tools, programs, inputs: results.join("inputs"), ready: BTreeMap::new() })
    }

    /// Prepares a program, unless that is done. Returns `None` if it is missing, which is printed once.
    ///
    /// # Errors
    /// When nothing can be printed.
    pub fn get(&mut self, program: &'static Program) -> Result<Option<&Ready>> {
        if !self.ready.contains_key(program.name) {
            let ready = corpus::prepare(program, self.tools, self.programs.as_deref(), &self.inputs);
            if let Err(missing) = &ready {
                self.common.print(&format!("{}: missing: {missing}", program.name))?;
            }
            self.ready.insert(program.name, ready.ok());
        }
        Ok(self.ready.get(program.name).and_then(Option::as_ref))
    }
}
