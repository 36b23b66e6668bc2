//! Definition of a figure. Each figure is declared once, with the struct that holds it, by [`figures!`](crate::figures!): name, unit, meaning, rule
//! for adding, and the backends that see it. The JSON and its schema, sums, headings, the evidence of `advise` and the tables in `docs/figures.md`
//! follow from the declaration.

pub mod add;
mod by_cpu;
mod by_kind;
mod declare;

pub use add::{Amount, Value};
pub use by_cpu::RunByCpu;
pub use by_kind::{ByCause, ByKind, ByMigration, Kind};

/// A figure of a `T`, for example of a thread or a CPU.
#[derive(Debug)]
pub struct Figure<T: 'static> {
    /// Key in the JSON.
    pub name: &'static str,
    /// Heading in text and page; empty if the figure has none.
    pub label: &'static str,
    /// Description, as Markdown: the documentation of the field.
    pub meaning: &'static [&'static str],
    /// Rule for combining the values of several threads, processes, programs or ranks: the name of a function in [`add`].
    pub adds: &'static str,
    /// How well each backend sees the figure.
    pub seen: Seen,
    /// Returns the value as a number; for a time that is split by cause, the sum over all causes. `None` if the value is not a number, or not known.
    pub value: fn(&T) -> Option<u64>,
}

impl<T> Clone for Figure<T> {
    fn clone(&self) -> Figure<T> {
        *self
    }
}

impl<T> Copy for Figure<T> {}

impl<T> Figure<T> {
    /// Returns the figure's unit, which the end of its name tells (such as `_ns`).
    pub const fn unit(&self) -> Unit {
        Unit::of(self.name)
    }
}

/// How well each backend sees a figure, in a few words: `yes`, `no`, or what is different (such as `includes wake delay`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Backend eBPF.
    pub bpf: &'static str,
    /// The `perf` backend, which observes a running program.
    pub perf: &'static str,
    /// Backend /proc.
    pub proc: &'static str,
}

impl Seen {
    /// Seen by all backends.
    pub const ALWAYS: Seen = Seen { bpf: "yes", perf: "yes", proc: "yes" };

    /// Seen by the backends that see each scheduler event.
    pub const BY_EVENTS: Seen = Seen { proc: "no", ..Seen::ALWAYS };

    /// Seen by eBPF only.
    pub const BY_BPF: Seen = Seen { bpf: "yes", perf: "no", proc: "no" };
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A count.
    Count,
}

impl Unit {
    /// Returns the unit from a figure's name: by convention, names in outputs end with their unit.
    pub const fn of(name: &str) -> Unit {
        match name.as_bytes() {
            [.., b'_', b'n', b's'] => Unit::Ns,
            _ => Unit::Count,
        }
    }
}
