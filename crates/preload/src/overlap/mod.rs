//! Overlap: the program's OpenMP tasks are run by `tasks` instead of libgomp.
//!
//! libgomp keeps its teams, its thread numbers, loops, sections, locks and criticals. Tasks are ours, and with them every
//! barrier, since a thread that waits inside libgomp could not run them: the end of a region is awaited in the wrapper of the
//! region's function (`gomp`), before the thread returns into libgomp; loops and sections end by libgomp's call without a
//! barrier, and then ours. So when threads come to a barrier of libgomp's, all have come already, and no task is left. There are two exceptions:
//! where a single's result is copied they wait in libgomp, and the compiler has a barrier of ours follow; and at the end of regions
//! that have never had tasks (`ends`).
//!
//! What is outside of regions is libgomp's alone: there, tasks are done at once anyway. So is a region of one thread, unless there are
//! standbys, and but for the outermost.
//!
//! - this file, `wanted`: whether it is done at all; `here`, `workers`: each thread's worker; `beyond`: libgomp's own function.
//! - `teams`: of regions; `standbys`: threads beside them, that work while members are blocked; `forks`: a child has none.
//! - `doors`: what the compiler calls; `identity`: what a task hears that asks who runs it; `nested`: regions within regions.
//! - `clauses`: the compiler's description of a task.
//! - `ends`: regions at whose end nobody needs to wait for tasks; `cancelling`: of regions and taskgroups.
//! - `icvs`: control variables, of which each task has its own; `locks`: nestable locks, which tasks own.
//! - `targets`: constructs that may run on another device, and are tasks too.
//! - `chunks`: taskloop; `reductions`: of tasks; `shares`: loops, sections and scopes that tasks take part in the reduction of.

mod beyond;
pub mod cancelling;
mod chunks;
mod clauses;
pub mod doors;
mod ends;
mod forks;
mod here;
pub mod icvs;
pub mod identity;
pub mod locks;
mod nested;
mod reductions;
pub mod shares;
mod standbys;
pub mod targets;
mod teams;
mod wanted;
mod workers;

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
use crate::real::{Library, Work};

pub use beyond::goes_on_to;
pub use here::{anywhere, here};
pub use nested::Inner;
pub use wanted::is_wanted;

/// Says that tasks are ours, and how blocked threads are noticed. `off`: they are not; `on,PATH,NONCE`: as the session there says.
const VARIABLE: &CStr = c"COX_OVERLAP";

/// Where the session is.
static SESSION: std::sync::OnceLock<(Vec<u8>, [u8; 16])> = std::sync::OnceLock::new();
static CONNECTED: Once = Once::new();
/// The highest priority of a task that the user allows (`OMP_MAX_TASK_PRIORITY`).
static HIGHEST_PRIORITY: AtomicI32 = AtomicI32::new(0);

/// Before the program runs.
pub fn at_load(variable: impl Fn(&'static CStr) -> Option<&'static [u8]>) {
    let Some(value) = variable(VARIABLE) else { return };
    let session = value.strip_prefix(b"on,").and_then(signal::connect::parse);
    if value != b"off" && session.is_none() {
        return;
    }
    if workers::at_load() {
        tasks::fence::begin();
        ends::at_load(&variable);
        icvs::at_load(&variable);
        nested::at_load(&variable);
        session.into_iter().for_each(|(path, nonce)| SESSION.set((path.to_vec(), nonce)).unwrap_or_default());
        wanted::want();
    }
}

/// After fork, in the child: threads and doorbells are the parent's.
pub fn forked() {
    standbys::forked();
}

/// Whether it will not change any more if standbys may run tasks.
pub fn is_decided() -> bool {
    !is_wanted() || CONNECTED.is_completed()
}

/// What a priority that the program asks for counts as.
fn allowed_priority(priority: c_int) -> c_int {
    priority.min(HIGHEST_PRIORITY.load(Ordering::Relaxed))
}

/// Before the first region whose tasks are ours.
#[cold]
fn connect(library: &Library) {
    let Some((path, nonce)) = SESSION.get() else { return };
    // Without a session tasks are ours nonetheless, and blocked threads go unnoticed, as with libgomp.
    let session = match signal::connect::connect(path, *nonce) {
        Ok(session) => session,
        // The session has had enough, and says so itself.
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => return,
        Err(why) => {
            return standbys::say(format!("cox: no overlap: no doorbells from cox: {why}\n").as_bytes());
        }
    };
    let counts = &signal::said().counts.0;
    let is_seen = || match session.how {
        How::Sentinels => true,
        How::Records | How::Leader => signal::enlist(),
        // Whether BPF knows a thread of ours when it blocks is tried, not assumed.
        How::Bpf => signal::enlist() && signal::seen().is_some_and(signal::has_blocked),
    };
    let why = if identity::has_own_thread_data() {
        Some(&counts.thread_data)
    } else if library.number(Call::GetNumProcs) as u32 != signal::cpus() {
        // Threads are bound to places: standbys would inherit the place of the one that makes them.
        Some(&counts.bound)
    } else {
        (!is_seen()).then_some(&counts.unseen)
    };
    if let Some(why) = why {
        why.store(1, Ordering::Relaxed);
        // Its threads count for nobody; the session stays open for as long as the program runs.
        std::mem::forget(session);
        signal::end();
        return;
    }
    standbys::begin(session);
}

/// A team for a region of this function that asks for so many threads, 0: as many as there may be. `None`: its tasks are libgomp's. `inner`: it is
/// within another region.
///
/// # Safety
/// `inner` stays until the region is over.
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
        HIGHEST_PRIORITY.store(library.number(Call::GetMaxTaskPriority), Ordering::Relaxed);
        connect(library);
    });
    let threads = if threads == 0 { library.number(Call::GetMaxThreads).max(1) as u32 } else { threads };
    let has_none = ends::are_worth_it() && standbys::are_there() && ends::has_never_had_tasks(work);
    // SAFETY: the caller's promise.
    Some(unsafe { teams::take(library, threads, has_none, inner) })
}

/// The region of this function is over.
pub fn put_back(team: &'static Team, work: Work) {
    ends::note(work, team.has_tasks());
    team.release();
}

/// The group of a region whose block of reductions this is: libgomp has one of its own for them, in which our tasks are not.
pub fn group(reductions: *mut usize) -> Group {
    // SAFETY: there is none around.
    let group = unsafe { Group::new(ptr::null()) };
    group.kept.set(reductions);
    group.is_for_members.set(true);
    group
}

/// A thread's share of a region: with our tasks in it, if the region has a team of ours and more threads than one. `group` is one
/// for all threads, if tasks take part in the region's reductions.
#[inline]
pub fn share(team: Option<&'static Team>, group: Option<&Group>, library: &Library, size: c_int, work: impl FnOnce()) {
    if !is_wanted() {
        return work();
    }
    let Some(worker) = worker() else { return work() };
    let around = team.and_then(Team::around);
    // A thread alone does its tasks at once, as with libgomp, unless there are standbys to do others while it is blocked.
    let serves = |team: &&Team| size > 1 || (signal::is_live() && team.around().is_none());
    let Some(team) = team.filter(|team| serves(team) && size as u32 <= team.seats()) else {
        // A region within one of ours is not ours for that. libgomp may run its tasks at its end only: they, too, must find us aside.
        let before = worker.step_aside();
        // SAFETY: it stays until the region is over.
        unsafe { worker.is_within(around) };
        nested::begin_share(library, around);
        work();
        if size == 1 {
            library.tell(Call::Barrier);
        }
        worker.come_back(before);
        return;
    };
    team.has_members(size as u32);
    // SAFETY: a leaked team; libgomp gives each thread of a region another number.
    let before = unsafe { worker.enter(team, library.number(Call::GetThreadNum) as u32) };
    // SAFETY: it stays until the region is over.
    unsafe { worker.is_within(around) };
    nested::begin_share(library, around);
    // SAFETY: it lives until all threads have come to the region's end.
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
