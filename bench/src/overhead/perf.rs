//! `perf sched record`, enabled for one slice (a short section) of the ping-pong run.
//!
//! perf is started and ended for each slice: its events cost a little even while they are disabled, and would slow down the plain slices (those
//! without an observer). perf starts with its events disabled, and confirms through its control pipe when all of them are enabled.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

/// Time limit for an answer of perf, which takes half a second on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A recording in progress.
pub struct Recording {
    perf: Child,
    control: File,
    answers: File,
    folder: TempDir,
}

impl Recording {
    /// Starts recording. When this returns, all CPUs are being recorded.
    pub fn start(perf: &Path, scratch: &Path) -> Result<Recording> {
        let folder = tempfile::tempdir_in(scratch).context("cannot make a temporary folder")?;
        let (control_path, answers_path) = (folder.path().join("control"), folder.path().join("answers"));
        for path in [&control_path, &answers_path] {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .with_context(|| format!("cannot make the FIFO {}", path.display()))?;
        }
        let messages = File::create(folder.path().join("messages"))?;
        let perf = Command::new(perf)
            .args(["sched", "record", "-D", "-1", "-o"])
            .arg(folder.path().join("perf.data"))
            .arg("--control")
            .arg(format!("fifo:{},{}", control_path.display(), answers_path.display()))
            // perf needs a program to run; this one is killed at the end of the recording.
            .args(["--", "sleep", "3600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages)
            .spawn()
            .context("cannot start perf")?;
        let mut recording = Recording { perf, control: open(&control_path)?, answers: open(&answers_path)?, folder };
        recording.tell("enable")?;
        Ok(recording)
    }

    /// Ends and deletes the recording. Returns its size in bytes.
    pub fn end(mut self) -> Result<u64> {
        self.tell("stop")?;
        // Ignore perf's exit code: it is that of the `sleep` that perf killed.
        self.perf.wait().context("cannot wait for perf")?;
        let data = self.folder.path().join("perf.data");
        Ok(data.metadata().context("perf wrote no perf.data")?.len())
    }

    fn tell(&mut self, order: &str) -> Result<()> {
        self.control.write_all(format!("{order}\n").as_bytes()).context("cannot write to perf's control FIFO")?;
        let mut answer = Vec::new();
        let deadline_ns = arch::monotonic_ns() + PATIENCE.as_nanos() as u64;
        while !answer.ends_with(b"\n") {
            let step = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let ready = poll(&mut [PollFd::new(&self.answers, PollFlags::IN)], Some(&step));
            if matches!(ready, Ok(1..)) {
                let mut bytes = [0; 16];
                let length = self.answers.read(&mut bytes).context("cannot read perf's answer")?;
                // perf ends its answer with a zero byte.
                answer.extend(bytes[..length].iter().filter(|byte| **byte != 0));
            } else if self.perf.try_wait().context("cannot wait for perf")?.is_some() {
                bail!("perf ended: {}", self.last_words());
            } else if arch::monotonic_ns() > deadline_ns {
                bail!("perf did not answer '{order}' within {} s: {}", PATIENCE.as_secs(), self.last_words());
            }
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let messages: PathBuf = self.folder.path().join("messages");
        crate::process::first_line(&messages).unwrap_or_else(|| "no message".into())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if matches!(self.perf.try_wait(), Ok(None)) {
            // SIGTERM, not SIGKILL, so that perf ends its `sleep`.
            if let Some(pid) = rustix::process::Pid::from_raw(self.perf.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let _ = self.perf.wait();
        }
    }
}

/// Opens a FIFO for reading and writing, so that opening does not wait for the other side.
fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perf_that_cannot_record_is_said_in_its_own_words() {
        let scratch = tempfile::tempdir().unwrap();
        let fake = scratch.path().join("perf");
        std::fs::write(&fake, "#!/bin/sh\necho 'no permission, sorry' >&2\nexit 255\n").unwrap();
        std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = Recording::start(&fake, scratch.path()).err().unwrap();
        assert!(error.to_string().contains("no permission, sorry"), "{error}");
    }
}
