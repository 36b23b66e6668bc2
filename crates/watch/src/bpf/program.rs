//! The loaded BPF object: settings in, state out.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use arch::laps::{self, Part};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, ProgramMut, libbpf_sys};
use wire::{Cpu, Crew, Gap, MASK_WORDS, MAX_CPUS, Moment, What};

use super::excerpt::{Excerpt, Read};
use super::libbpf::{Libbpf, kernel_casts, own_namespace, refused, system, unavailable};
use crate::observer::WatchError;
use crate::sampling;

#[allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/observe.skel.rs"));
}
/// The members of the kernel's structs that the programs read.
pub(crate) const READ: &Read = include!(concat!(env!("OUT_DIR"), "/observe.read.rs"));
use skeleton::{ObserveSkel, ObserveSkelBuilder};

/// What the programs are loaded with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Follow the child processes of members.
    pub children: bool,
    /// Time between samples of user instruction pointers on a CPU; 0: none.
    pub sample_period_ns: u64,
    /// CPUs an unrestricted affinity mask holds.
    pub cpus_in_full_mask: u32,
    /// One more than the highest possible CPU number.
    pub cpu_limit: u32,
    /// Use `bpf_rdonly_cast`, which Linux has since 6.2 (`verifier.bpf.h`).
    pub casts: bool,
    /// Room for final clocks between two ticks; a power of two of whole pages.
    pub finals_bytes: u32,
    /// Room for moments between two ticks, likewise; `None`: there is no trace.
    pub moments_bytes: Option<u32>,
    /// Observe threads of this user only, and name no other user's; `None`: of all users.
    pub owner: Option<u32>,
}

impl Settings {
    /// 15,000 threads may die within a tick.
    pub const FINALS_BYTES: u32 = 8 << 20;

    /// The usual settings for a machine with these CPUs.
    pub fn new(cpus_in_full_mask: u32, cpu_limit: u32) -> Settings {
        Settings {
            children: true,
            sample_period_ns: sampling::period_ns(),
            cpus_in_full_mask,
            cpu_limit,
            casts: kernel_casts(),
            finals_bytes: Settings::FINALS_BYTES,
            moments_bytes: None,
            owner: None,
        }
    }
}

/// The programs in the kernel. Dropping it detaches and frees them.
pub(super) struct Program {
    links: Vec<Link>,
    skel: ObserveSkel<'static>,
    settings: Settings,
}

impl Program {
    pub(super) fn load(settings: &Settings) -> Result<Program, WatchError> {
        if settings.cpu_limit as usize > MAX_CPUS {
            return Err(unavailable(format!(
                "this machine has CPU numbers up to {}, the limit is {MAX_CPUS}",
                settings.cpu_limit - 1
            )));
        }
        let quiet = Libbpf::quiet();
        // The skeleton borrows its object; one small leak per load keeps that borrow simple.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut builder = ObserveSkelBuilder::default();
        let excerpt = Excerpt::of_this_kernel(READ);
        laps::done(Part::Types);
        if let Some(excerpt) = &excerpt {
            excerpt.relocates(builder.object_builder_mut());
        }
        let mut open = builder.open(object).map_err(|e| refused(&e, &quiet))?;
        let config =
            open.maps.rodata_data.as_deref_mut().ok_or_else(|| unavailable("the BPF object has no settings".into()))?;
        config.nr_cpus = settings.cpus_in_full_mask;
        config.mask_words = settings.cpu_limit.div_ceil(64).min(MASK_WORDS as u32);
        config.follow_children = settings.children;
        config.finals_wake_bytes = settings.finals_bytes / 4;
        if let Some(excerpt) = excerpt.as_ref().filter(|_| settings.casts) {
            config.casts = true;
            config.type_of_task = excerpt.task;
            config.type_of_registers = excerpt.registers;
        }
        config.traces = settings.moments_bytes.is_some();
        // A ring that is not used has one page.
        let moments_bytes = settings.moments_bytes.unwrap_or(4096);
        config.moments_wake_bytes = moments_bytes / 4;
        let namespace = own_namespace()?;
        config.namespaced = namespace.is_some();
        config.own_namespace = namespace.unwrap_or(0);
        config.owned = settings.owner.is_some();
        config.owner = settings.owner.unwrap_or(0);
        config.nr_sched_yield = arch::SYS_SCHED_YIELD;
        config.nr_io_uring_enter = arch::SYS_IO_URING_ENTER;
        for (nr, cause) in config.cause_of_syscall.iter_mut().enumerate() {
            *cause = match arch::blocked_in(nr as u32) {
                arch::BlockedIn::Cause(cause) => cause as u8,
                arch::BlockedIn::Descriptor => wire::layout::CAUSE_BY_FD,
            };
        }
        open.maps.finals.set_max_entries(settings.finals_bytes).map_err(|e| refused(&e, &quiet))?;
        open.maps.moments.set_max_entries(moments_bytes).map_err(|e| refused(&e, &quiet))?;
        laps::done(Part::Opening);
        let skel = open.load().map_err(|e| refused(&e, &quiet))?;
        laps::done(Part::Loading);
        Ok(Program { links: Vec::new(), skel, settings: settings.clone() })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tracepoints, births before switches so that no member is switched unseen.
    pub(super) fn attach(&mut self) -> Result<(), WatchError> {
        // A walk that enrols nobody: the programs learn how deep cox's PID namespace is before they see the first event.
        self.walk(Walk::Enrol, &mut Vec::new())?;
        let p = &self.skel.progs;
        for program in [&p.on_newtask, &p.on_wakeup_new, &p.on_exec, &p.on_waking, &p.on_migrate, &p.on_switch] {
            self.links.push(attach(program)?);
        }
        Ok(())
    }

    pub(super) fn detach(&mut self) -> Result<(), WatchError> {
        self.links.clear();
        Ok(())
    }

    pub(super) fn sampling_program(&self) -> &ProgramMut<'static> {
        &self.skel.progs.on_sample
    }

    pub(super) fn finals(&self) -> &dyn MapCore {
        &self.skel.maps.finals
    }

    pub(super) fn samples(&self) -> &dyn MapCore {
        &self.skel.maps.samples
    }

    pub(super) fn moments(&self) -> &dyn MapCore {
        &self.skel.maps.moments
    }

    pub(super) fn takers(&self) -> &dyn MapCore {
        &self.skel.maps.takers
    }

    pub(super) fn pairs(&self) -> &dyn MapCore {
        &self.skel.maps.pairs
    }

    pub(super) fn unlisted(&self) -> &dyn MapCore {
        &self.skel.maps.unlisted
    }

    /// Make members of all tasks that `keys` name, and of none else.
    pub(super) fn enrol(&self, keys: &[u64], flags: u32) -> Result<(), WatchError> {
        let map = &self.skel.maps.enrol;
        for key in keys {
            map.update(&key.to_ne_bytes(), &flags.to_ne_bytes(), MapFlags::ANY).map_err(|e| system("enrolling", e))?;
        }
        // Twice: a task born behind the first walk of a creator that it had not reached yet.
        for _ in 0..2 {
            let mut nothing = Vec::new();
            self.walk(Walk::Enrol, &mut nothing)?;
        }
        for key in keys {
            map.delete(&key.to_ne_bytes()).map_err(|e| system("enrolling", e))?;
        }
        Ok(())
    }

    /// Run one of the walks over all tasks; what it writes is appended to `out`.
    pub(super) fn walk(&self, walk: Walk, out: &mut Vec<u8>) -> Result<(), WatchError> {
        let program = match walk {
            Walk::Enrol => &self.skel.progs.enrol_tasks,
            Walk::Dump => &self.skel.progs.dump_clocks,
        };
        let link = attach(program)?;
        let mut iter = Iter::new(&link).map_err(|e| system("walking the tasks", e))?;
        std::io::Read::read_to_end(&mut iter, out)
            .map_err(|source| WatchError::System { what: "walking the tasks".into(), source })?;
        Ok(())
    }

    /// A copy of the crew's state. Words are read one by one while the kernel changes them.
    pub(super) fn crew(&self) -> Crew {
        match self.skel.maps.bss_data.as_deref() {
            // SAFETY: `crew` is a `struct cox_crew`, whose layout is asserted to be `Crew`'s; the
            // mapping lives as long as the skeleton.
            Some(bss) => unsafe { (&raw const bss.crew).cast::<Crew>().read_volatile() },
            None => bytemuck::Zeroable::zeroed(),
        }
    }

    /// Copies of the accounts of this machine's CPUs, by number.
    pub(super) fn cpus(&self) -> Vec<Cpu> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        let first = (&raw const bss.cpus).cast::<Cpu>();
        (0..(self.settings.cpu_limit as usize).min(MAX_CPUS))
            // SAFETY: `cpus` is an array of MAX_CPUS `struct cox_cpu`, whose layout is asserted to
            // be `Cpu`'s; the index is below.
            .map(|number| unsafe { first.add(number).read_volatile() })
            .collect()
    }

    /// What of the trace found no room and no CPU could tell: nothing more has happened there.
    pub(super) fn gaps(&self) -> Vec<Moment> {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return Vec::new() };
        let first = (&raw const bss.gaps).cast::<Gap>();
        let cpus = 0..(self.settings.cpu_limit as usize).min(MAX_CPUS);
        // SAFETY: `gaps` is an array of MAX_CPUS `struct cox_gap`, whose layout is asserted to be `Gap`'s; the index is below.
        let gaps = cpus.map(|cpu| (cpu as u16, unsafe { first.add(usize::from(cpu as u16)).read_volatile() }));
        let lost = |(cpu, gap): (u16, Gap)| Moment::new(gap.since_ns, cpu, What::Lost { count: gap.count as u32 });
        gaps.filter(|(_, gap)| gap.count > 0).map(lost).collect()
    }

    /// Events that the kernel did not deliver because a program was running on that CPU already.
    pub(super) fn missed_events(&self) -> u64 {
        let p = &self.skel.progs;
        [&p.on_newtask, &p.on_wakeup_new, &p.on_exec, &p.on_waking, &p.on_migrate, &p.on_switch]
            .into_iter()
            .map(|program| recursion_misses(program))
            .sum()
    }
}

/// The walks over all tasks.
#[derive(Clone, Copy)]
pub(super) enum Walk {
    Enrol,
    Dump,
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
