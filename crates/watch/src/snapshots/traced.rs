//! Thread snapshots that BPF writes and this process maps: exact, and read without a system call.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use arch::laps::{self, Part as Lap};
use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder, libbpf_sys};
use rustix::mm::{MapFlags as MmapFlags, ProtFlags};
use wire::layout::comm_text;
use wire::{Sample, ThreadSnapshot};

use super::{Other, Others, Table, ThreadSnapshots};
use crate::bpf::{
    PLACES, Part, Parts, Programs, Sampler, Snapshots, gathered, process_key, system, turn_without_rounds,
};
use crate::mapping::Mapping;
use crate::observer::WatchError;

/// The BPF programs that write the table of thread snapshots. Dropping this value detaches and frees them; the table keeps its last state.
pub struct Traced {
    // Field order is drop order: links and readers before the programs and maps they belong to.
    sampler: Option<Sampler>,
    ring: RingBuffer<'static>,
    samples: Rc<RefCell<Vec<Sample>>>,
    samplings: u32,
    table: Arc<Mapped>,
    /// The table's two maps: the snapshots, and the counts of threads.
    maps: [OwnedFd; 2],
    programs: Programs,
}

/// The mapped table. It can be read from any thread.
pub struct Mapped {
    snapshots: Mapping,
    /// The number of threads that have got a snapshot, and of threads that got none (`struct cox_snapshot_counts`).
    counts: Mapping,
}

/// Length of the mapping of the two thread counts (`Mapped::counts`), bytes: a page.
const COUNTS_BYTES: usize = 4096;
/// The action that an error message names if a table cannot be mapped.
const MAPPING: &str = "mapping the thread snapshots";

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
        let programs = Programs::of(Part::Snapshots, &Parts { snapshots, owner, ..Parts::default() })?;
        programs.count_others_on(cpus);
        let descriptor = |name: &str| {
            let fd = programs.map(name)?.as_fd().try_clone_to_owned();
            fd.map_err(|source| WatchError::system(MAPPING, source))
        };
        let maps = [descriptor("snapshots")?, descriptor("snapshot_counts")?];
        freeze(&maps)?;
        let table = Arc::new(Mapped::map(maps.each_ref().map(AsFd::as_fd))?);
        let looks = programs.map("looks")?;
        let mut builder = RingBufferBuilder::new();
        let samples = gathered(&mut builder, &looks).map_err(|e| system("mapping samples", e))?;
        let ring = builder.build().map_err(|e| system("mapping samples", e))?;
        let traced = Traced { sampler: None, ring, samples, samplings: 0, table, maps, programs };
        traced.programs.attach(Part::Snapshots)?;
        laps::done(Lap::Attaching);
        Ok(traced)
    }

    /// Returns the table's two maps. Another process can [map](Mapped::map) them, but not write to them.
    #[must_use]
    pub fn maps(&self) -> [BorrowedFd<'_>; 2] {
        self.maps.each_ref().map(AsFd::as_fd)
    }
}

impl ThreadSnapshots for Traced {
    fn enrol(&mut self, pid: u32) -> Result<(), WatchError> {
        self.programs.enrol(Part::Snapshots, &[process_key(pid)], 0).map(drop)
    }

    /// Starts sampling on `cpus`. Each call and each CPU has a slightly different period (the mean is `mean_ns`), so that samples do not fall into step
    /// with a periodic program, or with one another.
    fn sample_on(&mut self, cpus: &[u32], mean_ns: u64) -> Result<(), WatchError> {
        self.sampler = None;
        if !cpus.is_empty() {
            self.samplings = self.samplings.wrapping_add(1);
            let program = self.programs.program("on_look")?;
            self.sampler = Some(Sampler::start(&program, mean_ns, cpus, turn_without_rounds(self.samplings))?);
        }
        Ok(())
    }

    fn take_samples(&mut self) -> Result<Vec<Sample>, WatchError> {
        self.ring.consume().map_err(|e| system("reading samples", e))?;
        Ok(self.samples.take())
    }

    fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.table) as Arc<dyn Table>
    }

    /// Returns the CPU time of other programs, as BPF counted it: a thread's time on a CPU is added when the thread leaves the CPU.
    fn others(&self) -> Others {
        let Ok(map) = self.programs.map("others") else { return Others::new(Vec::new(), false) };
        let other = |name: Vec<u8>| {
            let ran_ns = map.lookup(&name, MapFlags::ANY).ok()??;
            Some(Other { comm: comm_text(&name), ran_ns: u64::from_ne_bytes(ran_ns.try_into().ok()?) })
        };
        Others::new(map.keys().filter_map(other).collect(), false)
    }
}

impl Mapped {
    /// Maps a table that BPF programs write.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn map([snapshots, counts]: [BorrowedFd<'_>; 2]) -> Result<Mapped, WatchError> {
        let map = |fd, bytes| {
            let mapped = Mapping::new(fd, bytes, ProtFlags::READ, MmapFlags::SHARED);
            mapped.map_err(|source| WatchError::system(MAPPING, source))
        };
        Ok(Mapped {
            snapshots: map(snapshots, PLACES * size_of::<ThreadSnapshot>())?,
            counts: map(counts, COUNTS_BYTES)?,
        })
    }
}

impl Table for Mapped {
    fn given(&self) -> usize {
        // SAFETY: `given` is the first word of the counts, in a mapping that lives as long as self; BPF increments it.
        let given = unsafe { AtomicU32::from_ptr(self.counts.at(0)) };
        (given.load(Ordering::Acquire) as usize).min(PLACES)
    }

    fn without_place(&self) -> u32 {
        // SAFETY: the address is that of the second word of the counts, in a mapping that lives as long as self.
        unsafe { self.counts.at::<u32>(size_of::<u32>()).read_volatile() }
    }

    fn read(&self, number: usize) -> Option<ThreadSnapshot> {
        if number >= PLACES {
            return None;
        }
        let snapshot: *mut ThreadSnapshot = self.snapshots.at(number * size_of::<ThreadSnapshot>());
        // SAFETY: `turn` is the first word of a snapshot, aligned, in a mapping that lives as long as self; BPF writes it while it is read here.
        let turn = unsafe { AtomicU32::from_ptr(snapshot.cast()) };
        // The copy is repeated if the switch handler was writing the snapshot meanwhile. A write takes about ten instructions. If the handler's
        // virtual CPU is preempted in the middle, this function gives up, because using an older snapshot is better than waiting.
        for _ in 0..100 {
            let before = turn.load(Ordering::Acquire);
            // SAFETY: `snapshot` points into the mapping, which lives as long as self. A copy that BPF changed meanwhile is discarded below.
            let copy = unsafe { snapshot.read_volatile() };
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
fn freeze(maps: &[OwnedFd]) -> Result<(), WatchError> {
    for map in maps {
        // SAFETY: `map` is an open descriptor, and the call accesses no memory of this process.
        if unsafe { libbpf_sys::bpf_map_freeze(map.as_raw_fd()) } != 0 {
            return Err(WatchError::system(
                "freezing the maps of the thread snapshots",
                std::io::Error::last_os_error(),
            ));
        }
    }
    Ok(())
}
