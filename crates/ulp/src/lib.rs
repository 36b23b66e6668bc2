//! User-level processes (ULPs): many unmodified programs in one address space.
//!
//! A ULP is a kernel process of its own, with its own pid, descriptors, working directory, signals and children, that shares its memory with the
//! process that starts it, the *host*. It has its own copy of the program, of the dynamic linker and of all libraries, which the dynamic linker maps as
//! in any process. So nothing of the program has to know about it.
//!
//! - [`program`]: reads a program, maps it, and builds the stack with which the kernel would have started it.
//! - [`memory`]: the addresses of each program, and how all of its memory is unmapped.
//! - [`task`]: starts a program that has been mapped, as a process that shares memory.
//! - [`carriers`]: switch between ULPs in user space.
//! - `debugging`: the files of all programs, as a debugger finds them.
//! - `forwarding`: signals to the host, which it passes on.
//! - [`host`]: starts many of them, waits for them, and says how each one ended.

pub mod carriers;
mod debugging;
mod forwarding;
pub mod host;
pub mod memory;
mod own_code;
pub mod program;
pub mod task;
