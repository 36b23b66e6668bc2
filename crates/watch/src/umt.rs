//! User-Monitored Threads, the kernel's side: programs that count a process' runnable threads and ring its standbys
//! (`bpf/prog/umt.bpf.c`), and the pages and doorbells that each process gets. The other side is the crate `signal`.

mod bells;
mod pages;
mod slots;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, MapMut, MapType, libbpf_sys};
use wire::umt::{BELLS, PROCESSES, Said, Seen};

use crate::bpf::{Excerpt, Libbpf, Read, kernel_casts, own_namespace, refused, system, unavailable};
use crate::observer::WatchError;
pub use bells::Doorbells;
pub use pages::Pages;
use slots::Slots;

#[allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/umt.skel.rs"));
}
/// The members of the kernel's structs that the programs read.
pub(crate) const READ: &Read = include!(concat!(env!("OUT_DIR"), "/umt.read.rs"));
use skeleton::{UmtSkel, UmtSkelBuilder};

/// Bytes of a bell's ring: a page, of which it needs one record.
const BELL_BYTES: u32 = 4096;
/// Pages of a ring that have no records: how the kernel keeps it, and how far it is written and read.
const BELL_PAGES_BESIDE: u32 = 3;
/// Kernel memory of one process of a session: its pages and its bells.
pub const PROCESS_BYTES: usize =
    size_of::<Said>() + size_of::<Seen>() + BELLS * (BELL_BYTES * (1 + BELL_PAGES_BESIDE)) as usize;
/// What fails where a map cannot be made.
const MAKING: &str = "making a process' pages and doorbells";

/// The programs in the kernel. Dropping it detaches them; pages stay as long as somebody maps them.
pub struct Umt {
    links: Vec<Link>,
    skel: UmtSkel<'static>,
    slots: Slots,
    /// Only one user's threads count.
    is_owned: bool,
    /// One more than the highest number that was given.
    given: u32,
    /// What the next process gets.
    prepared: Option<Given>,
}

// SAFETY: what the skeleton points to is the leaked object and libbpf's own heap, which stay where they are and belong to no thread.
unsafe impl Send for Umt {}

/// What a process gets: nobody else has descriptors of the same pages and bells.
#[derive(Debug)]
pub struct Given {
    /// The number by which it is known until it is [gone](Umt::gone).
    pub process: u32,
    /// The page that the process writes.
    pub said: OwnedFd,
    /// The page that the kernel writes, or the process itself where there is no BPF.
    pub seen: OwnedFd,
    /// Its bells.
    pub bells: Vec<OwnedFd>,
}

impl Given {
    /// All descriptors, in the order in which a process receives them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.said, &self.seen].into_iter().chain(&self.bells).map(AsFd::as_fd)
    }
}

impl Umt {
    /// Loads and attaches the programs; no process has asked yet. With an `owner` only threads of that user count.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot run them.
    pub fn new(owner: Option<u32>) -> Result<Umt, WatchError> {
        let quiet = Libbpf::quiet();
        // The skeleton borrows its object; one small leak per load keeps that borrow simple.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = UmtSkelBuilder::default();
        let excerpt = Excerpt::of_this_kernel(READ);
        if let Some(excerpt) = &excerpt {
            excerpt.relocates(builder.object_builder_mut());
        }
        let mut open = builder.open(object).map_err(|e| refused(&e, &quiet))?;
        let namespace = own_namespace()?;
        let config =
            open.maps.rodata_data.as_deref_mut().ok_or_else(|| unavailable("the BPF object has no settings".into()))?;
        config.namespaced = namespace.is_some();
        config.own_namespace = namespace.unwrap_or(0);
        config.owned = owner.is_some();
        config.owner = owner.unwrap_or(0);
        if let Some(excerpt) = excerpt.as_ref().filter(|_| kernel_casts()) {
            config.casts = true;
            config.type_of_task = excerpt.task;
            config.type_of_registers = excerpt.registers;
        }
        let skel = open.load().map_err(|e| refused(&e, &quiet))?;
        let mut umt =
            Umt { links: Vec::new(), skel, slots: Slots::new(), is_owned: owner.is_some(), given: 0, prepared: None };
        let p = &umt.skel.progs;
        let programs = [&p.on_newtask, &p.on_exec, &p.on_wakeup, &p.on_migrate, &p.on_switch];
        umt.links = programs
            .into_iter()
            .map(|program| program.attach().map_err(|e| refused(&e, &quiet)))
            .collect::<Result<_, _>>()?;
        umt.prepare()?;
        Ok(umt)
    }

    /// A process asks: takes all its threads in, and gives it pages and bells of its own.
    ///
    /// # Errors
    /// When there are too many, when no thread of it may be taken in, or the kernel refuses.
    pub fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        self.prepare()?;
        // If a walk fails half-way, threads have this number already: nobody else gets it then.
        let given = self.prepared.take().ok_or_else(too_many)?;
        self.mark(given.process, false);
        if self.take_in(pid, given.process)? == 0 {
            // Nobody has this number.
            self.prepared = Some(given);
            let rights = if self.is_owned { ", or it has more rights than its user" } else { "" };
            let why = format!("there is no such process, or it has just ended{rights}");
            return Err(WatchError::NoTarget { pid, why });
        }
        self.given = self.given.max(given.process + 1);
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            // SAFETY: a u32 in a mapping that lives as long as the skeleton; BPF reads it.
            let processes = unsafe { AtomicU32::from_ptr(&raw mut bss.processes) };
            processes.store(self.given, Ordering::Release);
        }
        Ok(given)
    }

    /// Makes the pages and bells of the process that asks next. The kernel waits some milliseconds for an RCU grace period when it
    /// is given them: better before anybody asks.
    ///
    /// # Errors
    /// As [`give`](Umt::give).
    pub fn prepare(&mut self) -> Result<(), WatchError> {
        if self.prepared.is_some() {
            return Ok(());
        }
        let process = self.slots.take().ok_or_else(too_many)?;
        self.prepared = Some(self.made(process).inspect_err(|_| self.slots.free(process))?);
        Ok(())
    }

    /// New pages and bells, where BPF finds them for this number.
    fn made(&self, process: u32) -> Result<Given, WatchError> {
        let bells = (0..BELLS).map(|_| owned(&made(MapType::RingBuf, 0, 0, BELL_BYTES, 0)?));
        let bells: Vec<OwnedFd> = bells.collect::<Result<_, _>>()?;
        let page = |bytes: usize| made(MapType::Array, 4, bytes as u32, 1, libbpf_sys::BPF_F_MMAPABLE);
        let said = owned(&page(size_of::<Said>())?)?;
        let seen = page(size_of::<Seen>())?;
        // From here on BPF can write there, and no descriptor can.
        seen.freeze().map_err(|e| system("freezing a page", e))?;
        let seen = owned(&seen)?;
        let given = Given { process, said, seen, bells };
        self.hang(&given)?;
        Ok(given)
    }

    /// Puts them where BPF looks. The kernel waits for a grace period of each array, for all of them at the same time.
    fn hang(&self, given: &Given) -> Result<(), WatchError> {
        let (maps, process) = (&self.skel.maps, given.process);
        let handle = |map: &MapMut<'_>| MapHandle::try_from(map).map_err(|e| system(MAKING, e));
        let (said_of, seen_of, bells) = (handle(&maps.said_of)?, handle(&maps.seen_of)?, handle(&maps.bells)?);
        std::thread::scope(|scope| {
            let said = scope.spawn(move || put(&said_of, process, [&given.said]));
            let seen = scope.spawn(move || put(&seen_of, process, [&given.seen]));
            let rung = put(&bells, process * BELLS as u32, &given.bells);
            [said, seen]
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .fold(rung, Result::and)
        })
    }

    /// Takes in all threads of a process, and returns how often one was found that may be.
    fn take_in(&mut self, pid: u32, process: u32) -> Result<u32, WatchError> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.found = 0;
        }
        let wanted = &self.skel.maps.wanted;
        let key = pid.to_ne_bytes();
        wanted.update(&key, &process.to_ne_bytes(), MapFlags::ANY).map_err(|e| system("enrolling", e))?;
        let walked = self.walk();
        // Also after a walk that failed: later walks would take its threads in, or those of another process with its pid.
        let deleted = wanted.delete(&key).map_err(|e| system("enrolling", e));
        walked.and(deleted)?;
        // SAFETY: a u32 in a mapping that lives as long as the skeleton; BPF has written it.
        let found = |bss: &skeleton::types::bss| unsafe { (&raw const bss.found).read_volatile() };
        Ok(self.skel.maps.bss_data.as_deref().map_or(0, found))
    }

    /// Lets BPF see all tasks. Twice: a thread born behind the first walk of a creator that it had not reached yet.
    fn walk(&self) -> Result<(), WatchError> {
        let quiet = Libbpf::quiet();
        let link = self.skel.progs.enrol_tasks.attach().map_err(|e| refused(&e, &quiet))?;
        for _ in 0..2 {
            let mut iter = Iter::new(&link).map_err(|e| system("walking the tasks", e))?;
            std::io::copy(&mut iter, &mut std::io::sink())
                .map_err(|source| WatchError::System { what: "walking the tasks".into(), source })?;
        }
        Ok(())
    }

    /// A process has hung up: none of its standbys is there to be rung. Its threads are counted on.
    pub fn over(&mut self, process: u32) {
        self.mark(process, true);
    }

    /// A process has ended, with all its threads: another one can have its number, with new pages and bells.
    pub fn gone(&mut self, process: u32) {
        self.slots.free(process);
    }

    fn mark(&mut self, process: u32, is_over: bool) {
        let bss = self.skel.maps.bss_data.as_deref_mut();
        if let Some(word) = bss.and_then(|bss| bss.over.get_mut(process as usize)) {
            // SAFETY: a byte in a mapping that lives as long as the skeleton; BPF reads it.
            unsafe { AtomicU8::from_ptr(word) }.store(u8::from(is_over), Ordering::Release);
        }
    }

    /// Nobody is counted or rung from now on.
    pub fn end(&mut self) {
        self.links.clear();
    }
}

fn too_many() -> WatchError {
    unavailable(format!("{PROCESSES} processes have asked already"))
}

/// A map that no program uses yet.
fn made(kind: MapType, key: u32, value: u32, entries: u32, flags: u32) -> Result<MapHandle, WatchError> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: flags,
        ..Default::default()
    };
    MapHandle::create(kind, Some("cox_umt"), key, value, entries, &options).map_err(|e| system(MAKING, e))
}

fn owned(map: &MapHandle) -> Result<OwnedFd, WatchError> {
    map.as_fd().try_clone_to_owned().map_err(|source| WatchError::System { what: MAKING.into(), source })
}

/// Puts maps into an array of maps, from `first` on, in one go.
fn put<'f>(array: &MapHandle, first: u32, maps: impl IntoIterator<Item = &'f OwnedFd>) -> Result<(), WatchError> {
    let values: Vec<u8> = maps.into_iter().flat_map(|map| map.as_raw_fd().to_ne_bytes()).collect();
    let count = (values.len() / size_of::<RawFd>()) as u32;
    let keys: Vec<u8> = (first..first + count).flat_map(u32::to_ne_bytes).collect();
    array
        .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
        .map_err(|e| system("giving eBPF a process' pages and doorbells", e))
}
