//! Finds the folders, control groups and network namespaces that killed experiments have left on the machine. Their names contain the ID of the
//! process that made them: `cox-bench-PID`, optionally followed by a hyphen and more.

use std::path::Path;

use machine::Root;
use machine::process::{Doing, Task};

/// Prefix of all names.
const PREFIX: &str = "cox-bench-";

/// Returns a name for a folder, control group or namespace that this process makes. `what` is the part after the process ID; it may be empty.
pub fn name(what: &str) -> String {
    let own = std::process::id();
    if what.is_empty() { format!("{PREFIX}{own}") } else { format!("{PREFIX}{own}-{what}") }
}

/// Returns the names in `folder` that contain the ID of a process that has ended.
pub fn in_folder(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| owner(name).is_some_and(|process| !is_alive(process))).collect()
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Returns whether a process is running. A zombie counts as ended. If another program has got the same process ID meanwhile, the folder, control group
/// or namespace is kept until a later clean-up.
fn is_alive(process: u32) -> bool {
    Task::process(&Root::live(), process).stat().is_ok_and(|stat| stat.doing() != Doing::Ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_owns_any_more_is_left_over() {
        let folder = tempfile::tempdir().unwrap();
        // Beyond what Linux gives to processes.
        let dead = ["cox-bench-4194305", "cox-bench-4194306-rank-1"];
        let others = ["cox-bench-", "cox-bench-x", "other-4194305", &name(""), &name("rank-0")];
        for entry in dead.iter().chain(&others) {
            std::fs::create_dir(folder.path().join(entry)).unwrap();
        }
        let mut found = in_folder(folder.path());
        found.sort();
        assert_eq!(found, dead);
        assert!(in_folder(Path::new("/no/such/folder")).is_empty());
    }
}
