//! temporary: direct system calls
#![allow(unsafe_code, missing_docs)]
use wire::Stand;
use changes::LiveHands;
use crate::policy::Order;
use super::manager::Plan;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::process::Pid;

pub struct Held { pub stand: usize, tid: u32, cpus: Vec<u32>, at: Option<Option<usize>>, waits: bool }
pub struct Holder<'h> { _hands: std::marker::PhantomData<&'h ()>, cpus: Vec<u32>, n: usize }

fn mask(cpus: &[u32]) -> CpuSet { let mut m = CpuSet::new(); for c in cpus { m.set(*c as usize); } m }
impl Held {
    fn aff(&mut self, seat: Option<usize>) -> Result<(), changes::Error> {
        if self.at == Some(seat) { return Ok(()); }
        self.at = Some(seat);
        let m = match seat { Some(s) => mask(&self.cpus[s..=s]), None => mask(&self.cpus) };
        let _ = sched_setaffinity(Pid::from_raw(self.tid as i32), &m); Ok(())
    }
    fn class(&mut self, idle: bool) {
        if self.waits == idle || self.cpus.len() == 1 { return; }
        self.waits = idle;
        let p = libc::sched_param { sched_priority: 0 };
        unsafe { libc::sched_setscheduler(self.tid as i32, if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER }, &p); }
    }
    pub fn obey(&mut self, order: &Order) -> Result<(), changes::Error> {
        match *order {
            Order::Sit { seat, .. } => { self.aff(Some(seat))?; self.class(false); }
            Order::Wait { behind, .. } => { self.class(true); self.aff(Some(behind))?; }
            Order::Free { .. } => { self.class(false); self.aff(None)?; }
        }
        Ok(())
    }
}
impl<'h> Holder<'h> {
    pub fn begin(_h: &LiveHands, plan: &Plan) -> Result<Holder<'h>, super::Error> { Ok(Holder { _hands: std::marker::PhantomData, cpus: plan.cpus.clone(), n: 0 }) }
    pub fn take(&mut self, new: &[(usize, Stand)]) -> Result<Vec<(usize, Held)>, super::Error> {
        Ok(new.iter().map(|(n, s)| { self.n += 1; let mut h = Held { stand: *n, tid: s.tid, cpus: self.cpus.clone(), at: None, waits: true }; h.class(false); let _ = h.aff(None); (*n, h) }).collect())
    }
    pub fn end(self) -> Result<usize, super::Error> { Ok(self.n) }
}
