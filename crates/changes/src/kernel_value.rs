//! A thread's value in the form that system calls take.

use std::io;

use machine::CpuSet;
use rustix::process::Pid;
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use crate::knob_io::attr;
use crate::value::Value;

/// A thread's value in the form that system calls take.
#[derive(Clone, Debug)]
pub(crate) enum KernelValue {
    Mask(KernelCpuSet),
    Attr(attr::Attr),
}

impl KernelValue {
    pub(crate) fn of(value: &Value) -> io::Result<KernelValue> {
        match value {
            Value::Cpus(cpus) => Ok(KernelValue::Mask(kernel_mask(cpus))),
            Value::Scheduling(scheduling) => attr::Attr::of(scheduling).map(KernelValue::Attr),
            _ => Err(io::Error::other(format!("a thread's affinity or scheduling cannot be {value}"))),
        }
    }

    pub(crate) fn write(&self, pid: Pid) -> io::Result<()> {
        match self {
            KernelValue::Mask(mask) => Ok(sched_setaffinity(Some(pid), mask)?),
            KernelValue::Attr(attr) => attr::set(pid, attr),
        }
    }
}

fn kernel_mask(cpus: &CpuSet) -> KernelCpuSet {
    let mut mask = KernelCpuSet::new();
    for cpu in cpus.iter().map(|cpu| cpu as usize).filter(|cpu| *cpu < KernelCpuSet::MAX_CPU) {
        mask.set(cpu);
    }
    mask
}
