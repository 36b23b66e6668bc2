//! A carrier that sleeps in a page fault is relieved: the ULPs that wait for it go home, and run there on their own kernel tasks.
//!
//! 1. A sentinel finds that the carrier's CPU is idle although the carrier runs a ULP, and tells the host (`sentinel`). Until there are sentinels, the host
//!    looks from time to time.
//! 2. The host reads in /proc whether the carrier sleeps because of a fault in a ULP's code. If so, it says that it wants to relieve the carrier, sends it a
//!    signal, and reads again.
//! 3. If the carrier still sleeps there, the handler of that signal is what it does next when it wakes up. So the host takes the run queue, unless the
//!    carrier has arrived in a handler meanwhile. It empties the queue and the inbox, and sends all ULPs home.
//! 4. A carrier that arrives in a handler while the host has the queue waits until the host is done.
//! 5. The handler of the signal usually sends the ULP that has faulted home: a fault that the signal has interrupted happens again there, and stops nobody
//!    else.
//!
//! The signal must be sent before the second reading. Otherwise the carrier could go on between the reading and the signal, and change its queue at the
//! same time as the host. A debugger of the host must pass the signal on.

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::carrier::Carrier;
use super::relief::SIGNAL;
use super::{Carriers, home, machine, sentinel};

impl Carriers {
    /// Returns how long the host may wait before it calls [`Carriers::relieve`]; `None`: until a signal comes.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        if self.carriers.is_empty() { None } else { self.looks.patience() }
    }

    /// Relieves the carriers that sleep in page faults. `ulps`: all addresses at which ULPs have code. For the host's main thread, whenever it has waited.
    pub fn relieve(&mut self, ulps: &Range<u64>) {
        for carrier in &self.carriers {
            // SAFETY: carriers are never freed.
            unsafe {
                if (**carrier).is_alarmed.swap(false, Ordering::AcqRel) {
                    relieve(*carrier, ulps);
                }
            }
        }
        if self.looks.is_due() {
            let asleep = self.carriers.iter().enumerate().filter_map(|(number, carrier)| {
                // SAFETY: carriers are never freed. What is read of the switches may be old.
                let (tid, switches) = unsafe {
                    let switches = AtomicU64::from_ptr(&raw mut (**carrier).switches).load(Ordering::Relaxed);
                    ((**carrier).tid.load(Ordering::Relaxed), switches)
                };
                Some((number, fault_of(tid, ulps)?, switches))
            });
            if self.looks.found(asleep.collect()) {
                self.start_sentinels();
                for carrier in &self.carriers {
                    // SAFETY: carriers are never freed.
                    unsafe { relieve(*carrier, ulps) };
                }
            }
        }
    }

    /// Starts the sentinels that are missing. Where one cannot be started, the host goes on looking.
    fn start_sentinels(&mut self) {
        let mut are_complete = true;
        for (cpu, carrier) in self.cpus.iter().zip(&self.carriers) {
            // SAFETY: carriers are never freed, and only the host's main thread uses the field.
            unsafe {
                if !(**carrier).has_sentinel {
                    (**carrier).has_sentinel = sentinel::start(*cpu, *carrier).is_ok();
                }
                are_complete &= (**carrier).has_sentinel;
            }
        }
        if are_complete {
            self.looks.end();
        }
    }
}

/// Sends home all ULPs that wait for a carrier, if it sleeps in a page fault of the one that it runs.
unsafe fn relieve(carrier: *mut Carrier, ulps: &Range<u64>) {
    // SAFETY: carriers are never freed. The queue is used only while the host has it.
    unsafe {
        let tid = (*carrier).tid.load(Ordering::Relaxed);
        if fault_of(tid, ulps).is_none() {
            return;
        }
        let relief = &(*carrier).relief;
        relief.want();
        let sent = machine::call4(libc::SYS_tgkill, libc::getpid() as u64, tid as u64, SIGNAL as u64, 0);
        if sent != 0 || fault_of(tid, ulps).is_none() || !relief.take() {
            return;
        }
        (*carrier).inbox.set_stuck(true);
        let all = Carrier::drain(carrier);
        relief.done(machine::wake);
        (*carrier).relieved.fetch_add(all.len() as u64, Ordering::Relaxed);
        for record in all {
            home::send(record);
        }
    }
}

/// Returns the instruction that has faulted, if a thread of this process sleeps in a page fault of code in this range.
fn fault_of(tid: i32, code: &Range<u64>) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap_or_default();
    instruction_of_fault(&text).filter(|instruction| code.contains(instruction))
}

/// Returns the instruction that has faulted, if a thread sleeps in a fault. `text`: its file /proc/PID/syscall, as proc(5) says: -1 in place of a system
/// call, the stack pointer and the instruction pointer.
fn instruction_of_fault(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let (call, _, instruction) = (words.next()?, words.next()?, words.next()?);
    (call == "-1").then(|| u64::from_str_radix(instruction.strip_prefix("0x")?, 16).ok()).flatten()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_sleeps_in_a_fault_has_an_instruction() {
        assert_eq!(instruction_of_fault("-1 0x7ffd3c 0x55d1a0\n"), Some(0x55_d1a0));
        for text in ["running\n", "", "202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd3c 0x7f01\n", "-1 0x7ffd3c", "-1 1 2"] {
            assert_eq!(instruction_of_fault(text), None, "{text}");
        }
    }
}
