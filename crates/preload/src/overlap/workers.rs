//! Workers (`tasks::worker::Worker`): the data of a thread that runs tasks. A worker is created when its thread first needs it, and dropped when the
//! thread ends.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use tasks::spare::boxed;
use tasks::worker::Worker;

use super::current;

/// Thread-specific key, whose destructor drops a thread's worker when the thread ends.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Creates the thread-specific key that drops workers; called before any worker exists. Returns whether that succeeded; without the key, no workers
/// can be created.
pub fn at_load() -> bool {
    let mut key = 0;
    // SAFETY: the pointer to the key is valid, and the function accepts the values set below.
    let is_made = unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0;
    KEY.store(key, Ordering::Relaxed);
    is_made
}

/// Returns the calling thread's worker (the data that it needs to run tasks), and creates it if needed. `None` if there are too many threads.
pub fn worker() -> Option<&'static Worker> {
    worker_in(|new| Some(Box::new(new)))
}

/// Like [`worker`], for standbys: returns `None` also if there is no memory, because the program can continue without
/// this standby.
pub fn spare_worker() -> Option<&'static Worker> {
    worker_in(|new| boxed(|| new))
}

fn worker_in(room: impl FnOnce(Worker) -> Option<Box<Worker>>) -> Option<&'static Worker> {
    if current::worker_anywhere().is_none() {
        let new = Box::into_raw(room(Worker::new()?)?);
        // SAFETY: the key was created before overlap was activated.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), new.cast()) };
        current::set(new);
    }
    current::worker_anywhere()
}

unsafe extern "C" fn thread_ends(worker: *mut c_void) {
    current::set(ptr::null());
    // SAFETY: `worker_in` created this worker, and the thread to which it belongs is ending.
    drop(unsafe { Box::from_raw(worker.cast::<Worker>()) });
}
