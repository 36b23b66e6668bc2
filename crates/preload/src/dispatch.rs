//! Dispatch of gcc's calls about tasks, worksharing and threads: to `overlap` if it runs the tasks, otherwise to libgomp. The *target* of a call is
//! the function that then handles the call.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use tasks::worker::{TEAM_AT, Worker};
use wire::preload::TASKS;

use crate::calls::Call;
use crate::memory::note_seen;
use crate::overlap::{self, cancelling, entries, icvs, identity, locks, targets, worksharing};
use crate::real_symbols::{is_one_for_all, resolve, resolve_without_caller};

/// Address of a function that handles a call.
type Target = *mut c_void;

/// Defines a function `target`, which calls `$target` to find the function that handles a call of `$name`.
macro_rules! target {
    ($name:ident, $target:expr) => {
        extern "C" fn target(first: usize, caller: usize) -> Target {
            let target: fn(Called) -> Target = $target;
            target(Called { call: Call::$name, first, caller })
        }
    };
}

/// Defines interposed functions. Each row has their names, and a function that returns the target of a call (the function that handles it).
macro_rules! interposed {
    ($(#[doc = $doc:literal] $($name:ident),+ => $target:expr;)*) => { $($(
        const _: () = {
            target! { $name, $target }
            arch::dispatched! { #[doc = $doc] $name => target; }
        };
    )+)* };
}

/// Defines interposed functions. In a region whose tasks `overlap` (this library's task runtime) runs, `$ours` handles the call. Elsewhere, the
/// function after `else` returns the address of the function that handles it.
macro_rules! interposed_by_ours {
    ($(#[doc = $doc:literal] $($name:ident),+ => $ours:path, else $target:expr;)*) => { $($(
        const _: () = {
            target! { $name, $target }
            arch::ours_or_dispatched! { at TEAM_AT; #[doc = $doc] $name => $ours, else target; }
        };
    )+)* };
}

// Names that end in `_` are Fortran's, which passes arguments by reference. Functions whose names end in `_8_` take integers of eight bytes.
interposed_by_ours! {
    /// Creates a task, and records that the program has tasks.
    GOMP_task => entries::task, else Called::create_tasks;
    /// Divides a loop into tasks, and records that the program has tasks.
    GOMP_taskloop => entries::taskloop, else Called::create_tasks;
    /// Divides a loop with an unsigned long long counter into tasks, and records that the program has tasks.
    GOMP_taskloop_ull => entries::taskloop_ull, else Called::create_tasks;
    /// Waits for the task's children.
    GOMP_taskwait => entries::taskwait, else Called::to_libgomp;
    /// Waits for those children of the current task whose `depend` clauses match the dependences passed here.
    GOMP_taskwait_depend => entries::taskwait_depend, else Called::to_libgomp;
    /// Does not wait. A child that is created later and matches the dependences passed here starts after the earlier children that match.
    GOMP_taskwait_depend_nowait => entries::taskwait_depend_nowait, else Called::to_libgomp;
    /// Lets another task run before the current task continues.
    GOMP_taskyield => entries::taskyield, else Called::to_libgomp;
    /// Begins a taskgroup.
    GOMP_taskgroup_start => entries::taskgroup_start, else Called::to_libgomp;
    /// Waits for a taskgroup.
    GOMP_taskgroup_end => entries::taskgroup_end, else Called::to_libgomp;
    /// Registers the reductions of a taskgroup.
    GOMP_taskgroup_reduction_register => entries::taskgroup_reduction_register, else Called::to_libgomp;
    /// Finds the task's copies of reduction variables.
    GOMP_task_reduction_remap => entries::task_reduction_remap, else Called::to_libgomp;
    /// Returns whether the current task is final, so that new tasks run immediately.
    omp_in_final, omp_in_final_ => entries::in_final, else Called::to_libgomp;
}

arch::by_pointer! {
    /// Returns the number of the calling thread in its team.
    omp_get_thread_num => THREAD_NUM;
    /// Fortran's name of `omp_get_thread_num`.
    omp_get_thread_num_ => THREAD_NUM;
}

interposed! {
    /// Ends the reductions of a taskgroup.
    GOMP_taskgroup_reduction_unregister => Called::end_reductions;
    /// Fulfils a task's event. Fortran passes the event by value, too.
    omp_fulfill_event, omp_fulfill_event_ => Called::about_event;
    /// Cancels a construct.
    GOMP_cancel => Called::cancel;
    /// Returns whether the construct was cancelled.
    GOMP_cancellation_point => Called::cancellation_point;
    /// Begins a loop. Like the other functions that begin a loop, also registers the reductions in which tasks take part, if there are any.
    GOMP_loop_start => |called| called.in_our_regions(worksharing::loop_start as Target);
    /// Begins an ordered loop.
    GOMP_loop_ordered_start => |called| called.in_our_regions(worksharing::loop_start as Target);
    /// Begins a loop in which an iteration can wait for earlier ones (doacross).
    GOMP_loop_doacross_start => |called| called.in_our_regions(worksharing::loop_doacross_start as Target);
    /// Begins a loop over unsigned long long.
    GOMP_loop_ull_start => |called| called.in_our_regions(worksharing::loop_ull_start as Target);
    /// Begins an ordered loop over unsigned long long.
    GOMP_loop_ull_ordered_start => |called| called.in_our_regions(worksharing::loop_ull_start as Target);
    /// Begins a loop over unsigned long long in which an iteration can wait for earlier ones (doacross).
    GOMP_loop_ull_doacross_start => |called| called.in_our_regions(worksharing::loop_doacross_start as Target);
    /// Begins sections.
    GOMP_sections2_start => |called| called.in_our_regions(worksharing::sections_start as Target);
    /// Begins a scope.
    GOMP_scope_start => |called| called.in_our_regions(worksharing::scope_start as Target);
    /// Ends the reductions of a loop, of sections or of a scope.
    GOMP_workshare_task_reduction_unregister =>
        |called| called.in_our_regions(worksharing::workshare_task_reduction_unregister as Target);
    /// Runs a target region, on a device or on the calling thread.
    GOMP_target_ext => |called| called.in_our_regions(targets::target as Target);
    /// Copies variables to a device or back.
    GOMP_target_update_ext => |called| called.in_our_regions(targets::mapping as Target);
    /// Maps variables to a device, or unmaps them.
    GOMP_target_enter_exit_data => |called| called.in_our_regions(targets::mapping as Target);
    /// Returns the number of threads in the team.
    omp_get_num_threads, omp_get_num_threads_ =>
        |called| called.about_thread(Worker::is_helper, identity::num_threads as Target, Call::omp_get_num_threads);
    /// Returns the number of enclosing regions.
    omp_get_level, omp_get_level_ => |called| called.about_levels(identity::level as Target, Call::omp_get_level);
    /// Returns the number of enclosing regions with more than one thread.
    omp_get_active_level, omp_get_active_level_ =>
        |called| called.about_levels(identity::active_level as Target, Call::omp_get_active_level);
    /// Returns the number of threads of an enclosing region.
    omp_get_team_size => |called| called.about_levels(identity::team_size as Target, Call::omp_get_team_size);
    /// Fortran's name of `omp_get_team_size`.
    omp_get_team_size_ => |called| called.about_levels(identity::team_size_fortran as Target, Call::omp_get_team_size);
    /// Fortran's name of `omp_get_team_size` with eight-byte integers.
    omp_get_team_size_8_ =>
        |called| called.about_levels(identity::team_size_fortran_8 as Target, Call::omp_get_team_size);
    /// Returns the thread number that this thread or its ancestor has in an enclosing region.
    omp_get_ancestor_thread_num => |called| called.about_ancestors(identity::ancestor_thread_num as Target);
    /// Fortran's name of `omp_get_ancestor_thread_num`.
    omp_get_ancestor_thread_num_ => |called| called.about_ancestors(identity::ancestor_thread_num_fortran as Target);
    /// Fortran's name of `omp_get_ancestor_thread_num` with eight-byte integers.
    omp_get_ancestor_thread_num_8_ =>
        |called| called.about_ancestors(identity::ancestor_thread_num_fortran_8 as Target);
    /// Returns whether any enclosing region has more than one thread.
    omp_in_parallel, omp_in_parallel_ =>
        |called| called.about_levels(identity::in_parallel as Target, Call::omp_in_parallel);
    /// Returns the limit of the number of threads in all enclosing regions.
    omp_get_thread_limit, omp_get_thread_limit_ =>
        |called| called.about_levels(identity::thread_limit as Target, Call::omp_get_thread_limit);
    /// Returns the number of the team in its league.
    omp_get_team_num, omp_get_team_num_ =>
        |called| called.about_levels(identity::team_num as Target, Call::omp_get_team_num);
    /// Returns the number of teams in the league.
    omp_get_num_teams, omp_get_num_teams_ =>
        |called| called.about_levels(identity::num_teams as Target, Call::omp_get_num_teams);
    /// Returns whether a nested region that begins now may have more than one thread.
    omp_get_nested, omp_get_nested_ =>
        |called| called.about_levels(identity::nested as Target, Call::omp_get_max_active_levels);
    /// Sets the number of threads of regions that do not request a number.
    omp_set_num_threads, omp_set_num_threads_, omp_set_num_threads_8_ => Called::set_icv;
    /// Sets whether regions may have fewer threads than requested.
    omp_set_dynamic, omp_set_dynamic_, omp_set_dynamic_8_ => Called::set_icv;
    /// Sets whether nested regions may have more than one thread.
    omp_set_nested, omp_set_nested_, omp_set_nested_8_ => Called::set_icv;
    /// Sets the maximum number of nested regions with more than one thread.
    omp_set_max_active_levels, omp_set_max_active_levels_, omp_set_max_active_levels_8_ => Called::set_icv;
    /// Sets how loops with `schedule(runtime)` are divided.
    omp_set_schedule, omp_set_schedule_, omp_set_schedule_8_ => Called::set_icv;
    /// Sets the default device.
    omp_set_default_device, omp_set_default_device_, omp_set_default_device_8_ => |called| {
        resolve(called.call, called.caller).into_iter().for_each(|(library, _)| icvs::note_device(library));
        called.set_icv()
    };
    /// Sets the default allocator.
    omp_set_default_allocator, omp_set_default_allocator_ => Called::set_icv;
    /// Takes a nestable lock.
    omp_set_nest_lock => |called| called.nest_lock(locks::set as Target, Call::omp_set_lock);
    /// Fortran's name of `omp_set_nest_lock`.
    omp_set_nest_lock_ => |called| called.nest_lock(locks::set_fortran as Target, Call::omp_set_lock);
    /// Takes a nestable lock if that is possible without waiting.
    omp_test_nest_lock => |called| called.nest_lock(locks::test as Target, Call::omp_test_lock);
    /// Fortran's name of `omp_test_nest_lock`.
    omp_test_nest_lock_ => |called| called.nest_lock(locks::test_fortran as Target, Call::omp_test_lock);
}

/// Returns libgomp's function for a call from the address `caller`.
fn libgomp_fn(call: Call, caller: usize) -> Target {
    let real_fn = resolve(call, caller).map_or_else(|| resolve_without_caller(call), |(_, real_fn)| real_fn);
    // If no OpenMP library is known, the program has created no task, and the call has nothing to do.
    if real_fn.is_null() { nothing as Target } else { real_fn }
}

extern "C" fn nothing() -> usize {
    0
}

/// A call of an interposed function. The methods return the call's target: the function that handles the call.
#[derive(Clone, Copy)]
struct Called {
    call: Call,
    /// The call's first argument; meaningless if the function takes none.
    first: usize,
    /// The call's return address, which shows which loaded object has made the call.
    caller: usize,
}

impl Called {
    /// Returns the target of a call that libgomp handles: libgomp's own function.
    fn to_libgomp(self) -> Target {
        libgomp_fn(self.call, self.caller)
    }

    /// Returns the target of a call that creates tasks which libgomp runs. The call's first argument is the function of these tasks.
    fn create_tasks(self) -> Target {
        note_seen(TASKS);
        // If the program has no libgomp, abort: without this library, the dynamic loader would also end such a program at this call.
        resolve(self.call, self.first).map_or(libc::abort as Target, |(_, real_fn)| real_fn)
    }

    /// Returns the target of a call that ends task reductions: our function if we have registered them, otherwise libgomp's. libgomp registers the
    /// reductions of a parallel region itself. If one of our tasks began that region, the task ends them by this call, after the region.
    fn end_reductions(self) -> Target {
        if overlap::worker_in_region().is_some() && entries::has_our_copies(self.first as *mut usize) {
            return entries::taskgroup_reduction_unregister as Target;
        }
        self.to_libgomp()
    }

    /// Returns the target of a call of a construct in which our tasks take part, or which is a task itself. If `overlap` runs the region's
    /// tasks, the target is `ours`, which calls libgomp's function. Otherwise it is libgomp's function.
    fn in_our_regions(self, ours: Target) -> Target {
        let real_fn = self.to_libgomp();
        if real_fn == nothing as Target || overlap::worker_in_region().is_none() {
            return real_fn;
        }
        overlap::set_real_fn(real_fn);
        ours
    }

    /// Returns the target of a call that sets a control variable. In our tasks, this is [`icvs::set`], which calls libgomp's function.
    /// Elsewhere, it is libgomp's function.
    fn set_icv(self) -> Target {
        let real_fn = self.to_libgomp();
        tasks::icv::will_be_set();
        if overlap::worker_in_region().is_none() {
            return real_fn;
        }
        overlap::set_real_fn(real_fn);
        icvs::set as Target
    }

    /// Returns the target of a call for a nestable lock. In our tasks, this is `ours`, which calls libgomp's function `simple` for the simple
    /// lock inside the nestable one. Elsewhere, it is libgomp's function.
    fn nest_lock(self, ours: Target, simple: Call) -> Target {
        if overlap::worker_in_region().is_some() {
            let simple = libgomp_fn(simple, self.caller);
            if simple != nothing as Target {
                overlap::set_real_fn(simple);
                return ours;
            }
        }
        self.to_libgomp()
    }

    /// Returns the target of a call of a cancel construct.
    fn cancel(self) -> Target {
        let is_allowed = || resolve(self.call, self.caller).is_some_and(|(library, _)| cancelling::is_allowed(library));
        if overlap::worker_in_region().is_none() || !is_allowed() {
            return self.to_libgomp();
        }
        overlap::set_real_fn(self.to_libgomp());
        cancelling::cancel as Target
    }

    /// Returns the target of a call of a cancellation point. The call's first argument is the kind of construct that may have been cancelled.
    fn cancellation_point(self) -> Target {
        if overlap::worker_in_region().is_some() && cancelling::is_of_taskgroup(self.first as c_int) {
            return cancelling::taskgroup_cancellation_point as Target;
        }
        self.to_libgomp()
    }

    /// Returns the target of a call about a task's event. The value of the event's handle shows, on any thread, whether the event belongs to a
    /// task that `overlap` runs.
    fn about_event(self) -> Target {
        if tasks::event::is_ours(self.first) { entries::fulfill_event as Target } else { self.to_libgomp() }
    }

    /// Returns the target of a query about the calling thread. If standbys (additional threads of this library) may run tasks and `is_ours`
    /// returns true for this thread, the target is `ours`, which may call libgomp's function `real`. Otherwise, libgomp answers.
    fn about_thread(self, is_ours: fn(&Worker) -> bool, ours: Target, real: Call) -> Target {
        if umt_client::was_ever_live() && overlap::worker_anywhere().is_some_and(is_ours) {
            overlap::set_real_fn(libgomp_fn(real, self.caller));
            return ours;
        }
        self.to_libgomp()
    }

    /// Returns the target of a query about the enclosing regions: `ours` if libgomp's answer may be wrong on this thread, otherwise libgomp's own
    /// function. `ours` may call libgomp's function `real`.
    fn about_levels(self, ours: Target, real: Call) -> Target {
        self.about_thread(identity::has_own_levels, ours, real)
    }

    /// Returns the target of a query for the thread number that this thread or its ancestor has in an enclosing region: `ours` if `overlap` may have
    /// given it this number, otherwise libgomp's own function.
    fn about_ancestors(self, ours: Target) -> Target {
        self.about_thread(is_numbered, ours, Call::omp_get_ancestor_thread_num)
    }
}

/// Returns whether `overlap`, and not libgomp, may have given the thread its number in the innermost region.
fn is_numbered(worker: &Worker) -> bool {
    worker.team().is_some() || identity::has_own_levels(worker)
}

/// Address to which `omp_get_thread_num` jumps. (This is fast; programs call the function in every task.) At first it is the address of
/// `first_thread_num`, which chooses the target (the function that answers) anew at each call. As soon as the choice can no longer differ between
/// callers, the chosen target is stored here.
static THREAD_NUM: AtomicPtr<c_void> = AtomicPtr::new(first_thread_num as Target);

arch::dispatched_inside!(first_thread_num => thread_num);

extern "C" fn thread_num(_: usize, caller: usize) -> Target {
    let ours = umt_client::was_ever_live();
    let real_fn = libgomp_fn(Call::omp_get_thread_num, caller);
    if is_one_for_all() && overlap::is_decided() {
        let place = if ours { identity::thread_num_anywhere as Target } else { real_fn };
        THREAD_NUM.store(place, Ordering::Relaxed);
    }
    if ours && overlap::worker_in_region().is_some() { identity::thread_num as Target } else { real_fn }
}
