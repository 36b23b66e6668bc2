//! How large a run is.

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Repeats of the arithmetic.
    pub work: u64,
    /// Steps from one snapshot to the next; 0: none.
    pub every: u32,
    /// Bytes/s; none: as fast as it is.
    pub disk_speed: Option<f64>,
    pub network_speed: Option<f64>,
}

impl Size {
    /// Nothing that blocks.
    pub fn of_work(work: u64) -> Size {
        Size { work, every: 0, disk_speed: None, network_speed: None }
    }
}
