//! A task's body.

use std::ffi::c_void;

/// What a compiler makes of a task's body: takes the task's data.
pub type Work = unsafe extern "C-unwind" fn(*mut c_void);
