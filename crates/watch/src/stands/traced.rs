//! Thread snapshots that BPF writes and this process maps: exact, and read without a system call.

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

/// The programs that write the table. Dropping this value detaches and frees them; the table keeps its last state.
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

/// The mapped table. It can be read from any thread.
pub struct Mapped {
    stands: NonNull<Stand>,
    /// The number of snapshots given out, and the number of threads that got none (`struct cox_stand_counts`).
    counts: NonNull<u32>,
}

/// Length of the mapping of the counts, bytes: a page.
const COUNTS_BYTES: usize = 4096;

// SAFETY: the mapping is read-only for this process, and all of its words are read as shared memory.
unsafe impl Send for Mapped {}
// SAFETY: the mapping is read-only for this process, and all of its words are read as shared memory.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and length, and no reference into it is ever made. Nothing could be done if the kernel
        // refused, which it does not.
        let _ = unsafe { munmap(self.stands.as_ptr().cast(), PLACES * size_of::<Stand>()) };
        // SAFETY: the mapping was made with this address and length, and no reference into it is ever made.
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
    /// Loads and attaches the programs; the table is empty. With an `owner`, only threads of that user get snapshots. The CPU time of other
    /// programs on `cpus` is counted.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason if this kernel or user cannot run the programs.
    pub fn new(follow_children: bool, owner: Option<u32>, cpus: &[u32]) -> Result<Traced, WatchError> {
        let snapshots = Some(Snapshots { children: follow_children });
        Traced::by(&Programs::of(Part::Snapshots, &Parts { snapshots, owner, ..Parts::default() })?, cpus)
    }

    /// Uses programs that were loaded with snapshots, possibly together with other parts. They have one table, so only one `Traced` can use them.
    ///
    /// # Errors
    /// As [`new`](Traced::new).
    pub fn by(programs: &Programs, cpus: &[u32]) -> Result<Traced, WatchError> {
        let programs = programs.clone();
        programs.count_others_on(cpus);
        let descriptor = |name: &str| {
            let fd = programs.map(name)?.as_fd().try_clone_to_owned();
            fd.map_err(|source| WatchError::System { what: "mapping the thread snapshots".into(), source })
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

    /// Starts to keep a snapshot for each thread of a process. Threads that the process creates later get a snapshot when they are created.
    ///
    /// # Errors
    /// If the kernel refuses the walk over the process's tasks.
    pub fn enrol(&self, pid: u32) -> Result<(), WatchError> {
        self.programs.enrol(Part::Snapshots, &[process_key(pid)], 0).map(drop)
    }

    /// Starts sampling on these CPUs, with a mean period of `mean_ns`. With no CPUs, stops sampling. Each start uses a slightly different period.
    ///
    /// # Errors
    /// If the kernel refuses the perf events.
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

    /// Returns the samples of running tracked threads since the last call.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        self.ring.consume().map_err(|e| system("reading samples", e))?;
        Ok(self.samples.take())
    }

    /// Returns the CPU time of other programs on the watched CPUs, up to each program's last switch-out.
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

    /// Returns the table, which any thread can read.
    #[must_use]
    pub fn table(&self) -> Arc<Mapped> {
        Arc::clone(&self.table)
    }

    /// Returns the table's two maps. Another process can [map](Mapped::map) them, but not write to them.
    #[must_use]
    pub fn maps(&self) -> [BorrowedFd<'_>; 2] {
        [self.maps[0].as_fd(), self.maps[1].as_fd()]
    }
}

impl Mapped {
    /// Maps a table that BPF programs write.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map([stands, counts]: [BorrowedFd<'_>; 2]) -> Result<Mapped, WatchError> {
        let map = |fd: BorrowedFd<'_>, bytes: usize| {
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let place = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MmapFlags::SHARED, fd, 0) };
            let place = place.map_err(|source| WatchError::System {
                what: "mapping the thread snapshots".into(),
                source: source.into(),
            })?;
            NonNull::new(place).ok_or_else(|| unavailable("the thread snapshots cannot be mapped".into()))
        };
        let stands = map(stands, PLACES * size_of::<Stand>())?.cast();
        Ok(Mapped { stands, counts: map(counts, COUNTS_BYTES)?.cast() })
    }

    /// Returns how many snapshots have been given out. They are numbered from 0, and keep their numbers.
    #[must_use]
    pub fn given(&self) -> usize {
        // SAFETY: the first word of the counts, in a mapping that lives as long as self; BPF increments it.
        let given = unsafe { AtomicU32::from_ptr(self.counts.as_ptr()) };
        (given.load(Ordering::Acquire) as usize).min(PLACES)
    }

    /// Returns the number of threads that got no snapshot because the table was full.
    #[must_use]
    pub fn without_place(&self) -> u32 {
        // SAFETY: the second word, as in `given`.
        unsafe { self.counts.add(1).read_volatile() }
    }

    /// Returns the snapshot with a number below [`given`](Mapped::given); `None` while its thread is being enrolled.
    #[must_use]
    pub fn read(&self, number: usize) -> Option<Stand> {
        if number >= PLACES {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as self.
        let stand = unsafe { self.stands.add(number) };
        // SAFETY: `turn` is the first word of a snapshot, aligned; BPF writes it while it is read here.
        let turn = unsafe { AtomicU32::from_ptr(stand.as_ptr().cast()) };
        // The writer is a switch handler of about ten instructions. If its virtual CPU is preempted in the middle, the caller's previous snapshot
        // is better than waiting.
        for _ in 0..100 {
            let before = turn.load(Ordering::Acquire);
            // SAFETY: within the mapping, which lives as long as self; a torn copy is discarded.
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

/// Freezes the maps: from here on only BPF programs can write them, and no process can map them for writing. They can then be given to a process
/// without privilege. (A map that is read-only from the start, BPF_F_RDONLY, cannot be mapped at all.)
fn freeze(maps: [BorrowedFd<'_>; 2]) -> Result<(), WatchError> {
    for map in maps {
        // SAFETY: a system call on an open descriptor.
        if unsafe { libbpf_sys::bpf_map_freeze(map.as_raw_fd()) } != 0 {
            return Err(WatchError::System {
                what: "freezing the maps of the thread snapshots".into(),
                source: std::io::Error::last_os_error(),
            });
        }
    }
    Ok(())
}
