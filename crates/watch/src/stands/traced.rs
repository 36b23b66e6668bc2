//! Stands that BPF writes and this process maps: read without a system call, and exact.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use arch::laps::{self, Part as Lap};
use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder, libbpf_sys};
use rustix::mm::{MapFlags as MmapFlags, ProtFlags, mmap, munmap};
use wire::{Sample, Stand};

use super::{Other, Tracer};
use crate::bpf::{PLACES, Part, Parts, Programs, Sampler, Snapshots, keep, process_key, system, unavailable};
use crate::observer::WatchError;
use crate::sampling;

/// The programs that write the table. Dropping it detaches and frees them; the table stays as it was then.
pub struct Traced {
    // Field order is drop order: links and readers before the programs and maps they belong to.
    sampler: Option<Sampler>,
    ring: RingBuffer<'static>,
    samples: Rc<RefCell<Vec<Sample>>>,
    samplings: u32,
    table: Arc<Mapped>,
    /// The table's two maps.
    maps: [OwnedFd; 2],
    programs: Programs,
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

impl Drop for Traced {
    fn drop(&mut self) {
        self.programs.snapshots_over().store(true, Ordering::Release);
        self.programs.detach(Part::Snapshots);
    }
}

impl Traced {
    /// Loads and attaches the programs; nobody has a stand yet. With an `owner` only threads of that user can have one.
    /// What others run on these CPUs is counted.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot run them.
    pub fn new(follow_children: bool, owner: Option<u32>, cpus: &[u32]) -> Result<Traced, WatchError> {
        let snapshots = Some(Snapshots { children: follow_children });
        Traced::by(&Programs::of(Part::Snapshots, &Parts { snapshots, owner, ..Parts::default() })?, cpus)
    }

    /// Traces by programs that were loaded with snapshots, perhaps with other parts. They have one table: there can be one such tracer.
    ///
    /// # Errors
    /// As [`new`](Traced::new).
    pub fn by(programs: &Programs, cpus: &[u32]) -> Result<Traced, WatchError> {
        let programs = programs.clone();
        programs.count_others_on(cpus);
        let descriptor = |name: &str| {
            let fd = programs.map(name)?.as_fd().try_clone_to_owned();
            fd.map_err(|source| WatchError::System { what: "mapping the stands".into(), source })
        };
        let maps = [descriptor("snapshots")?, descriptor("snapshot_counts")?];
        freeze([maps[0].as_fd(), maps[1].as_fd()])?;
        let table = Arc::new(Mapped::map([maps[0].as_fd(), maps[1].as_fd()])?);
        let samples = Rc::new(RefCell::new(Vec::new()));
        let looks = programs.map("looks")?;
        let mut builder = RingBufferBuilder::new();
        let into = Rc::clone(&samples);
        builder.add(&looks, move |bytes| keep(&into, bytes)).map_err(|e| system("mapping samples", e))?;
        let ring = builder.build().map_err(|e| system("mapping samples", e))?;
        let traced = Traced { sampler: None, ring, samples, samplings: 0, table, maps, programs };
        traced.programs.attach(Part::Snapshots)?;
        laps::done(Lap::Attaching);
        Ok(traced)
    }

    /// Gives all threads of a process a stand; those it makes from now on get theirs at birth.
    ///
    /// # Errors
    /// When the kernel refuses the walk over its tasks.
    pub fn enrol(&self, pid: u32) -> Result<(), WatchError> {
        self.programs.enrol(Part::Snapshots, &[process_key(pid)], 0).map(drop)
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
            let program = self.programs.program("on_look")?;
            self.sampler = Some(Sampler::start(&program, period_ns, cpus.iter().copied())?);
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
        let Ok(map) = self.programs.map("others") else { return Vec::new() };
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
        [self.maps[0].as_fd(), self.maps[1].as_fd()]
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
