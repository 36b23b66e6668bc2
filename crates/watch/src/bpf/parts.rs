//! The parts of the programs, what each is told, and what of the BPF object each needs.

use std::ffi::OsStr;

use Part::{Clocks, Overlap, Snapshots as Snaps};

use super::libbpf::kernel_casts;
use crate::sampling;

/// What clocks are kept with.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Threads that can have a snapshot, over a session's life. Also in snapshots.bpf.h.
pub(crate) const PLACES: usize = 65536;

/// What snapshots are kept with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshots {
    /// Follow the child processes of members.
    pub children: bool,
}

/// The parts that are wanted. Those that are not cost nothing: the verifier removes their code, and their maps are not made.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Accounts of threads, for an observer.
    pub clocks: Option<Settings>,
    /// Where threads are now, for a packer.
    pub snapshots: Option<Snapshots>,
    /// Runnable threads and doorbells, for overlap.
    pub overlap: bool,
    /// Only threads of this user can be members, and no other user's are named; `None`: of all users.
    pub owner: Option<u32>,
}

impl Parts {
    fn has(&self, part: Part) -> bool {
        match part {
            Part::Clocks => self.clocks.is_some(),
            Part::Snapshots => self.snapshots.is_some(),
            Part::Overlap => self.overlap,
        }
    }

    /// Whether these can stand for programs that have this part only.
    pub(super) fn fits(&self, part: Part, alone: &Parts) -> bool {
        let fits = match part {
            Clocks => self.clocks == alone.clocks,
            Snaps => self.snapshots == alone.snapshots,
            Overlap => self.overlap,
        };
        fits && self.owner == alone.owner
    }

    /// Whether this program is needed for them.
    pub(super) fn needs(&self, program: &OsStr) -> bool {
        let is_needed = match program.to_str() {
            Some("on_switch") => self.clocks.is_some(),
            Some("on_plain_switch") => self.clocks.is_none(),
            _ => true,
        };
        is_needed && [&TRACEPOINTS[..], &OTHER_PROGRAMS].iter().all(|table| self.any_of(needed_by(table, program)))
    }

    pub(super) fn any_of(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.has(*part))
    }
}

/// One of the parts; the numbers are those of `ENROL_CLOCK` and so on in `threads.bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Clocks = 1,
    Snapshots = 2,
    Overlap = 4,
}

/// The programs at tracepoints, and which parts need them. Births before switches, so that no member is switched unseen.
pub(super) const TRACEPOINTS: [(&str, &[Part]); 8] = [
    ("on_newtask", &[Clocks, Snaps, Overlap]),
    ("on_wakeup_new", &[Clocks]),
    ("on_exec", &[Clocks, Snaps, Overlap]),
    ("on_waking", &[Clocks, Snaps]),
    ("on_wakeup", &[Overlap]),
    ("on_migrate", &[Clocks, Overlap]),
    ("on_switch", &[Clocks, Snaps, Overlap]),
    ("on_plain_switch", &[Clocks, Snaps, Overlap]),
];

/// The others that are not needed by all parts.
pub(super) const OTHER_PROGRAMS: [(&str, &[Part]); 3] =
    [("on_sample", &[Clocks]), ("dump_clocks", &[Clocks]), ("on_look", &[Snaps])];

/// The maps that are not needed by all parts.
pub(super) const MAPS: [(&str, &[Part]); 14] = [
    ("finals", &[Clocks]),
    ("samples", &[Clocks]),
    ("unlisted", &[Clocks]),
    ("pairs", &[Clocks]),
    ("takers", &[Clocks]),
    ("moments", &[Clocks]),
    ("snapshots", &[Snaps]),
    ("snapshot_counts", &[Snaps]),
    ("looks", &[Snaps]),
    ("others", &[Snaps]),
    ("other_since", &[Snaps]),
    ("said_of", &[Overlap]),
    ("seen_of", &[Overlap]),
    ("bells", &[Overlap]),
];

/// The parts that need what has this name.
pub(super) fn needed_by(table: &[(&str, &'static [Part])], name: &OsStr) -> &'static [Part] {
    const ALL: &[Part] = &[Clocks, Snaps, Overlap];
    table.iter().find(|(named, _)| name == *named).map_or(ALL, |(_, parts)| *parts)
}
