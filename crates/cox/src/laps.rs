//! Writes how long each part of a session's start and end took, for `cox-bench overhead start`: see
//! [`arch::laps`].

use std::fmt::Write;
use std::path::PathBuf;

use arch::laps;
use outputs::diagnostics::say;

/// A stopwatch that writes the durations when it is dropped.
pub struct Laps {
    file: PathBuf,
    begin_ns: u64,
}

impl Laps {
    /// Starts the stopwatch if the environment variable [`laps::VARIABLE`] names a file.
    pub fn begin() -> Option<Laps> {
        let file = std::env::var_os(laps::VARIABLE).filter(|file| !file.is_empty())?;
        Some(Laps { file: file.into(), begin_ns: laps::begin() })
    }
}

impl Drop for Laps {
    fn drop(&mut self) {
        laps::done(laps::Part::Reporting);
        let mut text = format!("begin\t{}\nend\t{}\n", self.begin_ns, arch::monotonic_ns());
        for (name, took_ns) in laps::taken() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}\t{took_ns}");
        }
        // If the file exists already, cox does not overwrite it.
        let file = std::fs::File::create_new(&self.file);
        if let Err(error) = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())) {
            say(&format!("{}: {}: {error}", laps::VARIABLE, self.file.display()));
        }
    }
}
