//! What experiments that were killed have left on the machine. All such things are named after the process that made them:
//! `cox-bench-PID`, and what follows a further hyphen.

use std::path::Path;

use machine::Root;
use machine::process::{Doing, Task};

/// What all names begin with.
const PREFIX: &str = "cox-bench-";

/// A name for something that this process makes.
pub fn name(what: &str) -> String {
    let own = std::process::id();
    if what.is_empty() { format!("{PREFIX}{own}") } else { format!("{PREFIX}{own}-{what}") }
}

/// Names in a folder whose process has ended.
pub fn in_folder(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| owner(name).is_some_and(|process| !is_alive(process))).collect()
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Another program may have the number by now; then it is left for the next time. One that nobody has waited for yet has ended.
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
