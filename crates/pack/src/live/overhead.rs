//! CPU time of the packer's own threads: the manager and the tickers.
//!
//! Other engines of the same session run on the session's thread, which is another thread of this process. So the
//! packer's time is the CPU time of the process minus that of the session's thread. *Alternative that was rejected:*
//! adding up the clocks of the manager and all tickers, which takes one system call per CPU of the pack each time.
#![allow(unsafe_code, reason = "the CPU-time clock of another thread has no safe wrapper in the libraries we use")]

use std::mem::MaybeUninit;

/// CPU time of this process without the session's thread.
pub struct OwnTime {
    /// The CPU-time clock of the session's thread; `None` if the C library could not return it.
    session: Option<libc::clockid_t>,
    session_ns: u64,
    judging_ns: u64,
    charged_ns: u64,
}

impl OwnTime {
    /// Makes a clock that leaves out the caller, which must be the session's thread.
    pub fn of_all_but_caller() -> OwnTime {
        let mut clock = MaybeUninit::uninit();
        // SAFETY: the calling thread exists, and `clock` is written when the result is 0.
        let session = unsafe {
            (libc::pthread_getcpuclockid(libc::pthread_self(), clock.as_mut_ptr()) == 0).then(|| clock.assume_init())
        };
        OwnTime { session, session_ns: 0, judging_ns: 0, charged_ns: 0 }
    }

    /// Returns the CPU time so far, ns.
    pub fn ns(&mut self) -> u64 {
        // After the session's thread has ended, its last known time is used.
        self.session_ns = self.session.and_then(read_ns).unwrap_or(self.session_ns);
        arch::clock::process_cpu_ns().saturating_sub(self.session_ns)
    }

    /// Returns the CPU time that counts as the cost of packing in a measuring window, ns: [`OwnTime::ns`] without the
    /// time spent in [`OwnTime::while_judging`]. The result never decreases. `ns` can decrease a little, because it is
    /// the difference of two clocks that are read one after the other.
    pub fn charged_ns(&mut self) -> u64 {
        self.charged_ns = self.charged_ns.max(self.ns().saturating_sub(self.judging_ns));
        self.charged_ns
    }

    /// Runs `judge`, whose CPU time does not count as a cost of packing: it reads each binary of the program only once.
    pub fn while_judging<T>(&mut self, judge: impl FnOnce() -> T) -> T {
        let before_ns = arch::clock::thread_cpu_ns();
        let judged = judge();
        self.judging_ns += arch::clock::thread_cpu_ns() - before_ns;
        judged
    }
}

fn read_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `now` has room for a timespec, which is written when the result is 0.
    let now = unsafe { (libc::clock_gettime(clock, now.as_mut_ptr()) == 0).then(|| now.assume_init())? };
    Some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Uses so much CPU time of the calling thread.
    fn work(ns: u64) {
        let end_ns = arch::clock::thread_cpu_ns() + ns;
        while arch::clock::thread_cpu_ns() < end_ns {}
    }

    /// Other tests of this process work too: differences only hold what the session has used.
    #[test]
    fn the_sessions_own_work_is_not_the_packers() {
        const WORK_NS: u64 = 40_000_000;
        thread::spawn(|| {
            let mut own = OwnTime::of_all_but_caller();
            let before_ns = (own.ns(), arch::clock::process_cpu_ns());
            work(WORK_NS);
            let after_ns = (own.ns(), arch::clock::process_cpu_ns());
            // The packer's time is a difference of two clocks, which are read one after another. In a process that does nothing else it may
            // be a little less the second time.
            let (packer_ns, process_ns) = (after_ns.0.saturating_sub(before_ns.0), after_ns.1 - before_ns.1);
            assert!(process_ns >= packer_ns + WORK_NS * 9 / 10, "{packer_ns} of {process_ns}");

            let own = thread::spawn(move || {
                work(WORK_NS);
                assert!(own.ns() >= after_ns.0 + WORK_NS);
                let charged_ns = own.charged_ns();
                let before_ns = (own.ns(), charged_ns);
                own.while_judging(|| work(WORK_NS));
                let grown_ns = (own.ns() - before_ns.0, own.charged_ns() - before_ns.1);
                assert!(grown_ns.0 >= WORK_NS && grown_ns.0 + WORK_NS / 10 >= grown_ns.1 + WORK_NS, "{grown_ns:?}");
                own
            });
            own.join().unwrap()
        })
        .join()
        .map(|mut own| {
            let packer_ns = own.ns();
            assert!(arch::clock::process_cpu_ns() >= packer_ns + WORK_NS, "the session has ended");
        })
        .unwrap();
    }
}
