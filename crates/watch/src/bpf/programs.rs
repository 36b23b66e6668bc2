//! The BPF object, with the parts that are wanted (`prog/threads.bpf.h`): settings in, state out.
//!
//! A session with several parts loads one object, so that a switch under all of them calls one program. Each part has a handle of its
//! own: `BpfObserver`, `Traced` and `Umt`. A tracepoint is attached while a handle needs it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arch::laps::{self, Part as Lap};
use libbpf_rs::{
    AsRawLibbpf, Iter, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramMut, libbpf_sys,
};
use wire::umt::PROCESSES;
use wire::{Cpu, Crew, Gap, MASK_WORDS, MAX_CPUS, Moment, What};

use super::excerpt::{Excerpt, Read};
use super::libbpf::{Libbpf, kernel_casts, own_namespace, refused, system, unavailable};
use super::parts::{MAPS, PLACES, Part, Parts, Settings, TRACEPOINTS, needed_by};
use crate::observer::WatchError;

/// Only the types of the variables are used: the skeleton itself wants all maps to be made.
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

/// Words of the set of a pack's CPUs (`others.bpf.h`).
const PACK_WORDS: usize = 16;

#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sense.o")));

/// The programs in the kernel, with some parts. The kernel frees them when the last handle is dropped.
#[derive(Clone)]
pub struct Programs(Arc<Loaded>);

/// The same programs, while somebody has a handle.
pub(super) struct Shared(Weak<Loaded>);

impl Shared {
    pub(super) fn programs(&self) -> Option<Programs> {
        self.0.upgrade().map(Programs)
    }
}

struct Loaded {
    // Field order is drop order: links before the programs they belong to.
    attached: Mutex<Vec<Attached>>,
    /// One enrolment at a time: the walk takes whom the map names.
    walking: Mutex<()>,
    /// The variables, mapped as long as the object lives.
    state: NonNull<types::bss>,
    object: Object,
    parts: Parts,
}

// SAFETY: `state` is shared memory, which belongs to no thread. It is read and written by volatile and atomic accesses only.
unsafe impl Send for Loaded {}
// SAFETY: as above. What lies behind `object` changes only while it is loaded; later calls hand its descriptors to the kernel.
unsafe impl Sync for Loaded {}

/// A tracepoint, and the parts that use it now.
struct Attached {
    program: &'static str,
    users: Vec<Part>,
    _link: Link,
}

impl Programs {
    /// Loads the programs with these parts; none is attached yet.
    ///
    /// # Errors
    /// `Unavailable` with the kernel's reason when this kernel or user cannot run them.
    pub fn load(parts: &Parts) -> Result<Programs, WatchError> {
        if let Some(settings) = parts.clocks.as_ref().filter(|settings| settings.cpu_limit as usize > MAX_CPUS) {
            return Err(unavailable(format!(
                "this machine has CPU numbers up to {}, the limit is {MAX_CPUS}",
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
        leave_out(&mut open, parts).map_err(|e| refused(&e, &quiet))?;
        laps::done(Lap::Opening);
        let object = open.load().map_err(|e| refused(&e, &quiet))?;
        laps::done(Lap::Loading);
        let state = variables(&object).ok_or_else(|| unavailable("the BPF object has no variables".into()))?;
        let (attached, walking) = (Mutex::new(Vec::new()), Mutex::new(()));
        Ok(Programs(Arc::new(Loaded { attached, walking, state, object, parts: parts.clone() })))
    }

    pub(super) fn shared(&self) -> Shared {
        Shared(Arc::downgrade(&self.0))
    }

    /// With which settings clocks are kept.
    pub(super) fn settings(&self) -> Result<&Settings, WatchError> {
        self.0.parts.clocks.as_ref().ok_or_else(|| unavailable("clocks were not asked for".into()))
    }

    /// Whether only one user's threads can be members.
    pub(crate) fn is_owned(&self) -> bool {
        self.0.parts.owner.is_some()
    }

    /// Attaches what a part needs and no other part has attached.
    pub(crate) fn attach(&self, part: Part) -> Result<(), WatchError> {
        if part == Part::Clocks {
            // A walk that enrols nobody: the programs learn how deep cox's PID namespace is before they see the first event.
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

    /// Detaches what only this part needs. Programs that others need go on with it; then the part must have said that it is over.
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

    /// Makes all tasks that `keys` name members of a part, and returns how often one was found that may be. `more`: what the part wants to
    /// know of them.
    pub(crate) fn enrol(&self, part: Part, keys: &[u64], more: u32) -> Result<u32, WatchError> {
        let _alone = lock(&self.0.walking);
        let map = self.map("enrol")?;
        let value = [(part as u32).to_ne_bytes(), more.to_ne_bytes()].concat();
        self.found().store(0, Ordering::Relaxed);
        let mut named = keys.iter().map(|key| map.update(&key.to_ne_bytes(), &value, MapFlags::ANY));
        let named = named.try_for_each(|named| named).map_err(|e| system("enrolling", e));
        // Twice: a task born behind the first walk of a creator that it had not reached yet.
        let times = if keys.is_empty() { 1 } else { 2 };
        let walked = named.and_then(|()| self.walk("enrol_tasks", times).map(drop));
        // Also after a walk that failed: later walks would take them in, or others with their numbers.
        let deleted = keys.iter().map(|key| map.delete(&key.to_ne_bytes())).fold(Ok(()), Result::and);
        walked.and(deleted.map_err(|e| system("enrolling", e)))?;
        Ok(self.found().load(Ordering::Relaxed))
    }

    /// Runs one of the walks over all tasks so many times, and returns what it has written.
    pub(super) fn walk(&self, program: &str, times: usize) -> Result<Vec<u8>, WatchError> {
        let link = attach(&self.program(program)?)?;
        let mut written = Vec::new();
        for _ in 0..times {
            let mut iter = Iter::new(&link).map_err(|e| system("walking the tasks", e))?;
            std::io::Read::read_to_end(&mut iter, &mut written)
                .map_err(|source| WatchError::System { what: "walking the tasks".into(), source })?;
        }
        Ok(written)
    }

    /// What the last walk has found.
    fn found(&self) -> &AtomicU32 {
        // SAFETY: an aligned word in a mapping that lives as long as self; the programs write it while a walk runs.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0.state.as_ptr()).found) }
    }

    /// Processes with a number below this have asked for overlap; 0: nobody is counted.
    pub(crate) fn processes(&self) -> &AtomicU32 {
        // SAFETY: as above; the programs only read it.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0.state.as_ptr()).processes) }
    }

    /// Whether the process with this number wants no doorbells any more; `None`: there are no such numbers.
    pub(crate) fn over(&self, process: u32) -> Option<&AtomicU8> {
        // SAFETY: as above; one is made only for an element of the array.
        let over = unsafe { &(*(&raw const (*self.0.state.as_ptr()).over).cast::<[AtomicU8; PROCESSES]>()) };
        over.get(process as usize)
    }

    /// Whether snapshots stay as they are.
    pub(crate) fn snapshots_over(&self) -> &AtomicBool {
        // SAFETY: as above; it holds no other values than 0 and 1.
        unsafe { AtomicBool::from_ptr((&raw mut (*self.0.state.as_ptr()).snapshots_over).cast::<bool>()) }
    }

    /// Says on which CPUs to count what other programs run.
    pub(crate) fn count_others_on(&self, cpus: &[u32]) {
        // SAFETY: as above; the programs only read it.
        let words = unsafe { &*(&raw const (*self.0.state.as_ptr()).pack_cpus).cast::<[AtomicU64; PACK_WORDS]>() };
        for cpu in cpus {
            if let Some(word) = words.get(*cpu as usize / 64) {
                word.fetch_or(1 << (cpu % 64), Ordering::Relaxed);
            }
        }
    }

    /// A copy of the crew's state. Words are read one by one while the kernel changes them.
    pub(super) fn crew(&self) -> Crew {
        // SAFETY: `crew` is a `struct cox_crew`, whose layout is asserted to be `Crew`'s; the mapping lives as long as self.
        unsafe { (&raw const (*self.0.state.as_ptr()).crew).cast::<Crew>().read_volatile() }
    }

    /// Copies of the accounts of this machine's CPUs, by number.
    pub(super) fn cpus(&self) -> Vec<Cpu> {
        // SAFETY: `cpus` is an array of MAX_CPUS `struct cox_cpu`, whose layout is asserted to be `Cpu`'s; the index is below.
        let read = |n| unsafe { (&raw const (*self.0.state.as_ptr()).cpus).cast::<Cpu>().add(n).read_volatile() };
        self.numbers().map(read).collect()
    }

    /// What of the trace found no room and no CPU could tell: nothing more has happened there.
    pub(super) fn gaps(&self) -> Vec<Moment> {
        // SAFETY: `gaps` is an array of MAX_CPUS `struct cox_gap`, whose layout is asserted to be `Gap`'s; the index is below.
        let read = |n| unsafe { (&raw const (*self.0.state.as_ptr()).gaps).cast::<Gap>().add(n).read_volatile() };
        let gaps = self.numbers().map(|cpu| (cpu as u16, read(cpu)));
        let lost = |(cpu, gap): (u16, Gap)| Moment::new(gap.since_ns, cpu, What::Lost { count: gap.count as u32 });
        gaps.filter(|(_, gap)| gap.count > 0).map(lost).collect()
    }

    /// The numbers that CPUs of this machine can have.
    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.0.parts.clocks.as_ref().map_or(0, |settings| (settings.cpu_limit as usize).min(MAX_CPUS))
    }

    /// Events that the kernel did not deliver to the clocks' programs because one was running on that CPU already.
    pub(super) fn missed_events(&self) -> u64 {
        let programs = self.tracepoints_of(Part::Clocks).filter_map(|name| self.program(name).ok());
        programs.map(|program| recursion_misses(&program)).sum()
    }

    /// The programs at tracepoints that a part needs.
    fn tracepoints_of(&self, part: Part) -> impl Iterator<Item = &'static str> {
        let is_its = move |parts: &[Part], name: &str| parts.contains(&part) && self.0.parts.needs(OsStr::new(name));
        TRACEPOINTS.into_iter().filter(move |(name, parts)| is_its(parts, name)).map(|(name, _)| name)
    }
}

/// The BPF object.
pub(super) fn object() -> &'static [u8] {
    &OBJECT.0
}

/// Makes the object that is opened next, by the name that its maps of variables begin with.
fn builder() -> libbpf_rs::Result<ObjectBuilder> {
    let mut builder = ObjectBuilder::default();
    builder.name("sense")?;
    Ok(builder)
}

/// Sets what is constant from here on.
fn configure(open: &mut OpenObject, parts: &Parts, excerpt: Option<&Excerpt>) -> Result<(), WatchError> {
    let none = || unavailable("the BPF object has no settings".into());
    let namespace = own_namespace()?;
    let mut map = open.maps_mut().find(|map| map.name() == "sense.rodata").ok_or_else(none)?;
    let bytes = map.initial_value_mut().filter(|bytes| is_whole::<types::rodata>(bytes.len())).ok_or_else(none)?;
    // SAFETY: the section's bytes, at the beginning of a page; the skeleton has their types, and the object's own values are valid.
    let config = unsafe { &mut *bytes.as_mut_ptr().cast::<types::rodata>() };
    config.has_clocks = parts.clocks.is_some();
    config.has_snapshots = parts.snapshots.is_some();
    config.has_overlap = parts.overlap;
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
        config.finals_wake_bytes = settings.finals_bytes / 4;
        config.traces = settings.moments_bytes.is_some();
        config.moments_wake_bytes = moments_bytes(settings) / 4;
        config.nr_sched_yield = arch::SYS_SCHED_YIELD;
        config.nr_io_uring_enter = arch::SYS_IO_URING_ENTER;
        for (nr, cause) in config.cause_of_syscall.iter_mut().enumerate() {
            *cause = match arch::blocked_in(nr as u32) {
                arch::BlockedIn::Cause(cause) => cause as u8,
                arch::BlockedIn::Descriptor => wire::layout::CAUSE_BY_FD,
            };
        }
    }
    if let Some(snapshots) = &parts.snapshots {
        config.snapshots_follow_children = snapshots.children;
        config.places = PLACES as u32;
        config.own_process = std::process::id();
    }
    Ok(())
}

/// A ring that is not used has one page.
fn moments_bytes(settings: &Settings) -> u32 {
    settings.moments_bytes.unwrap_or(4096)
}

/// Leaves out programs and maps of other parts, and sets how large those are that have room for what a tick brings.
fn leave_out(open: &mut OpenObject, parts: &Parts) -> libbpf_rs::Result<()> {
    for mut program in open.progs_mut() {
        let is_needed = parts.needs(program.name());
        program.set_autoload(is_needed);
    }
    for mut map in open.maps_mut() {
        if !parts.any_of(needed_by(&MAPS, map.name())) {
            map.set_autocreate(false)?;
        } else if let Some(settings) = &parts.clocks {
            match map.name().to_str() {
                Some("finals") => map.set_max_entries(settings.finals_bytes)?,
                Some("moments") => map.set_max_entries(moments_bytes(settings))?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a section of so many bytes is a `T`, but for what fills it up behind its last variable: pages are mapped whole.
fn is_whole<T>(bytes: usize) -> bool {
    bytes.next_multiple_of(align_of::<T>()) >= size_of::<T>()
}

/// Where the variables of a loaded object are mapped.
fn variables(object: &Object) -> Option<NonNull<types::bss>> {
    let map = object.maps().find(|map| map.name() == "sense.bss")?;
    let mut bytes: libbpf_sys::size_t = 0;
    // SAFETY: a map of an object that is loaded; libbpf returns where it has mapped it, for as long as the object lives.
    let state = unsafe { libbpf_sys::bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &raw mut bytes) };
    NonNull::new(state.cast::<types::bss>()).filter(|_| is_whole::<types::bss>(bytes as usize))
}

fn attach(program: &ProgramMut<'_>) -> Result<Link, WatchError> {
    let quiet = Libbpf::quiet();
    program.attach().map_err(|e| refused(&e, &quiet))
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

/// What is locked stays right when a thread panics: it is looked up and changed as a whole.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
