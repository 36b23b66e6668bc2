//! How a task is made: its memory, its arguments, and the tasks that it has to wait for.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::depend::{Access, Listener};
use crate::ending::Forgetting;
use crate::pool::Needs;
use crate::task::{AWAITED, BEING_ENTERED, COPIED, DEPENDS, DETACHED, Edge, FINAL, Task, Work};
use crate::worker::Worker;

/// Description of a task that is to be created.
pub struct New<A> {
    /// The task's body.
    pub work: Work,
    /// Pointer to the arguments of the body, or to the data from which they are made.
    pub data: *mut c_void,
    /// Function that makes the arguments from `data`. `None`: the bytes are copied.
    pub copy: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void)>,
    /// Size of the arguments.
    pub bytes: usize,
    /// Alignment of the arguments.
    pub align: usize,
    /// If the task runs some iterations of a loop: their bounds, which are written over the first two words of the arguments.
    pub first_words: Option<[usize; 2]>,
    /// The creator continues only when the task has ended (a false `if` clause).
    pub at_once: bool,
    /// The task is final: its descendants run immediately, too.
    pub is_final: bool,
    /// The task's priority: larger values run first.
    pub priority: i32,
    /// The task's dependences.
    pub accesses: Option<A>,
    /// If the task has an event: the address to which the event's handle is written. The handle is also written to the first word of
    /// `data`, unless `data` is null.
    pub event: Option<*mut usize>,
}

impl Worker {
    /// Returns whether a new task that is ready should run immediately instead of going into a queue.
    #[inline]
    pub fn has_enough(&self) -> bool {
        self.is_final() || self.place().is_some_and(|(team, slot)| team.has_enough(slot))
    }

    /// Runs a task's body immediately on this thread, unless the task is cancelled.
    ///
    /// # Safety
    /// `work` is a task's body that takes `data`.
    #[inline]
    pub unsafe fn do_at_once(&self, work: Work, data: *mut c_void) {
        if !self.is_cancelled() {
            // SAFETY: guaranteed by the caller. The arguments of a task that runs immediately are not copied.
            unsafe { self.run_in_frame(work, data) };
        }
    }

    /// Creates a task. Returns false, and does nothing, if this thread is in no region or there is no memory.
    ///
    /// # Safety
    /// `new` describes a task of the program. Its field `data` points to arguments of the body, with the size `bytes` and the alignment `align`;
    /// or, if `copy` is set, to the data from which `copy` makes such arguments.
    #[inline]
    pub unsafe fn make<A: Iterator<Item = Access> + Clone>(&self, new: &New<A>) -> bool {
        // SAFETY: `current` is null, or points to the task that runs on this thread.
        let (Some((team, slot)), Some(parent)) = (self.place(), unsafe { self.current.get().as_ref() }) else {
            return false;
        };
        if self.is_cancelled() {
            return true;
        }
        let waits = new.at_once || parent.flags.get() & FINAL != 0;
        // The thread that creates a task with an event may also be the one that fulfils the event. If it ran the task immediately, it might
        // wait for itself. So it queues the task, unless OpenMP requires that it runs the task immediately. If standbys run tasks while
        // threads are blocked (`umt_client::is_live`), a task with dependences is queued, too: such a task may block until a task has run
        // that this thread creates next.
        let stays = new.event.is_some() || (new.accesses.is_some() && umt_client::is_live());
        let full = !waits && !stays && team.has_enough(slot);
        let at_once = waits || (full && new.accesses.is_none());
        if at_once && new.accesses.is_none() && new.event.is_none() && new.copy.is_none() && !new.is_final {
            if let Some(words) = new.first_words {
                // SAFETY: guaranteed by the caller: the data begins with two words, which are aligned.
                unsafe { new.data.cast::<[usize; 2]>().write(words) };
            }
            // SAFETY: guaranteed by the caller. The arguments of a task that runs immediately are not copied.
            unsafe { self.run_in_frame(new.work, new.data) };
            return true;
        }
        let Some(parent) = self.current() else { return false };
        let edges = new.accesses.clone().map_or(0, Iterator::count);
        // A task that runs immediately needs no copy of its arguments, unless the program's own function makes the copy.
        let copies = !at_once || new.copy.is_some();
        let needs = if copies {
            Needs { bytes: new.bytes, align: new.align, edges }
        } else {
            Needs { edges, align: 1, bytes: 0 }
        };
        let Some(made) = self.pool.make(new.work, parent, needs) else { return false };
        // SAFETY: the task has just been made, so it is valid.
        let task = unsafe { made.task.as_ref() };
        if let Some(place) = new.event {
            // SAFETY: guaranteed by the caller.
            unsafe { give_name(task.event.open(made.task, team), place, new.data) };
        }
        match new.copy {
            // SAFETY: guaranteed by the caller.
            Some(copy) => unsafe { copy(made.arguments, new.data) },
            None if copies => {
                // SAFETY: guaranteed by the caller, and there is room for that many bytes.
                unsafe { ptr::copy_nonoverlapping(new.data.cast::<u8>(), made.arguments.cast(), new.bytes) };
            }
            None => task.data.set(new.data),
        }
        if let Some(words) = new.first_words {
            // SAFETY: guaranteed by the caller: the arguments begin with two words, which are aligned.
            unsafe { task.data.get().cast::<[usize; 2]>().write(words) };
        }
        self.becomes_child(task, parent);
        task.priority.set(new.priority);
        let detached = if new.event.is_some() { DETACHED } else { 0 };
        let copied = if new.copy.is_some() { COPIED } else { 0 };
        task.flags.set(task.flags.get() | detached | copied | if new.is_final { FINAL } else { 0 });
        let may_begin = match &new.accesses {
            None => true,
            Some(accesses) => {
                if at_once {
                    task.flags.set(task.flags.get() | AWAITED);
                    task.awaited_by.set(self.thread);
                }
                self.enter_accesses(parent, task, accesses.clone(), made.edges, edges)
            }
        };
        if !at_once {
            match (may_begin, full) {
                (true, true) => self.hand_on(self.run(made.task)),
                (true, false) => team.put(slot, made.task),
                (false, _) => {}
            }
            return true;
        }
        if !may_begin {
            self.wait(|| task.others.waits_for.load(Ordering::Acquire) == 0, Some(parent));
        }
        let next = if detached == 0 { self.run(made.task) } else { self.run_with_event(made.task, parent) };
        self.hand_on(next);
        true
    }

    /// Makes a new task a child of `parent`: adds it to the parent's taskgroup, and counts it.
    #[inline]
    pub(crate) fn becomes_child(&self, task: &Task, parent: &Task) {
        task.depth.store(parent.depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        task.priority.set(0);
        task.flags.set(parent.flags.get() & FINAL);
        let group = parent.own.groups.get();
        task.group.set(group);
        parent.own.made.set(parent.own.made.get() + 1);
        // SAFETY: the group stays valid until all its tasks have ended.
        if let Some(group) = unsafe { group.as_ref() } {
            group.tally.expect_one();
        }
        self.inherit_icvs(task, parent);
        if let Some((team, slot)) = self.place() {
            slot.has_made();
            team.note_task(|| self.note_icvs_of_region(team));
        }
    }

    /// Enters a task's dependences into the parent's table. Returns whether the task is ready: it waits for no other task.
    #[cold]
    fn enter_accesses(
        &self,
        parent: &Task,
        task: &Task,
        accesses: impl Iterator<Item = Access>,
        edges: *mut Edge,
        room: usize,
    ) -> bool {
        task.flags.set(task.flags.get() | DEPENDS);
        task.others.waits_for.store(BEING_ENTERED, Ordering::Relaxed);
        task.others.uses.store(BEING_ENTERED.into(), Ordering::Relaxed);
        let mut entering = Entering { worker: self, task, edges, room, found: 0, last: None };
        // SAFETY: the parent runs on this thread, and no other thread reads its table.
        let table = unsafe { &mut *parent.own.table.get() };
        let uses = table.enter(NonNull::from(task), accesses, &mut entering) + 1;
        task.others.uses.fetch_sub((BEING_ENTERED - uses).into(), Ordering::AcqRel);
        let too_many = BEING_ENTERED - entering.found;
        task.others.waits_for.fetch_sub(too_many, Ordering::AcqRel) == too_many
    }
}

/// Stores the handle of a task's event where the program expects it.
///
/// # Safety
/// A word may be written to `place`, and to `data` unless that is null.
#[cold]
unsafe fn give_name(event: usize, place: *mut usize, data: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        place.write(event);
        data.cast::<usize>().as_mut().into_iter().for_each(|first| *first = event);
    }
}

/// Listener that gets each earlier task for which the new task has to wait, and adds an entry (an edge) to that task's list of successors.
struct Entering<'w> {
    worker: &'w Worker,
    task: &'w Task,
    edges: *mut Edge,
    room: usize,
    found: u32,
    last: Option<NonNull<Task>>,
}

impl Listener<NonNull<Task>> for Entering<'_> {
    fn waits_for(&mut self, earlier: NonNull<Task>) {
        // If the new task waits for the same task because of several addresses, one edge is enough.
        if self.last == Some(earlier) {
            return;
        }
        self.last = Some(earlier);
        // SAFETY: the table refers to the earlier task, so its memory is not free.
        let earlier = unsafe { earlier.as_ref() };
        if (self.found as usize) < self.room {
            // SAFETY: the new task's memory has room for `room` edges.
            let edge = unsafe { &*self.edges.add(self.found as usize) };
            self.found += u32::from(earlier.precede(self.task, edge));
        } else {
            let edge = Box::into_raw(Edge::by_itself());
            // SAFETY: the edge has just been made, so it is valid.
            if earlier.precede(self.task, unsafe { &*edge }) {
                self.found += 1;
            } else {
                // SAFETY: the edge has just been made by `Box::into_raw`, and no other thread has it.
                drop(unsafe { Box::from_raw(edge) });
            }
        }
    }

    fn forgotten(&mut self, earlier: NonNull<Task>) {
        Forgetting(self.worker).forgotten(earlier);
    }
}
