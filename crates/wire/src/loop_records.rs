//! The file in which `libcox_loops.so` keeps what the loops of a process did, and which cox reads: a header, the names of modules, and a table of
//! records. The library maps the file, so nothing is lost if the process is killed.
//!
//! A record belongs to a loop and a team, and one thread at a time writes it. Every word is an atomic, because cox may read it at any time. cox reads
//! the bytes of the file, and trusts none of them.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

/// Environment variable with the folder in which each process makes its file.
pub const FOLDER: &str = "COX_LOOPS";
/// First word of a file: `coxloops` in memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"coxloops");
/// Version of this layout.
pub const VERSION: u64 = 2;
/// Number of records.
pub const RECORDS: usize = 2048;
/// Number of modules: the program and its libraries.
pub const MODULES: usize = 64;
/// Longest path of a module, bytes. Longer ones end early.
pub const PATH: usize = 504;

/// The whole file.
#[derive(Debug)]
#[repr(C, align(4096))]
#[allow(missing_docs)]
pub struct File {
    pub header: Header,
    pub modules: [Module; MODULES],
    pub records: [Record; RECORDS],
}

/// The header.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`]; stored last.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU64,
    /// The process in its own PID namespace.
    pub pid: AtomicU64,
    /// Modules in use.
    pub modules: AtomicU64,
    /// Records that were asked for; if they are more than [`RECORDS`], the others are lost.
    pub records: AtomicU64,
    /// Nanoseconds for each tick of the clock, the bits of an f64; 0 until known.
    pub ns_per_tick: AtomicU64,
}

/// A module: the program or a library.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Module {
    /// Length of the path, bytes.
    pub length: AtomicU64,
    /// The path.
    pub path: [AtomicU64; PATH / 8],
}

macro_rules! record {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What the instances of a loop did in a team. Sums of all instances that have ended, unless said otherwise; times are ticks.
        #[derive(Debug, Default)]
        #[repr(C, align(64))]
        pub struct Record {
            $($(#[$doc])* pub $field: AtomicU64,)*
        }

        /// The values of a [`Record`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct Values {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Values {
            /// Reads a record from its words; `None` if there are too few.
            #[must_use]
            pub fn of(words: &[u64]) -> Option<Values> {
                Some(Values { $($field: *words.get(offset_of!(Values, $field) / 8)?,)* })
            }
        }
    };
}

record! {
    /// Where the loop is: the address behind the call that begins it, as the module's file counts addresses. Stored last when the record is begun;
    /// 0 if it is not in use.
    place,
    /// Number of the module.
    module,
    /// Threads of the team.
    threads,
    /// What the program wants: a number of [`Clause`].
    clause,
    /// The program's chunk; 1 if it gives none.
    clause_chunk,
    /// Whether each thread must get its chunks in ascending order: 1 or 0.
    is_monotonic,
    /// Number of the schedule of the last instance, in `loops::Kind`'s order.
    schedule,
    /// Instances that had a substitute for the schedule that was asked for.
    substitutes,
    /// Instances. From here on eight words, one cache line, which each instance changes.
    instances,
    /// Instances that some thread left before their end: not in the sums of times.
    incomplete,
    /// Fewest iterations of an instance.
    least_trips,
    /// Most iterations of an instance.
    most_trips,
    /// Iterations.
    trips,
    /// Chunks.
    chunks,
    /// Time from the first thread's arrival to the last thread's end, in the instances that were `clocked`.
    wall,
    /// Times from the first thread's arrival to each thread's end, in the same instances.
    finish,
    /// Instances whose times were measured: all, or some if they are short.
    clocked,
    /// Time of the requests that were timed.
    request,
    /// Requests that were timed.
    requests,
    /// Instances in which it is known how long the kernel let threads wait.
    delays_known,
    /// Time by which these instances would have been shorter if no thread had waited for a CPU.
    os_caused,
    /// With `auto`: how often a schedule was selected.
    selections,
    /// Number of the reason of the last selection, in the order of `loops::selection::auto::Reason`, plus 1; 0 during trials.
    reason,
    /// Rounds of trials before it.
    rounds,
    /// Number of the second schedule of the last round, plus 1; 0 if there was none.
    second,
    /// By which factor that was slower, the bits of an f64.
    second_factor,
    /// Whether the schedule was in the file of an earlier run: 1 or 0.
    is_saved,
}

impl Record {
    /// Adds to a word. Only the record's writer may call this: the addition is no atomic operation.
    #[inline]
    pub fn add(word: &AtomicU64, more: u64) {
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}

/// What the program says about the schedule of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clause {
    /// `schedule(runtime)`.
    Runtime,
    /// `schedule(auto)`.
    Auto,
    /// `schedule(dynamic)`.
    Dynamic,
    /// `schedule(guided)`.
    Guided,
}

impl Clause {
    /// All of them. The number of one is its place here.
    pub const ALL: [Clause; 4] = [Clause::Runtime, Clause::Auto, Clause::Dynamic, Clause::Guided];

    /// Returns the clause with this number.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Clause> {
        Clause::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns its number.
    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Returns its name in programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Clause::Runtime => "runtime",
            Clause::Auto => "auto",
            Clause::Dynamic => "dynamic",
            Clause::Guided => "guided",
        }
    }
}

/// Words of a record, with those that align it.
pub const RECORD_WORDS: usize = size_of::<Record>() / 8;

/// What a file contains.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The process in its own PID namespace.
    pub pid: u64,
    /// Paths of the modules.
    pub modules: Vec<Vec<u8>>,
    /// Records in use.
    pub records: Vec<Values>,
    /// Records for which there was no room.
    pub lost: u64,
    /// Nanoseconds for each tick.
    pub ns_per_tick: f64,
}

impl Contents {
    /// Reads the bytes of a file; `None` if it is none of this version.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Contents> {
        let words: Vec<u64> =
            bytes.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?))).collect();
        let at = |byte: usize| words.get(byte / 8).copied();
        if at(offset_of!(Header, magic))? != MAGIC || at(offset_of!(Header, version))? != VERSION {
            return None;
        }
        let module = |number: usize| {
            let from = offset_of!(File, modules) + number * size_of::<Module>();
            let length = (at(from)? as usize).min(PATH);
            let path = from + offset_of!(Module, path);
            bytes.get(path..path + length).map(<[u8]>::to_vec)
        };
        let count = (at(offset_of!(Header, modules))? as usize).min(MODULES);
        let asked = at(offset_of!(Header, records))?;
        let first = offset_of!(File, records) / 8;
        let records =
            words.get(first..).unwrap_or_default().chunks_exact(RECORD_WORDS).take(asked.min(RECORDS as u64) as usize);
        let ns_per_tick = f64::from_bits(at(offset_of!(Header, ns_per_tick))?);
        Some(Contents {
            pid: at(offset_of!(Header, pid))?,
            modules: (0..count).map_while(module).collect(),
            records: records.filter_map(Values::of).filter(|record| record.place != 0).collect(),
            lost: asked.saturating_sub(RECORDS as u64),
            ns_per_tick: if ns_per_tick.is_finite() && ns_per_tick > 0.0 { ns_per_tick } else { 0.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as the library makes it: zero, and then some words.
    fn bytes(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<File>()];
        for (at, word) in words {
            bytes[*at..*at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn started() -> Vec<(usize, u64)> {
        vec![
            (offset_of!(Header, magic), MAGIC),
            (offset_of!(Header, version), VERSION),
            (offset_of!(Header, pid), 7),
            (offset_of!(Header, ns_per_tick), 0.5f64.to_bits()),
        ]
    }

    #[test]
    fn a_file_is_read_as_it_is_written() {
        let record = |number: usize| offset_of!(File, records) + number * size_of::<Record>();
        let module = offset_of!(File, modules);
        let mut words = started();
        words.extend([
            (offset_of!(Header, modules), 1),
            (offset_of!(Header, records), 3),
            (module, 4),
            (module + offset_of!(Module, path), u64::from_le_bytes(*b"/bin-...")),
            (record(0) + offset_of!(Record, place), 0x1234),
            (record(0) + offset_of!(Record, chunks), 9),
            (record(2) + offset_of!(Record, place), 5),
            (record(2) + offset_of!(Record, os_caused), 11),
        ]);
        let contents = Contents::parse(&bytes(&words)).unwrap();
        assert_eq!((contents.pid, contents.lost, contents.ns_per_tick), (7, 0, 0.5));
        assert_eq!(contents.modules, [b"/bin"]);
        let places: Vec<(u64, u64, u64)> =
            contents.records.iter().map(|one| (one.place, one.chunks, one.os_caused)).collect();
        assert_eq!(places, [(0x1234, 9, 0), (5, 0, 11)], "the one that is not begun yet is left out");
    }

    #[test]
    fn no_word_of_a_program_can_do_harm() {
        assert_eq!(Contents::parse(&[]), None);
        assert_eq!(Contents::parse(&bytes(&[])), None);
        let mut words = started();
        words.extend([
            (offset_of!(Header, modules), u64::MAX),
            (offset_of!(Header, records), u64::MAX),
            (offset_of!(Header, ns_per_tick), f64::NAN.to_bits()),
            (offset_of!(File, modules), u64::MAX),
        ]);
        let whole = bytes(&words);
        let contents = Contents::parse(&whole).unwrap();
        assert_eq!((contents.modules.len(), contents.records.len(), contents.ns_per_tick), (MODULES, 0, 0.0));
        for length in [64, 4097, whole.len() - 1] {
            let _ = Contents::parse(&whole[..length]);
        }
    }

    #[test]
    fn clauses_have_numbers() {
        for clause in Clause::ALL {
            assert_eq!(Clause::from_number(clause.number()), Some(clause));
        }
        assert_eq!(Clause::from_number(4), None);
    }
}
