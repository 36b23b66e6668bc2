//! A packed program, for whoever wants it packed: the manager has a thread of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use super::manager::manage;
use super::own::OwnTime;
use super::plan::Plan;
use super::realtime;
use super::shared::Shared;
use super::summary::Summary;

/// A packed program.
pub struct Packer {
    shared: Arc<Shared>,
    /// Until it was asked to finish.
    manager: Option<JoinHandle<Summary>>,
}

impl Packer {
    /// Takes hold of the program's threads. From here on they are packed, until [`Packer::finish`].
    ///
    /// # Errors
    /// Before anything was changed, or with everything put back.
    pub fn start(plan: Plan) -> Result<Packer, super::Error> {
        // The program has been forked by now. Killed, cox has ended only when each of its threads has had a CPU, and
        // until then masks stay as they are.
        let _ = realtime::take_shortest_slice();
        let (ready, is_ready) = sync_channel(1);
        let own = OwnTime::of_all_but_caller();
        let manager = thread::Builder::new().name("cox-pack".into());
        let manager = manager.spawn(move || manage(&plan, own, &ready)).map_err(super::Error::Thread)?;
        match is_ready.recv() {
            Ok(Ok(shared)) => Ok(Packer { shared, manager: Some(manager) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(super::Error::Thread(std::io::Error::other("the manager has ended"))),
        }
    }

    /// Lets go of the threads and puts their masks back.
    pub fn finish(mut self) -> Summary {
        self.stop()
    }

    /// Whether packing has ended by itself, because something failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.manager.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn stop(&mut self) -> Summary {
        self.shared.over.store(true, Ordering::Release);
        let Some(manager) = self.manager.take() else { return Summary::default() };
        manager.thread().unpark();
        manager
            .join()
            .unwrap_or_else(|_| Summary { diagnostics: vec![super::Error::Poisoned.to_string()], ..Summary::default() })
    }
}

impl Drop for Packer {
    /// Whatever goes wrong elsewhere: masks go back before cox ends.
    fn drop(&mut self) {
        self.stop();
    }
}
