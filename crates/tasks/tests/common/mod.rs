//! Teams for tests, and tasks that call closures.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use tasks::depend::Access;
use tasks::helping::Helper;
use tasks::making::New;
use tasks::team::Team;
use tasks::worker::Worker;

/// How often things are repeated: Miri is slow.
pub const ROUNDS: usize = if cfg!(miri) { 2 } else { 200 };

/// Runs `share` in so many threads of one team, `rounds` times.
#[allow(dead_code, reason = "not every test repeats regions as they are")]
pub fn regions(threads: u32, rounds: usize, share: impl Fn(&Worker, u32) + Sync) {
    let team = team(threads);
    for _ in 0..rounds {
        region(team, false, |worker, number| {
            share(worker, number);
            worker.barrier();
        });
    }
}

/// A team that stays.
pub fn team(threads: u32) -> &'static Team {
    tasks::fence::begin();
    Box::leak(Box::new(Team::new(threads)))
}

/// Runs `share` in all threads of a team, once; it probably `has_no_tasks`. It has to end with a barrier.
pub fn region(team: &'static Team, has_no_tasks: bool, share: impl Fn(&Worker, u32) + Sync) {
    team.begin(has_no_tasks);
    std::thread::scope(|scope| {
        for number in 0..team.slots() {
            let share = &share;
            scope.spawn(move || {
                let worker = Worker::new().unwrap();
                team.has_members(team.slots());
                // SAFETY: it stays, and each thread has a slot of its own.
                let before = unsafe { worker.enter(team, number) };
                share(&worker, number);
                worker.come_back(before);
            });
        }
    });
}

/// Runs `share` in the only thread of a team, once. Its worker is kept from region to region.
#[allow(dead_code, reason = "not every test has teams of one")]
pub fn region_of_one(team: &'static Team, worker: &Worker, share: impl FnOnce()) {
    CURRENT.set(worker);
    team.begin(false);
    team.has_members(1);
    // SAFETY: it stays, and nobody else is its member.
    let before = unsafe { worker.enter(team, 0) };
    share();
    worker.barrier();
    worker.come_back(before);
}

/// A helper that begins every task; none blocks.
#[allow(dead_code, reason = "not every test has helpers")]
pub struct Willing;

impl Helper for Willing {
    fn may_begin(&mut self, _: bool) -> bool {
        true
    }

    fn begins(&mut self) {}

    fn has_run(&mut self) -> bool {
        false
    }
}

/// Helps a team until it is `over`, as a standby does.
#[allow(dead_code, reason = "not every test has helpers")]
pub fn help_until(over: &AtomicBool, team: &'static Team) {
    let worker = Worker::new().unwrap();
    CURRENT.set(&worker);
    while !over.load(Ordering::Acquire) {
        worker.help(team, &mut Willing);
        std::thread::yield_now();
    }
}

#[repr(C)]
struct Data<F> {
    event: usize,
    body: *const F,
}

/// A task that calls a closure, which has to live until the task has ended.
pub fn make<F: Fn(&Worker)>(worker: &Worker, body: &F, ask: impl FnOnce(&mut New<std::vec::IntoIter<Access>>)) {
    unsafe extern "C-unwind" fn call<F: Fn(&Worker)>(data: *mut c_void) {
        // SAFETY: as passed below.
        let body = unsafe { &*(*data.cast::<Data<F>>()).body };
        CURRENT.with(|current| {
            // SAFETY: set by `with_current` around all that runs tasks.
            body(unsafe { &*current.get() });
        });
    }
    // The first word is where a task's event would be.
    let mut data = Data { event: 0, body: std::ptr::from_ref(body) };
    let mut new = New {
        work: call::<F>,
        data: (&raw mut data).cast(),
        copy: None,
        bytes: size_of_val(&data),
        align: align_of_val(&data),
        first_words: None,
        at_once: false,
        is_final: false,
        priority: 0,
        accesses: None,
        event: None,
    };
    ask(&mut new);
    CURRENT.set(worker);
    // SAFETY: the body takes a pointer to what is given.
    assert!(unsafe { worker.make(&new) });
}

thread_local! {
    /// Of the thread that makes and runs tasks.
    pub static CURRENT: std::cell::Cell<*const Worker> = const { std::cell::Cell::new(std::ptr::null()) };
}

/// A task like most.
pub fn plain(_: &mut New<std::vec::IntoIter<Access>>) {}
