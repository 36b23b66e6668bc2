//! The kernel side of user-monitored threads (UMT): the BPF programs that count a process's runnable threads and wake its standby threads
//! (`bpf/prog/overlap.bpf.h`), and each process's shared pages and doorbells. A doorbell is a ring buffer on which one standby thread waits. The
//! program's side is the crate `umt-client`.

mod pages;
mod slots;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use libbpf_rs::{MapHandle, MapType, libbpf_sys};
use wire::umt::{BELLS, KernelPage, PROCESSES, ProgramPage};

use crate::bpf::{Part, Parts, Programs, inner, process_key, system, unavailable};
use crate::observer::WatchError;
pub use pages::Pages;
use slots::Slots;

/// Size of a doorbell's ring buffer, bytes: one page, although one record would be enough.
const BELL_BYTES: u32 = 4096;
/// Pages of a ring buffer in addition to its records: the kernel's own data, and the consumer and producer positions.
const BELL_PAGES_BESIDE: u32 = 3;
/// Kernel memory for one process of a session, bytes: its two shared pages and its doorbells (ring buffers).
pub const PROCESS_BYTES: usize =
    size_of::<ProgramPage>() + size_of::<KernelPage>() + BELLS * (BELL_BYTES * (1 + BELL_PAGES_BESIDE)) as usize;
/// The action that an error message names if a map cannot be created.
const MAKING: &str = "creating the shared memory and doorbells of a process";

/// The doorbells of a session, on which standby threads wait. Counts the runnable threads of each process that has asked for doorbells, and wakes its
/// standby threads. The programs that do this are loaded in this process ([`Umt`]) or in another one.
pub trait Doorbells: Send {
    /// Tracks all threads of a process that asks for doorbells, and gives it pages and doorbells of its own.
    ///
    /// # Errors
    /// If too many processes have asked, if no thread of the process may be tracked, or if the kernel refuses.
    fn give(&mut self, pid: u32) -> Result<Given, WatchError>;

    /// Prepares the pages and doorbells of the next process. Putting them into BPF's maps takes some milliseconds, because the kernel waits for an
    /// RCU grace period. A process that asks later does not have to wait for that.
    ///
    /// # Errors
    /// As [`give`](Doorbells::give).
    fn prepare(&mut self) -> Result<(), WatchError>;

    /// Marks a process that has closed its connection. Its standby threads are no longer woken, but its threads are still counted.
    fn over(&mut self, process: u32);

    /// Releases the number of a process that has ended with all its threads. Another process can then get this number, with new shared pages and new
    /// doorbells (ring buffers on which standby threads wait).
    fn gone(&mut self, process: u32);

    /// Stops counting blocked threads and ringing doorbells.
    fn end(&mut self);

    /// Returns a descriptor whose other end is closed when the process that loaded the programs ends; `None` if that is this process.
    fn lifeline(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The BPF programs that count runnable threads and wake standby threads. Dropping this value detaches them; a shared page lives as long as any
/// process maps it.
pub struct Umt {
    programs: Programs,
    slots: Slots,
    /// The highest process number that was ever given out, plus 1.
    given: u32,
    /// Shared pages and doorbells that are ready for the next process that asks.
    prepared: Option<Given>,
}

/// The pages and doorbells of one process. Only that process gets descriptors of them.
#[derive(Debug)]
pub struct Given {
    /// The process's number. It is valid until [`Doorbells::gone`] releases it.
    pub process: u32,
    /// The program page, which the process writes.
    pub program_page: OwnedFd,
    /// The kernel page, which BPF writes. Without BPF, the observed process writes it itself.
    pub kernel_page: OwnedFd,
    /// The process's doorbells: ring buffers, on each of which one of its standby threads waits.
    pub bells: Vec<OwnedFd>,
}

impl Given {
    /// Returns all descriptors, in the order in which a process receives them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.program_page, &self.kernel_page].into_iter().chain(&self.bells).map(AsFd::as_fd)
    }
}

impl Umt {
    /// Loads and attaches the programs; no process has asked for doorbells yet. With an `owner`, only threads of that user are tracked.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason if this kernel or user cannot run the programs.
    pub fn new(owner: Option<u32>) -> Result<Umt, WatchError> {
        let programs = Programs::of(Part::Overlap, &Parts { overlap: true, owner, ..Parts::default() })?;
        let mut umt = Umt { programs, slots: Slots::new(), given: 0, prepared: None };
        umt.programs.attach(Part::Overlap)?;
        umt.prepare()?;
        Ok(umt)
    }

    /// Creates the pages and doorbells of a process, and puts them into BPF's maps under its number.
    fn made(&self, process: u32) -> Result<Given, WatchError> {
        let bells = (0..BELLS).map(|_| owned(&made(MapType::RingBuf, 0, 0, BELL_BYTES, 0)?));
        let bells: Vec<OwnedFd> = bells.collect::<Result<_, _>>()?;
        let page = |bytes: usize| made(MapType::Array, 4, bytes as u32, 1, libbpf_sys::BPF_F_MMAPABLE);
        let program_page = owned(&page(size_of::<ProgramPage>())?)?;
        let kernel_page = page(size_of::<KernelPage>())?;
        // From here on only BPF can write the page; no process can, not even through the descriptor.
        kernel_page.freeze().map_err(|e| system("write-protecting a process's kernel page", e))?;
        let kernel_page = owned(&kernel_page)?;
        let given = Given { process, program_page, kernel_page, bells };
        self.hang(&given)?;
        Ok(given)
    }

    /// Puts a process's shared pages and doorbells (ring buffers on which its standby threads wait) into BPF's maps. For each map the kernel waits
    /// for an RCU grace period. Each map is filled by a thread of its own, so that these waits overlap.
    fn hang(&self, given: &Given) -> Result<(), WatchError> {
        let process = given.process;
        let handle = |name: &str| MapHandle::try_from(&self.programs.map(name)?).map_err(|e| system(MAKING, e));
        let (program_pages, kernel_pages, bells) =
            (handle("program_pages")?, handle("kernel_pages")?, handle("bells")?);
        std::thread::scope(|scope| {
            let program = scope.spawn(move || put(&program_pages, process, [&given.program_page]));
            let kernel = scope.spawn(move || put(&kernel_pages, process, [&given.kernel_page]));
            let rung = put(&bells, process * BELLS as u32, &given.bells);
            [program, kernel]
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .fold(rung, Result::and)
        })
    }

    fn mark(&mut self, process: u32, is_over: bool) {
        if let Some(over) = self.programs.over(process) {
            over.store(u8::from(is_over), Ordering::Release);
        }
    }
}

impl Doorbells for Umt {
    fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        self.prepare()?;
        // Takes the prepared pages with their process number out of `self`. If the enrolment fails half-way, some threads already have this number,
        // so no other process may get it.
        let given = self.prepared.take().ok_or_else(too_many)?;
        self.mark(given.process, false);
        // `processes` is set before the enrolment, because the BPF programs count no threads while it is 0.
        self.given = self.given.max(given.process + 1);
        self.programs.processes().store(self.given, Ordering::Release);
        if self.programs.enrol(Part::Overlap, &[process_key(pid)], given.process)? == 0 {
            // No thread was enrolled, so no thread has this process number, and the next process can get it with these pages.
            self.prepared = Some(given);
            let rights = if self.programs.is_owned() { ", or it has more rights than its user" } else { "" };
            let why = format!("there is no such process, or it has just ended{rights}");
            return Err(WatchError::NoTarget { pid, why });
        }
        Ok(given)
    }

    fn prepare(&mut self) -> Result<(), WatchError> {
        if self.prepared.is_some() {
            return Ok(());
        }
        let process = self.slots.take().ok_or_else(too_many)?;
        self.prepared = Some(self.made(process).inspect_err(|_| self.slots.free(process))?);
        Ok(())
    }

    fn over(&mut self, process: u32) {
        self.mark(process, true);
    }

    fn gone(&mut self, process: u32) {
        self.slots.free(process);
    }

    fn end(&mut self) {
        self.programs.processes().store(0, Ordering::Release);
        self.programs.detach(Part::Overlap);
    }
}

impl Drop for Umt {
    fn drop(&mut self) {
        self.end();
    }
}

fn too_many() -> WatchError {
    unavailable(format!("the session has its maximum of {PROCESSES} processes already"))
}

/// Creates a map that no program uses yet.
fn made(kind: MapType, key: u32, value: u32, entries: u32, flags: u32) -> Result<MapHandle, WatchError> {
    inner::made("cox_umt", kind, [key, value], entries, flags).map_err(|e| system(MAKING, e))
}

fn owned(map: &MapHandle) -> Result<OwnedFd, WatchError> {
    map.as_fd().try_clone_to_owned().map_err(|source| WatchError::system(MAKING, source))
}

/// Puts maps into an array of maps in one call, beginning at index `first`.
fn put<'f>(array: &MapHandle, first: u32, maps: impl IntoIterator<Item = &'f OwnedFd>) -> Result<(), WatchError> {
    inner::put(array, (first..).zip(maps)).map_err(|e| system("storing a process's pages and doorbells in BPF maps", e))
}
