//! Loads the BPF object with the parts that a session needs (clocks, snapshots, overlap, noise: `prog/threads.bpf.h`), writes its settings, and reads its
//! state.
//!
//! A session with several parts loads one object, so that a context switch calls one program for all of them. Each part has a handle of its own:
//! `BpfObserver`, `Traced`, `Umt` and `Interruptions`. A tracepoint is attached as long as a handle needs it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arch::laps::{self, Part as Lap};
use libbpf_rs::{
    AsRawLibbpf, Iter, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramMut, libbpf_sys,
};
use wire::umt::PROCESSES;
use wire::{Cpu, Gap, MASK_WORDS, MAX_CPUS, TraceEvent, TrackedThreads, What};

use super::excerpt::{Excerpt, Read};
use super::libbpf::{Libbpf, kernel_casts, own_namespace, refused, system, unavailable};
use super::parts::{
    INTERRUPTIONS, MAPS, Noise, PLACES, Part, Parts, Settings, TRACEPOINTS, interruption, needed_by, tracepoint,
};
use super::tracepoints;
use crate::observer::WatchError;

/// The generated skeleton. Only the types of its variables are used, because the skeleton itself requires all maps to be created.
#[allow(
    missing_docs,
    dead_code,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sense.skel.rs"));
}
use skeleton::types;

/// The members of the kernel's structs that the programs read.
pub(super) const READ: &Read = include!(concat!(env!("OUT_DIR"), "/sense.read.rs"));

/// Number of 64-bit words in the set of the pack's CPUs (the CPUs that the packed threads share). `others.bpf.h` has the same number.
const PACK_WORDS: usize = 16;

#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sense.o")));

/// A handle on the loaded BPF programs. The kernel frees the programs when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Programs(pub(super) Arc<Loaded>);

pub(crate) struct Loaded {
    // Field order is drop order: links before the programs they belong to.
    attached: Mutex<Vec<Attached>>,
    /// Lock: held during an enrolment. An enrolment stores keys of tasks in the BPF map `enrol`. Then a BPF iterator walks over all tasks, and enrols
    /// those whose keys are in the map. All enrolments use this one map, so they must not overlap.
    walking: Mutex<()>,
    /// The programs' variables, mapped as long as the object lives.
    state: NonNull<types::bss>,
    object: Object,
    parts: Parts,
    /// The programs of the noise part that are loaded: the kernel has their tracepoints, and the user has not left them out.
    interruptions: Vec<&'static str>,
}

// SAFETY: `state` is shared memory that belongs to no thread. It is accessed only by volatile and atomic operations.
unsafe impl Send for Loaded {}
// SAFETY: `state` is accessed only by volatile and atomic operations. What `object` points to changes only while it is being loaded; later
// calls pass its descriptors to the kernel.
unsafe impl Sync for Loaded {}

/// An attached tracepoint, and the parts (clocks, snapshots, overlap, noise) that use it now.
struct Attached {
    program: &'static str,
    users: Vec<Part>,
    _link: Link,
}

impl Programs {
    /// Loads the BPF object with these parts (clocks, snapshots, overlap, noise). No tracepoint is attached yet.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason if this kernel or user cannot run them.
    pub(super) fn load(parts: &Parts) -> Result<Programs, WatchError> {
        if let Some(settings) = parts.clocks.as_ref().filter(|settings| settings.cpu_limit as usize > MAX_CPUS) {
            return Err(unavailable(format!(
                "this machine has CPU numbers up to {}, but cox supports at most {MAX_CPUS} CPUs",
                settings.cpu_limit - 1
            )));
        }
        laps::done(Lap::Preparing);
        let quiet = Libbpf::quiet();
        let mut builder = builder().map_err(|e| refused(&e, &quiet))?;
        let excerpt = Excerpt::of_this_kernel(READ);
        laps::done(Lap::Types);
        if let Some(excerpt) = &excerpt {
            excerpt.relocates(&mut builder);
        }
        let mut open = builder.open_memory(object()).map_err(|e| refused(&e, &quiet))?;
        configure(&mut open, parts, excerpt.as_ref())?;
        let interruptions = parts.noise.as_ref().map_or_else(Vec::new, present);
        leave_out(&mut open, parts, &interruptions).map_err(|e| refused(&e, &quiet))?;
        laps::done(Lap::Opening);
        let object = open.load().map_err(|e| refused(&e, &quiet))?;
        laps::done(Lap::Loading);
        let state = variables(&object).ok_or_else(|| unavailable("the BPF object has no variables".into()))?;
        let (attached, walking) = (Mutex::new(Vec::new()), Mutex::new(()));
        Ok(Programs(Arc::new(Loaded { attached, walking, state, object, parts: parts.clone(), interruptions })))
    }

    /// Returns the settings of the clocks part (accounts of thread time). Fails if the BPF object was loaded without this part.
    pub(super) fn settings(&self) -> Result<&Settings, WatchError> {
        self.0.parts.clocks.as_ref().ok_or_else(|| {
            unavailable("the BPF object was loaded without the programs that record thread times".into())
        })
    }

    /// Returns whether only one user's threads can be tracked.
    pub(crate) fn is_owned(&self) -> bool {
        self.0.parts.owner.is_some()
    }

    /// Attaches the tracepoints that a part (clocks, snapshots, overlap or noise) needs and that no other part has attached.
    pub(crate) fn attach(&self, part: Part) -> Result<(), WatchError> {
        if part == Part::Clocks {
            // Walks over all tasks without enrolling one: the walk tells the BPF programs the depth of cox's PID namespace before their first event.
            self.enrol(part, &[], 0)?;
        }
        let mut attached = lock(&self.0.attached);
        for program in self.tracepoints_of(part) {
            match attached.iter_mut().find(|attached| attached.program == program) {
                Some(attached) => attached.users.push(part),
                None => {
                    let _link = attach(&self.program(program)?)?;
                    attached.push(Attached { program, users: vec![part], _link });
                }
            }
        }
        Ok(())
    }

    /// Detaches the tracepoints that only this part (clocks, snapshots, overlap or noise) needs. Tracepoints that other parts need stay attached, and their
    /// programs still contain this part's code. The caller must therefore mark the part as ended before the call.
    pub(crate) fn detach(&self, part: Part) {
        lock(&self.0.attached).retain_mut(|attached| {
            attached.users.retain(|user| *user != part);
            !attached.users.is_empty()
        });
    }

    pub(crate) fn program(&self, name: &str) -> Result<ProgramMut<'_>, WatchError> {
        let missing = || unavailable(format!("the BPF object has no program {name}"));
        self.0.object.progs_mut().find(|program| program.name() == name).ok_or_else(missing)
    }

    pub(crate) fn map(&self, name: &str) -> Result<Map<'_>, WatchError> {
        let missing = || unavailable(format!("the BPF object was loaded without its map {name}"));
        self.0.object.maps().find(|map| map.name() == name).ok_or_else(missing)
    }

    /// Makes a part (clocks, snapshots, overlap or noise) track all tasks that `keys` name: a BPF iterator walks over all tasks and enrols these. Returns
    /// how many times the walks found a task that may be tracked. `more` is stored with these tasks: for clocks, flags of the new clock; for overlap,
    /// the number of the process.
    pub(crate) fn enrol(&self, part: Part, keys: &[u64], more: u32) -> Result<u32, WatchError> {
        let _alone = lock(&self.0.walking);
        let map = self.map("enrol")?;
        let value = [(part as u32).to_ne_bytes(), more.to_ne_bytes()].concat();
        self.found().store(0, Ordering::Relaxed);
        let mut named = keys.iter().map(|key| map.update(&key.to_ne_bytes(), &value, MapFlags::ANY));
        let named = named.try_for_each(|named| named).map_err(|e| system("enrolling", e));
        // The first walk may miss a task that is created meanwhile, if the creator is not tracked yet and the walk has already passed the position of
        // the new task. The second walk finds this task.
        let times = if keys.is_empty() { 1 } else { 2 };
        let walked = named.and_then(|()| self.walk("enrol_tasks", times).map(drop));
        // The keys are deleted even if the walk over all tasks failed. Otherwise, later walks would enrol these tasks, or later tasks with the same
        // ids.
        let deleted = keys.iter().map(|key| map.delete(&key.to_ne_bytes())).fold(Ok(()), Result::and);
        walked.and(deleted.map_err(|e| system("enrolling", e)))?;
        Ok(self.found().load(Ordering::Relaxed))
    }

    /// Walks over all tasks `times` times with the BPF iterator `program`. Returns the bytes that the iterator has written.
    pub(super) fn walk(&self, program: &str, times: usize) -> Result<Vec<u8>, WatchError> {
        let link = attach(&self.program(program)?)?;
        let mut written = Vec::new();
        for _ in 0..times {
            let mut iter = Iter::new(&link).map_err(|e| system("iterating over all tasks", e))?;
            std::io::Read::read_to_end(&mut iter, &mut written)
                .map_err(|source| WatchError::system("iterating over all tasks", source))?;
        }
        Ok(written)
    }

    /// Returns the counter of the requested tasks that the present enrolment has found, in its walks over all tasks.
    fn found(&self) -> &AtomicU32 {
        // SAFETY: `found` is an aligned word in a mapping that lives as long as self; the programs write it while a walk runs.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0.state.as_ptr()).found) }
    }

    /// Returns a word that the BPF programs read: all process numbers that overlap uses are below its value. While it is 0, no thread is counted.
    pub(crate) fn processes(&self) -> &AtomicU32 {
        // SAFETY: `processes` is an aligned word in a mapping that lives as long as self; the programs only read it.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0.state.as_ptr()).processes) }
    }

    /// Returns the flag that is set when process number `process` has closed its connection; its standby threads are then no longer woken. Returns
    /// `None` if there is no such number.
    pub(crate) fn over(&self, process: u32) -> Option<&AtomicU8> {
        // SAFETY: `over` is an array of atomics in a mapping that lives as long as self; the caller gets a reference to one element.
        let over = unsafe { &(*(&raw const (*self.0.state.as_ptr()).over).cast::<[AtomicU8; PROCESSES]>()) };
        over.get(process as usize)
    }

    /// Returns the flag by which the packer tells the programs not to change the snapshots any longer.
    pub(crate) fn snapshots_over(&self) -> &AtomicBool {
        // SAFETY: `snapshots_over` is a byte in a mapping that lives as long as self; its only values are 0 and 1.
        unsafe { AtomicBool::from_ptr((&raw mut (*self.0.state.as_ptr()).snapshots_over).cast::<bool>()) }
    }

    /// Sets the CPUs on which the CPU time of other programs is counted.
    pub(crate) fn count_others_on(&self, cpus: &[u32]) {
        // SAFETY: `pack_cpus` is an array of aligned words in a mapping that lives as long as self; the programs only read it.
        let words = unsafe { &*(&raw const (*self.0.state.as_ptr()).pack_cpus).cast::<[AtomicU64; PACK_WORDS]>() };
        for cpu in cpus {
            if let Some(word) = words.get(*cpu as usize / 64) {
                word.fetch_or(1 << (cpu % 64), Ordering::Relaxed);
            }
        }
    }

    /// Returns a copy of `struct cox_tracked`, the state that is kept once for all tracked threads. The copy is made word by word, while the BPF
    /// programs change the original.
    pub(super) fn tracked(&self) -> TrackedThreads {
        // SAFETY: `tracked` is a `struct cox_tracked`, whose layout is asserted to be that of `TrackedThreads`; the mapping lives as long as self.
        unsafe { (&raw const (*self.0.state.as_ptr()).tracked).cast::<TrackedThreads>().read_volatile() }
    }

    /// Returns copies of the accounts of this machine's CPUs, by number.
    pub(super) fn cpus(&self) -> Vec<Cpu> {
        // SAFETY: `cpus` is an array of MAX_CPUS `struct cox_cpu`, whose layout is asserted to be that of `Cpu`; the index is below MAX_CPUS.
        let read = |n| unsafe { (&raw const (*self.0.state.as_ptr()).cpus).cast::<Cpu>().add(n).read_volatile() };
        self.numbers().map(read).collect()
    }

    /// Returns an event for each CPU with lost trace events that the CPU has not reported yet. A CPU reports its loss at its next event.
    pub(super) fn gaps(&self) -> Vec<TraceEvent> {
        // SAFETY: `gaps` is an array of MAX_CPUS `struct cox_gap`, whose layout is asserted to be that of `Gap`; the index is below MAX_CPUS.
        let read = |n| unsafe { (&raw const (*self.0.state.as_ptr()).gaps).cast::<Gap>().add(n).read_volatile() };
        let gaps = self.numbers().map(|cpu| (cpu as u16, read(cpu)));
        let lost = |(cpu, gap): (u16, Gap)| TraceEvent::new(gap.since_ns, cpu, What::Lost { count: gap.count as u32 });
        gaps.filter(|(_, gap)| gap.count > 0).map(lost).collect()
    }

    /// Returns the numbers that CPUs of this machine can have.
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.0.parts.clocks.as_ref().map_or(0, |settings| (settings.cpu_limit as usize).min(MAX_CPUS))
    }

    /// Returns how many events the kernel did not deliver to the BPF programs that keep clocks (accounts of time), because a BPF program was already
    /// running on that CPU.
    pub(super) fn missed_events(&self) -> u64 {
        let programs = self.tracepoints_of(Part::Clocks).filter_map(|name| self.program(name).ok());
        programs.map(|program| recursion_misses(&program)).sum()
    }

    /// Returns the names of the BPF programs that run at tracepoints and that a part (clocks, snapshots, overlap or noise) needs.
    fn tracepoints_of(&self, part: Part) -> impl Iterator<Item = &'static str> {
        let is_its = move |parts: &[Part], name: &str| parts.contains(&part) && self.0.parts.needs(OsStr::new(name));
        let interruptions = if part == Part::Noise { &self.0.interruptions[..] } else { &[] };
        let others = TRACEPOINTS.into_iter().filter(move |(name, parts)| is_its(parts, name)).map(|(name, _)| name);
        // The switches come last: from the first switch of a followed thread on, its events are complete.
        interruptions.iter().copied().chain(others)
    }

    /// Returns the tracepoints of the noise part that are not attached: the kernel does not have them, or the user has left them out.
    pub(crate) fn without(&self) -> Vec<&'static str> {
        let absent = INTERRUPTIONS.into_iter().filter(|name| !self.0.interruptions.contains(name));
        absent.map(tracepoint).collect()
    }

    /// Returns the name of the kernel's function that contains `address`. `None` if there is none.
    pub(crate) fn function(&self, address: u64) -> Option<String> {
        let program = self.program("name_function").ok()?;
        // SAFETY: `noise_address` is an aligned word in a mapping that lives as long as self; only `name_function` reads it.
        unsafe { (&raw mut (*self.0.state.as_ptr()).noise_address).write_volatile(address) };
        program.test_run(libbpf_rs::ProgramInput::default()).ok()?;
        // SAFETY: `noise_name` is an array of bytes in the same mapping; only `name_function` writes it, which has ended.
        let name = unsafe { (&raw const (*self.0.state.as_ptr()).noise_name).read_volatile() };
        let text: Vec<u8> = name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
        function_in(std::str::from_utf8(&text).ok()?)
    }

    /// Returns the flag that says that nobody reads noise events any longer.
    pub(crate) fn interruptions_over(&self) -> &AtomicBool {
        // SAFETY: `noise_over` is a byte in a mapping that lives as long as self; its only values are 0 and 1.
        unsafe { AtomicBool::from_ptr((&raw mut (*self.0.state.as_ptr()).noise_over).cast::<bool>()) }
    }

    /// Returns the number of noise events that did not fit into the ring.
    pub(crate) fn lost_interruptions(&self) -> u64 {
        // SAFETY: `noise_lost` is an aligned word in a mapping that lives as long as self.
        let lost = unsafe { AtomicU64::from_ptr(&raw mut (*self.0.state.as_ptr()).noise_lost) };
        lost.load(Ordering::Relaxed)
    }
}

/// Returns the programs of the noise part that can be loaded: those whose tracepoints the kernel has and the user has not left out.
fn present(noise: &Noise) -> Vec<&'static str> {
    let existing = tracepoints::existing(INTERRUPTIONS.into_iter().map(tracepoint));
    let is_left_out = |name: &str| noise.without.iter().any(|out| out == name);
    INTERRUPTIONS
        .into_iter()
        .filter(|name| existing.contains(tracepoint(name)) && !is_left_out(tracepoint(name)))
        .collect()
}

/// Returns the bytes of the BPF object that the build script has compiled.
pub(super) fn object() -> &'static [u8] {
    &OBJECT.0
}

/// Makes a builder for the BPF object. The object gets a name, because libbpf begins the names of the maps that hold the object's variables with it
/// (`sense.bss`).
fn builder() -> libbpf_rs::Result<ObjectBuilder> {
    let mut builder = ObjectBuilder::default();
    builder.name("sense")?;
    Ok(builder)
}

/// Sets the variables that are constant after loading.
fn configure(open: &mut OpenObject, parts: &Parts, excerpt: Option<&Excerpt>) -> Result<(), WatchError> {
    let none = || unavailable("the BPF object has no settings".into());
    let namespace = own_namespace()?;
    let mut map = open.maps_mut().find(|map| map.name() == "sense.rodata").ok_or_else(none)?;
    let bytes = map.initial_value_mut().filter(|bytes| is_whole::<types::rodata>(bytes.len())).ok_or_else(none)?;
    // SAFETY: `bytes` is the section of constants, which begins at a page boundary. The skeleton's type describes this section, and the object's
    // initial values are valid for the type.
    let config = unsafe { &mut *bytes.as_mut_ptr().cast::<types::rodata>() };
    config.has_clocks = parts.clocks.is_some();
    config.has_snapshots = parts.snapshots.is_some();
    config.has_overlap = parts.overlap;
    config.has_noise = parts.noise.is_some();
    config.namespaced = namespace.is_some();
    config.own_namespace = namespace.unwrap_or(0);
    config.owned = parts.owner.is_some();
    config.owner = parts.owner.unwrap_or(0);
    let casts = parts.clocks.as_ref().map_or_else(kernel_casts, |settings| settings.casts);
    if let Some(excerpt) = excerpt.filter(|_| casts) {
        config.casts = true;
        config.type_of_task = excerpt.task;
        config.type_of_registers = excerpt.registers;
    }
    if let Some(settings) = &parts.clocks {
        config.clocks_follow_children = settings.children;
        config.nr_cpus = settings.cpus_in_full_mask;
        config.mask_words = settings.cpu_limit.div_ceil(64).min(MASK_WORDS as u32);
        config.exited_wake_bytes = settings.exited_bytes / 4;
        config.traces = settings.trace_bytes.is_some();
        config.latency_cpus = settings.cpu_limit;
        config.latency_shared = settings.latencies.shared(settings.cpu_limit);
        config.latency_threads = settings.latencies.places();
        config.trace_wake_bytes = trace_bytes(settings) / 4;
        config.nr_sched_yield = arch::SYS_SCHED_YIELD;
        config.nr_io_uring_enter = arch::SYS_IO_URING_ENTER;
        for (nr, cause) in config.cause_of_syscall.iter_mut().enumerate() {
            *cause = match arch::blocked_in(nr as u32) {
                arch::BlockedIn::Cause(cause) => cause as u8,
                arch::BlockedIn::Descriptor => wire::layout::CAUSE_BY_FD,
            };
        }
    }
    if let Some(noise) = &parts.noise {
        config.noise_follows_children = noise.children;
        config.noise_mask_words = MASK_WORDS as u32;
    }
    if let Some(snapshots) = &parts.snapshots {
        config.snapshots_follow_children = snapshots.children;
        config.places = PLACES as u32;
        config.own_process = std::process::id();
    }
    Ok(())
}

/// Returns the size of the ring for trace events: one page if it is not used.
fn trace_bytes(settings: &Settings) -> u32 {
    settings.trace_bytes.unwrap_or(4096)
}

/// Leaves out the BPF programs and maps of the parts (clocks, snapshots, overlap, noise) that are not loaded, and sets the sizes of the ring buffers.
fn leave_out(open: &mut OpenObject, parts: &Parts, interruptions: &[&str]) -> libbpf_rs::Result<()> {
    for mut program in open.progs_mut() {
        let is_needed = match interruption(program.name()) {
            Some(name) => interruptions.contains(&name),
            None => parts.needs(program.name()),
        };
        program.set_autoload(is_needed);
    }
    for mut map in open.maps_mut() {
        if !parts.any_of(needed_by(&MAPS, map.name())) {
            map.set_autocreate(false)?;
        } else if let Some(settings) = &parts.clocks {
            match map.name().to_str() {
                Some("exited") => map.set_max_entries(settings.exited_bytes)?,
                Some("trace_events") => map.set_max_entries(trace_bytes(settings))?,
                Some("latencies") => {
                    let scope = settings.latencies;
                    map.set_max_entries(scope.shared(settings.cpu_limit) + scope.places())?;
                }
                _ => {}
            }
        } else if map.name() == "enrol" && parts.noise.is_none() {
            // Without clocks and noise, one entry is enough, because the other parts enrol one process at a time. A small map is created faster: the kernel
            // clears 16 bytes for each entry.
            map.set_max_entries(1)?;
        }
    }
    Ok(())
}

/// Returns whether a section of `bytes` bytes contains a whole `T`. The padding after the section's last variable is mapped, but is not part of
/// `bytes`.
fn is_whole<T>(bytes: usize) -> bool {
    bytes.next_multiple_of(align_of::<T>()) >= size_of::<T>()
}

/// Returns where the variables of a loaded object are mapped.
fn variables(object: &Object) -> Option<NonNull<types::bss>> {
    let map = object.maps().find(|map| map.name() == "sense.bss")?;
    let mut bytes: libbpf_sys::size_t = 0;
    // SAFETY: `map` belongs to a loaded object; libbpf returns the address of the map's mapping, which exists as long as the object.
    let state = unsafe { libbpf_sys::bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &raw mut bytes) };
    NonNull::new(state.cast::<types::bss>()).filter(|_| is_whole::<types::bss>(bytes as usize))
}

fn attach(program: &ProgramMut<'_>) -> Result<Link, WatchError> {
    let quiet = Libbpf::quiet();
    program.attach().map_err(|e| refused(&e, &quiet))
}

/// Returns the function in the text that the kernel makes of an address: `NAME`, `NAME [MODULE]`, or the address itself if it knows no function there.
fn function_in(text: &str) -> Option<String> {
    let name = text.split(' ').next()?;
    (!name.is_empty() && !name.starts_with("0x")).then(|| name.to_owned())
}

fn recursion_misses(program: &ProgramMut<'_>) -> u64 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `len` bytes into `info`, which is plain data.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_fd().as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    };
    if failed != 0 { 0 } else { info.recursion_misses }
}

/// Locks a mutex, even after a panic of another thread: each locked value is changed as a whole, so it is always consistent.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
