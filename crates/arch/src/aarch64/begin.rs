//! Processes that share memory with their parent are not started on this processor.

/// Defines `clone_and_begin(arguments, bytes)`, which ends the process: cox does not run here.
#[macro_export]
macro_rules! process_begin {
    ($first:ty) => {
        /// Ends the process.
        ///
        /// # Safety
        /// None: it is unsafe on other processors.
        unsafe extern "C" fn clone_and_begin(_arguments: *const ::libc::clone_args, _bytes: usize) -> i64 {
            $crate::refuse()
        }
    };
}
