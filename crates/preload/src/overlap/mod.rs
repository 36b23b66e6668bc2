//! Overlap: `tasks` runs the program's OpenMP tasks instead of libgomp.
//!
//! libgomp keeps its teams, thread numbers, loops, sections, locks and criticals. Tasks are ours, and so is every barrier, because a thread that
//! waits inside libgomp could not run our tasks. The wrapper of a region's function (`gomp`) waits for the end of the region before the thread
//! returns into libgomp. Loops and sections end with libgomp's call without a barrier, followed by our barrier. Thus, when threads come to a barrier
//! of libgomp, all of them have passed ours, and no task is left. There are two exceptions. At a `single` construct with `copyprivate`, the threads
//! wait in libgomp, and the compiler adds a call of our barrier after that. At the end of regions that have never had tasks, our barrier is left out
//! (`region_end`).
//!
//! Code outside of regions is left to libgomp, where tasks run immediately. The same holds for a region of one thread, unless it is an outermost one
//! and there are standbys.
//!
//! - this file, `wanted`: whether overlap is active; `current`, `workers`: each thread's worker, and the libgomp function that the thread has called.
//! - `teams`: the teams of regions; `standbys`: additional threads, which work while members are blocked; `forks`: fork(2), whose child has no
//!   standbys.
//! - `entries`: entry points that the compiler's code calls; `identity`: a task's queries about its thread; `nested`: nested regions.
//! - `clauses`: the compiler's description of a task.
//! - `region_end`: regions whose end needs no barrier for tasks; `cancelling`: cancellation of regions and taskgroups.
//! - `icvs`: control variables, of which each task has its own; `locks`: nestable locks, which are owned by tasks.
//! - `targets`: target constructs, which may run on another device, and are tasks too.
//! - `chunks`: taskloop; `reductions`: reductions of tasks; `worksharing`: loops, sections and scopes with reductions in which tasks take part.

pub mod cancelling;
mod chunks;
mod clauses;
mod current;
pub mod entries;
mod forks;
pub mod icvs;
pub mod identity;
pub mod locks;
mod nested;
mod reductions;
mod region_end;
mod standbys;
pub mod targets;
mod teams;
mod wanted;
mod workers;
pub mod worksharing;

use std::ffi::{CStr, c_int, c_uint};
use std::io::ErrorKind;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use tasks::group::Group;
use tasks::team::Team;
use wire::umt::How;
use workers::worker;

use crate::calls::Call;
use crate::real_symbols::{Library, Work};

pub use current::{set_real_fn, worker_anywhere, worker_in_region};
pub use nested::Inner;
pub use standbys::forked;
pub use wanted::is_wanted;

/// Environment variable that activates overlap. With the value `off`, this library does not notice blocked threads. With `on,PATH,NONCE`, the session
/// of cox at PATH decides how they are noticed.
const VARIABLE: &CStr = c"COX_OVERLAP";

/// Path of the session's socket, and the nonce that the session has issued.
static SESSION: std::sync::OnceLock<(Vec<u8>, [u8; 16])> = std::sync::OnceLock::new();
static CONNECTED: Once = Once::new();
/// Highest task priority that the user allows (`OMP_MAX_TASK_PRIORITY`).
static HIGHEST_PRIORITY: AtomicI32 = AtomicI32::new(0);

/// Reads the settings; called before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    let Some(value) = variable(VARIABLE) else { return };
    let session = value.strip_prefix(b"on,").and_then(umt_client::connect::parse);
    if value != b"off" && session.is_none() {
        return;
    }
    if workers::at_load() {
        tasks::fence::begin();
        region_end::at_load(&variable);
        icvs::at_load(&variable);
        nested::at_load(&variable);
        session.into_iter().for_each(|(path, nonce)| SESSION.set((path.to_vec(), nonce)).unwrap_or_default());
        wanted::want();
    }
}

/// Returns whether it has been decided, for the rest of the program, if standbys (additional threads of this library) may run tasks.
pub fn is_decided() -> bool {
    !is_wanted() || CONNECTED.is_completed()
}

/// Returns a requested priority, reduced to the highest one that the user allows.
fn allowed_priority(priority: c_int) -> c_int {
    priority.min(HIGHEST_PRIORITY.load(Ordering::Relaxed))
}

/// Connects to the session; called before the first region whose tasks this library runs.
#[cold]
fn connect(library: &Library) {
    let Some((path, nonce)) = SESSION.get() else { return };
    // Without a session, we run the tasks nevertheless, and blocked threads go unnoticed, as with libgomp.
    let session = match umt_client::connect::connect(path, *nonce) {
        Ok(session) => session,
        // The session has refused this process, and reports the reason itself.
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => return,
        Err(why) => {
            return standbys::say(format!("cox: no overlap: cannot set up the connection to cox: {why}\n").as_bytes());
        }
    };
    let counts = &umt_client::program_page().counts.0;
    let is_noticed = || match session.how {
        How::Sentinels => true,
        How::Records | How::Leader => umt_client::enlist(),
        // BPF may not recognise our threads when they block, so this is tested.
        How::Bpf => umt_client::enlist() && umt_client::kernel_page().is_some_and(umt_client::has_blocked),
    };
    let why = if identity::has_own_thread_data() {
        Some(&counts.thread_data)
    } else if library.number(Call::omp_get_num_procs) as u32 != umt_client::cpus() {
        // The threads are bound to places (OMP_PLACES). Standbys are not created, because each would inherit the place of the thread that creates it.
        Some(&counts.bound)
    } else {
        (!is_noticed()).then_some(&counts.unseen)
    };
    if let Some(why) = why {
        why.store(1, Ordering::Relaxed);
        // No standbys are created, and the session does not count this program's threads. `forget` leaves the connection open as long as the program
        // runs.
        std::mem::forget(session);
        umt_client::end();
        return;
    }
    standbys::begin(session);
}

/// Returns a team for a region of the function `work` that requests `threads` threads; 0 stands for as many as allowed. `None` if libgomp runs the
/// region's tasks. `inner` is given for a nested region.
///
/// # Safety
/// `inner` stays valid until the region is over.
pub unsafe fn team(
    library: &'static Library,
    work: Work,
    threads: c_uint,
    inner: Option<&Inner>,
) -> Option<&'static Team> {
    if !is_wanted() {
        return None;
    }
    CONNECTED.call_once(|| {
        forks::begin();
        HIGHEST_PRIORITY.store(library.number(Call::omp_get_max_task_priority), Ordering::Relaxed);
        connect(library);
    });
    let threads = if threads == 0 { library.number(Call::omp_get_max_threads).max(1) as u32 } else { threads };
    let has_none = region_end::members_sleep_soon() && standbys::are_there() && region_end::has_never_had_tasks(work);
    // SAFETY: guaranteed by the caller.
    Some(unsafe { teams::take(library, threads, has_none, inner) })
}

/// Called when a region is over: records whether the region's function `work` had tasks this time, and releases the region's `team`.
pub fn put_back(team: &'static Team, work: Work) {
    region_end::note(work, team.has_tasks());
    team.release();
}

/// Returns a new task group for a region with reductions; `reductions` is gcc's block of words that describes them. libgomp also creates a task group
/// for these reductions, but that group does not contain our tasks.
pub fn group(reductions: *mut usize) -> Group {
    // SAFETY: the null pointer stands for no enclosing group.
    let group = unsafe { Group::new(ptr::null()) };
    group.kept.set(reductions);
    group.is_for_members.set(true);
    group
}

/// Runs `work`, the calling thread's part of a region of `size` threads. If the region has a `team` and more than one thread, `overlap` runs its
/// tasks. If tasks take part in the region's reductions, `group` is the task group of all threads for these reductions.
#[inline]
pub fn share(team: Option<&'static Team>, group: Option<&Group>, library: &Library, size: c_int, work: impl FnOnce()) {
    if !is_wanted() {
        return work();
    }
    let Some(worker) = worker() else { return work() };
    let around = team.and_then(Team::around);
    // In a region of one thread, this thread runs tasks immediately when it creates them, as with libgomp. In an outermost region, standbys may be
    // able to run other tasks while the thread is blocked; then `overlap` runs the tasks.
    let serves = |team: &&Team| size > 1 || (umt_client::is_live() && team.around().is_none());
    let Some(team) = team.filter(|team| serves(team) && size as u32 <= team.slots()) else {
        // libgomp runs the tasks of this region, even if `overlap` runs those of an enclosing one. While they run, the worker must not be in a team
        // of `overlap`, so it leaves its team here (`step_aside`) and comes back after the region's body. In a region of one thread, libgomp may keep
        // tasks until the end of the region, which is later. libgomp's barrier at the end of the body makes it run them while the worker is still
        // outside of its team.
        let before = worker.step_aside();
        // SAFETY: `around` stays valid until the region is over.
        unsafe { worker.is_within(around) };
        nested::begin_share(library, around);
        work();
        if size == 1 {
            library.invoke(Call::GOMP_barrier);
        }
        worker.come_back(before);
        return;
    };
    team.has_members(size as u32);
    // SAFETY: teams are never freed; libgomp gives each thread of a region a different number.
    let before = unsafe { worker.enter(team, library.number(Call::omp_get_thread_num) as u32) };
    // SAFETY: `around` stays valid until the region is over.
    unsafe { worker.is_within(around) };
    nested::begin_share(library, around);
    // SAFETY: the group lives until all threads have reached the region's end.
    group.into_iter().for_each(|group| unsafe { worker.begin_group(group) });
    if group.is_some() {
        team.need_members();
    }
    work();
    if group.is_some() {
        worker.barrier();
        worker.leave_group();
    } else {
        worker.end_region();
    }
    worker.come_back(before);
}
