//! A timer for a sequence of times that makes the kernel program the CPU's hardware timer as seldom as possible.
//!
//! Two kernel timers alternate: while one of them still runs, the other one is set to the time after it. The kernel
//! programs the hardware timer only for its earliest timer, and again whenever that timer expires. Therefore, setting a
//! later timer does not program the hardware. In a virtual machine, programming the hardware timer exits to the
//! hypervisor. This takes 5 to 8 of the 11 us that the end of a scheduling period (a tick) costs.

use std::io;

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Two timers; all times are CLOCK_MONOTONIC, ns.
pub struct Alarm {
    timers: [OwnedFd; 2],
    /// When the timers expire, the earlier one first.
    at_ns: [u64; 2],
}

impl Alarm {
    /// Makes an alarm for two times, the earlier one first.
    ///
    /// # Errors
    /// Fails if the process has too many open descriptors.
    pub fn new(at_ns: [u64; 2]) -> io::Result<Alarm> {
        let timer = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let mut alarm = Alarm { timers: [timer()?, timer()?], at_ns };
        alarm.set(at_ns)?;
        Ok(alarm)
    }

    /// Replaces both times; the earlier one comes first.
    ///
    /// # Errors
    /// The same as [`Alarm::wait`].
    pub fn set(&mut self, at_ns: [u64; 2]) -> io::Result<()> {
        self.at_ns = at_ns;
        self.timers.iter().zip(at_ns).try_for_each(|(timer, at_ns)| set(timer, at_ns))
    }

    /// Sleeps until the earlier one of the two times. Returns immediately if that time has passed.
    ///
    /// # Errors
    /// `EINTR` after a signal. Other errors of the kernel are not expected.
    pub fn wait(&mut self) -> io::Result<()> {
        let mut expirations = [0; 8];
        rustix::io::read(&self.timers[0], &mut expirations)?;
        Ok(())
    }

    /// Returns the time until which the next [`Alarm::wait`] will sleep. Call it after [`Alarm::wait`].
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.at_ns[1]
    }

    /// Sets the time after the next one. The next [`Alarm::wait`] sleeps until [`Alarm::next_ns`], and the one after it
    /// until `at_ns`.
    ///
    /// # Errors
    /// The same as [`Alarm::wait`].
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
