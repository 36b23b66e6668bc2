//! Collective operations of MPI in which each rank waits for all others.
//!
//! The arguments are passed on as they are: each is a pointer or an integer, in a register or on the stack, and libraries differ in which.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::phases;

/// Result if the program has no MPI library: any value but MPI_SUCCESS is an error.
const NO_LIBRARY: c_int = 1;

/// Returns the next library's function of this name, which `known` keeps.
fn real_fn(known: &AtomicPtr<()>, name: &CStr) -> *mut () {
    let mut function = known.load(Ordering::Relaxed);
    if function.is_null() {
        // SAFETY: the name is a C string.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.cast();
        known.store(function, Ordering::Relaxed);
    }
    function
}

/// Defines the wrappers.
macro_rules! collectives {
    ($($name:ident = $text:literal ($($argument:ident),*);)*) => { $(
        /// Wrapper of the MPI function of this name, which ends a phase.
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "MPI defines them")]
        pub unsafe extern "C-unwind" fn $name($($argument: usize),*) -> c_int {
            static REAL: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
            let function = real_fn(&REAL, $text);
            if function.is_null() {
                return NO_LIBRARY;
            }
            type Function = unsafe extern "C-unwind" fn($(collectives!(@word $argument)),*) -> c_int;
            // SAFETY: the library's function of this name takes this number of words.
            let function = unsafe { std::mem::transmute::<*mut (), Function>(function) };
            // SAFETY: guaranteed by the caller.
            phases::collective(|| unsafe { function($($argument),*) })
        }
    )* };
    (@word $argument:ident) => { usize };
}

collectives! {
    MPI_Barrier = c"MPI_Barrier" (communicator);
    MPI_Allreduce = c"MPI_Allreduce" (send, receive, count, kind, operation, communicator);
    MPI_Allgather = c"MPI_Allgather" (send, sent, of, receive, received, kind, communicator);
    MPI_Alltoall = c"MPI_Alltoall" (send, sent, of, receive, received, kind, communicator);
}
