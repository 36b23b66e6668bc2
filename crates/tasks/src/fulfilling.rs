//! Fulfilling a task's event, in any thread of the program.

use crate::event::{Event, Fulfilled};
use crate::park::bed;
use crate::task::Task;

/// Fulfils an event, in any thread. One that was fulfilled before, or whose task was cancelled, is left alone, also if there is another event in its
/// place now.
///
/// # Safety
/// The name of an event that [`make`](crate::worker::Worker::make) has given.
pub unsafe fn fulfil(event: usize) {
    let (Some(task), times) = Event::<Task>::named(event) else { return };
    // SAFETY: the caller's promise, and memory of tasks stays (`pool`).
    let known = unsafe { &task.as_ref().event };
    match known.fulfil(times) {
        Fulfilled::Nobodys => {}
        Fulfilled::Awaited(thread) => bed(thread).wake(),
        Fulfilled::Ours => {
            // SAFETY: the task is ours, so its team is that in which it was made, and teams stay.
            let team = known.home().map(|home| unsafe { home.as_ref() });
            team.into_iter().for_each(|team| team.put_back(task));
        }
    }
}
