//! Finds the thread that sent an interrupt to a CPU.
//!
//! A request to call a function has an address (csd) that the sender and the receiver both report, so it is found with certainty. The interrupt that
//! makes a CPU choose a thread anew has no request: the last one that was sent to this CPU and not yet received is taken. It was sent shortly
//! before; an older one was received without an event, for example while the CPU was idle.

use std::collections::{HashMap, VecDeque};

use crate::cause::Sender;

/// Number of requests to one CPU that are remembered. Requests that are not answered here (the CPU ran another thread) would otherwise pile up.
const REMEMBERED: usize = 64;
/// Longest time between sending and receiving, ns. A virtual CPU may be stopped in between.
const LONGEST_NS: u64 = 50_000_000;

#[derive(Debug, Default)]
pub(crate) struct Senders {
    by_cpu: HashMap<u16, VecDeque<Sent>>,
}

#[derive(Debug)]
struct Sent {
    t_ns: u64,
    /// Address of the request; `None`: an interrupt without a request.
    request: Option<u64>,
    sender: Sender,
}

impl Senders {
    pub(crate) fn sent(&mut self, cpu: u16, t_ns: u64, request: Option<u64>, sender: Sender) {
        let queue = self.by_cpu.entry(cpu).or_default();
        if queue.len() == REMEMBERED {
            queue.pop_front();
        }
        queue.push_back(Sent { t_ns, request, sender });
    }

    /// Takes the sender of the request that this CPU answers at `t_ns`. `request`: its address; `None`: an interrupt without a request.
    pub(crate) fn take(&mut self, cpu: u16, t_ns: u64, request: Option<u64>) -> Option<Sender> {
        let queue = self.by_cpu.get_mut(&cpu)?;
        let fits = |sent: &Sent| sent.request == request && t_ns.saturating_sub(sent.t_ns) < LONGEST_NS;
        let at = queue.iter().rposition(fits)?;
        queue.remove(at).map(|sent| sent.sender)
    }

    /// Takes the sender of the oldest request to this CPU that is not answered yet: the receiver does not tell the address of a request for which the
    /// sender does not wait.
    pub(crate) fn take_oldest(&mut self, cpu: u16, t_ns: u64) -> Option<Sender> {
        let queue = self.by_cpu.get_mut(&cpu)?;
        let fits = |sent: &Sent| sent.request.is_some() && t_ns.saturating_sub(sent.t_ns) < LONGEST_NS;
        let at = queue.iter().position(fits)?;
        queue.remove(at).map(|sent| sent.sender)
    }
}
