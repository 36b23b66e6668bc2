//! Where the parts of a sample are, when all of them have the same place in each sample: nearly always, and found out once for an event.

use crate::bytes::{u32_at, u64_at};
use crate::stamp::Stamp;

/// Offsets in a sample's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Process, and thread behind it.
    pub(crate) tid: Option<usize>,
    pub(crate) time: Option<usize>,
    pub(crate) cpu: Option<usize>,
    /// The payload's size, and the payload behind it; all other parts are before it.
    pub(crate) raw: usize,
}

impl Shape {
    /// When, where and on whom, and the payload; `None`: it is shorter than it says.
    #[inline]
    pub(crate) fn sample<'b>(&self, body: &'b [u8]) -> Option<(Stamp, &'b [u8])> {
        let size = u32_at(body, self.raw)?;
        let payload = body.get(self.raw + 4..)?.get(..size as usize)?;
        let mut stamp = Stamp::default();
        if let Some(at) = self.tid {
            (stamp.pid, stamp.tid) = (u32_at(body, at)? as i32, u32_at(body, at + 4)? as i32);
        }
        if let Some(at) = self.time {
            stamp.t_ns = u64_at(body, at)?;
        }
        if let Some(at) = self.cpu {
            stamp.cpu = u32_at(body, at)?;
        }
        Some((stamp, payload))
    }
}
