//! Starts a program that has been mapped, as a process that shares this address space.
//!
//! The new process has its own pid, descriptors, working directory, signal actions and children, like one that fork(2) has made; only memory is shared
//! (`CLONE_VM` without `CLONE_FILES`, `CLONE_FS`, `CLONE_SIGHAND` and `CLONE_THREAD`). It begins in `begin`, on the program's own stack, and does what
//! execve(2) would have done for it. It must not touch memory of the host meanwhile, nor use thread-local storage: it still has the host's TLS base. The
//! instructions are in `arch`.

use std::ffi::CStr;
use std::io;

use crate::program::image::Image;

/// A new process begins with this. It is on the program's own stack, below its contents, and may be overwritten later.
#[repr(C)]
struct First {
    /// Stack pointer and entry point of the program.
    stack_pointer: u64,
    entry: u64,
    /// Pid of the host: if the parent is another process already, the host has died, and the new process must not live on.
    host: u64,
    /// Signals that the program begins with blocked.
    mask: u64,
    /// The GS base: where code of this crate finds out by whom it is called.
    gs_base: u64,
    /// Begin and end of a list of the host's descriptors that the program must not have. The list is in the host's memory.
    close: [u64; 2],
    /// A function that is called before the program (0: none), and its arguments.
    prepare: u64,
    with: [u64; 2],
    /// Name of the thread, as in comm.
    name: [u8; 16],
}

/// A process that shares memory with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pid(pub i32);

/// Whose child a new process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// The caller's, which is the host.
    Caller,
    /// The host's, although a ULP makes it.
    Host,
}

/// What a new process begins with.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// Name of its main thread, at most 15 bytes.
    pub name: &'a CStr,
    /// Signals that are blocked.
    pub mask: u64,
    /// The GS base of its kernel task.
    pub gs_base: u64,
    /// Where the kernel writes the pid before the process starts.
    pub pid: *mut i32,
    /// Descriptors of the host that the program must not have. The list must stay where it is while processes begin.
    pub close: &'a [i32],
    /// What the process calls before it starts the program, with begin and length of the image's stack for signal handlers. It may use the program's stack,
    /// but neither thread-local storage nor memory of the host.
    pub prepare: Option<Prepare>,
}

/// A function that a new process calls before it starts its program.
pub type Prepare = unsafe extern "C" fn(u64, u64);

/// Starts a program. Signals that have a handler get their default action. The process dies with the calling thread.
///
/// # Errors
/// The kernel refuses a new process.
pub fn start(image: &Image, beginning: &Beginning<'_>) -> io::Result<Pid> {
    let arguments = prepare(image, beginning, Parent::Caller);
    // SAFETY: the image was prepared for it, and is not used by another process.
    let pid = unsafe { begin_prepared(&raw const arguments) };
    if pid < 0 { Err(io::Error::from_raw_os_error(-pid as i32)) } else { Ok(Pid(pid as i32)) }
}

/// Prepares the stack of a program for [`begin_prepared`]. To be called by the host. Returns the arguments of clone3(2).
pub(crate) fn prepare(image: &Image, beginning: &Beginning<'_>, parent: Parent) -> libc::clone_args {
    let mut comm = [0; 16];
    let bytes = beginning.name.to_bytes();
    let length = bytes.len().min(15);
    comm[..length].copy_from_slice(&bytes[..length]);
    // SAFETY: getpid has no conditions.
    let host = unsafe { libc::getpid() } as u64;
    let first = First {
        stack_pointer: image.stack_pointer,
        entry: image.entry,
        host,
        mask: beginning.mask,
        gs_base: beginning.gs_base,
        close: [beginning.close.as_ptr_range().start as u64, beginning.close.as_ptr_range().end as u64],
        prepare: beginning.prepare.map_or(0, |prepare| prepare as *const () as u64),
        with: [image.handlers.start, image.handlers.end - image.handlers.start],
        name: comm,
    };
    let at = (image.stack_pointer - size_of::<First>() as u64) & !15;
    // SAFETY: the image's stack is mapped below its stack pointer, and the program does not run yet.
    unsafe { (at as *mut First).write(first) };
    // With CLONE_PARENT, the new process has the exit signal of the calling one, which is SIGCHLD for a ULP.
    let (parent, exit_signal) = match parent {
        Parent::Caller => (0, libc::SIGCHLD),
        Parent::Host => (libc::CLONE_PARENT, 0),
    };
    libc::clone_args {
        flags: (libc::CLONE_VM | libc::CLONE_PARENT_SETTID | parent) as u64 | CLONE_CLEAR_SIGHAND,
        parent_tid: beginning.pid as u64,
        exit_signal: exit_signal as u64,
        // The kernel sets the stack pointer to the end of this stack.
        stack: image.stack_pointer - 4096,
        stack_size: at - (image.stack_pointer - 4096),
        // SAFETY: all fields are numbers, for which 0 means none.
        ..unsafe { std::mem::zeroed() }
    }
}

/// Makes a process as [`prepare`] has prepared it. Returns its pid, or a negative error number.
///
/// # Safety
/// The arguments must be those that `prepare` has returned, for an image in which no process runs.
pub(crate) unsafe fn begin_prepared(arguments: *const libc::clone_args) -> i64 {
    // SAFETY: the caller's. The new process has a stack of its own, and never returns here.
    unsafe { clone_and_begin(arguments, size_of::<libc::clone_args>()) }
}

/// Signals with a handler get their default action (Linux 5.5).
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

arch::process_begin!(First);
