//! sched_setaffinity(2) and sched_getaffinity(2) with masks of any length. `cpu_set_t` of the C library ends at CPU 1023,
//! and Linux supports 8,192 CPUs.
#![allow(unsafe_code, reason = "two system calls with a mask behind a pointer")]

use std::io;

use machine::CpuSet;
use rustix::process::Pid;

/// Words of a mask that is long enough for each kernel: NR_CPUS is at most 8,192.
const WORDS: usize = 8192 / u64::BITS as usize;

/// Sets a thread's mask. Allocates no memory.
pub(crate) fn set(pid: Pid, cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.words();
    // SAFETY: the kernel reads `words`, whose length in bytes is passed with it.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, pid.as_raw_nonzero().get(), size_of_val(words), words.as_ptr())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns whether all online CPUs of a thread's mask are in `bounds`. Allocates no memory.
pub(crate) fn is_within(pid: Pid, bounds: &CpuSet) -> io::Result<bool> {
    let mut words = [0u64; WORDS];
    // SAFETY: `words` is valid for writes of the length that is passed with it.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, pid.as_raw_nonzero().get(), size_of_val(&words), words.as_mut_ptr())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(are_within(&words, bounds.words()))
}

/// Returns whether each CPU of a mask is in another one, which may be shorter.
fn are_within(words: &[u64], bounds: &[u64]) -> bool {
    words.iter().enumerate().all(|(at, word)| word & !bounds.get(at).copied().unwrap_or(0) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_compared_beyond_cpu_1023() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        let is_within = |one: &str, other: &str| are_within(cpus(one).words(), cpus(other).words());
        assert!(is_within("1500", "0,1500") && is_within("1", "1,1500") && is_within("", "1"));
        assert!(!is_within("1500", "0-1023") && !is_within("1,1500", "1") && !is_within("1500", "1501"));
        assert!(are_within(&[1, 0, 0], &[1]), "words without a CPU");
    }
}
