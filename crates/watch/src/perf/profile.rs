//! A short profile: at which instructions some threads run, for some milliseconds. It takes no privilege beyond that of the `perf` backend. To begin
//! costs tens of microseconds for each thread, where loading BPF programs costs tens of milliseconds.

use std::io;

use perf_event_open_sys::bindings as abi;
use wire::Sample;

use super::event;
use super::parse::{Record, parse};
use super::ring::Ring;

/// Threads that are being sampled. Dropping the value ends the sampling.
#[derive(Debug)]
pub struct Profile {
    threads: Vec<Sampled>,
}

#[derive(Debug)]
struct Sampled {
    tgid: u32,
    tid: u32,
    ring: Ring,
}

impl Profile {
    /// Begins to sample threads, given as process and thread, each after `period_ns` of its CPU time, in user code only. Threads that the kernel does not
    /// let cox sample are left out: they have ended, or belong to another user, or perf events are not allowed here.
    #[must_use]
    pub fn at(threads: impl IntoIterator<Item = (u32, u32)>, period_ns: u64) -> Profile {
        let sampled = |(tgid, tid)| Some(Sampled { tgid, tid, ring: ring(tid, period_ns).ok()? });
        Profile { threads: threads.into_iter().filter_map(sampled).collect() }
    }

    /// Returns the number of threads that are sampled.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Ends the sampling and returns the samples.
    #[must_use]
    pub fn end(self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for Sampled { tgid, tid, mut ring } in self.threads {
            ring.drain(|record| {
                if let Some(Record::Sample { at, ip }) = parse(record) {
                    samples.push(Sample { ip, tid, tgid, t_ns: at.t_ns, ..Sample::default() });
                }
            });
        }
        samples
    }
}

/// Opens the event of a thread, and a ring of one page: it holds a hundred samples.
fn ring(tid: u32, period_ns: u64) -> io::Result<Ring> {
    let mut attr = event::software(abi::PERF_COUNT_SW_TASK_CLOCK);
    attr.__bindgen_anon_1.sample_period = period_ns;
    Ring::map(event::open(attr, Some(tid), None)?, rustix::param::page_size())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use testkit::skip::{Need, skip};

    use super::*;

    #[test]
    fn a_thread_that_runs_is_sampled_in_its_own_code() {
        let own = std::process::id();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let over = &over;
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                while !over.load(Ordering::Relaxed) {}
            });
            let tid = told.recv().unwrap();
            let profile = Profile::at([(own, tid), (own, u32::MAX)], 250_000);
            if profile.threads() == 0 {
                over.store(true, Ordering::Relaxed);
                return skip("a_thread_that_runs_is_sampled_in_its_own_code", Need::Perf, "perf events are refused");
            }
            assert_eq!(profile.threads(), 1, "the other one does not exist");
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(30) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let samples = profile.end();
            over.store(true, Ordering::Relaxed);
            assert!(samples.len() > 3, "{} samples", samples.len());
            assert!(samples.iter().all(|sample| (sample.tgid, sample.tid) == (own, tid)));
            assert!(samples.iter().all(|sample| sample.ip != 0 && sample.call().is_none()));
        });
    }
}
