//! Files of one thread in /proc, for callers that read them thousands of times a second.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{SchedStat, Stat, Switches, Task};
use crate::error::Error;

/// Reads the /proc files of a thread whose figures change with each context switch.
#[derive(Debug)]
pub struct TaskFiles {
    task: Task,
    /// Whether the files stay open. Reading an open file takes 1 to 3 us; opening and closing it takes five more.
    stay_open: bool,
    schedstat: Option<File>,
    stat: Option<File>,
}

impl TaskFiles {
    /// Makes a reader that has opened no file yet. With `stay_open`, at most two files stay open later.
    #[must_use]
    pub fn new(task: Task, stay_open: bool) -> TaskFiles {
        TaskFiles { task, stay_open, schedstat: None, stat: None }
    }

    /// Reads the same figures as [`Task::schedstat`].
    ///
    /// # Errors
    /// Same as [`Task::schedstat`].
    pub fn schedstat(&mut self) -> Result<SchedStat, Error> {
        if !self.stay_open {
            return self.task.schedstat();
        }
        again(&self.task, "schedstat", &mut self.schedstat, Task::schedstat_of)
    }

    /// Reads the same figures as [`Task::stat`].
    ///
    /// # Errors
    /// Same as [`Task::stat`].
    pub fn stat(&mut self) -> Result<Stat, Error> {
        if !self.stay_open {
            return self.task.stat();
        }
        again(&self.task, "stat", &mut self.stat, Task::stat_of)
    }

    /// Reads the same figures as [`Task::switches`].
    ///
    /// # Errors
    /// Same as [`Task::switches`].
    pub fn switches(&self) -> Result<Switches, Error> {
        self.task.switches()
    }

    /// Closes the open files, after the thread has ended.
    pub fn close(&mut self) {
        (self.schedstat, self.stat) = (None, None);
    }
}

/// Reads a file from its beginning. A file that is already open is not opened again. The text is one line of a few
/// hundred bytes at most.
fn again<T>(
    task: &Task,
    name: &str,
    kept: &mut Option<File>,
    parse: impl FnOnce(&Task, &[u8]) -> Result<T, Error>,
) -> Result<T, Error> {
    let failed = |source| Error::Read { path: task.root.path(task.file(name)), source };
    let file = match kept {
        Some(file) => file,
        None => kept.insert(File::open(task.root.path(task.file(name))).map_err(failed)?),
    };
    let mut text = [0; 2048];
    let length = file.read_at(&mut text, 0).map_err(failed)?;
    parse(task, text.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Root;

    #[test]
    fn files_that_stay_open_say_what_is_there_now() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("proc/7/task/7");
        fs::create_dir_all(&place).unwrap();
        let runs = |ns: u64| fs::write(place.join("schedstat"), format!("{ns} 0 1\n")).unwrap();
        let task = Task::thread(&Root::at(folder.path()), 7, 7);
        let (mut open, mut anew) = (TaskFiles::new(task.clone(), true), TaskFiles::new(task, false));
        for ns in [5, 70] {
            runs(ns);
            assert_eq!(open.schedstat().unwrap().run_ns, ns);
            assert_eq!(anew.schedstat().unwrap().run_ns, ns);
        }
        open.close();
        fs::remove_dir_all(&place).unwrap();
        assert!(open.schedstat().unwrap_err().is_gone() && anew.schedstat().unwrap_err().is_gone());
    }
}
