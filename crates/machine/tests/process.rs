//! The process in `fixtures/vm-2cpu`: an awkward name, two threads, a deleted program file.

mod common;

use common::tree;
use machine::Error;
use machine::process::{Backing, Switches, Task};

#[test]
fn a_process_with_an_awkward_name() {
    let root = tree("vm-2cpu");
    let process = Task::process(&root, 4711);
    let stat = process.stat().expect("stat");
    assert_eq!(stat.comm, "a) R 1 (b");
    assert_eq!((stat.state, stat.threads, stat.processor), ('S', 2, 1));
    assert_eq!((stat.user_ns, stat.system_ns), (5_410_000_000, 260_000_000));
    assert_eq!(stat.start_boottime_ns, 885_500_000_000);
    assert_eq!(process.switches().expect("switches"), Switches { voluntary: 1204, involuntary: 2811 });
    let arguments = process.cmdline().expect("cmdline");
    assert_eq!(arguments, ["./heat", "4096", "two words", ""]);
    assert_eq!(process.schedstat().expect("schedstat").run_delay_ns, 4_030_000_000);
}

#[test]
fn threads_and_their_children() {
    let root = tree("vm-2cpu");
    let process = Task::process(&root, 4711);
    assert_eq!(process.threads().expect("threads"), [4711, 4712]);
    let thread = Task::thread(&root, 4711, 4712);
    let stat = thread.stat().expect("stat");
    assert_eq!((stat.comm.as_str(), stat.state), ("heat", 'R'));
    assert_eq!(thread.status().expect("status").allowed_cpus.to_string(), "1");
    let mut children = Task::thread(&root, 4711, 4711).children_of_thread().expect("children");
    children.extend(thread.children_of_thread().expect("children"));
    children.sort_unstable();
    assert_eq!(children, [4999, 5000, 5003]);
    let mut of_all = process.children();
    of_all.sort_unstable();
    assert_eq!(of_all, children);
}

#[test]
fn mappings_of_a_deleted_program() {
    let maps = Task::process(&tree("vm-2cpu"), 4711).maps().expect("maps");
    assert_eq!(maps.len(), 6);
    let program = Backing::File { path: "/opt/heat v2/heat".into(), deleted: true };
    assert_eq!((&maps[1].backing, maps[1].executable, maps[1].inode), (&program, true, 4242));
    assert_eq!(maps[2].backing, Backing::Special("[heap]".into()));
    assert_eq!(maps[3].backing, Backing::Anonymous);
}

#[test]
fn processes_that_are_not_there_are_gone() {
    let root = tree("vm-2cpu");
    let process = Task::process(&root, 4);
    assert!(!process.exists());
    let error: Error = process.stat().expect_err("no such process");
    assert!(error.is_gone() && error.to_string().contains("/proc/4/stat"), "{error}");
}
