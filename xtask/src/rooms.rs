//! The plan of the architecture: the layers (*floors*) from top to bottom, and for each crate (*room*) the crates that it may use.
//!
//! A crate may use only the crates that its row names. `below` lists crates on lower floors. `beside` lists crates on the same floor, each of which
//! is an exception with a reason. A new crate needs a row before `make lint` and `make test` pass; a row without a crate is an error, too. Crates for
//! tests need no permission in a row, because no program depends on them.

/// A layer of the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Name of the floor.
    pub name: &'static str,
    /// True if a crate on this floor may, as an exception, use another crate on the same floor. Engines (crates that each do one of cox's tasks, such
    /// as observing or packing) may not use each other. Code that two engines share belongs on a lower floor.
    pub exceptions: bool,
}

/// The floors (layers of the workspace) from top to bottom. A crate may use only crates of lower floors.
pub const FLOORS: &[Floor] = &[
    Floor { name: "front doors", exceptions: false },
    Floor { name: "engines", exceptions: false },
    Floor { name: "session", exceptions: false },
    Floor { name: "faces", exceptions: true },
    Floor { name: "rules", exceptions: true },
    Floor { name: "hands", exceptions: true },
    Floor { name: "senses", exceptions: true },
    Floor { name: "words", exceptions: true },
];

/// The crates of the workspace that a crate may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// All crates on lower floors (layers).
    AllBelow,
    /// Only these crates.
    These {
        /// Crates on lower floors (layers).
        below: &'static [&'static str],
        /// Crates on the same floor (layer), each with the reason for the exception.
        beside: &'static [(&'static str, &'static str)],
    },
}

/// The row of one crate in the plan: its layer, and the crates that it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Package name.
    pub name: &'static str,
    /// Name of the crate's layer (floor) in [`FLOORS`].
    pub floor: &'static str,
    /// The crates that this crate may use.
    pub uses: Uses,
    /// True if the crate is pure: it decides from plain data, and its root file contains `#![forbid(unsafe_code)]`.
    pub pure: bool,
}

/// Crates that every crate may use in its tests, and only there, regardless of its row.
pub const FOR_TESTS: &[&str] = &["testkit"];

const fn these(below: &'static [&'static str], beside: &'static [(&'static str, &'static str)]) -> Uses {
    Uses::These { below, beside }
}

/// The plan: for each crate its layer, and the crates that it may use.
pub const ROOMS: &[Room] = &[
    Room { name: "cox", floor: "front doors", uses: Uses::AllBelow, pure: false },
    Room { name: "cox-bench", floor: "front doors", uses: Uses::AllBelow, pure: false },
    Room {
        name: "preload",
        floor: "front doors",
        uses: these(&["arch", "tasks", "umt-client", "wire"], &[]),
        pure: false,
    },
    Room { name: "preload-loops", floor: "front doors", uses: these(&["arch", "loops", "wire"], &[]), pure: false },
    Room { name: "cox-ulp", floor: "front doors", uses: these(&[], &[]), pure: false },
    Room {
        name: "ulp-host",
        floor: "front doors",
        uses: these(&["arch", "machine", "symbols", "ulp"], &[]),
        pure: false,
    },
    Room { name: "umt", floor: "front doors", uses: these(&["umt-client", "wire"], &[]), pure: false },
    Room { name: "xtask", floor: "front doors", uses: these(&["random"], &[]), pure: false },
    Room {
        name: "observe",
        floor: "engines",
        uses: these(
            &["arch", "broker", "ledger", "machine", "outputs", "session", "symbols", "trace", "watch", "wire"],
            &[],
        ),
        pure: false,
    },
    Room {
        name: "overlap",
        floor: "engines",
        uses: these(
            &["arch", "broker", "ledger", "outputs", "report", "session", "symbols", "umt-client", "watch", "wire"],
            &[],
        ),
        pure: false,
    },
    Room {
        name: "pack",
        floor: "engines",
        uses: these(
            &[
                "advise", "arch", "broker", "changes", "machine", "outputs", "random", "report", "session", "symbols",
                "watch", "wire",
            ],
            &[],
        ),
        pure: false,
    },
    Room {
        name: "noise",
        floor: "engines",
        uses: these(&["arch", "broker", "interference", "machine", "session", "watch", "wire"], &[]),
        pure: false,
    },
    Room {
        name: "quiet",
        floor: "engines",
        uses: these(&["arch", "changes", "machine", "report", "session", "watch"], &[]),
        pure: false,
    },
    Room {
        name: "schedules",
        floor: "engines",
        uses: these(&["loops", "machine", "report", "session", "symbols", "wire"], &[]),
        pure: false,
    },
    Room { name: "ulp", floor: "engines", uses: these(&["arch"], &[]), pure: false },
    Room { name: "tasks", floor: "engines", uses: these(&["umt-client", "wire"], &[]), pure: false },
    Room {
        name: "session",
        floor: "session",
        uses: these(&["arch", "ledger", "machine", "outputs", "symbols"], &[]),
        pure: false,
    },
    Room { name: "report", floor: "faces", uses: these(&["advise", "compare", "ledger", "wire"], &[]), pure: false },
    Room { name: "outputs", floor: "faces", uses: these(&[], &[]), pure: false },
    Room { name: "trace", floor: "faces", uses: these(&["ledger", "wire"], &[]), pure: false },
    Room {
        name: "advise",
        floor: "rules",
        uses: these(
            &["wire"],
            &[
                ("ledger", "a verdict is derived from an account only"),
                ("compare", "which of several tried ways is fastest is decided by the intervals of `compare`"),
            ],
        ),
        pure: true,
    },
    Room { name: "compare", floor: "rules", uses: these(&["random"], &[]), pure: true },
    Room { name: "forecast", floor: "rules", uses: these(&["random"], &[]), pure: true },
    Room { name: "interference", floor: "rules", uses: these(&["wire"], &[]), pure: true },
    Room { name: "ledger", floor: "rules", uses: these(&["wire"], &[]), pure: true },
    Room { name: "loops", floor: "rules", uses: these(&["random"], &[]), pure: true },
    Room { name: "changes", floor: "hands", uses: these(&["machine"], &[]), pure: false },
    Room {
        name: "watch",
        floor: "senses",
        uses: these(
            &["wire"],
            &[
                ("machine", "only the crate `machine` may use paths of /proc and /sys"),
                ("arch", "the clock and system-call numbers depend on the architecture"),
            ],
        ),
        pure: false,
    },
    Room {
        name: "broker",
        floor: "senses",
        uses: these(
            &["wire"],
            &[
                ("watch", "both processes, cox and cox-observe, use the observer and its BPF programs"),
                ("machine", "the owner of a process and the list of CPUs are in /proc and /sys"),
                ("arch", "it reads the clock, and measures the CPU time of cox-observe"),
            ],
        ),
        pure: false,
    },
    Room {
        name: "symbols",
        floor: "senses",
        uses: these(
            &["wire"],
            &[
                ("machine", "the memory map of a process shows to which file an address belongs"),
                ("arch", "machine code and system-call numbers depend on the architecture"),
            ],
        ),
        pure: false,
    },
    Room {
        name: "perfdata",
        floor: "senses",
        uses: these(&["wire"], &[("arch", "its tests measure the CPU time of reading a recording")]),
        pure: true,
    },
    Room { name: "umt-client", floor: "senses", uses: these(&["wire"], &[]), pure: false },
    Room { name: "machine", floor: "senses", uses: these(&[], &[]), pure: false },
    Room { name: "arch", floor: "senses", uses: these(&["wire"], &[]), pure: false },
    Room { name: "testkit", floor: "front doors", uses: Uses::AllBelow, pure: false },
    Room { name: "random", floor: "words", uses: these(&[], &[]), pure: true },
    Room { name: "wire", floor: "words", uses: these(&[], &[]), pure: false },
];
