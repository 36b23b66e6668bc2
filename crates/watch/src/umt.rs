//! User-Monitored Threads, the kernel's side: programs that count a process' runnable threads and ring its standbys
//! (`bpf/prog/umt.bpf.c`), and the pages and doorbells that each process gets. The other side is the crate `signal`.

mod pages;

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use wire::umt::{BELLS, PROCESSES};

use crate::bpf::{Libbpf, own_namespace, refused, system, unavailable};
use crate::observer::WatchError;
pub use pages::Pages;

#[allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/umt.skel.rs"));
}
use skeleton::{UmtSkel, UmtSkelBuilder};

/// Bytes of a bell's ring: a page, of which it needs one record.
const BELL_BYTES: u32 = 4096;

/// The programs in the kernel. Dropping it detaches them; pages stay as long as somebody maps them.
pub struct Umt {
    links: Vec<Link>,
    skel: UmtSkel<'static>,
    /// Of all processes.
    pub pages: Pages,
    /// Bells of the next process.
    prepared: Vec<OwnedFd>,
}

// SAFETY: what the skeleton points to is the leaked object and libbpf's own heap, which stay where they are and belong to no thread.
unsafe impl Send for Umt {}

/// What a process gets.
#[derive(Debug)]
pub struct Given {
    /// Which elements of the arrays are its own.
    pub process: u32,
    /// Its bells.
    pub bells: Vec<OwnedFd>,
}

impl Umt {
    /// Loads and attaches the programs; no process has asked yet.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot run them.
    pub fn new() -> Result<Umt, WatchError> {
        let quiet = Libbpf::quiet();
        // The skeleton borrows its object; one small leak per load keeps that borrow simple.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = UmtSkelBuilder::default().open(object).map_err(|e| refused(&e, &quiet))?;
        let namespace = own_namespace()?;
        let config =
            open.maps.rodata_data.as_deref_mut().ok_or_else(|| unavailable("the BPF object has no settings".into()))?;
        config.namespaced = namespace.is_some();
        config.own_namespace = namespace.unwrap_or(0);
        let skel = open.load().map_err(|e| refused(&e, &quiet))?;
        let pages = Pages::map(skel.maps.said_of.as_fd(), skel.maps.seen_of.as_fd());
        let pages = pages.map_err(|source| WatchError::System { what: "mapping pages".into(), source })?;
        let mut umt = Umt { links: Vec::new(), skel, pages, prepared: Vec::new() };
        let p = &umt.skel.progs;
        let programs = [&p.on_newtask, &p.on_exec, &p.on_wakeup, &p.on_migrate, &p.on_switch];
        umt.links = programs
            .into_iter()
            .map(|program| program.attach().map_err(|e| refused(&e, &quiet)))
            .collect::<Result<_, _>>()?;
        umt.prepare()?;
        Ok(umt)
    }

    /// A process asks: takes all its threads in, and gives it bells.
    ///
    /// # Errors
    /// When there are too many, or the kernel refuses.
    pub fn give(&mut self, pid: u32) -> Result<Given, WatchError> {
        self.prepare()?;
        self.take_in(pid, self.pages.next())?;
        let process = self.pages.give().ok_or_else(too_many)?;
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            // SAFETY: a u32 in a mapping that lives as long as the skeleton; BPF reads it.
            let processes = unsafe { AtomicU32::from_ptr(&raw mut bss.processes) };
            processes.store(self.pages.given(), Ordering::Release);
        }
        Ok(Given { process, bells: std::mem::take(&mut self.prepared) })
    }

    /// Makes the bells of the process that asks next. The kernel waits some milliseconds for an RCU grace period when it
    /// is given them: better before anybody asks.
    ///
    /// # Errors
    /// As [`give`](Umt::give).
    pub fn prepare(&mut self) -> Result<(), WatchError> {
        if !self.prepared.is_empty() {
            return Ok(());
        }
        if self.pages.is_full() {
            return Err(too_many());
        }
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let mut bells = Vec::new();
        for _ in 0..BELLS {
            let bell = MapHandle::create(MapType::RingBuf, Some("cox_bell"), 0, 0, BELL_BYTES, &options)
                .map_err(|e| system("making a doorbell", e))?;
            let kept = bell.as_fd().try_clone_to_owned();
            bells.push(kept.map_err(|source| WatchError::System { what: "making a doorbell".into(), source })?);
        }
        let first = self.pages.next() * BELLS as u32;
        let keys: Vec<u8> = (first..first + BELLS as u32).flat_map(u32::to_ne_bytes).collect();
        let values: Vec<u8> = bells.iter().flat_map(|bell| bell.as_raw_fd().to_ne_bytes()).collect();
        // In one go: the kernel waits once.
        let map = &self.skel.maps.bells;
        map.update_batch(&keys, &values, BELLS as u32, MapFlags::ANY, MapFlags::ANY)
            .map_err(|e| system("hanging up doorbells", e))?;
        self.prepared = bells;
        Ok(())
    }

    fn take_in(&self, pid: u32, process: u32) -> Result<(), WatchError> {
        let wanted = &self.skel.maps.wanted;
        let key = pid.to_ne_bytes();
        wanted.update(&key, &process.to_ne_bytes(), MapFlags::ANY).map_err(|e| system("enrolling", e))?;
        let quiet = Libbpf::quiet();
        let link = self.skel.progs.enrol_tasks.attach().map_err(|e| refused(&e, &quiet))?;
        // Twice: a thread born behind the first walk of a creator that it had not reached yet.
        for _ in 0..2 {
            let mut iter = Iter::new(&link).map_err(|e| system("walking the tasks", e))?;
            std::io::copy(&mut iter, &mut std::io::sink())
                .map_err(|source| WatchError::System { what: "walking the tasks".into(), source })?;
        }
        wanted.delete(&key).map_err(|e| system("enrolling", e))
    }

    /// Both arrays, of which a process maps its own elements.
    #[must_use]
    pub fn arrays(&self) -> [BorrowedFd<'_>; 2] {
        [self.skel.maps.said_of.as_fd(), self.skel.maps.seen_of.as_fd()]
    }

    /// A process has ended: none of its standbys is there to be rung. Its counters stay.
    pub fn over(&self, process: u32) {
        if let Some((said, _)) = self.pages.of(process) {
            said.parked.0.store(0, Ordering::Release);
            said.queues.store(0, Ordering::Release);
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
