//! Tracepoints as tracefs shows them: their numbers, and the formats of the scheduler's.

use std::path::Path;

use crate::root::Root;

/// Mount points of tracefs: the current one, and the one used before Linux 4.1.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Scheduler events about threads.
const EVENTS: [&str; 9] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_stat_runtime",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
];

/// Returns the number of an event, by which perf_event_open(2) knows it; `None` if there is none that this user may see.
#[must_use]
pub fn id(root: &Root, group: &str, event: &str) -> Option<u64> {
    let of = |mount: &&str| root.read_number(Path::new(mount).join("events").join(group).join(event).join("id")).ok();
    MOUNTS.iter().find_map(of)
}

/// Returns the format texts of the scheduler events that this user may read.
#[must_use]
pub fn scheduler_formats(root: &Root) -> Vec<String> {
    let of = |mount: &str, event: &str| {
        let text = root.read(Path::new(mount).join("events/sched").join(event).join("format")).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let all = MOUNTS.iter().map(|mount| EVENTS.iter().filter_map(|event| of(mount, event)).collect::<Vec<_>>());
    all.into_iter().find(|texts| !texts.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_from_the_first_mount_that_has_any() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert!(scheduler_formats(&root).is_empty());
        let event = folder.path().join("sys/kernel/debug/tracing/events/sched/sched_switch");
        std::fs::create_dir_all(&event).unwrap();
        std::fs::write(event.join("format"), "name: sched_switch\n").unwrap();
        assert_eq!(scheduler_formats(&root), ["name: sched_switch\n"]);
        std::fs::write(event.join("id"), "317\n").unwrap();
        assert_eq!((id(&root, "sched", "sched_switch"), id(&root, "timer", "tick_stop")), (Some(317), None));
    }
}
