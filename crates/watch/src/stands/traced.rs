//! Stands that BPF writes and this process maps: read without a system call, and exact.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use arch::laps::{self, Part};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, ProgramMut, RingBuffer, RingBufferBuilder, libbpf_sys};
use rustix::mm::{MapFlags as MmapFlags, ProtFlags, mmap, munmap};
use wire::{Sample, Stand};

use super::{Other, PLACES, Tracer};
use crate::bpf::{Excerpt, Libbpf, Read, Sampler, keep, kernel_casts, own_namespace, refused, system, unavailable};
use crate::observer::WatchError;
use crate::sampling;

#[allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/stands.skel.rs"));
}
/// The members of the kernel's structs that the programs read.
pub(crate) const READ: &Read = include!(concat!(env!("OUT_DIR"), "/stands.read.rs"));
use skeleton::{StandsSkel, StandsSkelBuilder};

/// The programs that write the table. Dropping it detaches and frees them; the table stays as it was then.
pub struct Traced {
    // Field order is drop order: links and readers before the programs and maps they belong to.
    links: Vec<Link>,
    sampler: Option<Sampler>,
    ring: RingBuffer<'static>,
    samples: Rc<RefCell<Vec<Sample>>>,
    samplings: u32,
    table: Arc<Mapped>,
    skel: StandsSkel<'static>,
}

/// The mapped table: can be read from any thread.
pub struct Mapped {
    stands: NonNull<Stand>,
    /// How many were given out, and to how many threads none was (`struct cox_stand_counts`).
    counts: NonNull<u32>,
}

/// Bytes of a mapping of the counts: a page.
const COUNTS_BYTES: usize = 4096;

// SAFETY: the mapping is read-only for this process, and every word of it is read as shared memory.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no reference into it is ever made.
        // Nothing can be done when the kernel refuses, and it does not.
        let _ = unsafe { munmap(self.stands.as_ptr().cast(), PLACES * size_of::<Stand>()) };
        // SAFETY: as above.
        let _ = unsafe { munmap(self.counts.as_ptr().cast(), COUNTS_BYTES) };
    }
}

impl Tracer for Traced {
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        Traced::enrol(self, pid)
    }

    fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        Traced::sample_on(self, cpus, mean_ns)
    }

    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        Traced::take_samples(self)
    }

    fn table(&self) -> Arc<Mapped> {
        Traced::table(self)
    }

    fn others(&self) -> Option<Vec<Other>> {
        Some(Traced::others(self))
    }
}

impl Traced {
    /// Loads and attaches the programs; nobody has a stand yet. With an `owner` only threads of that user can have one.
    /// What others run on these CPUs is counted.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot run them.
    pub fn new(follow_children: bool, owner: Option<u32>, cpus: &[u32]) -> Result<Traced, WatchError> {
        let quiet = Libbpf::quiet();
        // The skeleton borrows its object; one small leak per load keeps that borrow simple.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = StandsSkelBuilder::default();
        let excerpt = Excerpt::of_this_kernel(READ);
        laps::done(Part::Types);
        if let Some(excerpt) = &excerpt {
            excerpt.relocates(builder.object_builder_mut());
        }
        let mut open = builder.open(object).map_err(|e| refused(&e, &quiet))?;
        let config =
            open.maps.rodata_data.as_deref_mut().ok_or_else(|| unavailable("the BPF object has no settings".into()))?;
        let namespace = own_namespace()?;
        config.namespaced = namespace.is_some();
        config.own_namespace = namespace.unwrap_or(0);
        if let Some(excerpt) = excerpt.as_ref().filter(|_| kernel_casts()) {
            config.casts = true;
            config.type_of_task = excerpt.task;
            config.type_of_registers = excerpt.registers;
        }
        config.follow_children = follow_children;
        config.places = PLACES as u32;
        config.owned = owner.is_some();
        config.owner = owner.unwrap_or(0);
        config.own_process = std::process::id();
        for cpu in cpus {
            if let Some(word) = config.pack_cpus.get_mut(*cpu as usize / 64) {
                *word |= 1 << (cpu % 64);
            }
        }
        laps::done(Part::Opening);
        let skel = open.load().map_err(|e| refused(&e, &quiet))?;
        laps::done(Part::Loading);
        freeze([skel.maps.stands.as_fd(), skel.maps.counts.as_fd()])?;
        let table = Mapped::map([skel.maps.stands.as_fd(), skel.maps.counts.as_fd()])?;
        let samples = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let into = Rc::clone(&samples);
        builder.add(&skel.maps.samples, move |bytes| keep(&into, bytes)).map_err(|e| system("mapping samples", e))?;
        let ring = builder.build().map_err(|e| system("mapping samples", e))?;
        let table = Arc::new(table);
        let mut stands = Traced { links: Vec::new(), sampler: None, ring, samples, samplings: 0, table, skel };
        let p = &stands.skel.progs;
        // Births before switches: no member is switched unseen.
        let programs = [&p.on_newtask, &p.on_exec, &p.on_waking, &p.on_switch];
        stands.links = programs.into_iter().map(|p| attach(p, &quiet)).collect::<Result<_, _>>()?;
        laps::done(Part::Attaching);
        Ok(stands)
    }

    /// Gives all threads of a process a stand; those it makes from now on get theirs at birth.
    ///
    /// # Errors
    /// When the kernel refuses the walk over its tasks.
    pub fn enrol(&self, pid: u32) -> Result<(), WatchError> {
        let wanted = &self.skel.maps.wanted;
        let key = pid.to_ne_bytes();
        wanted.update(&key, &1u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| system("enrolling", e))?;
        let quiet = Libbpf::quiet();
        let link = attach(&self.skel.progs.enrol_tasks, &quiet)?;
        // Twice: a thread born behind the first walk of a creator that it had not reached yet.
        for _ in 0..2 {
            let mut iter = Iter::new(&link).map_err(|e| system("walking the tasks", e))?;
            std::io::copy(&mut iter, &mut std::io::sink())
                .map_err(|source| WatchError::System { what: "walking the tasks".into(), source })?;
        }
        wanted.delete(&key).map_err(|e| system("enrolling", e))
    }

    /// Begins or ends taking samples on these CPUs, each `mean_ns` on average; of no CPUs: ends. Each sampling
    /// has a period of its own.
    ///
    /// # Errors
    /// When the kernel refuses the events.
    pub fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        self.sampler = None;
        if !cpus.is_empty() {
            self.samplings = self.samplings.wrapping_add(1);
            let period_ns = sampling::period_of_turn_ns(mean_ns, self.samplings);
            self.sampler = Some(Sampler::start(&self.skel.progs.on_sample, period_ns, cpus.iter().copied())?);
        }
        Ok(())
    }

    /// Samples of running members since this was asked last.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        self.ring.consume().map_err(|e| system("reading samples", e))?;
        Ok(self.samples.take())
    }

    /// What others ran on the CPUs that are watched, until each left its CPU last.
    #[must_use]
    pub fn others(&self) -> Vec<Other> {
        let map = &self.skel.maps.others;
        let other = |name: Vec<u8>| {
            let ran_ns = map.lookup(&name, MapFlags::ANY).ok()??;
            let ran_ns = u64::from_ne_bytes(ran_ns.try_into().ok()?);
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            Some(Other { comm: String::from_utf8_lossy(&name[..end]).into_owned(), ran_ns })
        };
        map.keys().filter_map(other).collect()
    }

    /// The table, for any thread to read.
    #[must_use]
    pub fn table(&self) -> Arc<Mapped> {
        Arc::clone(&self.table)
    }

    /// The table's two maps, for another process to [map](Mapped::map). It cannot write there.
    #[must_use]
    pub fn maps(&self) -> [BorrowedFd<'_>; 2] {
        [self.skel.maps.stands.as_fd(), self.skel.maps.counts.as_fd()]
    }
}

impl Mapped {
    /// Maps a table that programs in the kernel write.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map([stands, counts]: [BorrowedFd<'_>; 2]) -> Result<Mapped, WatchError> {
        let map = |fd: BorrowedFd<'_>, bytes: usize| {
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let place = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MmapFlags::SHARED, fd, 0) };
            let place = place
                .map_err(|source| WatchError::System { what: "mapping the stands".into(), source: source.into() })?;
            NonNull::new(place).ok_or_else(|| unavailable("the stands cannot be mapped".into()))
        };
        let stands = map(stands, PLACES * size_of::<Stand>())?.cast();
        Ok(Mapped { stands, counts: map(counts, COUNTS_BYTES)?.cast() })
    }

    /// How many stands have been given out; they are numbered from 0 and keep their number.
    #[must_use]
    pub fn given(&self) -> usize {
        // SAFETY: the first word of the counts, in a mapping that lives as long as self; BPF adds to it.
        let given = unsafe { AtomicU32::from_ptr(self.counts.as_ptr()) };
        (given.load(Ordering::Acquire) as usize).min(PLACES)
    }

    /// Threads that came when all places were given out.
    #[must_use]
    pub fn without_place(&self) -> u32 {
        // SAFETY: the second word, as in `given`.
        unsafe { self.counts.add(1).read_volatile() }
    }

    /// The stand with a number below [`given`](Mapped::given); `None` while its thread is being enrolled.
    #[must_use]
    pub fn read(&self, number: usize) -> Option<Stand> {
        if number >= PLACES {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as self.
        let stand = unsafe { self.stands.add(number) };
        // SAFETY: `turn` is the first word of a stand, aligned; BPF writes it while we read.
        let turn = unsafe { AtomicU32::from_ptr(stand.as_ptr().cast()) };
        // The writer is in a switch handler, some ten instructions long. When its virtual CPU is taken away
        // in their midst, an old stand is better than waiting for it.
        for _ in 0..100 {
            let before = turn.load(Ordering::Acquire);
            // SAFETY: as above; a torn copy is thrown away.
            let copy = unsafe { stand.as_ptr().read_volatile() };
            fence(Ordering::Acquire);
            if before % 2 == 0 && turn.load(Ordering::Relaxed) == before {
                return (copy.tid != 0).then_some(copy);
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// From here on only programs in the kernel write there, and nobody can map it to write: it may be given to a process without privilege. (A
/// read-only map, BPF_F_RDONLY, cannot be mapped at all.)
fn freeze(maps: [BorrowedFd<'_>; 2]) -> Result<(), WatchError> {
    for map in maps {
        // SAFETY: a system call on a descriptor that is open.
        if unsafe { libbpf_sys::bpf_map_freeze(map.as_raw_fd()) } != 0 {
            return Err(WatchError::System {
                what: "freezing the stands".into(),
                source: std::io::Error::last_os_error(),
            });
        }
    }
    Ok(())
}

fn attach(program: &ProgramMut<'_>, quiet: &Libbpf) -> Result<Link, WatchError> {
    program.attach().map_err(|e| refused(&e, quiet))
}
