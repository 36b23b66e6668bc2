//! Which CPUs are online.

use std::fs;
use std::io;

/// The online CPUs, ascending.
pub(super) fn online() -> io::Result<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse(text.trim()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no CPU list")))
}

/// A CPU list such as `0-3,8`; cpuset(7).
fn parse(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // The kernel has no more than 8192 CPUs: a longer range is no CPU list.
        (last.checked_sub(first)? < 8192).then(|| cpus.extend(first..=last))?;
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_or_refused() {
        assert_eq!(parse("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("5"), Some(vec![5]));
        for bad in ["", "a", "3-1", "0-", "0,,1", "0-4000000000"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn this_machine_has_a_cpu() {
        assert!(!online().expect("sysfs").is_empty());
    }
}
