//! The first CPU's lines of /proc/cpuinfo. The live file is read only once, because the kernel generates the text for
//! all CPUs on each read.

use std::sync::OnceLock;

use crate::root::Root;

/// Number of bytes to read. The first CPU's lines fit into them.
const FIRST_CPU_BYTES: u64 = 16 << 10;

static LIVE: OnceLock<String> = OnceLock::new();

/// Returns the value of the first line whose key is exactly `name`; `None` if the file cannot be read or has no such
/// line.
pub(crate) fn value(root: &Root, name: &str) -> Option<String> {
    let read = || root.read_begin("/proc/cpuinfo", FIRST_CPU_BYTES).unwrap_or_default();
    let other;
    let text = if root.is_live() {
        LIVE.get_or_init(read)
    } else {
        other = read();
        &other
    };
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpus_line_is_taken_and_no_more_is_read_than_must_be() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let one = |number: u32| format!("processor\t: {number}\nmodel name\t: CPU {number}\nlast\t\t: {number}\n\n");
        let text: String = (0..1000).map(one).collect();
        assert!(text.len() as u64 > FIRST_CPU_BYTES);
        std::fs::write(folder.path().join("proc/cpuinfo"), text + "end\t: 1\n").unwrap();
        let root = Root::at(folder.path());
        assert_eq!(value(&root, "model name").as_deref(), Some("CPU 0"));
        assert_eq!(value(&root, "model"), None);
        assert_eq!(value(&root, "end"), None);
        assert_eq!(value(&Root::at("/no/such/root"), "model name"), None);
    }
}
