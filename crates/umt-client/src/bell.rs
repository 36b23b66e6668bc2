//! Doorbells: each a ring buffer that BPF rings, and an event descriptor for the program's own threads.
//!
//! A bell of its own for each standby, because a ring buffer wakes all who wait for it.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering, fence};

use wire::umt::BELLS;

use crate::descriptors::out_of_the_way;

/// Pages of a ring buffer's positions (Documentation/bpf/ringbuf.rst), on the machines that we run on.
const PAGE: usize = 4096;

/// Event descriptors of the bells, for who rings from within; -1: none.
static EVENTS: [AtomicI32; BELLS] = [const { AtomicI32::new(-1) }; BELLS];

static LOST: OnceLock<fn()> = OnceLock::new();

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Somebody rang.
    Rung,
    /// The session is over.
    Over,
    /// The program has closed what the bell needs.
    Lost,
}

/// One doorbell.
#[derive(Debug)]
pub struct Bell {
    /// Its number.
    pub number: u32,
    ring: Option<Ring>,
    event: OwnedFd,
}

/// What BPF rings.
#[derive(Debug)]
struct Ring {
    fd: OwnedFd,
    /// How far it has been read, and written.
    read: NonNull<AtomicU64>,
    written: NonNull<AtomicU64>,
}

// SAFETY: mappings of shared memory that are read and written as atomics.
unsafe impl Send for Bell {}

impl Bell {
    /// The bell of a ring buffer; without one it is rung from within the process only. `None`: it cannot be mapped, or there are no
    /// descriptors left.
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

    /// Sleeps until it is rung, until `session` is closed at its other end, or for so many milliseconds (-1: as long as it takes).
    /// `None`: time is up.
    #[must_use]
    pub fn sleep(&self, session: RawFd, milliseconds: i32) -> Option<Woken> {
        let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll(2) leaves out what is negative.
        let ring = self.ring.as_ref().map_or(-1, |ring| ring.fd.as_raw_fd());
        let mut all = [wanted(ring), wanted(self.event.as_raw_fd()), wanted(session)];
        let mut count = -1;
        while count < 0 {
            // SAFETY: an array of so many.
            count = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
        }
        if count == 0 {
            return None;
        }
        // Whoever closes descriptors that are not its own closes all. It would not sleep any more; nor read, with luck, what is not ours.
        if all.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
            return Some(Woken::Lost);
        }
        self.hush();
        if all[1].revents != 0 {
            self.lower();
        }
        Some(if all[2].revents == 0 { Woken::Rung } else { Woken::Over })
    }

    /// Reads what BPF has rung, so that it wakes again. Whoever looks *behind* this at what it rings for misses nothing: it wakes only those who have
    /// read all, and what it counted before a ring that is read here can be seen. Whether it had rung.
    pub fn hush(&self) -> bool {
        let Some(ring) = &self.ring else { return false };
        // SAFETY: mapped by `new`, and never given back.
        let (read, written) = unsafe { (ring.read.as_ref(), ring.written.as_ref()) };
        let mut had_rung = false;
        loop {
            // What rang says nothing else: it is read by moving on.
            let end = written.load(Ordering::Acquire);
            if read.load(Ordering::Relaxed) == end {
                return had_rung;
            }
            had_rung = true;
            read.store(end, Ordering::Release);
            // BPF writes its end and then reads ours: if it has not seen this one, and wakes nobody, we see its end now.
            fence(Ordering::SeqCst);
        }
    }

    /// Has it ring until it is [lowered](Bell::lower).
    pub fn raise(&self) {
        write(self.event.as_raw_fd());
    }

    /// It rings no more for [`raise`](Bell::raise). Does not block.
    pub fn lower(&self) {
        let mut count = 0u64;
        // SAFETY: room for the eight bytes.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// What can be polled: BPF's ring, and what is [raised](Bell::raise) from within.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.ring.iter().map(|ring| ring.fd.as_raw_fd()).chain([self.event.as_raw_fd()])
    }
}

/// Rings the standby whose bit the caller has taken.
pub(crate) fn ring(bell: u32) {
    write(EVENTS.get(bell as usize).map_or(-1, |event| event.load(Ordering::Acquire)));
}

/// Raises an event descriptor.
pub(crate) fn write(event: RawFd) {
    let one = 1u64;
    // SAFETY: eight bytes; errno is put back, the program has called nothing that sets it. Where the program has closed the descriptor and
    // has a file of its own there, at a number as high as that, what is written is its own doing.
    let is_lost = unsafe {
        let errno = *libc::__errno_location();
        let is_lost = libc::write(event, (&raw const one).cast(), 8) < 0 && *libc::__errno_location() != libc::EAGAIN;
        *libc::__errno_location() = errno;
        is_lost
    };
    if is_lost && let Some(lost) = LOST.get() {
        lost();
    }
}

/// Has `lost` called when a bell cannot be rung, since the program has closed what it needs: its standby sleeps on, and whoever counts on it has
/// to be told.
pub fn when_lost(lost: fn()) {
    let _ = LOST.set(lost);
}

pub(crate) fn event() -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: makes a descriptor.
    let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    // SAFETY: just made, and nobody else's.
    let event = (event >= 0).then(|| unsafe { OwnedFd::from_raw_fd(event) })?;
    out_of_the_way(event).ok()
}

/// Maps a part of a descriptor's memory, which stays.
pub(crate) fn map(fd: &OwnedFd, offset: usize, bytes: usize, access: libc::c_int) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let place = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd.as_raw_fd(), offset as libc::off_t)
    };
    if place == libc::MAP_FAILED { None } else { NonNull::new(place.cast()) }
}
