//! Doorbells, on which standbys sleep: threads that run tasks while other threads are blocked. Each doorbell consists of a ring buffer that BPF
//! rings, and an event descriptor (eventfd) that the program's own threads ring.
//!
//! Each standby has a doorbell of its own, because a ring buffer wakes all threads that wait for it.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering, fence};

use wire::umt::BELLS;

use crate::descriptors::{out_of_the_way, owned};
use crate::thread::Errno;

/// Size of each of the two pages that hold a ring buffer's positions (Documentation/bpf/ringbuf.rst), on the machines that cox runs on.
const PAGE: usize = 4096;

/// Event descriptors of the doorbells, for ringing from within the process; -1: no doorbell.
static EVENTS: [AtomicI32; BELLS] = [const { AtomicI32::new(-1) }; BELLS];

static LOST: OnceLock<fn()> = OnceLock::new();

/// Why a standby's sleep at its doorbell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The doorbell was rung.
    Rung,
    /// The session is over.
    Over,
    /// The program has closed a descriptor that the doorbell needs.
    Lost,
}

/// One doorbell.
#[derive(Debug)]
pub struct Bell {
    /// The doorbell's number, which is also the number of its bit in `parked`.
    pub number: u32,
    ring: Option<Ring>,
    event: OwnedFd,
}

/// A doorbell's BPF ring buffer. When BPF writes to it (rings), the kernel wakes the standby that sleeps there.
#[derive(Debug)]
struct Ring {
    fd: OwnedFd,
    /// The ring buffer's consumer position, which this process writes, and its producer position, which BPF writes.
    read: NonNull<AtomicU64>,
    written: NonNull<AtomicU64>,
}

// SAFETY: the pointers lead to mappings of shared memory, which are accessed only as atomics.
unsafe impl Send for Bell {}
// SAFETY: as for `Send`. If two threads call `hush` at the same time, one may set the read position back for a moment. But each thread repeats until
// the read position equals the write position.
unsafe impl Sync for Bell {}

impl Bell {
    /// Makes a doorbell from a ring buffer. Without a ring buffer, only this process can ring it. Returns `None` if the buffer cannot be mapped, or
    /// if no descriptors are left.
    #[must_use]
    pub fn new(number: u32, ring: Option<OwnedFd>) -> Option<Bell> {
        let event = event()?;
        let ring = match ring {
            None => None,
            Some(fd) => {
                let read = map(&fd, 0, PAGE, libc::PROT_READ | libc::PROT_WRITE)?.cast();
                let written = map(&fd, PAGE, PAGE, libc::PROT_READ)?.cast();
                Some(Ring { fd, read, written })
            }
        };
        EVENTS.get(number as usize)?.store(event.as_raw_fd(), Ordering::Release);
        Some(Bell { number, ring, event })
    }

    /// Sleeps until the doorbell is rung, until the other end of `session` is closed, or for at most `milliseconds` (-1: without limit). Returns
    /// `None` on timeout.
    #[must_use]
    pub fn sleep(&self, session: RawFd, milliseconds: i32) -> Option<Woken> {
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll(2) ignores negative descriptors.
        let ring = self.ring.as_ref().map_or(-1, |ring| ring.fd.as_raw_fd());
        let mut all = [wanted(ring), wanted(self.event.as_raw_fd()), wanted(session)];
        let mut count = -1;
        while count < 0 {
            // SAFETY: `all` is an array of `all.len()` entries.
            count = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
        }
        if count == 0 {
            return None;
        }
        // POLLNVAL: the program has closed our descriptors, probably all of them. Stop: poll(2) would return immediately from now on, and later this
        // thread might read from a file that the program has opened under the same number.
        if all.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
            return Some(Woken::Lost);
        }
        self.hush();
        if all[1].revents != 0 {
            self.lower();
        }
        Some(if all[2].revents == 0 { Woken::Rung } else { Woken::Over })
    }

    /// Consumes what BPF has written to the ring buffer, so that BPF's next ring wakes a thread again. Returns whether BPF had rung.
    ///
    /// The caller must look for tasks or counts *after* this call; then it misses no ring. BPF wakes a reader only if the reader had consumed
    /// everything before. If BPF counted an event before it rang, the count is visible after the call that consumes this ring.
    pub fn hush(&self) -> bool {
        let Some(ring) = &self.ring else { return false };
        // SAFETY: both pointers lead to mappings that `new` made, and that are never unmapped.
        let (read, written) = unsafe { (ring.read.as_ref(), ring.written.as_ref()) };
        let mut had_rung = false;
        loop {
            // The contents of a record do not matter: advancing the position consumes it.
            let end = written.load(Ordering::Acquire);
            if read.load(Ordering::Relaxed) == end {
                return had_rung;
            }
            had_rung = true;
            read.store(end, Ordering::Release);
            // BPF stores its write position and then loads our read position. If it loads the old read position, it wakes no thread. Because of this
            // fence, our next load then sees the new write position.
            fence(Ordering::SeqCst);
        }
    }

    /// Rings the doorbell from within the process. It stays rung until it is [lowered](Bell::lower).
    pub fn raise(&self) {
        write(self.event.as_raw_fd());
    }

    /// Undoes a [`raise`](Bell::raise). Does not block.
    pub fn lower(&self) {
        let mut count = 0u64;
        // SAFETY: `count` has space for the eight bytes that the call reads.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Returns the descriptors to poll: BPF's ring, and the event descriptor of [`raise`](Bell::raise).
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.ring.iter().map(|ring| ring.fd.as_raw_fd()).chain([self.event.as_raw_fd()])
    }
}

/// Rings a doorbell, which wakes the standby thread that is parked there. The caller has already cleared this standby's bit in `parked`.
pub(crate) fn ring(bell: u32) {
    write(EVENTS.get(bell as usize).map_or(-1, |event| event.load(Ordering::Acquire)));
}

/// Signals an event descriptor.
pub(crate) fn write(event: RawFd) {
    let one = 1u64;
    let _errno = Errno::keep();
    // SAFETY: the kernel reads the eight bytes of `one`. If the program has closed the descriptor and opened a file of its own under that high
    // number, the write goes to that file; that is the program's own doing.
    let is_lost =
        unsafe { libc::write(event, (&raw const one).cast(), 8) < 0 && *libc::__errno_location() != libc::EAGAIN };
    if is_lost && let Some(lost) = LOST.get() {
        lost();
    }
}

/// Sets a function that is called when a doorbell cannot be rung because the program has closed its descriptor: the standby at that doorbell
/// continues to sleep, and the code that relies on it has to be informed.
pub fn when_lost(lost: fn()) {
    let _ = LOST.set(lost);
}

pub(crate) fn event() -> Option<OwnedFd> {
    // SAFETY: the call takes no pointers; it only makes a descriptor.
    unsafe { owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }.and_then(out_of_the_way).ok()
}

/// Maps a part of a descriptor's memory. The mapping is never removed.
pub(crate) fn map(fd: &OwnedFd, offset: usize, bytes: usize, access: libc::c_int) -> Option<NonNull<u8>> {
    // SAFETY: the call makes a new mapping, at an address that the kernel chooses.
    let place = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), offset as libc::off_t)
    };
    if place == libc::MAP_FAILED { None } else { NonNull::new(place.cast()) }
}
