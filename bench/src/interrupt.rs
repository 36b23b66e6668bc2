//! Ctrl-C ends an experiment between two measurements, so that temporary files are removed and the programs under test are ended properly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// A flag that says whether SIGINT, SIGTERM or SIGHUP has arrived.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs handlers for the three signals.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn catch() -> Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot install signal handlers")?;
        }
        Ok(Interrupt(flag))
    }

    /// Returns whether one of the signals has arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Fails once a signal has arrived.
    ///
    /// # Errors
    /// "interrupted", if a signal has arrived.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_noticed() {
        let interrupt = Interrupt::catch().unwrap();
        assert!(interrupt.check().is_ok());
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
        while !interrupt.is_set() {
            std::thread::yield_now();
        }
        assert!(interrupt.check().is_err());
    }
}
