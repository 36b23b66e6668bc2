//! Fulfils a task's event, on any thread of the program.

use crate::event::{Event, Fulfilled};
use crate::park::bed;
use crate::task::Task;

/// Fulfils an event, on any thread. Does nothing if the event was fulfilled before, or if its task was cancelled. The memory may then be
/// another task's, whose event is not changed.
///
/// # Safety
/// `event` is a handle from [`make`](crate::worker::Worker::make).
pub unsafe fn fulfil(event: usize) {
    let (Some(task), times) = Event::<Task>::named(event) else { return };
    // SAFETY: guaranteed by the caller, and memory of tasks is never freed (`pool`).
    let known = unsafe { &task.as_ref().event };
    match known.fulfil(times) {
        Fulfilled::Nobodys => {}
        Fulfilled::Awaited(thread) => bed(thread).wake(),
        Fulfilled::Ours => {
            // SAFETY: this thread owns the task, so `home` is the team in which it was made, and teams are never freed.
            let team = known.home().map(|home| unsafe { home.as_ref() });
            team.into_iter().for_each(|team| team.put_back(task));
        }
    }
}
