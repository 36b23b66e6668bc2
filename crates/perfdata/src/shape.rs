//! Offsets of a sample's fields, for events whose samples all have the same layout. Nearly all events do. The offsets
//! are computed once per event.

use crate::bytes::{u32_at, u64_at};
use crate::stamp::Stamp;

/// Offsets in a sample's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Offset of the process id. The thread id follows it.
    pub(crate) tid: Option<usize>,
    pub(crate) time: Option<usize>,
    pub(crate) cpu: Option<usize>,
    /// Offset of the payload's size. The payload follows it; all other fields precede it.
    pub(crate) raw: usize,
}

impl Shape {
    /// Returns the stamp and the payload; `None` if the sample is shorter than its size field says.
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
