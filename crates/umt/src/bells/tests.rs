//! Tests CPUs that share a doorbell. The CPUs are simulated, because this machine may have too few.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::os::fd::{FromRawFd, OwnedFd};

use super::*;

const CPUS: usize = 40;

/// Returns a session with no process at its other end, and its kernel page.
fn bells() -> (Bells, &'static KernelPage) {
    // SAFETY: the socket was just created, so no other code owns its descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)) };
    let bells = (0..BELLS as u32).map(|number| Bell::new(number, None).unwrap()).collect();
    // SAFETY: all fields of the page are numbers, for which zero is a valid value.
    let kernel_page: &KernelPage = Box::leak(unsafe { Box::<KernelPage>::new_zeroed().assume_init() });
    (Bells::new(Session { socket, bells, how: How::Bpf }, kernel_page, CPUS), kernel_page)
}

impl Bells {
    /// Does what BPF does when a thread blocks.
    fn blocks_on(&self, kernel_page: &KernelPage, cpu: usize) {
        let Moves { blocked, unblocked } = kernel_page.cpu[cpu].moves();
        kernel_page.cpu[cpu].0.store(u64::from(blocked + 1) | u64::from(unblocked) << 32, Ordering::Release);
        self.bell(cpu).raise();
        self.raised[cpu % BELLS].store(true, Ordering::Release);
    }

    fn told(&self, cpu: usize) -> u32 {
        self.read(cpu).unwrap().map_or(0, |counts| counts.blocked)
    }
}

fn is_readable(fd: RawFd) -> bool {
    let mut wanted = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel accesses one `pollfd`, only during the call.
    unsafe { libc::poll(&raw mut wanted, 1, 0) == 1 }
}

#[test]
fn who_reads_a_cpu_leaves_its_ring_to_those_that_share_the_bell() {
    let (bells, kernel_page) = bells();
    let [one, other, third] = [1, 1 + BELLS, 1 + 2 * BELLS].map(|cpu| bells.descriptor(Of::Cpu(cpu)).unwrap());
    bells.blocks_on(kernel_page, 1);
    bells.blocks_on(kernel_page, 1 + BELLS);
    assert!(is_readable(one) && is_readable(other) && is_readable(third));
    assert_eq!(bells.told(1), 1);
    assert!(is_readable(other), "what is not read is not lost");
    assert_eq!((bells.told(1 + 2 * BELLS), bells.told(1 + BELLS)), (0, 1));
    assert!(!is_readable(one) && !is_readable(other) && !is_readable(third), "all is read");
}

#[test]
fn cpus_that_nobody_polls_for_ring_nobody() {
    let (bells, kernel_page) = bells();
    let one = bells.descriptor(Of::Cpu(1)).unwrap();
    bells.blocks_on(kernel_page, 1 + BELLS);
    assert_eq!(bells.told(1), 0);
    assert!(!is_readable(one));
    let any = bells.descriptor(Of::Any).unwrap();
    assert_eq!(bells.told(1), 0);
    assert!(is_readable(any), "who polls for all reads all");
    assert_eq!(bells.told(1 + BELLS), 1);
    assert!(!is_readable(any));
}

#[test]
fn counters_wrap_around() {
    let (bells, kernel_page) = bells();
    for word in [&kernel_page.cpu[0], &bells.told[0]] {
        word.0.store(u64::from(u32::MAX - 1) | u64::from(u32::MAX) << 32, Ordering::Relaxed);
    }
    assert_eq!(bells.ready(0), 1);
    kernel_page.cpu[0].0.store(1 | 3 << 32, Ordering::Relaxed);
    assert_eq!(bells.read(0).unwrap(), Some(Counts { blocked: 3, unblocked: 4, lost: 0 }));
    assert_eq!((bells.read(0).unwrap(), bells.ready(0)), (None, 2));
}
