//! What is measured: applications and programs, and what each moves.

use super::size::Size;

/// How many processes of an application run, as [`Crew`](super::super::Crew) has it without a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Alone,
    Ranks,
    Twice,
}

/// An application: its arguments for so many bytes and so much work.
pub struct App {
    pub name: &'static str,
    pub program: &'static str,
    pub kind: Kind,
    /// Arguments that do not change.
    fixed: &'static [&'static str],
    /// Steps, each of which may have a snapshot.
    pub steps: u32,
    /// The option for every how many steps a snapshot is taken, and bytes that each moves: written, and read where they are.
    pub every: (&'static str, f64),
    /// The disk's speed, bytes/s, where it has to do: what most machines can keep up with transfers of this size.
    pub disk_speed: f64,
    /// Bytes of messages that a rank sends in a run.
    pub sent: f64,
    /// Set for programs whose measure is what people reach by hand: the ratio at which they were chosen, of work to waiting.
    pub chosen: Option<&'static str>,
}

/// What blocks.
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
    // A volume is written on the way forward and read on the way back.
    every: ("--iof", 2.0 * 64.0 * 64.0 * 64.0 * 8.0),
    ..HEAT
};
/// A plate with a long border for what there is to compute, or its messages would be nothing.
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
    // A slice of each volume, in each step of both ways.
    sent: 2.0 * 48.0 * 2.0 * 64.0 * 64.0 * 8.0,
    ..FWI
};

/// Each phase of 16 tasks that compute and 16 that write.
const PHASES: App = App {
    name: "phases",
    program: "phases",
    fixed: &["--blocks", "16", "--values", "16384", "--buffers", "16", "--direct"],
    steps: 100,
    every: ("--every", 16.0 * 16384.0 * 8.0),
    chosen: Some("1:1"),
    ..HEAT
};
/// Loops of 100 us of work for all threads together. They are half of the work, and nothing can be written beside them.
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
/// Tables of 512 KiB: they fit the second-level cache of most CPUs, and two of them do not, or hardly.
const BLOCKS: App = App {
    name: "blocks",
    program: "blocks",
    fixed: &["--values", "65536", "--tables", "32", "--buffers", "32", "--direct"],
    steps: 400,
    every: ("--every", 65536.0 * 8.0),
    chosen: Some("1:1"),
    ..HEAT
};
/// On two CPUs the path is 89 % as long as all the work.
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
    /// What may block it.
    pub fn blockings(&self) -> &'static [Blocking] {
        match self.kind {
            Kind::Ranks => &[Blocking::Network, Blocking::Disk, Blocking::Both],
            Kind::Alone | Kind::Twice => &[Blocking::Disk],
        }
    }

    /// Processes that each move all the bytes and do all the work.
    pub fn copies(&self) -> f64 {
        if self.kind == Kind::Twice { 2.0 } else { 1.0 }
    }

    /// Arguments for a run of this size.
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
