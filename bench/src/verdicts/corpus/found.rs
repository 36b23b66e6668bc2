//! Finds a program and makes its input.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::program::{Find, Program};
use crate::tools::{Tools, in_path};

/// A program that can be run.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The executable.
    pub executable: PathBuf,
    /// The folder with the input, which is the working directory.
    pub folder: PathBuf,
}

/// A program that cannot be run, which is no failure of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The reason.
    pub why: String,
    /// What provides the program.
    pub from: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (from: {})", self.why, self.from)
    }
}

/// Finds a program's executable and launcher, without making the input. A program that the input makes is found when its compiler's launcher is.
///
/// # Errors
/// What is missing.
pub fn find(program: &Program, tools: &Tools, given: Option<&Path>) -> Result<Option<PathBuf>, Missing> {
    let missing = |why: String| Missing { why, from: program.from };
    for command in program.launcher.iter().take(1) {
        in_path(command).ok_or_else(|| missing(format!("no command '{command}'")))?;
    }
    match program.find {
        Find::Command(command) => {
            let path = in_path(command).ok_or_else(|| missing(format!("no command '{command}'")))?;
            Ok(Some(path))
        }
        Find::Workload(name) => {
            let path = tools.workload(name).map_err(|error| missing(format!("{error:#}")))?;
            Ok(Some(path))
        }
        Find::Given(name) => {
            let folder = given.ok_or_else(|| missing("no --programs".to_owned()))?;
            let path = Some(folder.join(name)).filter(|path| path.is_file());
            path.map(Some).ok_or_else(|| missing(format!("no file '{name}' in {}", folder.display())))
        }
        Find::Made(_) => Ok(None),
    }
}

/// Finds a program and makes its input in a folder of its own below `inputs`.
///
/// # Errors
/// What is missing, or why the input could not be made.
pub fn prepare(program: &Program, tools: &Tools, given: Option<&Path>, inputs: &Path) -> Result<Ready, Missing> {
    let missing = |why: String| Missing { why, from: program.from };
    let found = find(program, tools, given)?;
    let folder = inputs.join(program.name);
    let made = fs::create_dir_all(&folder).context("cannot make its folder").and_then(|()| (program.input)(&folder));
    made.map_err(|error| missing(format!("its input cannot be made: {error:#}")))?;
    let executable = match (found, program.find) {
        // The working directory is the folder of the input.
        (Some(path), _) => std::path::absolute(&path).unwrap_or(path),
        (None, Find::Made(name)) => std::path::absolute(&folder).unwrap_or_else(|_| folder.clone()).join(name),
        (None, _) => return Err(missing("no executable".to_owned())),
    };
    Ok(Ready { executable, folder })
}

#[cfg(test)]
mod tests {
    use super::super::program::{Family, Knob, Nature};
    use super::*;

    fn program(find: Find, launcher: &'static [&'static str], input: fn(&Path) -> anyhow::Result<()>) -> Program {
        Program {
            name: "test",
            family: Family::Other,
            find,
            from: "a package",
            nature: Nature::Open,
            knob: Knob::None,
            launcher,
            arguments: &[],
            input,
        }
    }

    #[test]
    fn what_is_missing_is_named_with_what_provides_it() {
        let (folder, tools) = (tempfile::tempdir().unwrap(), Tools::find(None, Some(Path::new("/bin"))).unwrap());
        let prepared = |find, launcher, input| prepare(&program(find, launcher, input), &tools, None, folder.path());
        let said = |find, launcher| prepared(find, launcher, |_| Ok(())).unwrap_err().to_string();
        assert_eq!(said(Find::Command("no-such-command"), &[]), "no command 'no-such-command' (from: a package)");
        assert_eq!(said(Find::Command("sh"), &["no-launcher"]), "no command 'no-launcher' (from: a package)");
        assert!(said(Find::Workload("no-such-workload"), &[]).contains("--workloads"));
        assert!(said(Find::Given("bt"), &[]).contains("no --programs"));
        let failed = prepared(Find::Command("sh"), &[], |_| anyhow::bail!("no compiler")).unwrap_err().to_string();
        assert_eq!(failed, "its input cannot be made: no compiler (from: a package)");
        let ready = prepared(Find::Made("it"), &["sh"], |folder| Ok(fs::write(folder.join("it"), "")?)).unwrap();
        assert!(ready.executable.is_file() && ready.folder == folder.path().join("test"));
    }
}
