//! A thread's place at a doorbell.

use std::os::fd::RawFd;

use crate::bell::{Bell, Woken};
use crate::{Pages, protocol, said, seen};

/// Parks at `bell` until there is work for one more thread. `session`: the socket, by which one learns that nobody rings any more.
#[must_use]
pub fn park(bell: &Bell, session: RawFd) -> Woken {
    let (Some(seen), said) = (seen(), said()) else { return Woken::Over };
    if protocol::settle(&Pages { said, seen }, bell.number) {
        let woken = bell.sleep(session);
        // Rung from within by somebody who took its bit, or by BPF, which did. A wake-up without either leaves the bit behind.
        protocol::Words::take(&Pages { said, seen }, bell.number);
        woken
    } else {
        Woken::Rung
    }
}
