//! Finds the programs that an experiment needs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Versions of LLVM whose libomp is looked for (in Debian's folders), newest first.
const LLVM: std::ops::RangeInclusive<u32> = 14..=22;

/// Returns the path of LLVM's OpenMP runtime; `None` if there is none.
pub fn libomp() -> Option<PathBuf> {
    let mut paths = LLVM.rev().map(|version| PathBuf::from(format!("/usr/lib/llvm-{version}/lib/libomp.so.5")));
    paths.find(|path| path.exists())
}

/// The programs of one experiment.
#[derive(Debug)]
pub struct Tools {
    /// This program, cox-bench. With the command `stopwatch`, it also measures the time of other programs.
    pub own: PathBuf,
    /// The folder of the workloads.
    workloads: PathBuf,
    /// Path of `cox`, or why it cannot be used.
    pub cox: Result<PathBuf, String>,
    /// Path of `perf`, or why it cannot be used.
    pub perf: Result<PathBuf, String>,
}

impl Tools {
    /// Finds the programs. A program that is not given is looked for in this program's folder.
    ///
    /// # Errors
    /// When this program cannot find its own file, or a given path does not exist.
    pub fn find(cox: Option<&Path>, workloads: Option<&Path>) -> Result<Tools> {
        let own = std::env::current_exe().context("cannot find the path of cox-bench")?;
        let beside = own.parent().unwrap_or(Path::new("/"));
        if let Some(cox) = cox.filter(|cox| !is_program(cox)) {
            bail!("--cox: no program at {}", cox.display());
        }
        if let Some(folder) = workloads.filter(|folder| !folder.is_dir()) {
            bail!("--workloads: no folder at {}", folder.display());
        }
        let cox = cox.map_or_else(|| beside.join("cox"), Path::to_path_buf);
        let workloads = workloads.map_or_else(|| beside.join("../workloads"), Path::to_path_buf);
        Ok(Tools {
            cox: if is_program(&cox) {
                Ok(cox)
            } else {
                Err(format!("no program at {}; build it, or name another one with --cox", cox.display()))
            },
            perf: in_path("perf").ok_or_else(|| "perf is not installed (Debian: linux-perf)".to_owned()),
            workloads,
            own,
        })
    }

    /// Returns the path of a workload.
    ///
    /// # Errors
    /// When the workload has not been built.
    pub fn workload(&self, name: &str) -> Result<PathBuf> {
        let path = self.workloads.join(name);
        if !is_program(&path) {
            bail!(
                "no program at {}; build the workloads (make -C workloads), or name their folder with --workloads",
                path.display()
            );
        }
        Ok(path)
    }
}

/// Looks a program up in `PATH`, as a shell does.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_and_what_is_there_is_found() {
        // No cox is built beside the test program.
        assert!(Tools::find(None, None).unwrap().cox.unwrap_err().contains("--cox"));
        assert!(Tools::find(Some(Path::new("/nonexistent/cox")), None).is_err());
        assert!(Tools::find(None, Some(Path::new("/bin/sh"))).is_err());
        let tools = Tools::find(Some(Path::new("/bin/sh")), Some(Path::new("/bin"))).unwrap();
        assert_eq!(tools.cox.as_deref(), Ok(Path::new("/bin/sh")));
        assert_eq!(tools.workload("sh").unwrap(), Path::new("/bin/sh"));
        assert!(tools.workload("no-such-workload").unwrap_err().to_string().contains("--workloads"));
        assert!(in_path("sh").is_some() && in_path("no-such-program").is_none());
        assert!(!is_program(Path::new("/bin")), "a folder");
        assert!(!is_program(Path::new("/etc/passwd")), "not executable");
    }
}
