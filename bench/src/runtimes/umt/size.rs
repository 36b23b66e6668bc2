//! The size of a run: how much it computes, how often it writes a snapshot to the disk, and how fast disk and network are.

/// The amount of work and of blocking in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Value of the application's option `--work`: how many times its arithmetic is repeated.
    pub work: u64,
    /// Steps from one snapshot to the next; 0: no snapshots.
    pub every: u32,
    /// Limit of the disk's speed, bytes/s; `None`: not limited.
    pub disk_speed: Option<f64>,
    pub network_speed: Option<f64>,
}

impl Size {
    /// Returns the size of a run that does this amount of work and never blocks.
    pub fn of_work(work: u64) -> Size {
        Size { work, every: 0, disk_speed: None, network_speed: None }
    }
}
