//! What a figure is. Each is declared once, with the struct that holds it, by [`figures!`](crate::figures!): name, unit, meaning, how it
//! adds, and which backend sees it. From that come the JSON and its schema, sums, headings, `advise`'s evidence and the tables in
//! `docs/figures.md`.

pub mod add;
mod by_cpu;
mod by_kind;
mod declare;

pub use add::{Adds, Amount, Value};
pub use by_cpu::RunByCpu;
pub use by_kind::{ByCause, ByKind, ByMigration, Kind};

/// A figure of a `T`: of a thread, of a CPU, …
#[derive(Debug)]
pub struct Figure<T: 'static> {
    /// Its key in the JSON.
    pub name: &'static str,
    /// Its heading in text and page; empty where it has none.
    pub label: &'static str,
    /// What it is, as Markdown: the field's own documentation.
    pub meaning: &'static [&'static str],
    /// How those of several threads, processes, programs or ranks make one.
    pub adds: Adds,
    /// How far each backend sees it.
    pub seen: Seen,
    /// Its value as a number: of a time by causes the sum of all. `None` where it is no number, or is not known.
    pub value: fn(&T) -> Option<u64>,
}

impl<T> Clone for Figure<T> {
    fn clone(&self) -> Figure<T> {
        *self
    }
}

impl<T> Copy for Figure<T> {}

impl<T> Figure<T> {
    /// Its unit, which its name ends with.
    pub const fn unit(&self) -> Unit {
        Unit::of(self.name)
    }
}

/// How far a backend sees a figure, in a few words: `yes`, `no`, or what is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// eBPF.
    pub bpf: &'static str,
    /// perf's records, live.
    pub perf: &'static str,
    /// /proc.
    pub proc: &'static str,
}

impl Seen {
    /// By all of them alike.
    pub const ALWAYS: Seen = Seen { bpf: "yes", perf: "yes", proc: "yes" };

    /// By eBPF only.
    pub const BY_BPF: Seen = Seen { bpf: "yes", perf: "no", proc: "no" };
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A number of things.
    Count,
}

impl Unit {
    /// By the rule that a name which leaves its program ends with its unit.
    pub const fn of(name: &str) -> Unit {
        match name.as_bytes() {
            [.., b'_', b'n', b's'] => Unit::Ns,
            _ => Unit::Count,
        }
    }
}
