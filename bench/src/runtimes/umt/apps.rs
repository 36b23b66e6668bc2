//! The measured *applications* (heat, fwi) and *programs* (phases, loops, blocks, path), and how many bytes each moves.

use super::size::Size;

/// Whether an application runs as one process, as two ranks that communicate, or as two independent processes.
/// [`Processes`](super::super::Processes) says the same, but also contains the network of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Alone,
    Ranks,
    Twice,
}

/// An application, and its arguments for a given number of bytes and amount of work.
pub struct App {
    pub name: &'static str,
    pub program: &'static str,
    pub kind: Kind,
    /// Arguments that do not depend on the size.
    fixed: &'static [&'static str],
    /// Number of steps. A snapshot may follow each step.
    pub steps: u32,
    /// The option for the number of steps per snapshot, and the bytes that each snapshot moves (bytes written, plus bytes read if the program reads
    /// snapshots).
    pub every: (&'static str, f64),
    /// Approximate speed to which the disk is throttled, bytes/s. Without throttling, the disks of most machines reach this speed, if transfers are
    /// as large as those of this application.
    pub disk_speed: f64,
    /// Bytes of messages that a rank sends in a run.
    pub sent: f64,
    /// `None` for the applications (heat, fwi). For the other four programs: the ratio of work to waiting for which the program was chosen. These
    /// programs are also compared with libgomp and libomp at the best number of threads per CPU.
    pub chosen: Option<&'static str>,
}

/// What blocks the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    Disk,
    Network,
    Both,
}

impl Blocking {
    pub const NAMES: [(&'static str, Blocking); 3] =
        [("disk", Blocking::Disk), ("network", Blocking::Network), ("both", Blocking::Both)];

    pub fn name(self) -> &'static str {
        Blocking::NAMES.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    pub fn has_disk(self) -> bool {
        self != Blocking::Network
    }

    pub fn has_network(self) -> bool {
        self != Blocking::Disk
    }
}

const HEAT: App = App {
    name: "heat",
    program: "heat",
    kind: Kind::Alone,
    fixed: &["--size", "1024", "--block", "128", "--direct"],
    steps: 50,
    every: ("--every", 1024.0 * 1024.0 * 8.0),
    disk_speed: 100e6,
    sent: 0.0,
    chosen: None,
};
const FWI: App = App {
    name: "fwi",
    program: "fwi",
    kind: Kind::Alone,
    fixed: &["--nx", "64", "--ny", "64", "--nz", "64", "--direct", "--buffers", "64"],
    steps: 48,
    // Each snapshot is a volume, which the forward pass writes and the backward pass reads.
    every: ("--iof", 2.0 * 64.0 * 64.0 * 64.0 * 8.0),
    ..HEAT
};
/// The simulated plate is small, so that its border is long compared with its area. Otherwise the messages, which carry the border, would be
/// negligible.
const HEAT_2: App = App {
    name: "heat-2",
    kind: Kind::Ranks,
    fixed: &["--size", "512", "--block", "64", "--direct", "--buffers", "64"],
    steps: 200,
    every: ("--every", 512.0 * 512.0 * 8.0),
    disk_speed: 25e6,
    sent: 200.0 * 512.0 * 8.0,
    ..HEAT
};
const FWI_2: App = App {
    name: "fwi-2",
    kind: Kind::Ranks,
    // Each step sends a slice of each volume, in the forward pass and in the backward pass.
    sent: 2.0 * 48.0 * 2.0 * 64.0 * 64.0 * 8.0,
    ..FWI
};

/// Each phase has 16 tasks that compute and 16 that write.
const PHASES: App = App {
    name: "phases",
    program: "phases",
    fixed: &["--blocks", "16", "--values", "16384", "--buffers", "16", "--direct"],
    steps: 100,
    every: ("--every", 16.0 * 16384.0 * 8.0),
    chosen: Some("1:1"),
    ..HEAT
};
/// Each loop has 100 us of work, summed over all threads. The loops are half of the program's work. Writes cannot overlap with a loop, because the
/// team completes all tasks that write before the next loop begins.
const LOOPS: App = App {
    name: "loops",
    program: "loops",
    fixed: &["--size", "32768", "--loops", "200", "--loop-work", "4", "--blocks", "16", "--buffers", "32", "--direct"],
    steps: 100,
    every: ("--every", 32768.0 * 8.0),
    disk_speed: 13e6,
    chosen: Some("2:1"),
    ..HEAT
};
/// Each thread works on a table of 512 KiB, which fits into the second-level cache of most CPUs. If two threads share a CPU, their two tables barely
/// fit or do not fit.
const BLOCKS: App = App {
    name: "blocks",
    program: "blocks",
    fixed: &["--values", "65536", "--tables", "32", "--buffers", "32", "--direct"],
    steps: 400,
    every: ("--every", 65536.0 * 8.0),
    chosen: Some("1:1"),
    ..HEAT
};
/// On two CPUs, the length of the critical path is 89 % of (total work ÷ 2). So a delay of a task on the critical path delays the program.
const PATH: App = App {
    name: "path",
    program: "path",
    fixed: &["--values", "4096", "--parts", "8", "--states", "8", "--path", "80", "--buffers", "32", "--direct"],
    steps: 200,
    every: ("--every", 8.0 * 4096.0 * 8.0),
    disk_speed: 26e6,
    chosen: Some("1:1"),
    ..HEAT
};

pub const APPS: [App; 10] = [
    HEAT,
    App { name: "heat-twice", kind: Kind::Twice, ..HEAT },
    HEAT_2,
    FWI,
    App { name: "fwi-twice", kind: Kind::Twice, ..FWI },
    FWI_2,
    PHASES,
    LOOPS,
    BLOCKS,
    PATH,
];

impl App {
    /// Returns the kinds of blocking operation for which the application can be measured.
    pub fn blockings(&self) -> &'static [Blocking] {
        match self.kind {
            Kind::Ranks => &[Blocking::Network, Blocking::Disk, Blocking::Both],
            Kind::Alone | Kind::Twice => &[Blocking::Disk],
        }
    }

    /// Returns how many complete copies of the application run at the same time. Each copy moves all the bytes and does all the work.
    pub fn copies(&self) -> f64 {
        if self.kind == Kind::Twice { 2.0 } else { 1.0 }
    }

    /// Returns the arguments for a run of this size.
    pub fn arguments(&self, size: &Size, folder: &str) -> Vec<String> {
        let mut arguments: Vec<String> = self.fixed.iter().map(ToString::to_string).collect();
        let numbers = [
            ("--steps", self.steps.to_string()),
            ("--work", size.work.to_string()),
            (self.every.0, size.every.to_string()),
            ("--folder", folder.to_owned()),
        ];
        arguments.extend(numbers.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        arguments
    }
}
