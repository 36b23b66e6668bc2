//! Waits for one moment after the other, with as few settings of the CPU's timer as possible.
//!
//! Two timers take turns: the moment after next is set while the next one is still ahead. The kernel sets the CPU's
//! timer anew only for what comes first, and does that for the next moment when it handles the one before, so ours
//! never need it. In a virtual machine each such setting leaves the guest: 5 to 8 us of a tick's 11.

use std::io;

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Two timers; moments are of CLOCK_MONOTONIC, ns.
pub struct Alarm {
    timers: [OwnedFd; 2],
    /// When they go off; that of the first comes first.
    at_ns: [u64; 2],
}

impl Alarm {
    /// Goes off at these two moments, the first of which comes first.
    ///
    /// # Errors
    /// When there are too many descriptors.
    pub fn new(at_ns: [u64; 2]) -> io::Result<Alarm> {
        let timer = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let mut alarm = Alarm { timers: [timer()?, timer()?], at_ns };
        alarm.set(at_ns)?;
        Ok(alarm)
    }

    /// These two moments instead of those that were set, the first of which comes first.
    ///
    /// # Errors
    /// As [`Alarm::wait`].
    pub fn set(&mut self, at_ns: [u64; 2]) -> io::Result<()> {
        self.at_ns = at_ns;
        self.timers.iter().zip(at_ns).try_for_each(|(timer, at_ns)| set(timer, at_ns))
    }

    /// Sleeps until the next moment. A moment that has passed is not waited for.
    ///
    /// # Errors
    /// When the kernel refuses, which it has no reason for; `EINTR` after a signal.
    pub fn wait(&mut self) -> io::Result<()> {
        let mut expirations = [0; 8];
        rustix::io::read(&self.timers[0], &mut expirations)?;
        Ok(())
    }

    /// The moment after the last one that was waited for has passed: the next one, which is set already.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.at_ns[1]
    }

    /// The moment after next, from now on the one after [`Alarm::next_ns`].
    ///
    /// # Errors
    /// As [`Alarm::wait`].
    pub fn then(&mut self, at_ns: u64) -> io::Result<()> {
        self.timers.swap(0, 1);
        self.at_ns = [self.at_ns[1], at_ns];
        set(&self.timers[1], at_ns)
    }
}

fn set(timer: &OwnedFd, at_ns: u64) -> io::Result<()> {
    let at = Timespec { tv_sec: (at_ns / 1_000_000_000) as i64, tv_nsec: (at_ns % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_moment_comes_early_or_is_left_out() {
        let start_ns = arch::monotonic_ns();
        let moment = |number: u64| start_ns + number * 3_000_000;
        let mut alarm = Alarm::new([moment(1), moment(2)]).unwrap();
        for number in 1..6 {
            alarm.wait().unwrap();
            assert!(arch::monotonic_ns() >= moment(number), "{number}");
            assert_eq!(alarm.next_ns(), moment(number + 1));
            alarm.then(moment(number + 2)).unwrap();
        }
    }

    #[test]
    fn moments_can_be_others() {
        let start_ns = arch::monotonic_ns();
        let mut alarm = Alarm::new([1, 2]).unwrap();
        alarm.set([start_ns + 4_000_000, start_ns + 5_000_000]).unwrap();
        alarm.wait().unwrap();
        assert!(arch::monotonic_ns() >= start_ns + 4_000_000, "what had passed is forgotten");
        assert_eq!(alarm.next_ns(), start_ns + 5_000_000);
    }

    #[test]
    fn what_has_passed_is_not_waited_for() {
        let mut alarm = Alarm::new([1, 2]).unwrap();
        alarm.wait().unwrap();
        alarm.then(3).unwrap();
        alarm.wait().unwrap();
    }
}
