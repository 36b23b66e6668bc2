//! The signal from BPF, in a session of `cox run --overlap=bpf`: counters in a page that it writes, and the session's doorbells.
//!
//! CPU n has bell n mod 16. Who reads a CPU whose bell is another one's, too, takes that one's ring away: it looks behind that whether there is something to
//! tell of the other CPU, and raises the bell again. Only CPUs whose descriptor was asked for count there: nobody would ever read others.
//!
//! A process has one session for as long as it lives: BPF knows threads by it, and goes on knowing them.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use signal::bell::Bell;
use signal::connect::{Session, connect, parse};
use wire::umt::{BELLS, Cpu, How, Moves, Seen};

use crate::counts::{Counts, Of};
use crate::watcher::{Watcher, close};

/// Where cox says how blocked threads are noticed: `on,PATH,NONCE`.
const VARIABLE: &str = "COX_OVERLAP";

/// The session of this process.
static KEPT: AtomicPtr<Bells> = AtomicPtr::new(std::ptr::null_mut());

/// All of it.
#[derive(Debug)]
pub struct Bells {
    session: Session,
    seen: &'static Seen,
    cpus: usize,
    /// Counters as they were told last.
    told: Vec<Cpu>,
    /// Somebody polls for this CPU.
    polled: Vec<AtomicBool>,
    /// This bell was raised from within.
    raised: [AtomicBool; BELLS],
    /// By CPU, and behind them the one for all.
    watchers: Mutex<Vec<Option<Watcher>>>,
}

impl Bells {
    /// The session that the environment names, if BPF counts there and sees this process. `None`: otherwise.
    pub fn find(cpus: usize) -> Option<&'static Bells> {
        // SAFETY: null, or kept for good.
        if let Some(kept) = unsafe { KEPT.load(Ordering::Acquire).as_ref() } {
            return (!kept.is_over()).then(|| kept.begins_anew());
        }
        let variable = std::env::var_os(VARIABLE)?;
        let (path, nonce) = parse(variable.as_encoded_bytes().strip_prefix(b"on,")?)?;
        let session = connect(path, nonce).ok()?;
        let seen = signal::seen().filter(|_| session.how == How::Bpf && session.bells.len() == BELLS);
        // In another PID namespace, or where another runtime of the process has asked before, BPF knows these threads by no number of ours.
        let seen = seen.filter(|seen| {
            let is_seen = signal::register() && signal::has_blocked(seen);
            signal::discharge();
            signal::leave_once();
            is_seen
        });
        let Some(seen) = seen else {
            signal::end();
            return None;
        };
        let bells = Box::leak(Box::new(Bells::new(session, seen, cpus)));
        KEPT.store(bells, Ordering::Release);
        Some(bells.begins_anew())
    }

    fn new(session: Session, seen: &'static Seen, cpus: usize) -> Bells {
        Bells {
            session,
            seen,
            cpus,
            told: (0..cpus).map(|_| Cpu::default()).collect(),
            polled: (0..cpus).map(|_| AtomicBool::new(false)).collect(),
            raised: [const { AtomicBool::new(false) }; BELLS],
            watchers: Mutex::new((0..=cpus).map(|_| None).collect()),
        }
    }

    fn begins_anew(&self) -> &Bells {
        for (told, now) in self.told.iter().zip(&self.seen.cpu) {
            told.0.store(now.0.load(Ordering::Acquire), Ordering::Release);
        }
        self
    }

    /// What bells are rung for.
    pub fn tells(&self, tells: u32) {
        signal::said().tells.store(tells, Ordering::Release);
    }

    /// The calling thread counts from here on.
    pub fn register(&self) -> io::Result<()> {
        if signal::register() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EAGAIN)) }
    }

    /// The calling thread counts no more.
    pub fn unregister(&self) {
        signal::discharge();
        signal::leave_once();
    }

    /// Nobody counts, and nothing can be polled.
    pub fn end(&self) {
        self.tells(0);
        signal::discharge_all();
        self.polled.iter().for_each(|polled| polled.store(false, Ordering::Release));
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(|watcher| *watcher = None);
    }

    /// What is polled for a CPU, or for all. Ready, too, when the session has ended.
    pub fn descriptor(&self, of: Of) -> io::Result<RawFd> {
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

    fn bell(&self, cpu: usize) -> &Bell {
        &self.session.bells[cpu % BELLS]
    }

    /// What has come since the last time.
    ///
    /// # Errors
    /// The session has ended, and nobody counts.
    pub fn read(&self, cpu: usize) -> io::Result<Option<Counts>> {
        let bell = self.bell(cpu);
        // First the bell, then counters: what is counted behind this rings again, and what was counted before is read below.
        let had_rung = bell.hush();
        if self.raised[cpu % BELLS].swap(false, Ordering::AcqRel) {
            bell.lower();
        }
        let moves = advance(&self.told[cpu].0, &self.seen.cpu[cpu]);
        let is_left = |other: &usize| {
            *other != cpu
                && self.polled[*other].load(Ordering::Acquire)
                && self.moves(*other) != self.told[*other].moves()
        };
        if (cpu % BELLS..self.cpus).step_by(BELLS).any(|other| is_left(&other)) {
            bell.raise();
            // Behind it, so that who lowers it does so once it is up.
            self.raised[cpu % BELLS].store(true, Ordering::Release);
        }
        if moves == Moves::default() && !had_rung && self.is_over() {
            return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
        }
        let counts = Counts { blocked: moves.blocked, unblocked: moves.unblocked, lost: 0 };
        Ok((moves != Moves::default()).then_some(counts))
    }

    /// Threads that are ready on a CPU.
    pub fn ready(&self, cpu: usize) -> u32 {
        // Both halves are counted one after the other: a thread that is moved may be on neither CPU for an instant.
        self.moves(cpu).ready().max(0) as u32
    }

    fn moves(&self, cpu: usize) -> Moves {
        self.seen.cpu[cpu].moves()
    }

    fn is_over(&self) -> bool {
        let mut socket = libc::pollfd { fd: self.session.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        unsafe { libc::poll(&raw mut socket, 1, 0) > 0 }
    }

    /// In a child after fork, which forgets all of this: closes what it was given copies of.
    fn leave_to_parent(&self) {
        close([self.session.socket.as_raw_fd()]);
        close(self.session.bells.iter().flat_map(Bell::descriptors));
        // Somebody in the parent was at it: then they stay open.
        let Ok(watchers) = self.watchers.try_lock() else { return };
        watchers.iter().flatten().for_each(Watcher::leave_to_parent);
    }
}

/// In a child after fork: the session is the parent's.
pub fn forked() {
    // SAFETY: null, or kept for good.
    let kept = unsafe { KEPT.swap(std::ptr::null_mut(), Ordering::AcqRel).as_ref() };
    kept.into_iter().for_each(Bells::leave_to_parent);
}

/// What was counted since it was told last, to one of those who ask at the same time.
fn advance(told: &AtomicU64, now: &Cpu) -> Moves {
    let mut before = told.load(Ordering::Acquire);
    loop {
        // Behind `before`: never older.
        let word = now.0.load(Ordering::Acquire);
        match told.compare_exchange(before, word, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Cpu(AtomicU64::new(word)).moves().since(Cpu(AtomicU64::new(before)).moves()),
            Err(other) => before = other,
        }
    }
}

#[cfg(test)]
mod tests;
