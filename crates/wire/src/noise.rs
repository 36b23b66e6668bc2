//! Noise events: what the kernel does on a CPU instead of running a followed thread, byte for byte (`include/cox/noise.h`).

use std::mem::{offset_of, size_of};

use bytemuck::{Pod, Zeroable};

/// An interrupt vector that has a tracepoint of its own (`enum cox_vector`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vector {
    /// The timer of this CPU.
    LocalTimer,
    /// Another CPU wants this one to choose a thread anew.
    Reschedule,
    /// Another CPU wants several CPUs to call functions.
    CallFunction,
    /// Another CPU wants this one to call a function.
    CallFunctionSingle,
    /// Work that was left over in a context where it was not allowed.
    IrqWork,
    /// A platform's interrupt between CPUs.
    PlatformIpi,
    /// A spurious interrupt.
    Spurious,
    /// An error of the interrupt controller.
    Error,
    /// The CPU is too hot, or cool again.
    Thermal,
    /// A counter of corrected machine errors has reached its threshold.
    Threshold,
    /// A deferred machine error.
    DeferredError,
}

impl Vector {
    /// All vectors, in the order of their numbers.
    pub const ALL: [Vector; 11] = [
        Vector::LocalTimer,
        Vector::Reschedule,
        Vector::CallFunction,
        Vector::CallFunctionSingle,
        Vector::IrqWork,
        Vector::PlatformIpi,
        Vector::Spurious,
        Vector::Error,
        Vector::Thermal,
        Vector::Threshold,
        Vector::DeferredError,
    ];

    /// Returns the vector with this number.
    #[must_use]
    pub fn of(number: u64) -> Option<Vector> {
        Vector::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Numbers of `enum cox_noise_kind`.
pub mod kind {
    #![allow(missing_docs)]
    pub const VECTOR: u8 = 1;
    pub const IRQ: u8 = 2;
    pub const SOFTIRQ: u8 = 3;
    pub const HRTIMER: u8 = 4;
    pub const TIMER: u8 = 5;
    pub const CALL: u8 = 6;
    pub const NMI: u8 = 7;
    pub const FAULT: u8 = 8;
    pub const SWITCH: u8 = 9;
    pub const SENT: u8 = 10;
    pub const SENT_MASK: u8 = 11;
    pub const QUEUED: u8 = 12;
    pub const WORK: u8 = 13;
    pub const TICK_STOP: u8 = 14;
    pub const TLB_FLUSH: u8 = 15;
    pub const MOVED: u8 = 16;
}

/// Numbers of `enum cox_edge`.
pub mod edge {
    #![allow(missing_docs)]
    pub const POINT: u8 = 0;
    pub const BEGIN: u8 = 1;
    pub const END: u8 = 2;
    /// A bit beside these: events on the CPU were lost just before this one.
    pub const AFTER_LOSS: u8 = 0x80;
}

/// Bits of `edge` in events of page faults (`enum cox_fault`).
pub mod fault {
    #![allow(missing_docs)]
    pub const USER: u8 = 1;
    pub const KERNEL: u8 = 2;
    pub const MAJOR: u8 = 4;
}

/// Bits of `b` in events of switches (`COX_SWITCH_*`).
pub mod switch {
    #![allow(missing_docs)]
    /// The thread that left, if it is not known.
    pub const OUT_UNKNOWN: u64 = 0xffff_ffff;
    pub const OUT_FOLLOWED: u64 = 1;
    pub const OUT_RUNNABLE: u64 = 2;
    pub const IN_FOLLOWED: u64 = 4;
}

/// Indexes of counters (`COX_COUNT_*`).
pub mod count {
    #![allow(missing_docs)]
    pub const VECTORS: usize = 0;
    pub const SOFTIRQS: usize = 16;
    pub const SWITCHES: usize = 32;
    pub const NMIS: usize = 33;
    pub const OTHER_IRQS: usize = 34;
    pub const USER_FAULTS: usize = 35;
    pub const KERNEL_FAULTS: usize = 36;
    pub const SWITCHES_OUT: usize = 37;
    pub const IRQS: usize = 64;
    pub const ALL: usize = 2048;
}

/// A noise event, as BPF writes it (`struct cox_noise_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Event {
    /// Time of the event, nanoseconds on CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// A number whose meaning depends on `kind`.
    pub a: u64,
    /// A number whose meaning depends on `kind`.
    pub b: u64,
    /// The followed thread that runs on `cpu`, or the thread that the kind of event names.
    pub tid: u32,
    /// The CPU that the event concerns.
    pub cpu: u16,
    /// The kind of event, one of [`kind`].
    pub kind: u8,
    /// Begin, end or point, one of [`edge`]; for page faults, bits of [`fault`]. Beside these, [`edge::AFTER_LOSS`].
    pub edge: u8,
}

impl Event {
    /// Returns whether events of this kind name a thread (`struct cox_noise_named`).
    #[must_use]
    pub fn is_named(&self) -> bool {
        matches!(self.kind, kind::SWITCH | kind::SENT | kind::SENT_MASK | kind::QUEUED)
    }
}

/// The part of a noise event that only some kinds have (the end of `struct cox_noise_named`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Named {
    /// Name of the thread `tid`, padded with zeros.
    pub comm: [u8; 16],
    /// Process of the thread `tid`.
    pub tgid: u32,
    /// System call that a sender is in; −1 for none.
    pub call: i32,
}

const _: () = {
    assert!(size_of::<Event>() == 32 && offset_of!(Event, kind) == 30);
    assert!(size_of::<Named>() == 24 && offset_of!(Named, call) == 20);
};
