//! A task's body.

use std::ffi::c_void;

/// The function that a compiler generates from a task's body. The argument is the task's data.
pub type Work = unsafe extern "C-unwind" fn(*mut c_void);
