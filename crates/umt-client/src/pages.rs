//! Implements the trait `Words` of the [protocol](crate::protocol): with the shared pages or, if the kernel logs the threads' switches, with these
//! logs.

use std::sync::atomic::{Ordering, fence};

use wire::umt::{How, KernelPage, ProgramPage};

use crate::protocol::Words;
use crate::shared::{has_ready, how, program_page};
use crate::{preempted, records};

/// The two pages that this process shares with the kernel side: the program writes `program_page`, the kernel side writes `kernel_page`.
pub(crate) struct Pages<'p> {
    pub program_page: &'p ProgramPage,
    pub kernel_page: &'p KernelPage,
}

impl Words for Pages<'_> {
    fn has_free_cpu(&self) -> bool {
        if how().has_logs() {
            return records::has_free_cpu();
        }
        self.kernel_page.runnable.load(Ordering::Relaxed) < self.program_page.cpus.load(Ordering::Relaxed) as i32
    }

    fn is_crowded(&self) -> bool {
        match how() {
            How::Bpf => is_crowded_by(self.kernel_page),
            How::Sentinels => preempted::gave_way(),
            How::Records | How::Leader => records::is_crowded_now(),
        }
    }

    fn has_ready(&self) -> bool {
        has_ready()
    }

    fn parked(&self) -> u64 {
        self.program_page.parked.0.load(Ordering::Relaxed)
    }

    fn park(&self, bell: u32) {
        self.program_page.parked.0.fetch_or(1 << bell, Ordering::AcqRel);
    }

    fn take(&self, bell: u32) -> bool {
        self.program_page.parked.0.fetch_and(!(1 << bell), Ordering::AcqRel) & 1 << bell != 0
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Returns whether BPF counts more runnable threads than CPUs, and more than one on the caller's CPU.
pub(crate) fn is_crowded_by(kernel_page: &KernelPage) -> bool {
    if kernel_page.runnable.load(Ordering::Relaxed) <= program_page().cpus.load(Ordering::Relaxed) as i32 {
        return false;
    }
    // SAFETY: the call takes no arguments; the C library reads the number from memory.
    let cpu = unsafe { libc::sched_getcpu() };
    kernel_page.cpu.get(cpu as usize).is_some_and(|there| there.moves().ready() > 1)
}
