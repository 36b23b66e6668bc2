//! The counts from BPF, in a session of `cox run --overlap=bpf`. BPF counts in a page of shared memory. At the events that the program has chosen,
//! BPF rings a doorbell: a descriptor that becomes readable when it is rung ([`umt_client::bell`]).
//!
//! A session has 16 doorbells; that of CPU n is number n mod 16. If several CPUs share a doorbell, a read for one of them also clears a ring for the
//! others. So the reader then checks whether the other CPUs have unread counts, and raises the doorbell again if one has. It checks only the CPUs
//! whose descriptor the program has requested, because the program waits for no others.
//!
//! A process keeps its session as long as it lives, because BPF continues to track the process's threads for that session.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use umt_client::bell::Bell;
use umt_client::connect::{Session, connect, parse};
use wire::umt::{BELLS, Cpu, How, KernelPage, Moves};

use crate::backend::{Backend, Counts, Of};
use crate::watcher::{Watcher, close};

/// Environment variable by which cox offers a session to the program: `on,PATH,NONCE`.
const VARIABLE: &str = "COX_OVERLAP";

/// The session that this process has joined; null if none.
static KEPT: AtomicPtr<Bells> = AtomicPtr::new(std::ptr::null_mut());

/// The backend `bpf`.
#[derive(Debug)]
pub struct Bells {
    session: Session,
    kernel_page: &'static KernelPage,
    cpus: usize,
    /// For each CPU, the counters at the program's last read.
    told: Vec<Cpu>,
    /// For each CPU, whether the program has requested a descriptor that covers this CPU.
    polled: Vec<AtomicBool>,
    /// For each doorbell, whether this library itself, and not BPF, has rung it.
    raised: [AtomicBool; BELLS],
    /// The descriptors: one for each CPU, and a last one for all CPUs together.
    watchers: Mutex<Vec<Option<Watcher>>>,
}

impl Bells {
    /// Returns the session that the environment names. `None` if there is no session, if the session does not use BPF, or if BPF does not
    /// count this process's threads.
    pub fn find(cpus: usize) -> Option<&'static Bells> {
        // SAFETY: `KEPT` is null, or points to a session that is never freed.
        if let Some(kept) = unsafe { KEPT.load(Ordering::Acquire).as_ref() } {
            return (!kept.is_over()).then(|| kept.begins_anew());
        }
        let variable = std::env::var_os(VARIABLE)?;
        let (path, nonce) = parse(variable.as_encoded_bytes().strip_prefix(b"on,")?)?;
        let session = connect(path, nonce).ok()?;
        let kernel_page = umt_client::kernel_page().filter(|_| session.how == How::Bpf && session.bells.len() == BELLS);
        // Test whether BPF counts this thread. It does not if the process is in another PID namespace than cox, or if another runtime in this
        // process has joined the session before.
        let kernel_page = kernel_page.filter(|kernel_page| {
            let is_seen = umt_client::register() && umt_client::has_blocked(kernel_page);
            umt_client::discharge();
            umt_client::leave_once();
            is_seen
        });
        let Some(kernel_page) = kernel_page else {
            umt_client::end();
            return None;
        };
        let bells = Box::leak(Box::new(Bells::new(session, kernel_page, cpus)));
        KEPT.store(bells, Ordering::Release);
        Some(bells.begins_anew())
    }

    fn new(session: Session, kernel_page: &'static KernelPage, cpus: usize) -> Bells {
        Bells {
            session,
            kernel_page,
            cpus,
            told: (0..cpus).map(|_| Cpu::default()).collect(),
            polled: (0..cpus).map(|_| AtomicBool::new(false)).collect(),
            raised: [const { AtomicBool::new(false) }; BELLS],
            watchers: Mutex::new((0..=cpus).map(|_| None).collect()),
        }
    }

    fn begins_anew(&self) -> &Bells {
        for (told, now) in self.told.iter().zip(&self.kernel_page.cpu) {
            told.0.store(now.0.load(Ordering::Acquire), Ordering::Release);
        }
        self
    }

    fn bell(&self, cpu: usize) -> &Bell {
        &self.session.bells[cpu % BELLS]
    }

    fn moves(&self, cpu: usize) -> Moves {
        self.kernel_page.cpu[cpu].moves()
    }

    fn is_over(&self) -> bool {
        let mut socket = libc::pollfd { fd: self.session.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the kernel accesses one `pollfd`, only during the call.
        unsafe { libc::poll(&raw mut socket, 1, 0) > 0 }
    }

    /// Closes the copies of the descriptors in a child after fork.
    fn close_copies(&self) {
        close([self.session.socket.as_raw_fd()]);
        close(self.session.bells.iter().flat_map(Bell::descriptors));
        // If a thread of the parent held the lock at the fork, the descriptors stay open.
        let Ok(watchers) = self.watchers.try_lock() else { return };
        watchers.iter().flatten().for_each(Watcher::leave_to_parent);
    }
}

impl Backend for Bells {
    fn name(&self) -> &'static CStr {
        c"bpf"
    }

    fn begin(&self, tells: u32) {
        umt_client::program_page().tells.store(tells, Ordering::Release);
    }

    fn register(&self) -> io::Result<()> {
        if umt_client::register() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EAGAIN)) }
    }

    fn unregister(&self) {
        umt_client::discharge();
        umt_client::leave_once();
    }

    fn end(&self) {
        self.begin(0);
        umt_client::discharge_all();
        self.polled.iter().for_each(|polled| polled.store(false, Ordering::Release));
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|watcher| *watcher = None);
    }

    /// Returns the descriptor for one CPU or for all. With this backend it is also ready when the session has ended.
    fn descriptor(&self, of: Of) -> io::Result<RawFd> {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let (slot, cpus) = match of {
            Of::Cpu(cpu) => (cpu, cpu..cpu + 1),
            Of::Any => (self.cpus, 0..self.cpus),
        };
        if let Some(watcher) = &watchers[slot] {
            return Ok(watcher.raw());
        }
        let watcher = Watcher::new()?;
        for bell in cpus.clone().take(BELLS).map(|cpu| self.bell(cpu)) {
            bell.descriptors().try_for_each(|what| watcher.watch(what, libc::EPOLLIN))?;
        }
        watcher.watch(self.session.socket.as_raw_fd(), libc::EPOLLIN | libc::EPOLLRDHUP)?;
        let raw = watcher.raw();
        watchers[slot] = Some(watcher);
        cpus.for_each(|cpu| self.polled[cpu].store(true, Ordering::Release));
        Ok(raw)
    }

    fn read(&self, cpu: usize) -> io::Result<Option<Counts>> {
        let bell = self.bell(cpu);
        // First clear the doorbell's readiness, then read the counters. An event that BPF counts before this call is read below. An event that BPF
        // counts later rings the doorbell again, so that the descriptor becomes readable.
        let had_rung = bell.hush();
        if self.raised[cpu % BELLS].swap(false, Ordering::AcqRel) {
            bell.lower();
        }
        let moves = advance(&self.told[cpu].0, &self.kernel_page.cpu[cpu]);
        let is_left = |other: &usize| {
            *other != cpu
                && self.polled[*other].load(Ordering::Acquire)
                && self.moves(*other) != self.told[*other].moves()
        };
        if (cpu % BELLS..self.cpus).step_by(BELLS).any(|other| is_left(&other)) {
            bell.raise();
            // Set only after `raise`: a thread that sees the flag calls `lower`, which must come after `raise`.
            self.raised[cpu % BELLS].store(true, Ordering::Release);
        }
        if moves == Moves::default() && !had_rung && self.is_over() {
            return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
        }
        let counts = Counts { blocked: moves.blocked, unblocked: moves.unblocked, lost: 0 };
        Ok((moves != Moves::default()).then_some(counts))
    }

    fn ready(&self, cpu: usize) -> u32 {
        // The difference of the counters may be negative for an instant: a thread's move to another CPU is counted in two steps, and between them the
        // thread is counted on neither CPU.
        self.moves(cpu).ready().max(0) as u32
    }

    /// Does nothing: [`forked`] closes the copies. Unlike this function, it is also called if the monitor has been disabled before the fork.
    fn leave_to_parent(&self) {}
}

/// Forgets the session of cox in a child after fork, and closes the child's copies of its descriptors: the session belongs to the parent.
pub fn forked() {
    // SAFETY: `KEPT` is null, or points to a session that is never freed.
    let kept = unsafe { KEPT.swap(std::ptr::null_mut(), Ordering::AcqRel).as_ref() };
    kept.into_iter().for_each(Bells::close_copies);
}

/// Returns what BPF has counted in `now` (the counters of a CPU) since the last call, and stores the present counters in `told`. If several threads
/// call this at the same time, each count is returned to only one of them.
fn advance(told: &AtomicU64, now: &Cpu) -> Moves {
    let mut before = told.load(Ordering::Acquire);
    loop {
        // Loaded after `before`, so it is never older.
        let word = now.0.load(Ordering::Acquire);
        match told.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Cpu(AtomicU64::new(word)).moves().since(Cpu(AtomicU64::new(before)).moves()),
            Err(other) => before = other,
        }
    }
}

#[cfg(test)]
mod tests;
