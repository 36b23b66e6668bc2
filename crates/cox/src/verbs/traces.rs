//! Traces that a verb was asked for: opened before anything starts, written when there is a recording.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use trace::paraver::{self, Files};
use trace::{Recording, perfetto, session};

use crate::cli;
use crate::outputs::Output;

/// Outputs for traces.
pub struct Traces {
    perfetto: Option<Output>,
    /// `.prv`, `.pcf` and `.row`.
    paraver: Option<[Output; 3]>,
}

impl Traces {
    /// Open what is asked for.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn open(wanted: &cli::Traces) -> Result<Traces> {
        let perfetto = wanted.trace.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let paraver = match &wanted.paraver {
            Some(prefix) => {
                let [prv, pcf, row] =
                    ["prv", "pcf", "row"].map(|ending| Output::open(Some(&with_ending(prefix, ending))));
                Some([prv?, pcf?, row?])
            }
            None => None,
        };
        Ok(Traces { perfetto, paraver })
    }

    /// Whether anything is asked for.
    pub fn are_wanted(&self) -> bool {
        self.perfetto.is_some() || self.paraver.is_some()
    }

    /// Where there is room for what does not fit in memory: where the traces go.
    pub fn folder(&self) -> PathBuf {
        let first = self.perfetto.iter().chain(self.paraver.iter().flatten()).find_map(Output::folder);
        first.map_or_else(std::env::temp_dir, Path::to_path_buf)
    }

    /// Write them. `report` is the session's report as JSON.
    ///
    /// # Errors
    /// When one cannot be written; the other is.
    pub fn write(self, recording: &Recording, report: &str) -> Result<()> {
        let folder = self.folder();
        let perfetto = self.perfetto.map_or(Ok(()), |output| {
            output.write_with(|mut out| {
                perfetto::write(recording, &mut out)?;
                session::write(recording, report, &mut out)
            })
        });
        let paraver = self.paraver.map_or(Ok(()), |[prv, pcf, row]| {
            // Names are known when the trace is written: they fit in memory.
            let (mut names, mut meanings) = (Vec::new(), Vec::new());
            prv.write_with(|out| {
                let mut files = Files { prv: out, pcf: &mut meanings as &mut dyn Write, row: &mut names };
                paraver::write(recording, &mut files, &folder)
            })?;
            pcf.write(&meanings).and(row.write(&names))
        });
        perfetto.and(paraver)
    }
}

/// `PREFIX.prv`, also where the prefix has a dot.
fn with_ending(prefix: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}
