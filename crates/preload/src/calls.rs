//! The functions of libgomp that this library calls or interposes.

use std::ffi::CStr;

/// Declares [`Call`] and [`NAMES`].
macro_rules! calls {
    ($($call:ident),+ $(,)?) => {
        /// A function of libgomp, with libgomp's name for it. Names that end in `_` are Fortran's. If a name ends in `_8_`, the function takes
        /// integers of eight bytes.
        #[derive(Clone, Copy)]
        #[repr(usize)]
        #[allow(missing_docs, non_camel_case_types, reason = "libgomp's names")]
        pub enum Call {
            $($call,)*
        }

        /// Names of the functions, in the order of [`Call`].
        pub const NAMES: [&CStr; [$(Call::$call,)*].len()] = [$(c_name(concat!(stringify!($call), "\0")),)*];
    };
}

const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name contains a NUL"),
    }
}

calls! {
    // Regions.
    GOMP_parallel, GOMP_parallel_reductions, GOMP_parallel_sections,
    GOMP_parallel_loop_static, GOMP_parallel_loop_dynamic, GOMP_parallel_loop_guided, GOMP_parallel_loop_runtime,
    GOMP_parallel_loop_nonmonotonic_dynamic, GOMP_parallel_loop_nonmonotonic_guided,
    GOMP_parallel_loop_nonmonotonic_runtime, GOMP_parallel_loop_maybe_nonmonotonic_runtime,
    // Barriers.
    GOMP_barrier, GOMP_barrier_cancel, GOMP_single_copy_start, GOMP_single_copy_end,
    GOMP_loop_end, GOMP_loop_end_cancel, GOMP_loop_end_nowait,
    GOMP_sections_end, GOMP_sections_end_cancel, GOMP_sections_end_nowait,
    // Worksharing.
    GOMP_loop_start, GOMP_loop_ordered_start, GOMP_loop_doacross_start,
    GOMP_loop_ull_start, GOMP_loop_ull_ordered_start, GOMP_loop_ull_doacross_start,
    GOMP_sections2_start, GOMP_scope_start, GOMP_workshare_task_reduction_unregister,
    // Tasks.
    GOMP_task, GOMP_taskloop, GOMP_taskloop_ull, GOMP_taskyield,
    GOMP_taskwait, GOMP_taskwait_depend, GOMP_taskwait_depend_nowait, GOMP_taskgroup_start, GOMP_taskgroup_end,
    GOMP_taskgroup_reduction_register, GOMP_taskgroup_reduction_unregister, GOMP_task_reduction_remap,
    omp_in_final, omp_in_final_, omp_fulfill_event, omp_fulfill_event_, omp_get_max_task_priority,
    // Cancellation.
    GOMP_cancel, GOMP_cancellation_point, omp_get_cancellation,
    // Devices.
    GOMP_target_ext, GOMP_target_update_ext, GOMP_target_enter_exit_data,
    omp_get_default_device, omp_set_default_device, omp_set_default_device_, omp_set_default_device_8_,
    // Threads and teams.
    omp_get_thread_num, omp_get_num_threads, omp_get_num_threads_, omp_get_max_threads, omp_get_num_procs,
    omp_get_thread_limit, omp_get_thread_limit_, omp_in_parallel, omp_in_parallel_,
    omp_get_level, omp_get_level_, omp_get_active_level, omp_get_active_level_,
    omp_get_team_size, omp_get_team_size_, omp_get_team_size_8_,
    omp_get_ancestor_thread_num, omp_get_ancestor_thread_num_, omp_get_ancestor_thread_num_8_,
    omp_get_team_num, omp_get_team_num_, omp_get_num_teams, omp_get_num_teams_,
    // Control variables.
    omp_set_num_threads, omp_set_num_threads_, omp_set_num_threads_8_,
    omp_get_dynamic, omp_set_dynamic, omp_set_dynamic_, omp_set_dynamic_8_,
    omp_get_nested, omp_get_nested_, omp_set_nested, omp_set_nested_, omp_set_nested_8_,
    omp_get_max_active_levels, omp_set_max_active_levels, omp_set_max_active_levels_, omp_set_max_active_levels_8_,
    omp_get_schedule, omp_set_schedule, omp_set_schedule_, omp_set_schedule_8_,
    omp_get_default_allocator, omp_set_default_allocator, omp_set_default_allocator_,
    // Locks.
    omp_set_lock, omp_test_lock,
    omp_set_nest_lock, omp_set_nest_lock_, omp_test_nest_lock, omp_test_nest_lock_,
}
