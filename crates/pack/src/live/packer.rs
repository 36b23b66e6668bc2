//! Starts and stops the packing of a program. The manager runs on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use super::manager::manage;
use super::overhead::OwnTime;
use super::plan::Plan;
use super::realtime;
use super::summary::Summary;

/// A program that is being packed.
pub struct Packer {
    /// True once the session is over.
    over: Arc<AtomicBool>,
    /// The manager's thread; `None` once it was told to finish.
    manager: Option<JoinHandle<Summary>>,
}

impl Packer {
    /// Takes control of the program's threads, and packs them until [`Packer::finish`].
    ///
    /// # Errors
    /// Fails before anything was changed, or after everything was restored.
    pub fn start(plan: Plan) -> Result<Packer, super::Error> {
        // Take the shortest slice (the time that a thread may run before the scheduler chooses again) only now: the
        // program has been forked already, so it does not inherit the slice. The slice matters if cox is killed. The
        // guardian restores the program's affinity masks only when all threads of cox have exited. Each of them needs a
        // CPU to exit, and a thread with a short slice gets one sooner.
        let _ = realtime::take_shortest_slice();
        let (ready, is_ready) = sync_channel(1);
        let own = OwnTime::of_all_but_caller();
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let manager = thread::Builder::new().name("cox-pack".into());
        let manager = manager.spawn(move || manage(&plan, own, &theirs, &ready)).map_err(super::Error::Thread)?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Packer { over, manager: Some(manager) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(super::Error::Thread(std::io::Error::other("the thread that manages packing has ended"))),
        }
    }

    /// Stops packing and restores the threads' masks.
    pub fn finish(mut self) -> Summary {
        self.stop()
    }

    /// Returns whether packing has ended early because something failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.manager.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(&mut self) -> Summary {
        self.over.store(true, Ordering::Release);
        let Some(manager) = self.manager.take() else { return Summary::default() };
        manager.thread().unpark();
        manager
            .join()
            .unwrap_or_else(|_| Summary { diagnostics: vec![super::Error::Poisoned.to_string()], ..Summary::default() })
    }
}

impl Drop for Packer {
    /// Restores the masks before cox ends, even after a failure elsewhere.
    fn drop(&mut self) {
        self.stop();
    }
}
