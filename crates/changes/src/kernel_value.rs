//! A thread's value in the form that system calls take.

use std::io;

use machine::CpuSet;
use rustix::process::Pid;

use crate::knob_io::{affinity, attr};
use crate::value::Value;

/// A thread's value in the form that system calls take.
#[derive(Clone, Debug)]
pub(crate) enum KernelValue {
    Mask(CpuSet),
    Attr(attr::Attr),
}

impl KernelValue {
    pub(crate) fn of(value: &Value) -> io::Result<KernelValue> {
        match value {
            Value::Cpus(cpus) => Ok(KernelValue::Mask(cpus.clone())),
            Value::Scheduling(scheduling) => attr::Attr::of(scheduling).map(KernelValue::Attr),
            _ => Err(io::Error::other(format!("a thread's affinity or scheduling cannot be {value}"))),
        }
    }

    pub(crate) fn write(&self, pid: Pid) -> io::Result<()> {
        match self {
            KernelValue::Mask(mask) => affinity::set(pid, mask),
            KernelValue::Attr(attr) => attr::set(pid, attr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_all_its_cpus() {
        let cpus: CpuSet = "2,1500".parse().unwrap();
        let KernelValue::Mask(mask) = KernelValue::of(&Value::Cpus(cpus.clone())).unwrap() else { panic!("no mask") };
        assert_eq!(mask, cpus);
    }
}
