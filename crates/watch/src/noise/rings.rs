//! The rings into which the programs write events: one for each CPU, so that CPUs whose ticks come at the same time do not wait for one another.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use libbpf_rs::{AsRawLibbpf, MapHandle, MapType, RingBuffer, RingBufferBuilder, libbpf_sys};

use super::merge::{Merge, Reader};
use super::record::{Interruption, parse};
use crate::bpf::{Programs, inner, system};
use crate::observer::WatchError;
use crate::online;

/// Smallest size of a ring, bytes: a page.
const LEAST_BYTES: u32 = 4096;
/// The action that an error message names if a ring cannot be made.
const MAKING: &str = "making the rings for noise events";

pub(super) struct Rings {
    /// All rings. One reader for all takes one descriptor; one for each CPU would take hundreds.
    rings: RingBuffer<'static>,
    /// What the last read has found.
    read: Rc<RefCell<Vec<(u64, Interruption)>>>,
    merge: Merge<Interruption>,
}

impl Rings {
    /// Makes a ring for each CPU that is online, and gives them to the programs. Together they have at most `bytes`, but each one at least a page. What
    /// happens on a CPU that comes later is counted as lost.
    pub(super) fn new(programs: &Programs, bytes: u32) -> Result<Rings, WatchError> {
        let cpus = online::cpus()?;
        let each = bytes_of_each(bytes, cpus.len());
        let rings = MapHandle::try_from(&programs.map("noise_rings")?).map_err(|e| system(MAKING, e))?;
        let read = Rc::new(RefCell::new(Vec::new()));
        let made = cpus.iter().map(|_| inner::made("cox_noise", MapType::RingBuf, [0, 0], each, 0));
        let made: Vec<MapHandle> = made.collect::<libbpf_rs::Result<_>>().map_err(|e| system(MAKING, e))?;
        let reader = reader(&made, &read).map_err(|e| system("mapping the events", e))?;
        inner::put(&rings, cpus.into_iter().zip(&made)).map_err(|e| system(MAKING, e))?;
        Ok(Rings { merge: Merge::new(made.len()), rings: reader, read })
    }

    /// Returns the oldest events, some `most` of them. `is_over`: the programs write no more.
    pub(super) fn take(&mut self, most: usize, is_over: bool) -> Result<Vec<Interruption>, WatchError> {
        let (rings, read) = (&self.rings, &self.read);
        let read = |ring: usize, most: usize| {
            // SAFETY: `rings` lives as long as self; libbpf returns null for a number that no ring has, and the numbers are those of the rings.
            let taken = unsafe {
                let ring = libbpf_sys::ring_buffer__ring(rings.as_libbpf_object().as_ptr(), ring as _);
                if ring.is_null() { -libc::ENOENT } else { libbpf_sys::ring__consume_n(ring, most as _) }
            };
            if taken < 0 {
                return Err(WatchError::system("reading the events", io::Error::from_raw_os_error(-taken)));
            }
            Ok(read.take())
        };
        let now_ns = || if is_over { u64::MAX } else { arch::monotonic_ns() };
        self.merge.take(most, Reader { read, now_ns })
    }
}

/// Returns a reader that puts the events of the rings into `to`. The rings stay mapped when their descriptors are closed.
fn reader(rings: &[MapHandle], to: &Rc<RefCell<Vec<(u64, Interruption)>>>) -> libbpf_rs::Result<RingBuffer<'static>> {
    let mut builder = RingBufferBuilder::new();
    for ring in rings {
        let to = Rc::clone(to);
        builder.add(ring, move |bytes| {
            to.borrow_mut().extend(parse(bytes).map(|event| (event.0.t_ns, event)));
            0
        })?;
    }
    builder.build()
}

/// Returns the size of one of `rings` rings: a power of two, and a page or more.
fn bytes_of_each(bytes: u32, rings: usize) -> u32 {
    let each = u32::try_from(bytes as usize / rings.max(1)).unwrap_or(bytes);
    each.checked_ilog2().map_or(0, |log| 1 << log).max(LEAST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rings_share_the_memory() {
        assert_eq!([1, 2, 3, 256].map(|rings| bytes_of_each(16 << 20, rings)), [16 << 20, 8 << 20, 4 << 20, 64 << 10]);
        assert_eq!([0, 1024].map(|rings| bytes_of_each(4096, rings)), [4096; 2]);
    }
}
