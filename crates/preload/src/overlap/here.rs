//! The calling thread's worker, where two instructions find it.
//!
//! A library's thread-local variables are else found by a function call (`__tls_get_addr`), at every task and every question about one. This
//! one lies at a fixed distance from the thread's pointer, which a library may have that is there when the program starts, and few bytes of.

use std::arch::{asm, global_asm};

use tasks::worker::Worker;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("written for x86-64 only");

global_asm!(
    ".pushsection .tbss, \"awT\", @nobits",
    ".p2align 3",
    ".globl cox_preload_worker",
    ".hidden cox_preload_worker",
    ".type cox_preload_worker, @object",
    ".size cox_preload_worker, 8",
    "cox_preload_worker:",
    ".zero 8",
    ".popsection",
);

/// Null: it has none yet.
#[inline]
pub fn get() -> *const Worker {
    let worker;
    // SAFETY: reads the variable above, which is there in each thread. Only `set` writes it.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + cox_preload_worker@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) worker,
            options(nostack, preserves_flags, readonly),
        );
    }
    worker
}

/// Makes it the calling thread's; null: it has none.
pub fn set(worker: *const Worker) {
    // SAFETY: writes the variable above.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + cox_preload_worker@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) worker,
            options(nostack, preserves_flags),
        );
    }
}

/// The calling thread's worker, if it is in a region whose tasks are ours.
#[inline]
pub fn here() -> Option<&'static Worker> {
    // SAFETY: null, or this thread's, which is there until the thread ends.
    unsafe { get().as_ref() }.filter(|worker| worker.team().is_some())
}

/// The calling thread's worker, wherever it is.
#[inline]
pub fn anywhere() -> Option<&'static Worker> {
    // SAFETY: as above.
    unsafe { get().as_ref() }
}
