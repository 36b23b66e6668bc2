//! Dispatch of gcc's calls about tasks, worksharing and threads: to `overlap` if it runs the tasks, otherwise to libgomp. The *target* of a call is
//! the function that then handles the call.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use tasks::worker::Worker;
use wire::preload::TASKS;

use crate::calls::Call;
use crate::memory::note_seen;
use crate::overlap::{self, cancelling, entries, icvs, identity, locks, targets, worksharing};
use crate::real_symbols::{is_one_for_all, resolve, resolve_without_caller};

arch::ours_or_dispatched! {
    at tasks::worker::TEAM_AT;
    /// Creates a task, and records that the program has tasks.
    GOMP_task => entries::task, else task;
    /// Divides a loop into tasks, and records that the program has tasks.
    GOMP_taskloop => entries::taskloop, else taskloop;
    /// Divides a loop with an unsigned long long counter into tasks, and records that the program has tasks.
    GOMP_taskloop_ull => entries::taskloop_ull, else taskloop_ull;
    /// Waits for the task's children.
    GOMP_taskwait => entries::taskwait, else taskwait;
    /// Waits for the children to which the dependences refer.
    GOMP_taskwait_depend => entries::taskwait_depend, else taskwait_depend;
    /// Makes later tasks wait for the children to which the dependences refer.
    GOMP_taskwait_depend_nowait => entries::taskwait_depend_nowait, else taskwait_depend_nowait;
    /// Lets other tasks run first.
    GOMP_taskyield => entries::taskyield, else taskyield;
    /// Begins a taskgroup.
    GOMP_taskgroup_start => entries::taskgroup_start, else taskgroup_start;
    /// Waits for a taskgroup.
    GOMP_taskgroup_end => entries::taskgroup_end, else taskgroup_end;
    /// Registers the reductions of a taskgroup.
    GOMP_taskgroup_reduction_register => entries::taskgroup_reduction_register, else reduction_register;
    /// Finds the task's copies of reduction variables.
    GOMP_task_reduction_remap => entries::task_reduction_remap, else reduction_remap;
    /// Returns whether the current task is final, so that new tasks run immediately.
    omp_in_final => entries::in_final, else in_final;
    /// Fortran's name of the function. Here and below, Fortran passes arguments by reference.
    omp_in_final_ => entries::in_final, else in_final_fortran;
}

arch::by_pointer! {
    /// Returns the number of the calling thread in its team.
    omp_get_thread_num => THREAD_NUM;
    /// Fortran's name of the function.
    omp_get_thread_num_ => THREAD_NUM;
}

arch::dispatched! {
    /// Ends the reductions of a taskgroup.
    GOMP_taskgroup_reduction_unregister => reduction_unregister;
    /// Fulfils a task's event.
    omp_fulfill_event => fulfill_event;
    /// Fortran's name of the function; the event is passed by value there, too.
    omp_fulfill_event_ => fulfill_event_fortran;
    /// Cancels a construct.
    GOMP_cancel => cancel;
    /// Returns whether the construct was cancelled.
    GOMP_cancellation_point => cancellation_point;
    /// Begins a loop, and registers the reductions in which tasks take part, if there are any. The functions below that begin a loop do so, too.
    GOMP_loop_start => loop_start;
    /// Begins an ordered loop.
    GOMP_loop_ordered_start => loop_ordered_start;
    /// Begins a loop in which an iteration can wait for earlier ones (doacross).
    GOMP_loop_doacross_start => loop_doacross_start;
    /// Begins a loop over unsigned long long.
    GOMP_loop_ull_start => loop_ull_start;
    /// Begins an ordered loop over unsigned long long.
    GOMP_loop_ull_ordered_start => loop_ull_ordered_start;
    /// Begins a loop over unsigned long long in which an iteration can wait for earlier ones (doacross).
    GOMP_loop_ull_doacross_start => loop_ull_doacross_start;
    /// Begins sections.
    GOMP_sections2_start => sections_start;
    /// Begins a scope.
    GOMP_scope_start => scope_start;
    /// Ends the reductions of a loop, of sections or of a scope.
    GOMP_workshare_task_reduction_unregister => workshare_unregister;
    /// Runs a target region.
    GOMP_target_ext => target;
    /// Copies variables to a device or back.
    GOMP_target_update_ext => target_update;
    /// Maps variables to a device, or unmaps them.
    GOMP_target_enter_exit_data => target_enter_exit_data;
    /// Returns the number of threads in the team.
    omp_get_num_threads => num_threads;
    /// Returns the number of enclosing regions.
    omp_get_level => level;
    /// Returns the number of enclosing regions with more than one thread.
    omp_get_active_level => active_level;
    /// Returns the number of threads of an enclosing region.
    omp_get_team_size => team_size;
    /// Returns the number of the thread, or of its ancestor, in an enclosing region.
    omp_get_ancestor_thread_num => ancestor_thread_num;
    /// Returns whether any enclosing region has more than one thread.
    omp_in_parallel => in_parallel;
    /// Fortran's name of `omp_get_num_threads`.
    omp_get_num_threads_ => num_threads_fortran;
    /// Fortran's name of `omp_get_level`.
    omp_get_level_ => level_fortran;
    /// Fortran's name of `omp_get_active_level`.
    omp_get_active_level_ => active_level_fortran;
    /// Fortran's name of `omp_get_team_size`.
    omp_get_team_size_ => team_size_fortran;
    /// Fortran's name of `omp_get_team_size` with eight-byte integers.
    omp_get_team_size_8_ => team_size_fortran_8;
    /// Fortran's name of `omp_get_ancestor_thread_num`.
    omp_get_ancestor_thread_num_ => ancestor_thread_num_fortran;
    /// Fortran's name of `omp_get_ancestor_thread_num` with eight-byte integers.
    omp_get_ancestor_thread_num_8_ => ancestor_thread_num_fortran_8;
    /// Fortran's name of `omp_in_parallel`.
    omp_in_parallel_ => in_parallel_fortran;
    /// Returns the limit of the number of threads in all enclosing regions.
    omp_get_thread_limit => thread_limit;
    /// Fortran's name of `omp_get_thread_limit`.
    omp_get_thread_limit_ => thread_limit_fortran;
    /// Returns the number of the team in its league.
    omp_get_team_num => team_num;
    /// Fortran's name of `omp_get_team_num`.
    omp_get_team_num_ => team_num_fortran;
    /// Returns the number of teams in the league.
    omp_get_num_teams => num_teams;
    /// Fortran's name of `omp_get_num_teams`.
    omp_get_num_teams_ => num_teams_fortran;
    /// Sets the number of threads of regions.
    omp_set_num_threads => set_num_threads;
    /// Fortran's name of `omp_set_num_threads`.
    omp_set_num_threads_ => set_num_threads_fortran;
    /// Fortran's name of `omp_set_num_threads` with eight-byte integers.
    omp_set_num_threads_8_ => set_num_threads_fortran_8;
    /// Sets whether regions may have fewer threads than requested.
    omp_set_dynamic => set_dynamic;
    /// Fortran's name of `omp_set_dynamic`.
    omp_set_dynamic_ => set_dynamic_fortran;
    /// Fortran's name of `omp_set_dynamic` with eight-byte integers.
    omp_set_dynamic_8_ => set_dynamic_fortran_8;
    /// Sets whether regions may be nested.
    omp_set_nested => set_nested;
    /// Fortran's name of `omp_set_nested`.
    omp_set_nested_ => set_nested_fortran;
    /// Fortran's name of `omp_set_nested` with eight-byte integers.
    omp_set_nested_8_ => set_nested_fortran_8;
    /// Sets the largest number of nested active regions.
    omp_set_max_active_levels => set_max_active_levels;
    /// Fortran's name of `omp_set_max_active_levels`.
    omp_set_max_active_levels_ => set_max_active_levels_fortran;
    /// Fortran's name of `omp_set_max_active_levels` with eight-byte integers.
    omp_set_max_active_levels_8_ => set_max_active_levels_fortran_8;
    /// Sets how loops with `schedule(runtime)` are divided.
    omp_set_schedule => set_schedule;
    /// Fortran's name of `omp_set_schedule`.
    omp_set_schedule_ => set_schedule_fortran;
    /// Fortran's name of `omp_set_schedule` with eight-byte integers.
    omp_set_schedule_8_ => set_schedule_fortran_8;
    /// Sets the default device.
    omp_set_default_device => set_default_device;
    /// Fortran's name of `omp_set_default_device`.
    omp_set_default_device_ => set_default_device_fortran;
    /// Fortran's name of `omp_set_default_device` with eight-byte integers.
    omp_set_default_device_8_ => set_default_device_fortran_8;
    /// Sets the default allocator.
    omp_set_default_allocator => set_default_allocator;
    /// Fortran's name of `omp_set_default_allocator`.
    omp_set_default_allocator_ => set_default_allocator_fortran;
    /// Takes a nestable lock.
    omp_set_nest_lock => set_nest_lock;
    /// Fortran's name of `omp_set_nest_lock`.
    omp_set_nest_lock_ => set_nest_lock_fortran;
    /// Takes a nestable lock if that is possible without waiting.
    omp_test_nest_lock => test_nest_lock;
    /// Fortran's name of `omp_test_nest_lock`.
    omp_test_nest_lock_ => test_nest_lock_fortran;
    /// Returns whether more regions may be nested inside the enclosing ones.
    omp_get_nested => nested;
    /// Fortran's name of `omp_get_nested`.
    omp_get_nested_ => nested_fortran;
}

/// Returns libgomp's function for a call from the address `caller`.
fn libgomp_fn(call: Call, caller: usize) -> *mut c_void {
    let real_fn = resolve(call, caller).map_or_else(|| resolve_without_caller(call), |(_, real_fn)| real_fn);
    // If no library is known, no task has been created.
    if real_fn.is_null() { nothing as *mut c_void } else { real_fn }
}

extern "C" fn nothing() -> usize {
    0
}

/// Defines functions that return the target of a call that creates tasks with the function `work`, if libgomp runs the tasks.
macro_rules! tasks {
    ($($name:ident = $call:ident;)*) => { $(
        extern "C" fn $name(work: usize, _: usize) -> *mut c_void {
            note_seen(TASKS);
            // If the program has no libgomp, abort: without this library, the dynamic loader would also end such a program at this call.
            resolve(Call::$call, work).map_or(libc::abort as *mut c_void, |(_, real_fn)| real_fn)
        }
    )* };
}

tasks! {
    task = Task;
    taskloop = Taskloop;
    taskloop_ull = TaskloopUll;
}

/// Defines functions that return the target of a call about tasks, if libgomp runs the tasks.
macro_rules! about_tasks {
    ($($name:ident = $call:ident;)*) => { $(
        extern "C" fn $name(_: usize, caller: usize) -> *mut c_void {
            libgomp_fn(Call::$call, caller)
        }
    )* };
}

about_tasks! {
    taskwait = Taskwait;
    taskwait_depend = TaskwaitDepend;
    taskwait_depend_nowait = TaskwaitDependNowait;
    taskyield = Taskyield;
    taskgroup_start = TaskgroupStart;
    taskgroup_end = TaskgroupEnd;
    reduction_register = TaskgroupReductionRegister;
    reduction_remap = TaskReductionRemap;
    in_final = InFinal;
    in_final_fortran = InFinalFortran;
}

/// Returns the target of a call that ends the reductions of a taskgroup. In a region that began within one of our tasks, libgomp may have registered
/// the reductions.
extern "C" fn reduction_unregister(block: *mut usize, caller: usize) -> *mut c_void {
    if overlap::worker_in_region().is_some() && entries::has_our_copies(block) {
        return entries::taskgroup_reduction_unregister as *mut c_void;
    }
    libgomp_fn(Call::TaskgroupReductionUnregister, caller)
}

/// For libgomp functions of constructs that are tasks or affect our tasks: each generated function selects what a call of that libgomp function
/// executes. This is libgomp's function itself or, if `overlap` runs the tasks, our own function, which then calls libgomp's.
macro_rules! in_our_regions {
    ($($name:ident = $call:ident or $ours:expr;)*) => { $(
        extern "C" fn $name(_: usize, caller: usize) -> *mut c_void {
            let real_fn = resolve(Call::$call, caller).map_or_else(|| resolve_without_caller(Call::$call), |(_, real_fn)| real_fn);
            if real_fn.is_null() {
                return nothing as *mut c_void;
            }
            if overlap::worker_in_region().is_none() {
                return real_fn;
            }
            overlap::set_real_fn(real_fn);
            $ours as *mut c_void
        }
    )* };
}

in_our_regions! {
    loop_start = LoopStart or worksharing::loop_start;
    loop_ordered_start = LoopOrderedStart or worksharing::loop_start;
    loop_doacross_start = LoopDoacrossStart or worksharing::loop_doacross_start;
    loop_ull_start = LoopUllStart or worksharing::loop_ull_start;
    loop_ull_ordered_start = LoopUllOrderedStart or worksharing::loop_ull_start;
    loop_ull_doacross_start = LoopUllDoacrossStart or worksharing::loop_doacross_start;
    sections_start = Sections2Start or worksharing::sections_start;
    scope_start = ScopeStart or worksharing::scope_start;
    workshare_unregister = WorkshareTaskReductionUnregister or worksharing::workshare_task_reduction_unregister;
    target = Target or targets::target;
    target_update = TargetUpdate or targets::mapping;
    target_enter_exit_data = TargetEnterExitData or targets::mapping;
}

/// Defines functions that return the target of a call that sets a control variable: libgomp's function or, in our tasks, [`icvs::set`], which calls
/// libgomp's function.
macro_rules! sets_icvs {
    ($($name:ident = $call:ident;)*) => { $(
        extern "C" fn $name(_: usize, caller: usize) -> *mut c_void {
            let library = resolve(Call::$call, caller).map(|(library, _)| library);
            if matches!(Call::$call, Call::SetDefaultDevice | Call::SetDefaultDeviceFortran | Call::SetDefaultDeviceFortran8) {
                library.into_iter().for_each(icvs::note_device);
            }
            let real_fn = libgomp_fn(Call::$call, caller);
            tasks::icv::will_be_set();
            if overlap::worker_in_region().is_none() {
                return real_fn;
            }
            overlap::set_real_fn(real_fn);
            icvs::set as *mut c_void
        }
    )* };
}

sets_icvs! {
    set_num_threads = SetNumThreads;
    set_num_threads_fortran = SetNumThreadsFortran;
    set_num_threads_fortran_8 = SetNumThreadsFortran8;
    set_dynamic = SetDynamic;
    set_dynamic_fortran = SetDynamicFortran;
    set_dynamic_fortran_8 = SetDynamicFortran8;
    set_nested = SetNested;
    set_nested_fortran = SetNestedFortran;
    set_nested_fortran_8 = SetNestedFortran8;
    set_max_active_levels = SetMaxActiveLevels;
    set_max_active_levels_fortran = SetMaxActiveLevelsFortran;
    set_max_active_levels_fortran_8 = SetMaxActiveLevelsFortran8;
    set_schedule = SetSchedule;
    set_schedule_fortran = SetScheduleFortran;
    set_schedule_fortran_8 = SetScheduleFortran8;
    set_default_device = SetDefaultDevice;
    set_default_device_fortran = SetDefaultDeviceFortran;
    set_default_device_fortran_8 = SetDefaultDeviceFortran8;
    set_default_allocator = SetDefaultAllocator;
    set_default_allocator_fortran = SetDefaultAllocatorFortran;
}

/// Defines functions that return the target of a call for a nestable lock: libgomp's function or, in our tasks, one of our functions, which calls
/// libgomp's function for the simple lock inside.
macro_rules! nest_locks {
    ($($name:ident = $call:ident or $ours:path, with $simple:ident;)*) => { $(
        extern "C" fn $name(_: usize, caller: usize) -> *mut c_void {
            let simple = if overlap::worker_in_region().is_some() { libgomp_fn(Call::$simple, caller) } else { nothing as *mut c_void };
            if simple == nothing as *mut c_void {
                return libgomp_fn(Call::$call, caller);
            }
            overlap::set_real_fn(simple);
            $ours as *mut c_void
        }
    )* };
}

nest_locks! {
    set_nest_lock = SetNestLock or locks::set, with SetLock;
    set_nest_lock_fortran = SetNestLockFortran or locks::set_fortran, with SetLock;
    test_nest_lock = TestNestLock or locks::test, with TestLock;
    test_nest_lock_fortran = TestNestLockFortran or locks::test_fortran, with TestLock;
}

/// Returns the target of a cancel construct.
extern "C" fn cancel(_: usize, caller: usize) -> *mut c_void {
    let known = resolve(Call::Cancel, caller);
    let real_fn = known.map_or_else(|| resolve_without_caller(Call::Cancel), |(_, real_fn)| real_fn);
    if overlap::worker_in_region().is_some() && known.is_some_and(|(library, _)| cancelling::is_allowed(library)) {
        overlap::set_real_fn(real_fn);
        return cancelling::cancel as *mut c_void;
    }
    if real_fn.is_null() { nothing as *mut c_void } else { real_fn }
}

/// Returns the target of a cancellation point.
extern "C" fn cancellation_point(which: usize, caller: usize) -> *mut c_void {
    if overlap::worker_in_region().is_some() && cancelling::is_of_taskgroup(which as c_int) {
        return cancelling::taskgroup_cancellation_point as *mut c_void;
    }
    libgomp_fn(Call::CancellationPoint, caller)
}

/// Defines functions that return the target of a call about a task's event. The handle's value shows, on any thread, whether the event belongs to a
/// task of cox's runtime.
macro_rules! about_events {
    ($($name:ident = $call:ident;)*) => { $(
        extern "C" fn $name(event: usize, caller: usize) -> *mut c_void {
            if tasks::event::is_ours(event) {
                return entries::fulfill_event as *mut c_void;
            }
            libgomp_fn(Call::$call, caller)
        }
    )* };
}

about_events! {
    fulfill_event = FulfillEvent;
    fulfill_event_fortran = FulfillEventFortran;
}

/// Defines functions that return the target of a query about the calling thread. If standbys may run tasks, `$ours` answers the query on threads for
/// which `$where` is true. For a thread number these are all threads of our teams; for other queries, standbys and threads in nested regions.
/// `$ours` may call libgomp's function `$of`.
macro_rules! about_the_thread {
    ($($name:ident = $call:ident or $ours:expr, of $of:ident, $where:expr;)*) => { $(
        extern "C" fn $name(_: usize, caller: usize) -> *mut c_void {
            let is_ours: fn(&Worker) -> bool = $where;
            if umt_client::was_ever_live() && overlap::worker_anywhere().is_some_and(is_ours) {
                overlap::set_real_fn(libgomp_fn(Call::$of, caller));
                return $ours as *mut c_void;
            }
            libgomp_fn(Call::$call, caller)
        }
    )* };
}

/// Returns whether `overlap` may have given the thread its number in the innermost region.
fn is_numbered(worker: &Worker) -> bool {
    worker.team().is_some() || identity::has_own_levels(worker)
}

about_the_thread! {
    num_threads = GetNumThreads or identity::num_threads, of GetNumThreads, Worker::is_helper;
    level = GetLevel or identity::level, of GetLevel, identity::has_own_levels;
    active_level = GetActiveLevel or identity::active_level, of GetActiveLevel, identity::has_own_levels;
    team_size = GetTeamSize or identity::team_size, of GetTeamSize, identity::has_own_levels;
    ancestor_thread_num = GetAncestorThreadNum or identity::ancestor_thread_num, of GetAncestorThreadNum, is_numbered;
    in_parallel = InParallel or identity::in_parallel, of InParallel, identity::has_own_levels;
    thread_limit = GetThreadLimit or identity::thread_limit, of GetThreadLimit, identity::has_own_levels;
    team_num = GetTeamNum or identity::team_num, of GetTeamNum, identity::has_own_levels;
    num_teams = GetNumTeams or identity::num_teams, of GetNumTeams, identity::has_own_levels;
    num_threads_fortran = GetNumThreadsFortran or identity::num_threads, of GetNumThreads, Worker::is_helper;
    level_fortran = GetLevelFortran or identity::level, of GetLevel, identity::has_own_levels;
    active_level_fortran = GetActiveLevelFortran or identity::active_level, of GetActiveLevel, identity::has_own_levels;
    team_size_fortran = GetTeamSizeFortran or identity::team_size_fortran, of GetTeamSize, identity::has_own_levels;
    team_size_fortran_8 = GetTeamSizeFortran8 or identity::team_size_fortran_8, of GetTeamSize,
        identity::has_own_levels;
    ancestor_thread_num_fortran = GetAncestorThreadNumFortran or identity::ancestor_thread_num_fortran,
        of GetAncestorThreadNum, is_numbered;
    ancestor_thread_num_fortran_8 = GetAncestorThreadNumFortran8 or identity::ancestor_thread_num_fortran_8,
        of GetAncestorThreadNum, is_numbered;
    in_parallel_fortran = InParallelFortran or identity::in_parallel, of InParallel, identity::has_own_levels;
    thread_limit_fortran = GetThreadLimitFortran or identity::thread_limit, of GetThreadLimit, identity::has_own_levels;
    team_num_fortran = GetTeamNumFortran or identity::team_num, of GetTeamNum, identity::has_own_levels;
    num_teams_fortran = GetNumTeamsFortran or identity::num_teams, of GetNumTeams, identity::has_own_levels;
    nested = GetNested or identity::nested, of GetMaxActiveLevels, identity::has_own_levels;
    nested_fortran = GetNestedFortran or identity::nested, of GetMaxActiveLevels, identity::has_own_levels;
}

/// Target of `omp_get_thread_num`, which programs call in every task: first a resolver, replaced once every caller gets the same answer.
static THREAD_NUM: AtomicPtr<c_void> = AtomicPtr::new(first_thread_num as *mut c_void);

arch::dispatched_inside!(first_thread_num => thread_num);

extern "C" fn thread_num(_: usize, caller: usize) -> *mut c_void {
    let ours = umt_client::was_ever_live();
    let real_fn = libgomp_fn(Call::GetThreadNum, caller);
    if is_one_for_all() && overlap::is_decided() {
        let place = if ours { identity::thread_num_anywhere as *mut c_void } else { real_fn };
        THREAD_NUM.store(place, Ordering::Relaxed);
    }
    if ours && overlap::worker_in_region().is_some() { identity::thread_num as *mut c_void } else { real_fn }
}
